"""OpenAI's chat completions, embeddings, models and Responses, as strict as <https://platform.openai.com/docs/api-reference>.
Below `/mistral` they are Mistral's (<https://docs.mistral.ai/api>): other fields, ids of nine letters, usage in streams unasked.
"""

import base64
import itertools
import json
import re
import struct

from story import Asked, Refused

CHAT = set(
    "audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens messages metadata "
    "modalities model n parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_retention reasoning_effort "
    "response_format safety_identifier seed service_tier stop store stream stream_options temperature tool_choice tools "
    "top_logprobs top_p user verbosity web_search_options".split()
)
MISTRAL = set(
    "frequency_penalty guardrails max_tokens messages metadata model n parallel_tool_calls prediction presence_penalty "
    "prompt_cache_key prompt_mode random_seed reasoning_effort response_format safe_prompt stop stream temperature tool_choice "
    "tools top_p".split()
)
RESPONSES = set(
    "background conversation include input instructions max_output_tokens max_tool_calls metadata model parallel_tool_calls "
    "previous_response_id prompt prompt_cache_key prompt_cache_retention reasoning safety_identifier service_tier store stream "
    "stream_options temperature text tool_choice tools top_logprobs top_p truncation user context_management".split()
)
MESSAGE = set("role content name tool_calls tool_call_id refusal audio function_call annotations".split())
# Of Mistral's messages, and of what OpenAI's own SDK gathers from a stream: whether OpenAI minds them is not told anywhere.
MESSAGE |= {"prefix", "parsed"}
# Items that were given out and kept, by their ids.
KEPT = {}
ids = itertools.count(1)


def serves(path):
    return path.endswith(("/chat/completions", "/embeddings", "/responses", "/fim/completions"))


def listed(path, _headers):
    if path == "/mistral/v1/models":
        can = {"completion_chat": True, "completion_fim": False, "function_calling": True, "fine_tuning": False, "vision": True}
        return {"object": "list", "data": [{"id": "mistral-story", "object": "model", "type": "base", "capabilities": can}]}
    if path.endswith("/v1/models"):
        return {"object": "list", "data": [{"id": "story", "object": "model", "created": 1, "owned_by": "provider"}]}
    return None


def other(path, body):
    if path.endswith("/fim/completions"):
        choice = {"index": 0, "message": {"role": "assistant", "content": "x):"}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
        return {"id": "f", "object": "chat.completion", "created": 1, "model": body["model"], "choices": [choice], "usage": usage}
    if not path.endswith("/embeddings"):
        return None
    inputs = body["input"] if isinstance(body["input"], list) else [body["input"]]
    vector = [0.5, -0.25, 1.0]
    packed = base64.b64encode(struct.pack("<3f", *vector)).decode()
    one = packed if body.get("encoding_format") == "base64" else vector
    data = [{"object": "embedding", "index": at, "embedding": one} for at in range(len(inputs))]
    made = {"object": "list", "data": data, "model": body["model"], "usage": {"prompt_tokens": 3, "total_tokens": 3}}
    return {"id": "e", **made} if path.startswith("/mistral/") else made


def error(status, message):
    kind = {401: "invalid_request_error", 429: "rate_limit_error"}.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def known(body, fields, where=""):
    for name in body:
        if name not in fields:
            raise Refused(422 if fields is MISTRAL else 400, f"Unrecognized request argument supplied: {where}{name}")


def read(path, body, _headers):
    if path.endswith("/responses"):
        return read_responses(body)
    mistral = path.startswith("/mistral/")
    known(body, MISTRAL if mistral else CHAT)
    said, results, images, open_calls = "", [], 0, []
    for at, message in enumerate(body["messages"]):
        known(message, MESSAGE, f"messages[{at}].")
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                raise Refused(400, "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.")
            open_calls.remove(message["tool_call_id"])
            results.append(text_of(message["content"]))
            continue
        if open_calls:
            raise Refused(400, f"An assistant message with 'tool_calls' must be followed by tool messages responding to each: {open_calls}")
        if message["role"] == "assistant":
            open_calls = [call["id"] for call in message.get("tool_calls") or []]
            for call in message.get("tool_calls") or []:
                json.loads(call["function"]["arguments"])
            if any(len(one) > 40 for one in open_calls):
                raise Refused(400, "tool_calls.id is too long")
            if not open_calls and not message.get("content"):
                raise Refused(400, f"messages[{at}].content is missing")
        elif message["role"] == "user":
            said, results = text_of(message["content"]), []
            shown = [part["image_url"] for part in message["content"] if isinstance(part, dict) and part["type"] == "image_url"]
            if not mistral and not all(isinstance(one, dict) for one in shown):
                raise Refused(400, f"Invalid type for 'messages[{at}].content[1].image_url': expected an object, but got a string instead.")
            images = len(shown)
        elif message["role"] not in ("system", "developer"):
            raise Refused(400, f"messages[{at}].role")
    if open_calls:
        raise Refused(400, "the last calls have no results")
    if mistral and any(not re.fullmatch("[a-zA-Z0-9]{9}", one) for one in called_in(body)):
        raise Refused(400, "Tool call id must be a-z, A-Z, 0-9, with a length of 9.")
    shape = body.get("response_format") or {}
    schema = {"json_schema": (shape.get("json_schema") or {}).get("schema"), "json_object": {}}.get(shape.get("type"))
    tools = [tool["function"]["name"] for tool in body.get("tools") or []]
    return Asked(
        said, results, tools, images, schema,
        thinks=body.get("reasoning_effort") not in (None, "none"), cached="prompt_cache_key" in body, stream=body.get("stream") is True,
    )


def called_in(body):
    return [call["id"] for message in body["messages"] for call in message.get("tool_calls") or []]


def text_of(content):
    if isinstance(content, str):
        return content
    return " ".join(part["text"] for part in content or [] if part["type"] == "text")


def usage(step):
    return {
        "prompt_tokens": step.input, "completion_tokens": step.output, "total_tokens": step.input + step.output,
        "prompt_tokens_details": {"cached_tokens": step.cached}, "completion_tokens_details": {"reasoning_tokens": step.reasoning},
    }


def called(call):
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}


def whole(step, body):
    if "messages" not in body:
        return response(step, body, items(step, body), "completed")
    message = {"role": "assistant", "content": step.text, "refusal": None}
    if step.calls:
        message["tool_calls"] = [called(call) for call in step.calls]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if step.calls else "stop", "logprobs": None}
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body["model"], "choices": [choice], "usage": usage(step)}


def events(step, body):
    if "messages" not in body:
        yield from response_events(step, body)
        return
    asked_usage = (body.get("stream_options") or {}).get("include_usage")

    def chunk(delta, finish=None, **more):
        choices = [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}] if delta is not None else []
        one = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": body["model"], "choices": choices, **more}
        return f"data: {json.dumps(one)}\n\n"

    yield chunk({"role": "assistant", "content": ""})
    for piece in step.pieces():
        yield chunk({"content": piece})
    for at, call in enumerate(step.calls):
        told = called(call)
        arguments = told["function"]["arguments"]
        told["function"]["arguments"] = ""
        yield chunk({"tool_calls": [{"index": at, **told}]})
        for half in (arguments[:5], arguments[5:]):
            yield chunk({"tool_calls": [{"index": at, "function": {"arguments": half}}]})
    finish = "tool_calls" if step.calls else "stop"
    yield chunk({}, finish, usage=usage(step)) if body["path"].startswith("/mistral/") else chunk({}, finish)
    if asked_usage:
        yield chunk(None, usage=usage(step))
    yield "data: [DONE]\n\n"


# Responses


def read_responses(body):
    known(body, RESPONSES)
    said, results, images, open_calls = "", [], 0, []
    items = body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]
    for at, item in enumerate(items):
        if item.get("type") == "item_reference":
            if item["id"] not in KEPT:
                raise Refused(404, f"Item with id '{item['id']}' not found. Items are not persisted when `store` is set to false.")
            item = KEPT[item["id"]]
        kind = item.get("type", "message")
        if kind == "function_call":
            open_calls.append(item["call_id"])
        elif kind == "function_call_output":
            if item["call_id"] not in open_calls:
                raise Refused(400, f"No tool call found for function call output with call_id {item['call_id']}.")
            open_calls.remove(item["call_id"])
            results.append(item["output"])
        elif kind == "message" and item["role"] == "user":
            parts = item["content"] if isinstance(item["content"], list) else [{"type": "input_text", "text": item["content"]}]
            said, results = " ".join(part["text"] for part in parts if part["type"] == "input_text"), []
            images = sum(part["type"] == "input_image" for part in parts)
        elif kind not in ("message", "reasoning"):
            raise Refused(400, f"input[{at}].type")
    if open_calls:
        raise Refused(400, f"No tool output found for function call {open_calls[0]}.")
    shape = (body.get("text") or {}).get("format") or {}
    schema = {"json_schema": shape.get("schema"), "json_object": {}}.get(shape.get("type"))
    tools = [tool["name"] for tool in body.get("tools") or [] if tool["type"] == "function"]
    thinks = bool(body.get("reasoning"))
    return Asked(said, results, tools, images, schema, thinks, cached="prompt_cache_key" in body, stream=body.get("stream") is True)


def items(step, body):
    made = []
    if step.thought:
        made.append({"type": "reasoning", "id": f"rs_{next(ids)}", "summary": [{"type": "summary_text", "text": step.thought}]})
    if step.text is not None:
        part = {"type": "output_text", "text": step.text, "annotations": [], "logprobs": []}
        made.append({"type": "message", "id": f"msg_{next(ids)}", "role": "assistant", "status": "completed", "content": [part]})
    for call in step.calls:
        made.append({
            "type": "function_call", "id": f"fc_{next(ids)}", "call_id": call.id, "name": call.name,
            "arguments": json.dumps(call.arguments), "status": "completed",
        })
    if body.get("store") is not False:
        KEPT.update({item["id"]: item for item in made})
    return made


def response(step, body, output, status):
    told = None if status == "in_progress" else {
        "input_tokens": step.input, "input_tokens_details": {"cached_tokens": step.cached}, "output_tokens": step.output,
        "output_tokens_details": {"reasoning_tokens": step.reasoning}, "total_tokens": step.input + step.output,
    }
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": body["model"], "output": output,
        "error": None, "incomplete_details": None, "instructions": body.get("instructions"), "metadata": {}, "tools": [],
        "parallel_tool_calls": True, "temperature": 1.0, "top_p": 1.0, "tool_choice": "auto", "store": body.get("store", True),
        "previous_response_id": None, "text": {"format": {"type": "text"}}, "usage": told,
    }


def response_events(step, body):
    numbers = itertools.count()

    def event(kind, **fields):
        return f"event: {kind}\ndata: {json.dumps({'type': kind, 'sequence_number': next(numbers), **fields})}\n\n"

    made = items(step, body)
    begun = response(step, body, [], "in_progress")
    yield event("response.created", response=begun)
    yield event("response.in_progress", response=begun)
    for at, item in enumerate(made):
        empty = {"message": {"content": []}, "function_call": {"arguments": ""}, "reasoning": {"summary": []}}[item["type"]]
        yield event("response.output_item.added", output_index=at, item={**item, **empty})
        where = {"item_id": item["id"], "output_index": at}
        if item["type"] == "function_call":
            for half in (item["arguments"][:5], item["arguments"][5:]):
                yield event("response.function_call_arguments.delta", delta=half, **where)
            yield event("response.function_call_arguments.done", arguments=item["arguments"], name=item["name"], **where)
        elif item["type"] == "message":
            part = {**item["content"][0], "text": ""}
            yield event("response.content_part.added", content_index=0, part=part, **where)
            for piece in step.pieces():
                yield event("response.output_text.delta", content_index=0, delta=piece, logprobs=[], **where)
            yield event("response.output_text.done", content_index=0, text=step.text, logprobs=[], **where)
            yield event("response.content_part.done", content_index=0, part=item["content"][0], **where)
        yield event("response.output_item.done", output_index=at, item=item)
    yield event("response.completed", response=response(step, body, made, "completed"))
