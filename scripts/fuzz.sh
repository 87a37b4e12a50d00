#!/usr/bin/env bash
# Requests generated from the gateway's own OpenAPI document, against a debug build: `fuzz.sh [SECONDS]`.
set -euo pipefail
cd "$(dirname "$0")/.."

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
exec "$env_dir/bin/python" -B tests/fuzz/openapi.py "${CARGO_TARGET_DIR:-target}/debug/gateway" "${1:-75}"
