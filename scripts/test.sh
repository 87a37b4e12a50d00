#!/usr/bin/env bash
# The whole verdict on the source: lints, documentation tests, then every other test, so that the
# test runner's summary is the last thing to be seen.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh test
if [ -f tests/sdk/setup.sh ]; then
  bash tests/sdk/setup.sh
fi
scripts/lint.sh
cargo test --workspace --doc --quiet
if command -v cargo-nextest >/dev/null; then
  cargo nextest run --workspace --no-fail-fast --status-level slow
else
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  status=0
  cargo test --workspace --all-targets --no-fail-fast 2>&1 | tee "$log" || status=$?
  awk '/^test result:/ { passed += $4; failed += $6; ignored += $8 }
       END { printf "Summary: %d passed, %d failed, %d skipped\n", passed, failed, ignored }' "$log"
  exit "$status"
fi
