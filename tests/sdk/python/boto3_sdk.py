"""boto3 on pass-through of Bedrock's native API, and signatures of the gateway's held against botocore's.

The upstream is in here: it takes a request only if botocore signs it in the same way.
"""

import http.client
import http.server
import json
import os
import random
import struct
import threading
import urllib.parse
import zlib

import boto3
import botocore.auth
import botocore.awsrequest
import botocore.config
import botocore.credentials
import botocore.exceptions

URL, KEY = os.environ["TEST_URL"], os.environ["TEST_KEY"]
MODEL = "us.amazon.nova-lite-v1:0"
# Whose requests may come: id to secret and token.
KEYS = {}
SEEN = []
# Told by whoever reads a stream that breaks off.
BEGUN = threading.Event()


def frame(name, payload, kind="event"):
    about = ":exception-type" if kind == "exception" else ":event-type"
    headers = b""
    for key, value in ((about, name), (":content-type", "application/json"), (":message-type", kind)):
        headers += bytes([len(key)]) + key.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
    body = json.dumps(payload).encode()
    prelude = struct.pack(">II", len(headers) + len(body) + 16, len(headers))
    out = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + body
    return out + struct.pack(">I", zlib.crc32(out))


def resigned(handler, body):
    """The authorization that botocore would have sent, over the headers that were signed."""
    given = handler.headers["authorization"]
    parts = dict(part.strip().split("=", 1) for part in given.split(" ", 1)[1].split(","))
    key, _, region, service, _ = parts["Credential"].split("/")
    secret, token = KEYS[key]
    credentials = botocore.credentials.Credentials(key, secret, token)
    url = f"http://{handler.headers['host']}{handler.path}"
    headers = {name: handler.headers[name] for name in parts["SignedHeaders"].split(";")}
    assert headers.get("x-amz-security-token") == token
    request = botocore.awsrequest.AWSRequest(method=handler.command, url=url, headers=headers, data=body)
    request.context["timestamp"] = handler.headers["x-amz-date"]
    auth = botocore.auth.SigV4Auth(credentials, service, region)
    canonical = auth.canonical_request(request)
    signature = auth.signature(auth.string_to_sign(request, canonical), request)
    return f"AWS4-HMAC-SHA256 Credential={parts['Credential']}, SignedHeaders={parts['SignedHeaders']}, Signature={signature}"


class Bedrock(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def tell(self, status, body, media="application/json", **headers):
        self.send_response(status)
        for name, value in {"content-type": media, "content-length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def break_off(self, begun):
        """An exception behind what was said already."""
        BEGUN.clear()
        broken = frame("modelStreamErrorException", {"message": "broke off"}, "exception")
        self.send_response(200)
        self.send_header("content-type", "application/vnd.amazon.eventstream")
        self.send_header("content-length", str(len(begun) + len(broken)))
        self.end_headers()
        self.wfile.write(begun)
        self.wfile.flush()
        # The client must have heard the beginning before the rest leaves.
        BEGUN.wait(10)
        self.wfile.write(broken)

    def answer(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        expected, given = resigned(self, body), self.headers["authorization"]
        SEEN.append((self.command, self.path, body))
        if given != expected:
            message = json.dumps({"message": f"{given} should be {expected}"}).encode()
            return self.tell(403, message, x_amzn_ErrorType="InvalidSignatureException")
        usage = {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}
        called = b'"toolChoice"' in body
        if self.path.endswith("/converse-stream"):
            delta = lambda said: ("contentBlockDelta", {"contentBlockIndex": 0, "delta": said})
            start = {"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "t1", "name": "weather"}}}
            calling = [("contentBlockStart", start), delta({"toolUse": {"input": '{"city":'}}), delta({"toolUse": {"input": '"Rome"}'}})]
            events = [
                ("messageStart", {"role": "assistant"}),
                *(calling if called else [delta({"text": "Hel"}), delta({"text": "lo"})]),
                ("contentBlockStop", {"contentBlockIndex": 0}),
                ("messageStop", {"stopReason": "tool_use" if called else "end_turn"}),
                ("metadata", {"usage": usage, "metrics": {"latencyMs": 1}}),
            ]
            whole = b"".join(frame(*event) for event in events)
            if b"break" in body:
                return self.break_off(frame(*events[0]) + frame(*events[1]))
            return self.tell(200, whole, "application/vnd.amazon.eventstream")
        if self.path.endswith("/converse"):
            if b"throttle" in body:
                return self.tell(429, b'{"message":"slow down"}', x_amzn_ErrorType="ThrottlingException")
            use = {"toolUse": {"toolUseId": "t1", "name": "weather", "input": {"city": "Rome"}}}
            message = {"role": "assistant", "content": [use if called else {"text": "Hello"}]}
            answer = {"output": {"message": message}, "stopReason": "tool_use" if called else "end_turn", "usage": usage}
            return self.tell(200, json.dumps({**answer, "metrics": {"latencyMs": 1}}).encode())
        if self.path.endswith("/count-tokens"):
            return self.tell(200, b'{"inputTokens":7}')
        return self.tell(200, json.dumps({"path": self.path, "length": len(body)}).encode())

    do_GET = do_POST = do_PUT = do_DELETE = answer


def headers(port, key, region):
    secret, token = KEYS[key]
    out = {
        "x-gateway-api-key": KEY,
        "x-gateway-provider": "bedrock",
        "x-gateway-custom-host": f"http://127.0.0.1:{port}",
        "x-gateway-aws-region": region,
        "x-gateway-aws-access-key-id": key,
        "x-gateway-aws-secret-access-key": secret,
    }
    return {**out, "x-gateway-aws-session-token": token} if token else out


def client(port):
    made = boto3.client(
        "bedrock-runtime",
        endpoint_url=f"{URL}/v1/proxy",
        region_name="us-east-1",
        # The gateway's own keys count: these never reach the upstream.
        aws_access_key_id="AKIDCLIENT",
        aws_secret_access_key="unknown-upstream",
        config=botocore.config.Config(retries={"total_max_attempts": 1}),
    )
    extra = headers(port, "AKIDOFTHEGATEWAY", "eu-central-1")
    made.meta.events.register("before-send.*", lambda request, **_: request.headers.update(extra))
    return made


def natively(port):
    bedrock = client(port)
    hello = [{"role": "user", "content": [{"text": "Hi"}]}]
    answer = bedrock.converse(modelId=MODEL, messages=hello)
    assert answer["output"]["message"]["content"][0]["text"] == "Hello", answer
    print("ok converse")
    stream = bedrock.converse_stream(modelId=MODEL, messages=hello)["stream"]
    events = list(stream)
    said = "".join(event["contentBlockDelta"]["delta"]["text"] for event in events if "contentBlockDelta" in event)
    assert said == "Hello" and events[-1]["metadata"]["usage"]["totalTokens"] == 5, events
    print("ok converse_stream")
    arn = "arn:aws:bedrock:eu-central-1:123456789012:application-inference-profile/a1b2"
    answer = json.loads(bedrock.invoke_model(modelId=arn, body=b'{"inputText":"Hi"}')["body"].read())
    assert answer["path"] == f"/model/{urllib.parse.quote(arn, safe='')}/invoke", answer
    print("ok invoke_model")
    asked = {"converse": {"messages": hello}}
    assert bedrock.count_tokens(modelId=MODEL, input=asked)["inputTokens"] == 7
    print("ok count_tokens")
    try:
        bedrock.converse(modelId=MODEL, messages=[{"role": "user", "content": [{"text": "throttle"}]}])
        raise AssertionError("no error")
    except bedrock.exceptions.ThrottlingException as e:
        assert e.response["Error"]["Message"] == "slow down", e.response
    print("ok an error")


def at_random(port, count):
    dice = random.Random(7)
    text = lambda most: "".join(dice.choices("abcXYZ019-._~/:+=%&?#[] éß\u4e2d\U0001f600", k=dice.randint(0, most)))
    host = URL.removeprefix("http://")
    for number in range(count):
        key = f"AKID{number:04}"
        KEYS[key] = ("".join(dice.choices("abcDEF0189/+", k=40)), dice.choice([None, "IQoJb3JpZ2luX2Vj//+=="]))
        segments = [urllib.parse.quote(text(12), safe=dice.choice(["", ":", "~:"])) or "a" for _ in range(dice.randint(1, 4))]
        # Dot segments are refused, however they are spelled: they are no matter of signatures.
        dots = lambda segment: {".", ".."} & set(urllib.parse.unquote(segment).split("/"))
        path = "/x/" + "/".join("dots" if dots(s) else s for s in segments)
        pairs = [(text(6), text(10)) for _ in range(dice.randint(0, 4))]
        query = "&".join(f"{urllib.parse.quote(n or 'n', safe='')}={urllib.parse.quote(v, safe='')}" for n, v in pairs)
        method = dice.choice(["GET", "POST", "POST", "PUT", "DELETE"])
        body = json.dumps({"text": text(2000)}).encode() if method in ("POST", "PUT") else None
        region = dice.choice(["us-east-1", "eu-west-3", "ap-southeast-2", "us-gov-west-1"])
        sent = {**headers(port, key, region), "content-type": "application/json"}
        if dice.random() < 0.3:
            sent["x-amzn-bedrock-trace"] = dice.choice(["ENABLED", "  DISABLED ", "a  b"])
        connection = http.client.HTTPConnection(host)
        connection.request(method, f"/v1/proxy{path}{'?' + query if query else ''}", body, sent)
        answer = connection.getresponse()
        said = answer.read()
        assert answer.status == 200, (number, method, path, query, said)
        connection.close()
    print(f"ok {count} signatures as botocore makes them")


def serve():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bedrock)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    KEYS["AKIDOFTHEGATEWAY"] = ("secret-of-the-gateway", None)
    return server.server_address[1]


def main():
    port = serve()
    natively(port)
    at_random(port, 300)
    assert len(SEEN) == 305, len(SEEN)


if __name__ == "__main__":
    main()
