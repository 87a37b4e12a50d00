"""The official `mistralai` package: it speaks chat, so that it reaches every provider, and what is Mistral's own passes through."""

import json
import sys

import pydantic
from mistralai.client import Mistral
from mistralai.client.errors import SDKError

from checks import KEY, URL, equal, over, raises, run
from plan import ASKED, CALLS, CITY, DOES, END, EVERYWHERE, PIXEL, answer, comes, left, named, seen

TOOLS = [{"type": "function", "function": {"name": name, "description": DOES[name], "parameters": CITY}} for name in DOES]


def client(key=KEY, **more):
    return Mistral(api_key=key, server_url=URL, **more)


def said(content):
    return [{"role": "user", "content": content}]


def ask(slug, content, **more):
    return client().chat.complete(model=named(slug), messages=said(content), **more)


@over(*EVERYWHERE)
def check_chat(slug):
    made = ask(slug, "hello there", max_tokens=100, temperature=0.3)
    equal((made.choices[0].message.content, made.choices[0].finish_reason), ("You said: hello there", "stop"))
    equal((made.usage.prompt_tokens, made.usage.completion_tokens, made.usage.total_tokens), (50, 8, 58))


@over(*EVERYWHERE)
def check_stream(slug):
    with client().chat.stream(model=named(slug), messages=said("hello there")) as stream:
        chunks = [event.data for event in stream]
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    equal("".join(texts), "You said: hello there")
    usage = [chunk.usage for chunk in chunks if chunk.usage]
    # The SDK cannot ask for it, and OpenAI tells it only who asks.
    if slug != "story-openai":
        equal((usage[-1].prompt_tokens, usage[-1].completion_tokens), (50, 8))


@over(*EVERYWHERE)
async def check_the_async_client(slug):
    async with client() as sdk:
        stream = await sdk.chat.stream_async(model=named(slug), messages=said("hello there"))
        texts = [event.data.choices[0].delta.content or "" async for event in stream if event.data.choices]
    equal("".join(texts), "You said: hello there")


@over(*EVERYWHERE)
def check_a_plan_of_three_steps(slug):
    sdk, messages, called = client(), said(ASKED), []
    for _ in range(5):
        message = sdk.chat.complete(model=named(slug), messages=messages, tools=TOOLS, tool_choice="auto").choices[0].message
        messages.append(message)
        if not message.tool_calls:
            break
        for call in message.tool_calls:
            arguments = json.loads(call.function.arguments)
            called.append((call.function.name, arguments))
            result = answer(call.function.name, arguments)
            messages.append({"role": "tool", "name": call.function.name, "tool_call_id": call.id, "content": result})
    equal((message.content, called), (END, CALLS))


class Trip(pydantic.BaseModel):
    city: str
    days: int


@over(*EVERYWHERE)
def check_structured_output(slug):
    made = client().chat.parse(Trip, model=named(slug), messages=said("which trip"))
    equal(made.choices[0].message.parsed, Trip(city="mock", days=1))


# OpenAI takes an address as an object only, and gets what the client sent.
@over("story-claude", "story-gemini", "story-cohere", "story-mistral")
def check_an_image(slug):
    image = {"type": "image_url", "image_url": f"data:image/png;base64,{PIXEL}"}
    equal(ask(slug, [{"type": "text", "text": "look"}, image]).choices[0].message.content, "I see 1 image.")


def check_a_base_url_that_ends_in_the_version():
    made = Mistral(api_key=KEY, server_url=f"{URL}/v1").chat.complete(model=named("story-claude"), messages=said("hello"))
    equal(made.choices[0].message.content, "You said: hello")


def check_mistrals_own_fields_reach_it():
    ask("story-mistral", "own fields", random_seed=7, safe_prompt=True, prompt_mode=None)
    asked = [one["body"] for one in seen() if "own fields" in json.dumps(one["body"])][-1]
    equal((asked["random_seed"], asked["safe_prompt"]), (7, True))


def check_embeddings():
    # The SDK asks of every answer an id, which Mistral's have and OpenAI's have not.
    made = client().embeddings.create(model=named("story-mistral"), inputs=["a", "b"])
    equal([one.embedding for one in made.data], [[0.5, -0.25, 1.0]] * 2)


def check_models():
    made = client().models.list(http_headers={"x-gateway-provider": "@story-mistral"})
    equal([one.id for one in made.data], ["mistral-story"])


@over(*EVERYWHERE)
def check_errors(slug):
    error = raises(SDKError, lambda: ask(slug, "error 429"))
    equal((error.status_code, error.headers["retry-after"]), (429, "7"))
    if "as it was asked to" not in error.body:
        raise AssertionError(error.body)


def check_a_bad_key_and_a_bad_provider():
    error = raises(SDKError, lambda: client("nobody").chat.complete(model="x", messages=said("x")))
    equal(error.status_code, 401)
    error = raises(SDKError, lambda: client().chat.complete(model="@no-such/x", messages=said("x")))
    if error.status_code != 400 or "no-such" not in error.body:
        raise AssertionError(error.body)


def check_a_stream_that_is_left_ends_upstream():
    before = left()
    with client().chat.stream(model=named("story-mistral"), messages=said("dawdle a while over these words")) as stream:
        next(iter(stream))
    comes("the end of the provider's stream", lambda: left() > before)


if __name__ == "__main__":
    run(sys.modules["__main__"])
