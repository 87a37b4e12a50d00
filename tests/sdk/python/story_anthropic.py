"""The official `anthropic` package against strict providers of every dialect: conversations of several turns."""

import json
import sys

import anthropic
import pydantic
from anthropic import beta_tool

from checks import KEY, URL, equal, over, raises, run
from plan import ASKED, CALLS, CITY, DOES, END, EVERYWHERE, PIXEL, answer, comes, left, named, seen

TOOLS = [{"name": name, "description": DOES[name], "input_schema": CITY} for name in DOES]


def client(key=KEY, **more):
    return anthropic.Anthropic(base_url=URL, api_key=key, **{"max_retries": 0, **more})


def ask(slug, said, **more):
    asked = {"model": named(slug), "max_tokens": 4000, "messages": [{"role": "user", "content": said}], **more}
    return client().messages.create(**asked)


def loop(next_message):
    messages, called = [{"role": "user", "content": ASKED}], []
    for _ in range(5):
        message = next_message(messages)
        messages.append({"role": "assistant", "content": message.content})
        uses = [block for block in message.content if block.type == "tool_use"]
        if not uses:
            return message.content[-1].text, called
        called += [(use.name, use.input) for use in uses]
        results = [{"type": "tool_result", "tool_use_id": use.id, "content": answer(use.name, use.input)} for use in uses]
        messages.append({"role": "user", "content": results})
    raise AssertionError(f"no end: {called}")


@over(*EVERYWHERE)
def check_a_plan_of_three_steps(slug):
    sdk = client()
    asked = {"model": named(slug), "max_tokens": 4000, "tools": TOOLS}
    equal(loop(lambda messages: sdk.messages.create(messages=messages, **asked)), (END, CALLS))


@over(*EVERYWHERE)
def check_a_plan_with_thinking_streamed(slug):
    sdk, thoughts = client(), []
    thinking = {"type": "enabled", "budget_tokens": 1024}

    def next_message(messages):
        asked = {"model": named(slug), "max_tokens": 4000, "tools": TOOLS, "thinking": thinking, "messages": messages}
        with sdk.messages.stream(**asked) as stream:
            for event in stream:
                if event.type == "thinking":
                    thoughts.append(event.thinking)
            return stream.get_final_message()

    equal(loop(next_message), (END, CALLS))
    # Chat of OpenAI's tells no reasoning, and Cohere's thinks with models that are named so.
    if slug in ("story-claude", "story-gemini"):
        equal("".join(thoughts), "Rome is warmer than Paris." * 3)


@over(*EVERYWHERE)
def check_usage_and_a_cache(slug):
    system = [{"type": "text", "text": "be kind", "cache_control": {"type": "ephemeral"}}]
    usage = ask(slug, "hello", system=system).usage
    cached = 40 if slug in ("story-claude", "story-bedrock") else 0
    equal((usage.input_tokens, usage.cache_read_input_tokens or 0, usage.output_tokens), (50 - cached, cached, 8))
    with client().messages.stream(model=named(slug), max_tokens=100, system=system, messages=[{"role": "user", "content": "hello"}]) as stream:
        usage = stream.get_final_message().usage
    equal((usage.input_tokens, usage.output_tokens), (50 - cached, 8))


@over("story-openai", "story-claude", "story-gemini", "story-cohere")
def check_an_image(slug):
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    equal(ask(slug, [{"type": "text", "text": "look"}, image]).content[0].text, "I see 1 image.")


class Trip(pydantic.BaseModel):
    city: str
    days: int


@over(*EVERYWHERE)
def check_structured_output(slug):
    said = [{"role": "user", "content": "which trip"}]
    parsed = client().messages.parse(model=named(slug), max_tokens=100, messages=said, output_format=Trip)
    equal(parsed.parsed_output, Trip(city="mock", days=1))


@over(*EVERYWHERE)
def check_the_tool_runner(slug):
    called = []

    @beta_tool
    def weather(city: str) -> str:
        """Weather of a city.

        Args:
            city: its name
        """
        called.append(("weather", {"city": city}))
        return answer("weather", {"city": city})

    @beta_tool
    def book(city: str) -> str:
        """Books a trip to a city.

        Args:
            city: its name
        """
        called.append(("book", {"city": city}))
        return answer("book", {"city": city})

    asked = {"model": named(slug), "max_tokens": 4000, "messages": [{"role": "user", "content": ASKED}]}
    message = client().beta.messages.tool_runner(tools=[weather, book], **asked).until_done()
    equal((message.content[-1].text, called), (END, CALLS))


@over(*EVERYWHERE)
def check_a_thread(slug):
    """A conversation of which only Anthropic knows the beginning, and which others get whole."""
    more = {"unsupported_request_behavior": "continue_unthreaded"}
    thread = client().beta.messages.thread(model=named(slug), max_tokens=100, **more)
    thread.send({"role": "user", "content": "a first word"})
    equal(thread.send({"role": "user", "content": "a second word"}).content[0].text, "You said: a second word")
    asked = [one["body"] for one in seen() if "a second word" in json.dumps(one["body"])][-1]
    equal("a first word" in json.dumps(asked), slug != "story-claude")
    if slug != "story-claude":
        thread = client().beta.messages.thread(model=named(slug), max_tokens=100)
        error = raises(anthropic.BadRequestError, lambda: thread.send({"role": "user", "content": "hello"}))
        equal(error.body["error"]["details"]["error_code"], "thread_unsupported_request")


@over(*EVERYWHERE)
def check_tokens_are_counted(slug):
    count = client().messages.count_tokens(model=named(slug), messages=[{"role": "user", "content": "hello"}], tools=TOOLS)
    if not 0 < count.input_tokens < 500:
        raise AssertionError(count)


@over(*EVERYWHERE)
def check_an_error_of_the_provider(slug):
    error = raises(anthropic.RateLimitError, lambda: ask(slug, "error 429"))
    equal((error.response.headers["retry-after"], error.body["error"]["type"]), ("7", "rate_limit_error"))
    error = raises(anthropic.BadRequestError, lambda: ask(slug, "error 400", stream=True))
    if "as it was asked to" not in error.message:
        raise AssertionError(error.message)


@over(*EVERYWHERE)
def check_retries_of_the_sdk(slug):
    said = f"fail 2 times as anthropic-{slug}"
    made = client(max_retries=3).messages.create(model=named(slug), max_tokens=100, messages=[{"role": "user", "content": said}])
    equal(made.content[0].text, f"You said: {said}")


@over("story-openai", "story-claude")
def check_a_stream_that_is_left_ends_upstream(slug):
    before = left()
    stream = ask(slug, "dawdle a while over these words", stream=True)
    next(iter(stream))
    stream.close()
    comes("the end of the provider's stream", lambda: left() > before)


@over(*EVERYWHERE)
async def check_the_async_client(slug):
    async with anthropic.AsyncAnthropic(base_url=URL, api_key=KEY, max_retries=0) as sdk:
        async with sdk.messages.stream(model=named(slug), max_tokens=100, messages=[{"role": "user", "content": "hello there"}]) as stream:
            equal(await stream.get_final_text(), "You said: hello there")


def check_a_base_url_that_ends_in_the_version():
    sdk = anthropic.Anthropic(base_url=f"{URL}/v1", api_key=KEY, max_retries=0)
    made = sdk.messages.create(model=named("story-gemini"), max_tokens=100, messages=[{"role": "user", "content": "hello"}])
    equal(made.content[0].text, "You said: hello")


def check_a_key_as_a_bearer_token():
    sdk = anthropic.Anthropic(base_url=URL, auth_token=KEY, api_key=None, max_retries=0)
    made = sdk.messages.create(model=named("story-claude"), max_tokens=100, messages=[{"role": "user", "content": "hello"}])
    equal(made.content[0].text, "You said: hello")


def check_a_bad_key_and_a_bad_provider():
    said = [{"role": "user", "content": "x"}]
    error = raises(anthropic.AuthenticationError, lambda: client("nobody").messages.create(model="x", max_tokens=1, messages=said))
    equal(error.body["error"]["type"], "authentication_error")
    error = raises(anthropic.BadRequestError, lambda: client().messages.create(model="@no-such/x", max_tokens=1, messages=said))
    if "no-such" not in error.message:
        raise AssertionError(error.message)


def check_betas_reach_the_provider():
    client().beta.messages.create(
        model=named("story-claude"), max_tokens=100, messages=[{"role": "user", "content": "a beta"}], betas=["context-1m-2025-08-07"]
    )
    asked = [one for one in seen() if "a beta" in json.dumps(one["body"])][-1]
    own = [name for name in asked["headers"] if name.startswith(("x-stainless", "authorization", "x-gateway"))]
    equal((asked["headers"]["anthropic-beta"], asked["headers"]["x-api-key"], own), ("context-1m-2025-08-07", "sk-managed", []))


if __name__ == "__main__":
    run(sys.modules["__main__"])
