"""The official `anthropic` package against the gateway."""

import json
import sys

import anthropic

from checks import ECHO, FAMILY, HELLO, KEY, URL, equal, headers, raises, run

MODEL = "mock-large"
WEATHER = {
    "name": "weather",
    "description": "Weather of a city",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city", "days"],
    },
}
CALLED = {"city": "mock city", "days": 1}


def client(key=KEY, max_retries=0, **mock):
    return anthropic.Anthropic(base_url=URL, api_key=key, max_retries=max_retries, default_headers=headers(**mock))


def ask(sdk, **more):
    return sdk.messages.create(**{"model": MODEL, "max_tokens": 100, "messages": HELLO, **more})


def check_message():
    answer = ask(client())
    equal((answer.type, answer.role, answer.stop_reason), ("message", "assistant", "end_turn"))
    equal([(b.type, b.text) for b in answer.content], [("text", ECHO)])
    equal((answer.usage.input_tokens, answer.usage.output_tokens), (2, 4))


def check_system_and_blocks():
    blocks = [{"role": "user", "content": [{"type": "text", "text": "hello blocks"}]}]
    answer = ask(client(), system="be kind", messages=blocks)
    equal(answer.content[0].text, "You said: hello blocks")


def check_maximum_is_reported():
    equal(ask(client(), max_tokens=2).stop_reason, "max_tokens")


def check_stream():
    with client().messages.stream(model=MODEL, max_tokens=100, messages=HELLO) as stream:
        said = list(stream.text_stream)
        answer = stream.get_final_message()
    equal("".join(said), ECHO)
    equal(answer.stop_reason, "end_turn")
    equal(answer.usage.output_tokens, 4)


def check_raw_stream_events():
    kinds = [event.type for event in ask(client(), stream=True)]
    equal((kinds[0], kinds[-1]), ("message_start", "message_stop"))
    for kind in ("content_block_start", "content_block_delta", "content_block_stop", "message_delta"):
        if kind not in kinds:
            raise AssertionError(f"no {kind} in {kinds}")


async def check_async_stream():
    async with anthropic.AsyncAnthropic(base_url=URL, api_key=KEY, max_retries=0, default_headers=headers()) as sdk:
        async with sdk.messages.stream(model=MODEL, max_tokens=100, messages=HELLO) as stream:
            said = [text async for text in stream.text_stream]
    equal("".join(said), ECHO)


def check_tool_use_and_its_result():
    answer = ask(client(), tools=[WEATHER], tool_choice={"type": "tool", "name": "weather"})
    equal(answer.stop_reason, "tool_use")
    use = [b for b in answer.content if b.type == "tool_use"][0]
    equal((use.name, use.input), ("weather", CALLED))
    history = [
        *HELLO,
        {"role": "assistant", "content": [b.to_dict() for b in answer.content]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "rain"}]},
    ]
    answer = ask(client(), tools=[WEATHER], messages=history)
    equal(answer.content[0].text, "You said: rain")


def check_streamed_tool_use():
    with client().messages.stream(
        model=MODEL, max_tokens=100, messages=HELLO, tools=[WEATHER], tool_choice={"type": "any"}
    ) as stream:
        kinds = {event.type for event in stream}
        answer = stream.get_final_message()
    if "input_json" not in kinds:
        raise AssertionError(f"no input deltas in {kinds}")
    use = [b for b in answer.content if b.type == "tool_use"][0]
    equal((use.name, use.input), ("weather", CALLED))
    equal(answer.stop_reason, "tool_use")


def check_images_and_documents():
    blocks = [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
        {"type": "text", "text": "hello there"},
    ]
    equal(ask(client(), messages=[{"role": "user", "content": blocks}]).content[0].text, ECHO)
    document = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}}
    with_document = lambda: ask(client(), messages=[{"role": "user", "content": [document, *blocks]}])
    if FAMILY == "cohere":
        # It takes no files, and says so.
        error = raises(anthropic.BadRequestError, with_document)
        equal(error.body["error"]["type"], "invalid_request_error")
    else:
        equal(with_document().content[0].text, ECHO)


def check_structured_output():
    schema = {"type": "object", "properties": {"good": {"type": "boolean"}}, "required": ["good"]}
    answer = ask(client(), output_config={"format": {"type": "json_schema", "schema": schema}})
    equal(json.loads(answer.content[0].text), {"good": True})


def check_count_tokens_counts():
    count = client().messages.count_tokens(model=MODEL, messages=HELLO)
    if not 0 < count.input_tokens < 20:
        raise AssertionError(count)


def check_raw_headers():
    raw = client().messages.with_raw_response.create(
        model=MODEL, max_tokens=100, messages=HELLO, extra_headers={"x-gateway-trace-id": "sdk-trace"}
    )
    equal(raw.headers["x-gateway-trace-id"], "sdk-trace")


def check_unknown_key_is_401():
    error = raises(anthropic.AuthenticationError, lambda: ask(client(key="no-such-key")))
    equal(error.body["type"], "error")
    equal(error.body["error"]["type"], "authentication_error")


def check_missing_messages_is_400():
    error = raises(anthropic.BadRequestError, lambda: ask(client(), messages=[]))
    equal(error.body["error"]["type"], "invalid_request_error")
    if "messages" not in error.message:
        raise AssertionError(error.message)


def check_upstream_404():
    error = raises(anthropic.NotFoundError, lambda: ask(client(status=404)))
    equal(error.body["error"]["type"], "not_found_error")


def check_429_keeps_its_headers():
    error = raises(anthropic.RateLimitError, lambda: ask(client(status=429, retry_after=7)))
    equal(error.response.headers["retry-after"], "7")
    equal(error.body["error"]["type"], "rate_limit_error")


def check_the_sdk_retries_on_its_own():
    sdk = client(max_retries=2, fail_first=1, status=429, retry_after_ms=1, id=f"py-anthropic-{FAMILY}")
    equal(ask(sdk).content[0].text, ECHO)


def check_an_error_in_the_stream_is_raised():
    def read():
        for _ in ask(client(fault="error-mid"), stream=True):
            pass

    raises(anthropic.APIStatusError, read)


if FAMILY == "anthropic":

    def check_count_tokens():
        equal(client().messages.count_tokens(model=MODEL, messages=HELLO).input_tokens, 2)

    def check_models():
        ids = [model.id for model in client().models.list()]
        if "mock-large" not in ids:
            raise AssertionError(ids)


if __name__ == "__main__":
    run(sys.modules["__main__"])
