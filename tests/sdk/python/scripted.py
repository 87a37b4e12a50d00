"""A provider that a script plays in its own process: it answers by a function, and keeps what it was asked."""

import json
import re
import threading
from dataclasses import dataclass
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass
class Asked:
    method: str
    path: str
    query: dict
    headers: dict
    body: bytes

    def json(self):
        return json.loads(self.body or b"{}")

    def form(self):
        """The parts of a form by their names; of a file its name and its bytes. A form without a file may be one of a page's."""
        if self.headers.get("content-type") == "application/x-www-form-urlencoded":
            return parse_qs(self.body.decode())
        kind = self.headers.get("content-type", "").encode()
        whole = BytesParser().parsebytes(b"content-type: " + kind + b"\r\n\r\n" + self.body)
        if not whole.is_multipart():
            raise Refusal(415, "a multipart body is needed")
        parts = {}
        for part in whole.get_payload():
            name = part.get_param("name", header="content-disposition")
            content = part.get_payload(decode=True)
            file = part.get_filename()
            parts.setdefault(name, []).append((file, content) if file else content.decode())
        return parts


class Refusal(Exception):
    def __init__(self, status, message, param=None):
        super().__init__(message)
        self.status, self.message, self.param = status, message, param

    def told(self):
        kind = "invalid_request_error"
        error = {"message": self.message, "type": kind, "param": self.param, "code": None}
        return self.status, "application/json", json.dumps({"error": error}).encode()


def events(*all):
    """Server-sent events, each a name and its data."""
    lines = (f"event: {name}\ndata: {data if isinstance(data, str) else json.dumps(data)}\n\n" for name, data in all)
    return 200, "text/event-stream", "".join(lines).encode()


class Scripted:
    """`answer`: of what was asked makes an object, which is told as JSON, or status, type and bytes."""

    def __init__(self, answer):
        self.asked = []
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def play(self):
                parts = urlsplit(self.path)
                headers = {name.lower(): value for name, value in self.headers.items()}
                body = self.body(headers)
                query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
                asked = Asked(self.command, unquote(parts.path), query, headers, body)
                scripted.asked.append(asked)
                try:
                    told = answer(asked)
                except Refusal as refusal:
                    told = refusal.told()
                if not isinstance(told, tuple):
                    told = 200, "application/json", json.dumps(told).encode()
                status, kind, content = told
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def body(self, headers):
                if headers.get("transfer-encoding") != "chunked":
                    return self.rfile.read(int(headers.get("content-length", 0)))
                held = b""
                while size := int(self.rfile.readline(), 16):
                    held += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return held

            do_GET = do_POST = do_DELETE = play

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.root = f"http://127.0.0.1:{server.server_address[1]}"


class Routes:
    """Functions by method and path; `*` is one segment of it, which the function is told."""

    def __init__(self):
        self.rows = []

    def on(self, method, path):
        pattern = re.compile(re.escape(path).replace(r"\*", "([^/]+)") + "$")

        def marked(function):
            self.rows.append((method, pattern, function))
            return function

        return marked

    def find(self, asked):
        for method, pattern, function in self.rows:
            if method == asked.method and (found := pattern.match(asked.path)):
                return function, found.groups()
        raise Refusal(404, f"nobody serves {asked.method} {asked.path}")
