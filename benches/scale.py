"""What many keys, configs and policies cost: time to start, memory, and time of a change.

    scale.py PATH/TO/gateway [--keys N] [--configs N] [--policies N] [--workspaces N] [--check]

The rows are put into the SQLite file of a stopped gateway, as another node would have written them. `--check` ends
with 1 when a change costs 20 ms of processor time or more, or a key 512 bytes or more: times on the clock are told
too, but they depend on what else the machine does. The allocator is told to give back what it does not use, so that
memory is what is held.
"""

import argparse
import hashlib
import json
import os
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid

ADMIN_KEY = "scale-admin-key-0123456789-0123456789"
MOST_CHANGE_MS, MOST_KEY_BYTES = 20, 512


class Gateway:
    def __init__(self, program, folder, more=()):
        self.folder = folder
        with socket.socket() as proxy, socket.socket() as admin:
            proxy.bind(("127.0.0.1", 0))
            admin.bind(("127.0.0.1", 0))
            ports = proxy.getsockname()[1], admin.getsockname()[1]
        self.base = f"http://127.0.0.1:{ports[1]}"
        command = [
            program, "serve", "--data-dir", f"{folder}/data", "--listen", f"127.0.0.1:{ports[0]}",
            "--admin-listen", f"127.0.0.1:{ports[1]}", "--bootstrap-admin-key", ADMIN_KEY, *more,
        ]  # fmt: skip
        started = time.monotonic()
        with open(f"{folder}/gateway.log", "a") as log:
            tidy = os.environ | {"MIMALLOC_PURGE_DELAY": "0"}
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=tidy)
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() - started > 120:
                with open(f"{folder}/gateway.log") as log:
                    sys.exit(f"the gateway does not start: {log.read()[-2000:]}")
            time.sleep(0.005)
        self.started_in = time.monotonic() - started
        self.started_cpu = self.cpu()

    def is_ready(self):
        try:
            urllib.request.urlopen(self.base + "/health/ready", timeout=5)
            return True
        except OSError:
            return False

    def stop(self):
        self.process.terminate()
        self.process.wait(60)

    def resident(self):
        """Bytes."""
        with open(f"/proc/{self.process.pid}/status") as status:
            line = next(line for line in status if line.startswith("VmRSS"))
        return int(line.split()[1]) * 1024

    def cpu(self):
        """Seconds of processor time so far."""
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def put(self, path, body):
        """Milliseconds."""
        headers = {"x-gateway-api-key": ADMIN_KEY, "content-type": "application/json"}
        request = urllib.request.Request(self.base + "/v1" + path, json.dumps(body).encode(), headers, method="PUT")
        started = time.monotonic()
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()
        return (time.monotonic() - started) * 1000


def rows(org, workspaces, options, keys):
    """(kind, id, workspace, slug, name, document)"""
    condition = lambda n: [{"key": "metadata._user", "value": f"user-{n}"}]
    for n in range(options.configs):
        document = {"strategy": {"mode": "loadbalance"}, "targets": [{"provider": "mock"}] * 2}
        document = document if n % 2 else {"provider": "mock", "retry": {"attempts": 2}}
        document = {"config": document, "is_default": False, "version_id": str(uuid.uuid4())}
        yield "config", workspaces[n % len(workspaces)], f"pc-scale-{n}", f"config {n}", document
    for n in range(options.policies):
        document = {"target": "llm", "type": "requests", "unit": "rpm", "value": 100, "conditions": condition(n),
                    "group_by": [{"key": "api_key"}]}  # fmt: skip
        yield "rate_limit_policy", workspaces[n % len(workspaces)], f"policy-{n}", f"policy {n}", document
    for n in range(keys):
        digest = hashlib.sha256(f"scale-{n}".encode()).hexdigest()
        document = {"type": "workspace-service", "hash": digest, "masked": "****0000",
                    "scopes": ["completions.write"], "defaults": {"allow_config_override": True},
                    "creation_mode": "api"}  # fmt: skip
        yield "api_key", workspaces[n % len(workspaces)], "", f"key {n}", document


def fill(folder, options, keys):
    database = sqlite3.connect(f"{folder}/data/config.db")
    (org,) = database.execute("SELECT id FROM resource WHERE kind = 'organisation'").fetchone()
    (first,) = database.execute("SELECT id FROM resource WHERE kind = 'workspace'").fetchone()
    now = int(time.time() * 1e6)
    names = "kind, id, org, workspace, slug, name, status, schema, version, revision, doc, created_at, updated_at"
    insert = f"INSERT INTO resource ({names}) VALUES (?, ?, ?, ?, ?, ?, 'active', 1, 1, 2, ?, ?, ?)"
    put = lambda kind, place, slug, name, doc: database.execute(
        insert, (kind, str(uuid.uuid4()), org, place, slug, name, json.dumps(doc), now, now)
    )
    for n in range(1, options.workspaces):
        put("workspace", "", f"workspace-{n}", f"workspace {n}", {"defaults": {}})
    every = database.execute("SELECT id FROM resource WHERE kind = 'workspace'").fetchall()
    workspaces = [first] + [id for (id,) in every if id != first]
    for row in rows(org, workspaces, options, keys):
        put(*row)
    database.execute("UPDATE meta SET revision = 2")
    database.commit()
    ids = {}
    for kind in ("api_key", "config", "rate_limit_policy"):
        found = database.execute("SELECT id FROM resource WHERE kind = ? AND revision = 2 LIMIT 100", (kind,))
        ids[kind] = [id for (id,) in found]
    database.close()
    return ids


def started(program, options, keys):
    """A gateway on a database of this size, and ids of some of its rows."""
    folder = tempfile.TemporaryDirectory()
    Gateway(program, folder.name).stop()
    ids = fill(folder.name, options, keys)
    return folder, Gateway(program, folder.name), ids


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gateway")
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--configs", type=int, default=10_000)
    parser.add_argument("--policies", type=int, default=10_000)
    parser.add_argument("--workspaces", type=int, default=100)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    program = os.path.abspath(options.gateway)

    bare_folder, bare, _ = started(program, options, 0)
    without_keys = bare.resident()
    bare.stop()
    bare_folder.cleanup()
    folder, gateway, ids = started(program, options, options.keys)
    per_key = (gateway.resident() - without_keys) / max(options.keys, 1)
    print(f"{options.keys} keys, {options.configs} configs, {options.policies} policies, {options.workspaces} workspaces")
    print(f"ready after {gateway.started_in:.2f} s, {gateway.started_cpu:.2f} s of processor time")
    print(f"resident {gateway.resident() / 1e6:.0f} MB, without the keys {without_keys / 1e6:.0f} MB: {per_key:.0f} B per key")
    failed = per_key >= MOST_KEY_BYTES
    kinds = {
        "key": ("/api-keys/", "api_key", {"description": "changed"}),
        "config": ("/configs/", "config", {"config": {"provider": "mock"}}),
        "policy": ("/policies/rate-limits/", "rate_limit_policy", {"value": 200}),
    }
    for name, (path, kind, body) in kinds.items():
        if not ids[kind]:
            continue
        before = gateway.cpu()
        times = sorted(gateway.put(path + id, body) for id in ids[kind])
        cost = (gateway.cpu() - before) * 1000 / len(times)
        p95 = times[int(len(times) * 0.95)]
        failed |= cost >= MOST_CHANGE_MS
        clock = f"median {statistics.median(times):.1f} ms, 95 of 100 within {p95:.1f} ms, longest {times[-1]:.1f} ms"
        print(f"a change of a {name}: {cost:.1f} ms of processor time; on the clock {clock}")
    gateway.stop()
    folder.cleanup()
    if options.check and failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
