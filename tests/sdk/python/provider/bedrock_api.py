"""Amazon Bedrock's Converse, and InvokeModel for Claude, as strict as
<https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html>. Signatures are another test's matter.
"""

import base64
import json
import re
import struct
import urllib.parse
import zlib

import anthropic_api
from story import INPUT, Asked, Refused

STREAM = "application/vnd.amazon.eventstream"
CONVERSE = set(
    "messages system inferenceConfig toolConfig guardrailConfig additionalModelRequestFields promptVariables "
    "additionalModelResponseFieldPaths requestMetadata performanceConfig serviceTier outputConfig".split()
)


def serves(path):
    return bool(re.search(r"/model/[^/]+/(converse|invoke|count-tokens)", path))


def listed(_path, _headers):
    return None


def other(path, _body):
    return {"inputTokens": INPUT} if path.endswith("/count-tokens") else None


def error(_status, message):
    return {"message": message}


def read(path, body, headers):
    if "/invoke" in path:
        if "anthropic_version" not in body or {"model", "stream"} & body.keys():
            raise Refused(400, "Malformed input request: the model stands in the path, the version in the body")
        own = {"anthropic_version", "anthropic_beta"}
        bare = {name: value for name, value in body.items() if name not in own}
        asked = anthropic_api.read(path, bare, {"anthropic-version": "2023-06-01"})
        asked.stream = path.endswith("-stream")
        return asked
    if unknown := body.keys() - CONVERSE:
        raise Refused(400, f"Unexpected field type: {unknown}")
    said, results, images, open_calls, role = "", [], 0, [], None
    for at, message in enumerate(body["messages"]):
        if message["role"] == role:
            raise Refused(400, "A conversation must alternate between user and assistant roles.")
        role = message["role"]
        if role == "assistant":
            open_calls = [block["toolUse"]["toolUseId"] for block in message["content"] if "toolUse" in block]
            continue
        answers = [block["toolResult"] for block in message["content"] if "toolResult" in block]
        if sorted(one["toolUseId"] for one in answers) != sorted(open_calls):
            raise Refused(400, f"Expected toolResult blocks at messages.{at}.content for the following Ids: {open_calls}")
        open_calls = []
        results += [" ".join(part.get("text") or json.dumps(part.get("json")) for part in one["content"]) for one in answers]
        if not answers:
            said, results = " ".join(block["text"] for block in message["content"] if "text" in block), []
            images = sum("image" in block for block in message["content"])
    if open_calls:
        raise Refused(400, "The conversation must end with a user message.")
    form = ((body.get("outputConfig") or {}).get("textFormat") or {}).get("structure", {}).get("jsonSchema", {})
    told = any("JSON" in block.get("text", "") for block in body.get("system") or [])
    schema = json.loads(form["schema"]) if form else {} if told else None
    tools = [tool["toolSpec"]["name"] for tool in (body.get("toolConfig") or {}).get("tools", []) if "toolSpec" in tool]
    cached = "cachePoint" in json.dumps(body)
    return Asked(said, results, tools, images, schema, False, cached, path.endswith("/converse-stream"))


def usage(step):
    told = {"inputTokens": step.input - step.cached, "outputTokens": step.output, "totalTokens": step.input + step.output}
    return {**told, "cacheReadInputTokens": step.cached} if step.cached else told


def model(told):
    return urllib.parse.unquote(re.search(r"/model/([^/]+)/", told["path"])[1])


def whole(step, told):
    if "/invoke" in told["path"]:
        return anthropic_api.whole(step, {**told, "model": model(told)})
    content = [{"text": step.text}] if step.text is not None else []
    content += [{"toolUse": {"toolUseId": f"tooluse_{call.id}", "name": call.name, "input": call.arguments}} for call in step.calls]
    reason = "tool_use" if step.calls else "end_turn"
    return {"output": {"message": {"role": "assistant", "content": content}}, "stopReason": reason, "usage": usage(step), "metrics": {"latencyMs": 1}}


def frame(name, payload):
    headers = b""
    for key, value in ((":event-type", name), (":content-type", "application/json"), (":message-type", "event")):
        headers += bytes([len(key)]) + key.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
    body = json.dumps(payload).encode()
    prelude = struct.pack(">II", len(headers) + len(body) + 16, len(headers))
    out = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + body
    return out + struct.pack(">I", zlib.crc32(out))


def events(step, told):
    if "/invoke" in told["path"]:
        for event in anthropic_api.events(step, {**told, "model": model(told)}):
            data = event.split("data: ", 1)[1].strip()
            yield frame("chunk", {"bytes": base64.b64encode(data.encode()).decode()})
        return
    yield frame("messageStart", {"role": "assistant"})
    for piece in step.pieces():
        yield frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": piece}})
    yield frame("contentBlockStop", {"contentBlockIndex": 0})
    for at, call in enumerate(step.calls, 1):
        use = {"toolUseId": f"tooluse_{call.id}", "name": call.name}
        yield frame("contentBlockStart", {"contentBlockIndex": at, "start": {"toolUse": use}})
        told = json.dumps(call.arguments)
        for half in (told[:5], told[5:]):
            yield frame("contentBlockDelta", {"contentBlockIndex": at, "delta": {"toolUse": {"input": half}}})
        yield frame("contentBlockStop", {"contentBlockIndex": at})
    yield frame("messageStop", {"stopReason": "tool_use" if step.calls else "end_turn"})
    yield frame("metadata", {"usage": usage(step), "metrics": {"latencyMs": 1}})
