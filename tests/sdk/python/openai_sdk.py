"""The official `openai` package against the gateway."""

import json
import sys

import openai
import pydantic

from checks import ECHO, FAMILY, HELLO, KEY, PROVIDER, URL, equal, headers, raises, run

MODEL = "mock-large"
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city", "days"],
            "additionalProperties": False,
        },
    },
}
CALLED = {"city": "mock city", "days": 1}
# Where the provider has the Responses API itself; elsewhere it is made of chat.
NATIVE = PROVIDER in ("@oa", "@azure", "@mistral")
PIXEL = "data:image/png;base64,iVBORw0KGgo="


def client(key=KEY, max_retries=0, **mock):
    return openai.OpenAI(
        base_url=f"{URL}/v1", api_key=key, max_retries=max_retries, default_headers=headers(**mock)
    )


def check_chat():
    answer = client().chat.completions.create(model=MODEL, messages=HELLO)
    equal(answer.object, "chat.completion")
    equal(answer.choices[0].message.role, "assistant")
    equal(answer.choices[0].message.content, ECHO)
    equal(answer.choices[0].finish_reason, "stop")
    equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)
    equal((answer.usage.prompt_tokens, answer.usage.completion_tokens), (2, 4))


def check_chat_with_content_parts_and_system():
    parts = [{"type": "text", "text": "hello"}, {"type": "text", "text": "parts"}]
    messages = [{"role": "system", "content": "be kind"}, {"role": "user", "content": parts}]
    answer = client().chat.completions.create(model=MODEL, messages=messages, temperature=0.2, stop=["x", "y"])
    equal(answer.choices[0].message.content.split(), ["You", "said:", "hello", "parts"])


def check_chat_with_an_image():
    parts = [{"type": "text", "text": "hello there"}, {"type": "image_url", "image_url": {"url": PIXEL}}]
    answer = client().chat.completions.create(model=MODEL, messages=[{"role": "user", "content": parts}])
    equal(answer.choices[0].message.content, ECHO)


def check_length_is_reported():
    answer = client().chat.completions.create(model=MODEL, messages=HELLO, max_tokens=2)
    equal(answer.choices[0].finish_reason, "length")


def check_stream():
    chunks = list(client().chat.completions.create(model=MODEL, messages=HELLO, stream=True))
    equal("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), ECHO)
    equal([c.choices[0].finish_reason for c in chunks if c.choices][-1], "stop")
    equal({c.object for c in chunks}, {"chat.completion.chunk"})
    equal(chunks[0].choices[0].delta.role, "assistant")


def check_stream_with_usage():
    chunks = list(
        client().chat.completions.create(
            model=MODEL, messages=HELLO, stream=True, stream_options={"include_usage": True}
        )
    )
    usage = [c.usage for c in chunks if c.usage]
    equal((usage[-1].prompt_tokens, usage[-1].completion_tokens), (2, 4))
    equal(chunks[-1].usage, usage[-1])
    # A translated stream tells it with its finish as well.
    equal({u.total_tokens for u in usage}, {6})
    if FAMILY == "openai":
        equal(len(usage), 1)


async def check_async_stream():
    async with openai.AsyncOpenAI(
        base_url=f"{URL}/v1", api_key=KEY, max_retries=0, default_headers=headers()
    ) as sdk:
        stream = await sdk.chat.completions.create(model=MODEL, messages=HELLO, stream=True)
        said = [c.choices[0].delta.content or "" async for c in stream if c.choices]
    equal("".join(said), ECHO)


def check_tool_call_and_its_result():
    named = {"type": "function", "function": {"name": "weather"}}
    answer = client().chat.completions.create(model=MODEL, messages=HELLO, tools=[WEATHER], tool_choice=named)
    equal(answer.choices[0].finish_reason, "tool_calls")
    call = answer.choices[0].message.tool_calls[0]
    equal((call.function.name, json.loads(call.function.arguments)), ("weather", CALLED))
    history = [
        *HELLO,
        answer.choices[0].message.to_dict(),
        {"role": "tool", "tool_call_id": call.id, "content": "rain"},
    ]
    answer = client().chat.completions.create(model=MODEL, messages=history, tools=[WEATHER])
    equal(answer.choices[0].message.content, "You said: rain")


def check_streamed_tool_call():
    with client().chat.completions.stream(
        model=MODEL, messages=HELLO, tools=[WEATHER], tool_choice="required"
    ) as stream:
        kinds = {event.type for event in stream}
        answer = stream.get_final_completion()
    if "tool_calls.function.arguments.delta" not in kinds:
        raise AssertionError(f"no argument deltas in {kinds}")
    call = answer.choices[0].message.tool_calls[0]
    equal((call.function.name, json.loads(call.function.arguments)), ("weather", CALLED))
    equal(answer.choices[0].finish_reason, "tool_calls")


class Verdict(pydantic.BaseModel):
    good: bool
    score: int


def check_structured_output():
    answer = client().chat.completions.parse(model=MODEL, messages=HELLO, response_format=Verdict)
    equal(answer.choices[0].message.parsed, Verdict(good=True, score=1))


def check_raw_headers():
    raw = client().chat.completions.with_raw_response.create(
        model=MODEL, messages=HELLO, extra_headers={"x-gateway-trace-id": "sdk-trace"}
    )
    equal(raw.headers["x-gateway-trace-id"], "sdk-trace")
    equal(raw.headers["x-gateway-retry-attempt-count"], "0")
    equal(raw.parse().choices[0].message.content, ECHO)


def check_unknown_key_is_401():
    error = raises(
        openai.AuthenticationError,
        lambda: client(key="no-such-key").chat.completions.create(model=MODEL, messages=HELLO),
    )
    equal(error.status_code, 401)
    if not error.body["message"]:
        raise AssertionError(f"no message in {error.body}")


def check_bound_is_400_and_names_the_field():
    error = raises(
        openai.BadRequestError,
        lambda: client().chat.completions.create(model=MODEL, messages=HELLO, temperature=9),
    )
    equal(error.param, "temperature")
    if "temperature" not in error.message:
        raise AssertionError(error.message)


def check_upstream_404():
    error = raises(
        openai.NotFoundError,
        lambda: client(status=404).chat.completions.create(model=MODEL, messages=HELLO),
    )
    if "404" not in error.message:
        raise AssertionError(error.message)


def check_429_keeps_its_headers():
    sdk = client(status=429, retry_after=7)
    error = raises(openai.RateLimitError, lambda: sdk.chat.completions.create(model=MODEL, messages=HELLO))
    equal(error.response.headers["retry-after"], "7")
    # The provider's own word, where it has one.
    equal(error.type, {"google": "RESOURCE_EXHAUSTED", "cohere": None}.get(FAMILY, "rate_limit_error"))


def check_the_sdk_retries_on_its_own():
    sdk = client(max_retries=2, fail_first=1, status=429, retry_after_ms=1, id=f"py-openai-{FAMILY}")
    answer = sdk.chat.completions.create(model=MODEL, messages=HELLO)
    equal(answer.choices[0].message.content, ECHO)


def check_an_error_in_the_stream_is_raised():
    def read():
        for _ in client(fault="error-mid").chat.completions.create(model=MODEL, messages=HELLO, stream=True):
            pass

    raises(openai.APIError, read)


def check_a_broken_stream_is_no_clean_end():
    said = []

    def read():
        stream = client(fault="reset-body").chat.completions.create(model=MODEL, messages=HELLO, stream=True)
        for chunk in stream:
            said.extend(c.delta.content for c in chunk.choices if c.delta.content)

    raises(openai.APIError, read)
    if not said:
        raise AssertionError("what came before the break was lost")


WEATHER_TOOL = {"type": "function", "name": "weather", "parameters": WEATHER["function"]["parameters"], "strict": True}


def check_response():
    answer = client().responses.create(model=MODEL, input="hello there", instructions="be kind")
    equal((answer.object, answer.status, answer.output_text), ("response", "completed", ECHO))
    equal(answer.usage.total_tokens, answer.usage.input_tokens + answer.usage.output_tokens)
    equal(answer.instructions, "be kind")

def check_response_with_image_and_history():
    parts = [{"type": "input_text", "text": "hello there"}, {"type": "input_image", "image_url": PIXEL, "detail": "auto"}]
    first = client().responses.create(model=MODEL, input=[{"role": "user", "content": parts}])
    equal(first.output_text, ECHO)
    history = [{"role": "user", "content": parts}, *first.output, {"role": "user", "content": "and now"}]
    equal(client().responses.create(model=MODEL, input=history).output_text, "You said: and now")

def check_response_stream():
    events = list(client().responses.create(model=MODEL, input="hello there", stream=True))
    equal([event.sequence_number for event in events], list(range(len(events))))
    kinds = [event.type for event in events]
    equal((kinds[0], kinds[1], kinds[-1]), ("response.created", "response.in_progress", "response.completed"))
    equal("".join(event.delta for event in events if event.type == "response.output_text.delta"), ECHO)
    equal(events[-1].response.output_text, ECHO)

def check_response_stream_helper_and_tool():
    with client().responses.stream(
        model=MODEL, input="hello there", tools=[WEATHER_TOOL], tool_choice={"type": "function", "name": "weather"}
    ) as stream:
        kinds = {event.type for event in stream}
        answer = stream.get_final_response()
    if "response.function_call_arguments.delta" not in kinds:
        raise AssertionError(f"no argument deltas in {kinds}")
    call = [item for item in answer.output if item.type == "function_call"][0]
    equal((call.name, json.loads(call.arguments)), ("weather", CALLED))
    history = [{"role": "user", "content": "hello there"}, *answer.output]
    history.append({"type": "function_call_output", "call_id": call.call_id, "output": "rain"})
    answer = client().responses.create(model=MODEL, input=history, tools=[WEATHER_TOOL])
    equal(answer.output_text, "You said: rain")

def check_response_structured_output():
    answer = client().responses.parse(model=MODEL, input="hello there", text_format=Verdict)
    equal(answer.output_parsed, Verdict(good=True, score=1))

def check_response_errors():
    sdk = client(status=429, retry_after=7)
    error = raises(openai.RateLimitError, lambda: sdk.responses.create(model=MODEL, input="hello there"))
    equal(error.response.headers["retry-after"], "7")

def check_an_error_in_a_response_stream_fails_the_response():
    events = list(client(fault="error-mid").responses.create(model=MODEL, input="hello there", stream=True))
    kinds = [event.type for event in events]
    equal(kinds[-1], "error") if NATIVE else equal(kinds[-2:], ["error", "response.failed"])


def check_kept_responses():
    sdk = client()
    first = sdk.responses.create(model=MODEL, input="hello there", store=True)
    again = sdk.responses.create(model=MODEL, input="and now", previous_response_id=first.id)
    equal((again.previous_response_id, again.output_text), (first.id, "You said: and now"))
    equal(sdk.responses.retrieve(first.id).id, first.id)
    equal([item.role for item in sdk.responses.input_items.list(first.id)], ["user"])
    if NATIVE:
        equal(sdk.responses.cancel(first.id).status, "cancelled")
    sdk.responses.delete(first.id)
    if not NATIVE:
        raises(openai.BadRequestError, lambda: sdk.responses.retrieve(first.id))


if NATIVE:

    def check_a_response_of_nobody():
        error = raises(openai.NotFoundError, lambda: client().responses.retrieve("resp_of_nobody"))
        if "resp_of_nobody" not in error.message:
            raise AssertionError(error.message)

else:

    def check_what_needs_kept_responses_is_refused():
        previous = lambda: client().responses.create(model=MODEL, input="x", previous_response_id="resp_1")
        equal(raises(openai.BadRequestError, previous).param, "previous_response_id")
        raises(openai.BadRequestError, lambda: client().responses.retrieve("resp_1"))


if FAMILY == "openai":

    def check_embeddings():
        # The SDK asks for base64 on its own and decodes it.
        packed = client().embeddings.create(model="mock-embedding", input=["a", "b"])
        plain = client().embeddings.create(model="mock-embedding", input=["a", "b"], encoding_format="float")
        equal([d.embedding for d in packed.data], [d.embedding for d in plain.data])
        equal(len(packed.data[0].embedding), 8)
        equal([d.index for d in packed.data], [0, 1])

    def check_models():
        ids = [model.id for model in client().models.list()]
        if "mock-large" not in ids:
            raise AssertionError(ids)

    def check_completions():
        answer = client().completions.create(model="mock-instruct", prompt="once upon")
        equal(answer.choices[0].text, "You said: once upon")
        stream = client().completions.create(model="mock-instruct", prompt="once upon", stream=True)
        equal("".join(c.choices[0].text for c in stream if c.choices), "You said: once upon")


if __name__ == "__main__":
    run(sys.modules["__main__"])
