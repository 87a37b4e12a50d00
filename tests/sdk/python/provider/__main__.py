"""A provider that plays a story (`story.py`) in five dialects, and is as strict as the real ones: a field that the real API
does not know is a 400 here too, as are a call without its result and a signature that did not come back.

Listens on a free port, says which on its first line, and ends when its standard input does.
`GET /__seen` tells what arrived, `GET /__left` how many streams were left by their client.
"""

import http.server
import json
import os
import sys
import threading
import time

import anthropic_api
import bedrock_api
import cohere_api
import gemini_api
import openai_api
from story import Refused, step

SEEN, LEFT = [], [0]
DIALECTS = (anthropic_api, bedrock_api, cohere_api, gemini_api, openai_api)


class Provider(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body, headers=()):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        path = self.path.split("?")[0]
        if path == "/__seen":
            return self.reply(200, SEEN)
        if path == "/__left":
            return self.reply(200, LEFT[0])
        for dialect in DIALECTS:
            if (body := dialect.listed(path, self.headers)) is not None:
                return self.reply(200, body)
        self.reply(404, {"error": {"message": f"no such path: {path}", "code": 404, "status": "NOT_FOUND"}})

    def body(self):
        if self.headers.get("transfer-encoding"):
            whole = b""
            while size := int(self.rfile.readline(), 16):
                whole += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return whole
        return self.rfile.read(int(self.headers.get("content-length", 0)))

    def do_POST(self):
        path, raw = self.path.split("?")[0], self.body()
        dialect = next((one for one in DIALECTS if one.serves(path)), None)
        if dialect is None:
            return self.reply(404, {"error": {"message": f"no such path: {path}", "code": 404, "status": "NOT_FOUND"}})
        try:
            try:
                body = json.loads(raw)
            except ValueError as error:
                raise Refused(400, f"no JSON: {error}") from None
            headers = {name.lower(): value for name, value in self.headers.items()}
            SEEN.append({"path": self.path, "headers": headers, "body": body})
            self.play(dialect, path, body, headers)
        except Refused as refused:
            more = [("retry-after", refused.retry_after)] if refused.retry_after else []
            # So that tests need not wait; who does not know it waits as it likes.
            more += [("retry-after-ms", "1")] if refused.retry_after == "0" else []
            self.reply(refused.status, dialect.error(refused.status, refused.message), more)

    def play(self, dialect, path, body, headers):
        if (whole := dialect.other(path, body)) is not None:
            return self.reply(200, whole)
        asked = dialect.read(path, body, headers)
        answer, told = step(asked), {**body, "path": path}
        if not asked.stream:
            return self.reply(200, dialect.whole(answer, told))
        self.send_response(200)
        self.send_header("content-type", getattr(dialect, "STREAM", "text/event-stream"))
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        try:
            for number, event in enumerate(dialect.events(answer, told)):
                self.piece(event)
                if number == 4 and asked.said.startswith("dawdle"):
                    self.wait_for_the_end()
                    return
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            LEFT[0] += 1
            self.close_connection = True

    def piece(self, event):
        data = event if isinstance(event, bytes) else event.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def wait_for_the_end(self):
        """Says nothing until the client has gone."""
        self.connection.settimeout(20)
        try:
            gone = self.connection.recv(1) == b""
        except TimeoutError:
            gone = False
        except OSError:  # a connection that is left with something unread is reset
            gone = True
        LEFT[0] += gone
        self.close_connection = True


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if sys.argv[1:] else 0), Provider)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while sys.stdin.read(1):
        time.sleep(0)
    os._exit(0)


if __name__ == "__main__":
    main()
