"""Cohere's chat, embed and rerank, version 2, as strict as <https://docs.cohere.com/reference/chat>."""

import json

from story import Asked, Refused

FIELDS = set(
    "stream model messages tools strict_tools documents citation_options response_format safety_mode max_tokens stop_sequences "
    "temperature seed frequency_penalty presence_penalty k p logprobs tool_choice thinking priority".split()
)


def serves(path):
    return path.endswith(("/v2/chat", "/v2/embed", "/v2/rerank"))


def listed(path, _headers):
    if path.endswith("/v1/models") and path.startswith("/cohere"):
        return {"models": [{"name": "command-story", "endpoints": ["chat"]}]}
    return None


def other(path, body):
    billed = {"api_version": {"version": "2"}, "billed_units": {"input_tokens": 3}}
    if path.endswith("/embed"):
        if "input_type" not in body:
            raise Refused(400, "invalid request: valid input_type must be provided with the provided model")
        vectors = {kind: [[0.5, -0.25, 1.0] for _ in body["texts"]] for kind in body.get("embedding_types") or ["float"]}
        return {"id": "e", "embeddings": vectors, "texts": body["texts"], "meta": billed, "response_type": "embeddings_by_type"}
    if path.endswith("/rerank"):
        order = range(len(body["documents"]))[: body.get("top_n")]
        results = [{"index": at, "relevance_score": 0.9 - at / 10} for at in order]
        return {"id": "r", "results": results, "meta": {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}}
    return None


def error(_status, message):
    return {"id": "c", "message": message}


def read(_path, body, _headers):
    for name in body:
        if name not in FIELDS:
            raise Refused(400, f"unknown field: parameter '{name}' is not a valid field")
    said, results, images, open_calls = "", [], 0, []
    for message in body["messages"]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                raise Refused(400, "invalid request: tool_call_id not found in the previous tool calls")
            open_calls.remove(message["tool_call_id"])
            results.append(text_of(message["content"]))
            continue
        if open_calls:
            raise Refused(400, f"invalid request: missing tool results for {open_calls}")
        if message["role"] == "assistant":
            open_calls = [call["id"] for call in message.get("tool_calls") or []]
        elif message["role"] == "user":
            said, results = text_of(message["content"]), []
            images = sum(part["type"] == "image_url" for part in message["content"] if isinstance(part, dict))
        elif message["role"] != "system":
            raise Refused(400, f"invalid request: role {message['role']}")
    if open_calls:
        raise Refused(400, "invalid request: the conversation ends with calls")
    form = body.get("response_format") or {}
    schema = (form.get("json_schema") or form.get("schema") or {}) if form.get("type") == "json_object" else None
    tools = [tool["function"]["name"] for tool in body.get("tools") or []]
    return Asked(said, results, tools, images, schema, False, False, body.get("stream") is True)


def text_of(content):
    if isinstance(content, str):
        return content
    return " ".join(part.get("text") or json.dumps(part.get("document", "")) for part in content if part["type"] in ("text", "document"))


def usage(step):
    tokens = {"input_tokens": step.input, "output_tokens": step.output}
    return {"billed_units": tokens, "tokens": tokens}


def called(call):
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}


def whole(step, _body):
    message = {"role": "assistant"}
    if step.calls:
        message |= {"tool_plan": step.text, "tool_calls": [called(call) for call in step.calls]}
    else:
        message["content"] = [{"type": "text", "text": step.text}]
    return {"id": "c", "message": message, "finish_reason": "TOOL_CALL" if step.calls else "COMPLETE", "usage": usage(step)}


def events(step, _body):
    def event(kind, **fields):
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"

    def at(index, **message):
        return {"index": index, "delta": {"message": message}}

    yield event("message-start", id="c", delta={"message": {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}})
    for index, call in enumerate(step.calls):
        if index == 0:
            for word in step.pieces():
                yield event("tool-plan-delta", delta={"message": {"tool_plan": word}})
        told = called(call)
        arguments = told["function"]["arguments"]
        told["function"]["arguments"] = ""
        yield event("tool-call-start", **at(index, tool_calls=told))
        for half in (arguments[:5], arguments[5:]):
            yield event("tool-call-delta", **at(index, tool_calls={"function": {"arguments": half}}))
        yield event("tool-call-end", index=index)
    if not step.calls:
        yield event("content-start", **at(0, content={"type": "text", "text": ""}))
        for piece in step.pieces():
            yield event("content-delta", **at(0, content={"text": piece}))
        yield event("content-end", index=0)
    yield event("message-end", delta={"finish_reason": "TOOL_CALL" if step.calls else "COMPLETE", "usage": usage(step)})
