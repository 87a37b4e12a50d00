#!/usr/bin/env bash
# Builds the gateway, starts it with a development data directory and fixed keys, and prints
# requests that work. Arguments go to `gateway serve`. Unoptimised, so that the first build takes
# minutes only; GATEWAY_PROFILE=release builds what is fast to run instead.
set -euo pipefail
cd "$(dirname "$0")/.."

# Known to everyone who can read this file: for this machine's loopback address only.
admin_key=gw-dev-admin-key-0123456789abcdef0123
workspace_key=gw-dev-workspace-key-0123456789abcdef
listen=${GATEWAY_LISTEN:-127.0.0.1:8787}
profile=${GATEWAY_PROFILE:-trial}
admin_listen=${GATEWAY_ADMIN_LISTEN:-127.0.0.1:8790}

is_ready() {
  local answer
  { exec 3<>"/dev/tcp/${admin_listen%:*}/${admin_listen##*:}"; } 2>/dev/null || return 1
  printf 'GET /health/ready HTTP/1.0\r\nhost: %s\r\n\r\n' "$admin_listen" >&3
  read -r -t 2 answer <&3 || answer=
  exec 3>&-
  [[ $answer == *' 200 '* ]]
}

announce() { # announce PID: once the process answers, say how to talk to it
  until is_ready; do
    sleep 0.2
    kill -0 "$1" 2>/dev/null || exit 0
  done
  cat <<TEXT

The gateway is ready. Ask the built-in mock provider:

  curl http://$listen/v1/chat/completions \\
    -H 'x-gateway-api-key: $workspace_key' -H 'x-gateway-provider: mock' \\
    -H 'content-type: application/json' \\
    -d '{"model":"mock","messages":[{"role":"user","content":"Hello"}]}'

and streamed:

  curl -N http://$listen/v1/chat/completions \\
    -H 'x-gateway-api-key: $workspace_key' -H 'x-gateway-provider: mock' \\
    -H 'content-type: application/json' \\
    -d '{"model":"mock","stream":true,"messages":[{"role":"user","content":"Hello"}]}'

Admin API: http://$admin_listen/v1 with the key $admin_key

TEXT
}

if is_ready; then
  echo "Something already answers on $admin_listen; set GATEWAY_LISTEN and GATEWAY_ADMIN_LISTEN." >&2
  exit 1
fi
scripts/setup.sh run
cargo build --profile "$profile" --bin gateway
mkdir -p .dev/data
announce $$ &
exec cargo run --profile "$profile" --quiet --bin gateway -- serve \
  --data-dir .dev/data --listen "$listen" --admin-listen "$admin_listen" \
  --bootstrap-admin-key "$admin_key" --bootstrap-workspace-key "$workspace_key" "$@"
