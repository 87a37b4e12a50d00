"""Requests made from the gateway's own OpenAPI document, against the real program: none may end in a 5xx, none in
a status or a content type that the document does not tell.

    openapi.py PATH/TO/gateway [SECONDS]

Makes one thing of each kind first, so that requests meet what exists and not only what does not.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ADMIN_KEY = "fuzz-admin-key-0123456789-0123456789"
WORKSPACE_KEY = "fuzz-workspace-key-0123456789-0123456789"
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ask(base, method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"x-gateway-api-key": ADMIN_KEY, "content-type": "application/json"}
    request = urllib.request.Request(base + path, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def wait(base, process):
    for _ in range(200):
        if process.poll() is not None:
            sys.exit(f"the gateway ended with status {process.returncode}")
        try:
            urllib.request.urlopen(base + "/health/ready", timeout=1)
            return
        except OSError:
            time.sleep(0.05)
    sys.exit("the gateway was not ready in time")


def seed(base):
    """One thing of each kind; returns which id stands in which paths."""

    def make(path, body):
        return ask(base, "POST", "/v1" + path, body)

    integration = make("/integrations", {"name": "i", "slug": "i", "ai_provider_id": "openai", "key": "k"})
    provider = make("/providers", {"name": "p", "slug": "p", "integration_id": "i"})
    config = make("/configs", {"name": "c", "config": {"provider": "mock"}})
    key = make("/api-keys/workspace/service", {"name": "k", "scopes": ["completions.write"]})
    condition = [{"key": "api_key", "value": "*"}]
    rate = {"type": "requests", "unit": "rpm", "value": 9, "conditions": condition}
    rate = make("/policies/rate-limits", rate)
    workspace = make("/admin/workspaces", {"name": "w"})
    seats = [{"id": "default", "role": "member"}]
    invite = make("/admin/users/invites", {"email": "a@example.com", "role": "member", "workspaces": seats})
    token = invite["invite_link"].split("#", 1)[1]
    user = make("/invites/accept", {"token": token, "first_name": "A", "last_name": "B"})
    invite = make("/admin/users/invites", {"email": "b@example.com", "role": "member", "workspaces": []})
    ids = {
        "/integrations/": integration["slug"],
        "/providers/": provider["slug"],
        "/virtual-keys/": provider["slug"],
        "/configs/": config["slug"],
        "/api-keys/": key["id"],
        "/policies/rate-limits/": rate["id"],
        "/workspaces/": workspace["id"],
        "/admin/users/invites/": invite["id"],
        "/admin/users/": user["id"],
    }
    try:
        usage = {"type": "cost", "credit_limit": 5, "conditions": condition}
        ids["/policies/usage-limits/"] = make("/policies/usage-limits", usage)["id"]
    except urllib.error.HTTPError:
        pass  # Not counted by this version, hence refused.
    return ids, user["id"]


def settings(ids, user):
    """What stands in paths, in the form that schemathesis reads. Deleting keeps to made-up ids: the rest of the
    run would find nothing."""
    lines = []
    for path, value in ids.items():
        for method in ("get", "put", "post"):
            lines += [
                "[[operations]]",
                f'include-path-regex = "^/v1(/admin)?{path}[{{]id"',
                f'include-method = "{method.upper()}"',
                f'parameters = {{ "path.id" = "{value}", "path.user_id" = "{user}", "path.version" = "1" }}',
            ]
    return "\n".join(lines) + "\n"


def main():
    gateway, seconds = os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "75"
    with tempfile.TemporaryDirectory() as folder:
        listen, admin = free_port(), free_port()
        base = f"http://127.0.0.1:{admin}"
        command = [
            gateway, "serve", "--data-dir", f"{folder}/data",
            "--listen", f"127.0.0.1:{listen}", "--admin-listen", f"127.0.0.1:{admin}",
            "--bootstrap-admin-key", ADMIN_KEY, "--bootstrap-workspace-key", WORKSPACE_KEY,
        ]  # fmt: skip
        with open(f"{folder}/gateway.log", "w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait(base, process)
            with open(f"{folder}/schemathesis.toml", "w") as file:
                file.write(settings(*seed(base)))
            run = [
                os.path.join(os.path.dirname(sys.executable), "schemathesis"),
                "--config-file", f"{folder}/schemathesis.toml", "run", base + "/openapi.json",
                "-H", f"x-gateway-api-key: {ADMIN_KEY}", "--phases", "coverage,fuzzing", "--checks", CHECKS,
                "--max-time", seconds, "--workers", "1", "--no-shrink", "--continue-on-failure", "--warnings", "off",
            ]  # fmt: skip
            status = subprocess.run(run, cwd=folder).returncode
            if process.poll() is not None:
                status = f"the gateway ended with status {process.returncode}"
            if status:
                with open(f"{folder}/gateway.log") as log:
                    sys.stderr.writelines(log.readlines()[-30:])
            sys.exit(status)
        finally:
            process.terminate()
            process.wait(20)


if __name__ == "__main__":
    main()
