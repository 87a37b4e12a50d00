#!/usr/bin/env python3
"""What idle connections of clients cost, and that each is let go when its clock runs out.

    python3 benches/connections.py target/release/gateway [--many 5000] [--check]

Opens so many connections of each kind, one kind in each process: silent ones, ones kept after an answer, HTTP/2 ones kept
after an answer, and, at most 1,000, realtime sessions in which nothing is said. Prints how much the process grew for each
connection (of a session: for both its connections and all that is known of it), and how long after its clock the last one
was closed. With `--check` it fails above 20, 32, 48 and 160 KB.
"""

import argparse
import base64
import hashlib
import json
import resource
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

BOUNDS = {"silent": 20, "kept": 32, "http2": 48, "realtime": 160}
MOST_SESSIONS = 1000
KEY = "a-key-for-idle-realtime-sessions-only"
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


def handshake(provider):
    config = json.dumps({"provider": "openai", "api_key": "sk", "custom_host": f"http://127.0.0.1:{provider}/v1"})
    return (
        "GET /v1/realtime?model=gpt-realtime HTTP/1.1\r\nhost: g\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
        "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        f"x-gateway-api-key: {KEY}\r\nx-gateway-config: {config}\r\n\r\n"
    ).encode()


class Provider:
    """Opens every session that it is asked for, and says nothing in it."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=MOST_SESSIONS)
        self.port, self.open = self.listener.getsockname()[1], []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            peer, _ = self.listener.accept()
            head = b""
            while b"\r\n\r\n" not in head:
                head += peer.recv(65536)
            lines = (line.split(b":", 1) for line in head.split(b"\r\n")[1:] if b":" in line)
            key = next(value.strip() for name, value in lines if name.lower() == b"sec-websocket-key")
            accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
            peer.sendall(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
                         b"sec-websocket-accept: " + accept + b"\r\n\r\n")
            self.open.append(peer)


SAYS = {"silent": b"", "kept": GET, "http2": http2_get()}
ENDS = {"kept": b"healthy", "http2": b"healthy", "realtime": b"\r\n\r\n"}


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


def open_all(port, kind, many, says):
    clients = []
    for _ in range(many):
        client = socket.create_connection(("127.0.0.1", port))
        client.sendall(says)
        if says:
            told = client.recv(65536)
            while ENDS[kind] not in told:
                told += client.recv(65536)
            if kind == "realtime" and b" 101 " not in told:
                sys.exit(f"no session: {told.decode()}")
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
            "--threads", "2", "--realtime-idle", clock, "--bootstrap-workspace-key", KEY,
            "--trusted-custom-hosts", "127.0.0.1",
        ]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until("readiness", 30, lambda: is_ready(admin))
            says = handshake(Provider().port) if kind == "realtime" else SAYS[kind]
            for client in open_all(port, "kept", 20, GET):
                client.close()
            before = resident(process.pid)
            clients = open_all(port, kind, many, says)
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
    many = {kind: min(args.many, MOST_SESSIONS) if kind == "realtime" else args.many for kind in BOUNDS}
    costs = {kind: measure(args.binary, kind, many[kind]) for kind in BOUNDS}
    dear = [f"{kind} {each:.1f} KB" for kind, each in costs.items() if each > BOUNDS[kind]]
    if args.check and dear:
        sys.exit("too dear: " + ", ".join(dear))


if __name__ == "__main__":
    main()
