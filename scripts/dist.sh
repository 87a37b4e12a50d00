#!/usr/bin/env bash
# Builds the gateway as images carry it: once with counters, which serve the traffic of the benchmarks, and then laid out
# by what they counted, so that the code of a request lies together. Prints where it is, and nothing else.
# Needs python3 and the profile tool of this rustc's LLVM: rustup's component llvm-tools, or a package llvm.
set -euo pipefail
cd "$(dirname "$0")/.."

host=$(rustc -vV | sed -n 's/^host: //p')
llvm=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$target/profiled

# Prints a tool that reads what this rustc writes: of the same LLVM, or a newer one.
find_profdata() {
  local tool
  for tool in "$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata" "llvm-profdata-$llvm" llvm-profdata; do
    if [ "$("$tool" --version 2>/dev/null | sed -n 's/.*LLVM version \([0-9]*\).*/\1/p')" -ge "$llvm" ] 2>/dev/null; then
      echo "$tool"
      return
    fi
  done
  return 1
}

# The same packages each time, or crates have other features and the profile names functions that are not there. With
# --target the flags are for these programs alone, and not for what runs while they are built.
build() { # build NAME FLAGS
  RUSTFLAGS="${RUSTFLAGS:-} $2" cargo build --locked --profile dist --target "$host" --target-dir "$work/$1" \
    -p gateway --bin gateway -p translate --bin translate
}

if ! profdata=$(find_profdata); then
  ! command -v rustup >/dev/null || rustup component add llvm-tools >&2
  profdata=$(find_profdata) || {
    echo "llvm-profdata of LLVM $llvm is needed: rustup component add llvm-tools, or a package llvm-$llvm" >&2
    exit 1
  }
fi

cargo build --locked --release -p load --bin load
build counting "-Cprofile-generate=$work/counts"
counting=$work/counting/$host/dist
rm -rf "$work/counts"
# Requests, streams and tools, without limits and with all of them; then each family's translator on its golden folder.
python3 benches/compare.py --gateway "$counting/gateway" --load "$target/release/load" --contenders gateway,limited-all \
  --scenarios c1pin,c32,sse1,sse32,tool1,tool32 --rounds 1 --seconds 2 >&2
"$counting/translate" >/dev/null
"$profdata" merge -o "$work/new.profdata" "$work/counts"
# Named by what is in it: cargo builds nothing again for a file that changed under the same name.
profile=$work/$(sha256sum "$work/new.profdata" | cut -c1-16).profdata
mv "$work/new.profdata" "$profile"
build laid-out "-Cprofile-use=$profile"
echo "$work/laid-out/$host/dist/gateway"
