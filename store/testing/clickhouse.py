"""ClickHouse's engine behind its HTTP interface, for tests: `python3 clickhouse.py PORT FOLDER USER PASSWORD [CERT KEY]`.

The engine is that of the package `chdb-core`, in this process; this file adds only what the HTTP interface of a server
does with a request: user and password, the database, settings and parameters, and errors as a status and a text
(https://clickhouse.com/docs/interfaces/http). One statement runs at a time.
"""

import glob
import importlib.util
import os
import re
import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

OWN = {"query", "database", "default_format", "user", "password", "compress", "decompress", "role"}
PIECE = 1 << 20


def engine(folder):
    """The extension alone: what the package puts around it imports pandas, and takes seconds."""
    place = next(iter(glob.glob(os.path.join(os.environ["GATEWAY_ENGINE"], "chdb", "_chdb*.so"))), None)
    if place is None:
        sys.exit(f"no chdb in {os.environ['GATEWAY_ENGINE']}")
    spec = importlib.util.spec_from_file_location("_chdb", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.connect(folder)


class Failed(Exception):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Engine:
    def __init__(self, folder):
        self.connection = engine(folder)
        self.lock = threading.Lock()
        self.database = None

    def say(self, sql, form="TSV", params=None):
        return self.connection.query(sql, form, params=params or {}).bytes()

    def run(self, sql, asked, body):
        """`body` gives the rows of an INSERT, piece by piece."""
        with self.lock:
            settings = [name for name in asked if name not in OWN and not name.startswith("param_")]
            params = {name[6:]: value for name, value in asked.items() if name.startswith("param_")}
            database = asked.get("database", "default")
            try:
                if database != self.database:
                    self.database = None
                    self.say(f"USE `{database}`")
                    self.database = database
                for name in settings:
                    value = asked[name].replace("\\", "\\\\").replace("'", "\\'")
                    self.say(f"SET {name} = '{value}'")
                rows = re.fullmatch(r"\s*(INSERT INTO .*?)\s+FORMAT\s+(\w+)\s*", sql, re.S | re.I)
                if rows:
                    return self.insert(rows[1], rows[2], body)
                return self.say(sql, asked.get("default_format", "TabSeparated"), params)
            except RuntimeError as error:
                raise Failed(500, str(error)) from None
            finally:
                for name in settings:
                    try:
                        self.say(f"SET {name} = DEFAULT")
                    except RuntimeError:
                        pass

    def insert(self, sql, form, body):
        # Whole before the first row goes in: of a request that is cut nothing is stored.
        pieces = list(body)
        running = self.connection.send_insert(sql, form)
        try:
            for piece in pieces:
                self.connection.insert_append(running, piece)
            self.connection.insert_done(running)
        except RuntimeError:
            try:
                self.connection.insert_cancel(running)
            except RuntimeError:
                pass
            raise
        return b""


def parts(kind, body):
    """Fields of a multipart form."""
    edge = b"--" + re.search(r'boundary="?([^";]+)', kind)[1].encode()
    for part in body.split(edge)[1:-1]:
        head, _, value = part.partition(b"\r\n\r\n")
        name = re.search(rb'name="([^"]*)"', head)[1].decode()
        yield name, value.removesuffix(b"\r\n").decode()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body go out apart: the body would wait for the client's word that it has the head, some 40 ms.
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def pieces(self):
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            while True:
                length = int(self.rfile.readline().split(b";")[0], 16)
                piece = self.rfile.read(length)
                if len(piece) < length or self.rfile.readline() != b"\r\n":
                    raise ConnectionError("the request is cut")
                if not length:
                    return
                yield piece
        left = int(self.headers.get("Content-Length") or 0)
        while left:
            piece = self.rfile.read(min(left, PIECE))
            if not piece:
                raise ConnectionError("the request is cut")
            left -= len(piece)
            yield piece

    def answer(self, status, body, code=None):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if code:
            self.send_header("X-ClickHouse-Exception-Code", code)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(200, b"Ok.\n")

    def do_POST(self):
        asked = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        given = (self.headers.get("X-ClickHouse-User"), self.headers.get("X-ClickHouse-Key"))
        body = self.pieces()
        try:
            if given != self.server.account:
                for _ in body:
                    pass
                raise Failed(403, "Code: 516. DB::Exception: Authentication failed. (AUTHENTICATION_FAILED)")
            kind = self.headers.get("Content-Type", "")
            if kind.startswith("multipart/form-data"):
                asked |= dict(parts(kind, b"".join(body)))
                body = iter(())
            sql = asked.pop("query", None)
            if sql is None:
                sql, body = b"".join(body).decode(), iter(())
            self.answer(200, self.server.engine.run(sql, asked, body))
        except Failed as error:
            code = re.search(r"Code: (\d+)", str(error))
            self.answer(error.status, str(error).encode(), code and code[1])


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        # Clients may leave whenever they like.
        pass


def main():
    port, folder, user, password, *secured = sys.argv[1:]
    server = Server(("127.0.0.1", int(port)), Handler, bind_and_activate=False)
    server.engine = Engine(folder)
    server.account = (user, password)
    server.server_bind()
    server.server_activate()
    if secured:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*secured)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


main()
