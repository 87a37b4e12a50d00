#!/usr/bin/env bash
# Looks for input that breaks something: `fuzz.sh [SECONDS]`, that long for each part.
# First requests generated from the gateway's own OpenAPI document, against a debug build; then bytes made by libFuzzer
# for the targets of `fuzz/`. What a target fails on is left in `fuzz/artifacts`, and belongs into `fuzz/corpus`.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-75}

env_dir=${GATEWAY_TEST_ENV:-${XDG_CACHE_HOME:-$HOME/.cache}/gateway/sdk}/fuzz
wanted=$({ cat tests/fuzz/requirements.txt; python3 --version; } | sha256sum | cut -d' ' -f1)
if [ ! -f "$env_dir/stamp" ] || [ "$(cat "$env_dir/stamp")" != "$wanted" ]; then
  rm -rf "$env_dir"
  mkdir -p "$(dirname "$env_dir")"
  python3 -m venv "$env_dir"
  "$env_dir/bin/pip" install --quiet --disable-pip-version-check --no-deps -r tests/fuzz/requirements.txt
  echo "$wanted" >"$env_dir/stamp"
fi
cargo build --quiet --bin gateway
target=${CARGO_TARGET_DIR:-$PWD/target}
"$env_dir/bin/python" -B tests/fuzz/openapi.py "$target/debug/gateway" "$seconds"

# What cargo-fuzz passes to the compiler, without the sanitizers that need a nightly one: the code has no `unsafe`.
flags="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
flags="$flags -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
flags="$flags -Cllvm-args=-sanitizer-coverage-trace-compares"
host=$(rustc -vV | sed -n 's/^host: //p')
RUSTFLAGS=$flags CARGO_TARGET_DIR=$target/fuzz \
  cargo build --quiet --release --target "$host" --manifest-path fuzz/Cargo.toml
for name in fuzz/targets/*.rs; do
  name=$(basename "$name" .rs)
  # New input goes beside the kept one, which it would drown.
  mkdir -p fuzz/artifacts "$target/fuzz/found/$name"
  echo "fuzzing $name for $seconds s"
  "$target/fuzz/$host/release/$name" -max_total_time="$seconds" -max_len=4096 -timeout=20 -verbosity=0 \
    -artifact_prefix="fuzz/artifacts/$name-" "$target/fuzz/found/$name" "fuzz/corpus/$name"
done
