#!/usr/bin/env bash
# Installs the system packages that a task lacks: `setup.sh run`, `setup.sh test` and so on.
# Quick and silent when nothing is missing. With neither root nor sudo it says what to install.
set -euo pipefail

missing=()
need() { # need PACKAGE PROBE...
  local package=$1
  shift
  "$@" >/dev/null 2>&1 || missing+=("$package")
}
has() { command -v "$1"; }
postgres() { has postgres || compgen -G '/usr/lib/postgresql/*/bin/postgres'; }
# As scripts/dist.sh wants it, which looks for itself how old one without a number is.
bolt() { has llvm-bolt || compgen -c llvm-bolt- | grep -Ex 'llvm-bolt-(19|2[0-9]|30)'; }
venv() { python3 -c 'import venv, ensurepip'; }

# Pingora compiles zlib-ng with cmake, whatever the TLS backend.
need cmake has cmake
need make has make
need build-essential has cc
case ${1:-run} in
  run) ;;
  test)
    need postgresql postgres
    need redis-server has redis-server
    need prometheus has prometheus
    need python3 has python3
    need python3-venv venv
    need nodejs has node
    need npm has npm
    need curl has curl
    ;;
  instructions)
    need python3 has python3
    need valgrind has valgrind
    ;;
  dist)
    need python3 has python3
    need bolt-19 bolt
    ;;
  bench)
    need python3 has python3
    need bolt-19 bolt
    need nginx-light has nginx
    need valgrind has valgrind
    ;;
  *)
    echo "usage: $0 run|test|instructions|dist|bench" >&2
    exit 2
    ;;
esac

if ! command -v cargo >/dev/null; then
  echo "A Rust toolchain is needed: see https://rustup.rs" >&2
  exit 1
fi
if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi

if [ "$(id -u)" = 0 ]; then
  as_root=()
elif command -v sudo >/dev/null; then
  as_root=(sudo)
else
  as_root=(false)
fi
if ! command -v apt-get >/dev/null || [ "${as_root[*]}" = false ]; then
  echo "Missing, please install with your package manager: ${missing[*]}" >&2
  exit 1
fi
echo "Installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get -qq update
"${as_root[@]}" apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
