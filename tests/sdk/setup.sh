#!/usr/bin/env bash
# Makes the environment of the SDK tests: a Python venv and a node_modules folder with pinned packages,
# in $GATEWAY_TEST_ENV, outside the checkout. Returns at once when it is there and current.
set -euo pipefail
cd "$(dirname "$0")"

env_dir=${GATEWAY_TEST_ENV:-${XDG_CACHE_HOME:-$HOME/.cache}/gateway/sdk}
mkdir -p "$env_dir"

# Two runs at once must not build into the same folder.
exec 9>"$env_dir/lock"
flock 9

digest() { # of what was asked for, and of the programs that install it
  { cat "$@"; python3 --version; node --version; } | sha256sum | cut -d' ' -f1
}
current() { # current FOLDER WANTED
  [ -f "$env_dir/$1/stamp" ] && [ "$(cat "$env_dir/$1/stamp")" = "$2" ]
}

wanted=$(digest python/requirements.txt python/google-genai-2.txt)
if ! current python "$wanted"; then
  echo "Installing the Python SDKs into $env_dir/python" >&2
  rm -rf "$env_dir/python"
  python3 -m venv "$env_dir/python"
  # Every package is pinned, those that others depend on too.
  "$env_dir/python/bin/pip" install --quiet --disable-pip-version-check --no-deps -r python/requirements.txt
  # Beside the rest, not over it: scripts that need it put this folder before the others.
  "$env_dir/python/bin/pip" install --quiet --disable-pip-version-check --no-deps \
    --target "$env_dir/python/google-genai-2" -r python/google-genai-2.txt
  echo "$wanted" >"$env_dir/python/stamp"
fi

beside() { # beside FOLDER WHAT: the packages of python/FOLDER.txt in a folder of their own, without what else they ask for
  wanted=$(digest "python/$1.txt")
  if ! current "$1" "$wanted"; then
    echo "Installing $2 into $env_dir/$1" >&2
    rm -rf "${env_dir:?}/$1"
    "$env_dir/python/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-compile \
      --target "$env_dir/$1" -r "python/$1.txt"
    echo "$wanted" >"$env_dir/$1/stamp"
  fi
}

beside readers "SDKs that read golden answers"
beside tools "servers and readers"
# What else that package asks for is for data frames.
beside engine "ClickHouse's engine"
beside generator "a generator of clients"
beside mcp-2 "the SDK of MCP of both eras"
beside a2a "the SDK of Agent2Agent"
beside areas "SDKs of areas beside chat"

packages() { # packages FOLDER WHAT: what FOLDER/package.json asks for
  wanted=$(digest "$1/package.json" "$1/package-lock.json")
  if ! current "$1" "$wanted"; then
    echo "Installing $2 into $env_dir/$1" >&2
    rm -rf "${env_dir:?}/$1"
    mkdir -p "$env_dir/$1"
    cp "$1/package.json" "$1/package-lock.json" "$env_dir/$1/"
    (cd "$env_dir/$1" && npm ci --silent --ignore-scripts --no-audit --no-fund)
    echo "$wanted" >"$env_dir/$1/stamp"
  fi
}

packages node "the Node SDKs"
packages node-mcp "programs that try servers and clients of MCP"
