"""Anthropic's Messages and token counts, as strict as <https://docs.anthropic.com/en/api/messages>."""

import itertools
import json
import re

from story import INPUT, Asked, Refused

FIELDS = set(
    "cache_control container context_management inference_geo max_tokens mcp_servers messages metadata model output_config "
    "output_format service_tier speed stop_sequences stream system temperature thinking thread tool_choice tools top_k top_p".split()
)
# Conversations that clients asked to be kept, by the id of the answer that goes on with them.
THREADS = {}
ids = itertools.count(1)
SIGNATURE = "c2lnbmVkIGJ5IHRoZSBwcm92aWRlcg=="


def serves(path):
    return path.endswith(("/messages", "/messages/count_tokens"))


def listed(_path, _headers):
    return None


def other(path, body):
    if not path.endswith("/count_tokens"):
        return None
    checked(body, counting=True)
    return {"input_tokens": INPUT}


def error(status, message):
    kinds = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error", 529: "overloaded_error"}
    return {"type": "error", "error": {"type": kinds.get(status, "api_error"), "message": message}, "request_id": "req_1"}


def checked(body, counting=False):
    for name in body:
        if name not in FIELDS:
            raise Refused(400, f"{name}: Extra inputs are not permitted")
    if not counting and not isinstance(body.get("max_tokens"), int):
        raise Refused(400, "max_tokens: Field required")
    thinking = (body.get("thinking") or {}).get("type") in ("enabled", "adaptive")
    if thinking and (body.get("tool_choice") or {}).get("type") in ("any", "tool"):
        raise Refused(400, "Thinking may not be enabled when tool_choice forces tool use.")
    if thinking and body.get("temperature", 1) != 1:
        raise Refused(400, "`temperature` may only be set to 1 when thinking is enabled.")
    if not counting and (body.get("thinking") or {}).get("budget_tokens", 0) >= body["max_tokens"]:
        raise Refused(400, "`max_tokens` must be greater than `thinking.budget_tokens`.")
    return thinking


def conversation(body):
    """All messages, and the tools that came with the first."""
    thread, tools = body.get("thread") or {}, body.get("tools") or []
    if thread.get("type") != "continue":
        return body["messages"], tools
    if thread["previous_message_id"] not in THREADS:
        raise Refused(404, "no such thread")
    earlier, given = THREADS[thread["previous_message_id"]]
    return earlier + body["messages"], tools or given


def blocks(content):
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def read(_path, body, headers):
    if "anthropic-version" not in headers:
        raise Refused(400, "anthropic-version: header is required")
    thinking = checked(body)
    said, results, images, open_calls = "", [], 0, []
    messages, tools = conversation(body)
    for at, message in enumerate(messages):
        if message["role"] not in ("user", "assistant"):
            raise Refused(400, f"messages.{at}.role: Input should be 'user' or 'assistant'")
        parts = blocks(message["content"])
        for part in parts:
            if part["type"] == "text" and not part["text"].strip():
                raise Refused(400, "messages: text content blocks must be non-empty")
        if message["role"] == "assistant":
            open_calls = [part["id"] for part in parts if part["type"] == "tool_use"]
            if any(not re.fullmatch(r"[a-zA-Z0-9_-]+", one) for one in open_calls):
                raise Refused(400, f"messages.{at}.content: tool_use.id: String should match pattern")
            for part in parts:
                if part["type"] == "thinking" and part["signature"] != SIGNATURE:
                    raise Refused(400, f"messages.{at}.content.0: Invalid `signature` in `thinking` block")
            if thinking and open_calls and parts[0]["type"] not in ("thinking", "redacted_thinking"):
                raise Refused(400, f"messages.{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{parts[0]['type']}`.")
            continue
        answered = [part["tool_use_id"] for part in parts if part["type"] == "tool_result"]
        if sorted(answered) != sorted(open_calls):
            raise Refused(400, f"messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {open_calls}")
        open_calls = []
        results += [text_of(part.get("content", "")) for part in parts if part["type"] == "tool_result"]
        if not answered:
            said, results = text_of(parts), []
            images = sum(part["type"] == "image" for part in parts)
    if open_calls:
        raise Refused(400, "the conversation ends with calls")
    form = (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
    tools = [tool["name"] for tool in tools if "input_schema" in tool]
    cached = "cache_control" in json.dumps(body)
    # It has no switch for JSON of any shape, but does what it is told.
    told = "JSON" in text_of(body.get("system") or "")
    schema = form.get("schema") or ({} if told else None)
    return Asked(said, results, tools, images, schema, thinking, cached, body.get("stream") is True)


def text_of(content):
    return " ".join(part["text"] for part in blocks(content) if part["type"] == "text")


def content(step, body):
    made = []
    if step.thought:
        made.append({"type": "thinking", "thinking": step.thought, "signature": SIGNATURE})
    choice = body.get("tool_choice") or {}
    if choice.get("type") in ("any", "tool") and not step.calls:
        # Forced: the tool that was named, or the first, with the least that fits.
        from story import example

        tool = next(tool for tool in body["tools"] if tool["name"] == choice.get("name", tool["name"]))
        return [{"type": "tool_use", "id": "toolu_forced", "name": tool["name"], "input": example(tool["input_schema"])}]
    if step.text is not None:
        made.append({"type": "text", "text": step.text})
    for call in step.calls:
        made.append({"type": "tool_use", "id": f"toolu_{call.id}", "name": call.name, "input": call.arguments})
    return made


def usage(step, output):
    return {
        "input_tokens": step.input - step.cached, "cache_creation_input_tokens": 0, "cache_read_input_tokens": step.cached,
        "output_tokens": output, "service_tier": "standard",
    }


def message(step, body, made, reason, output):
    return {
        "id": body["id"], "type": "message", "role": "assistant", "model": body["model"], "content": made,
        "stop_reason": reason, "stop_sequence": None, "usage": usage(step, output),
    }


def reason(made):
    return "tool_use" if any(block["type"] == "tool_use" for block in made) else "end_turn"


def kept(step, body):
    """What is answered, remembered where that was asked for."""
    made, body["id"] = content(step, body), f"msg_{next(ids)}"
    if body.get("thread"):
        messages, tools = conversation(body)
        THREADS[body["id"]] = [*messages, {"role": "assistant", "content": made}], tools
    return made


def whole(step, body):
    made = kept(step, body)
    return message(step, body, made, reason(made), step.output)


def events(step, body):
    def event(kind, **fields):
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"

    made = kept(step, body)
    yield event("message_start", message=message(step, body, [], None, 1))
    for at, block in enumerate(made):
        empty = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}, "tool_use": {"input": {}}}[block["type"]]
        yield event("content_block_start", index=at, content_block={**block, **empty})
        yield event("ping")
        if block["type"] == "text":
            deltas = [{"type": "text_delta", "text": piece} for piece in re.findall(r"\s*\S+", block["text"])]
        elif block["type"] == "thinking":
            words = re.findall(r"\s*\S+", block["thinking"])
            deltas = [{"type": "thinking_delta", "thinking": word} for word in words]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        else:
            told = json.dumps(block["input"])
            deltas = [{"type": "input_json_delta", "partial_json": half} for half in ("", told[:5], told[5:])]
        for delta in deltas:
            yield event("content_block_delta", index=at, delta=delta)
        yield event("content_block_stop", index=at)
    yield event("message_delta", delta={"stop_reason": reason(made), "stop_sequence": None}, usage=usage(step, step.output))
    yield event("message_stop")
