#!/usr/bin/env bash
# Everything that judges the source without running it.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --all --check
cargo clippy --workspace --all-targets --quiet -- -D warnings
if command -v cargo-deny >/dev/null; then
  cargo deny --log-level error check licenses bans sources
else
  echo "cargo-deny is not installed: licences and sources were not checked" >&2
fi
