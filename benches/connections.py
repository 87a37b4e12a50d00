#!/usr/bin/env python3
"""What idle connections of clients cost, and that each is let go when its clock runs out.

    python3 benches/connections.py target/release/gateway [--many 5000] [--check]

Opens so many connections of three kinds, one kind in each process: silent ones, ones kept after an answer, and HTTP/2
ones kept after an answer. Prints how much the process grew for each connection, and how long after its clock the last one
was closed. With `--check` it fails above 20, 32 and 48 KB.
"""

import argparse
import resource
import selectors
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

BOUNDS = {"silent": 20, "kept": 32, "http2": 48}
CLOCK_SECONDS = 20
GET = b"GET /v1/health HTTP/1.1\r\nhost: g\r\n\r\n"


def http2_get():
    """Preface, settings, and one GET whose fields are literals that are not indexed."""
    block = b""
    for name, value in ((":method", "GET"), (":scheme", "http"), (":path", "/v1/health"), (":authority", "g")):
        block += b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
    settings = b"\0\0\0\x04\0\0\0\0\0"
    head = len(block).to_bytes(3, "big") + b"\x01\x05" + (1).to_bytes(4, "big")
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings + head + block


SAYS = {"silent": b"", "kept": GET, "http2": http2_get()}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def resident(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def until(what, seconds, probe):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = probe()
        if found:
            return found
        time.sleep(0.02)
    sys.exit(f"never came: {what}")


def is_ready(admin):
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:{admin}/health/ready").status == 200
    except OSError:
        return False


def figure(admin, name):
    text = urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics").read().decode()
    return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name + " "))


def open_all(port, kind, many):
    clients = []
    for _ in range(many):
        client = socket.create_connection(("127.0.0.1", port))
        client.sendall(SAYS[kind])
        if SAYS[kind]:
            told = client.recv(65536)
            while b"healthy" not in told:
                told += client.recv(65536)
        clients.append(client)
    return clients


def ends(clients, began):
    """Seconds until the last of them was closed."""
    with selectors.DefaultSelector() as selector:
        for client in clients:
            client.setblocking(False)
            selector.register(client, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(timeout=30)
            if not ready:
                sys.exit(f"{len(selector.get_map())} connections are never let go")
            for key, _ in ready:
                try:
                    over = key.fileobj.recv(65536) == b""
                except ConnectionError:
                    over = True
                if over:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
    return time.monotonic() - began


def measure(binary, kind, many):
    port, admin = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        clock = f"{CLOCK_SECONDS}s"
        command = [
            binary, "serve", "--listen", f"127.0.0.1:{port}", "--admin-listen", f"127.0.0.1:{admin}", "--data-dir", folder,
            "--client-idle-timeout", clock, "--keepalive-timeout", clock, "--max-open-connections", str(2 * many),
            "--threads", "2",
        ]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until("readiness", 30, lambda: is_ready(admin))
            for client in open_all(port, "kept", 20):
                client.close()
            before = resident(process.pid)
            clients = open_all(port, kind, many)
            until("all connections", 10, lambda: figure(admin, "gateway_open_connections") >= many)
            began, each = time.monotonic(), (resident(process.pid) - before) / many
            late = ends(clients, began) - CLOCK_SECONDS
            after = (resident(process.pid) - before) / 1024
        finally:
            process.terminate()
            process.wait()
    print(f"{kind:<8} {many} connections: {each:6.1f} KB each; the last closed {late:+.1f} s after its clock; "
          f"{after:.0f} MB more than before once all are closed")
    return each


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("--many", type=int, default=5000)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    costs = {kind: measure(args.binary, kind, args.many) for kind in SAYS}
    dear = [f"{kind} {each:.1f} KB" for kind, each in costs.items() if each > BOUNDS[kind]]
    if args.check and dear:
        sys.exit("too dear: " + ", ".join(dear))


if __name__ == "__main__":
    main()
