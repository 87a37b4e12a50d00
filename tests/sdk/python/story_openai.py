"""The official `openai` package against strict providers of every dialect: conversations of several turns."""

import json
import sys

import openai
import pydantic

from checks import KEY, URL, equal, over, raises, run
from plan import ASKED, CALLS, CITY, DOES, END, EVERYWHERE, MODELS, PIXEL, answer, comes, left, named, seen

TOOLS = [{"type": "function", "function": {"name": name, "description": DOES[name], "parameters": CITY, "strict": True}} for name in DOES]
FLAT = [{"type": "function", "name": name, "description": DOES[name], "parameters": CITY, "strict": True} for name in DOES]


def client(key=KEY, **more):
    return openai.OpenAI(base_url=f"{URL}/v1", api_key=key, **{"max_retries": 0, **more})


def chat(slug, said, **more):
    return client().chat.completions.create(model=named(slug), messages=[{"role": "user", "content": said}], **more)


def loop(ask):
    """Calls tools until there is nothing more to call: `ask` gives the next message of the assistant."""
    messages, called = [{"role": "user", "content": ASKED}], []
    for _ in range(5):
        message = ask(messages)
        messages.append(message.to_dict())
        if not message.tool_calls:
            return message.content, called
        for call in message.tool_calls:
            arguments = json.loads(call.function.arguments)
            called.append((call.function.name, arguments))
            said = answer(call.function.name, arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": said})
    raise AssertionError(f"no end: {called}")


@over(*EVERYWHERE)
def check_a_plan_of_three_steps(slug):
    sdk = client()
    asked = {"model": named(slug), "tools": TOOLS, "parallel_tool_calls": True}
    said = loop(lambda messages: sdk.chat.completions.create(messages=messages, **asked).choices[0].message)
    equal(said, (END, CALLS))


@over(*EVERYWHERE)
def check_a_plan_streamed(slug):
    sdk = client()

    def ask(messages):
        asked = {"model": named(slug), "messages": messages, "tools": TOOLS, "stream_options": {"include_usage": True}}
        with sdk.chat.completions.stream(**asked) as stream:
            whole = stream.get_final_completion()
        equal(whole.usage.total_tokens, 58)
        return whole.choices[0].message

    equal(loop(ask), (END, CALLS))


@over("story-openai", "story-claude", "story-gemini")
def check_a_plan_with_reasoning(slug):
    sdk = client()
    asked = {"model": named(slug), "tools": TOOLS, "reasoning_effort": "low", "max_completion_tokens": 4000}
    said = loop(lambda messages: sdk.chat.completions.create(messages=messages, **asked).choices[0].message)
    equal(said, (END, CALLS))


@over(*EVERYWHERE)
def check_usage(slug):
    usage = chat(slug, "hello", **({"prompt_cache_key": "k"} if slug == "story-openai" else {})).usage
    equal((usage.prompt_tokens, usage.completion_tokens, usage.total_tokens), (50, 8, 58))


def check_usage_of_a_cache():
    parts = [{"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}]
    messages = [{"role": "system", "content": parts}, {"role": "user", "content": "hello"}]
    usage = client().chat.completions.create(model=named("story-claude"), messages=messages).usage
    equal((usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens), (50, 40))


@over("story-openai", "story-claude", "story-gemini", "story-cohere")
def check_an_image(slug):
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}", "detail": "low"}}
    said = [{"role": "user", "content": [{"type": "text", "text": "look"}, image]}]
    equal(client().chat.completions.create(model=named(slug), messages=said).choices[0].message.content, "I see 1 image.")


class Trip(pydantic.BaseModel):
    city: str
    days: int


@over(*EVERYWHERE)
def check_structured_output(slug):
    said = [{"role": "user", "content": "which trip"}]
    answer = client().chat.completions.parse(model=named(slug), messages=said, response_format=Trip)
    equal(answer.choices[0].message.parsed, Trip(city="mock", days=1))


@over(*EVERYWHERE)
def check_any_json(slug):
    json.loads(chat(slug, "some json", response_format={"type": "json_object"}).choices[0].message.content)


@over(*EVERYWHERE)
def check_an_error_of_the_provider(slug):
    error = raises(openai.RateLimitError, lambda: chat(slug, "error 429"))
    equal((error.status_code, error.response.headers["retry-after"]), (429, "7"))
    if "as it was asked to" not in error.message:
        raise AssertionError(error.message)
    error = raises(openai.BadRequestError, lambda: chat(slug, "error 400", stream=True))
    if "as it was asked to" not in error.message:
        raise AssertionError(error.message)


@over(*EVERYWHERE)
def check_retries_of_the_sdk(slug):
    said = [{"role": "user", "content": f"fail 2 times as openai-{slug}"}]
    answer = client(max_retries=3).chat.completions.create(model=named(slug), messages=said)
    equal(answer.choices[0].message.content, f"You said: {said[0]['content']}")


@over("story-openai", "story-claude")
def check_a_stream_that_is_left_ends_upstream(slug):
    before = left()
    stream = chat(slug, "dawdle a while over these words", stream=True)
    next(iter(stream))
    stream.close()
    comes("the end of the provider's stream", lambda: left() > before)


def check_a_timeout_of_the_sdk():
    before = left()
    sdk = client(timeout=0.5)
    said = [{"role": "user", "content": "dawdle a while over these words"}]
    raises(openai.APITimeoutError, lambda: list(sdk.chat.completions.create(model=named("story-claude"), messages=said, stream=True)))
    comes("the end of the provider's stream", lambda: left() > before)


@over("story-openai", "story-gemini", "story-cohere", "story-mistral")
def check_embeddings(slug):
    # The SDK asks for base64 on its own.
    more = {"extra_body": {"input_type": "search_document"}} if slug == "story-cohere" else {}
    made = client().embeddings.create(model=named(slug), input=["a", "b"], **more)
    equal([one.embedding for one in made.data], [[0.5, -0.25, 1.0]] * 2)


@over(*EVERYWHERE)
async def check_the_async_client(slug):
    async with openai.AsyncOpenAI(base_url=f"{URL}/v1", api_key=KEY, max_retries=0) as sdk:
        asked = {"model": named(slug), "messages": [{"role": "user", "content": "hello there"}]}
        stream = await sdk.chat.completions.create(stream=True, **asked)
        said = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
    equal("".join(said), "You said: hello there")


@over(*EVERYWHERE)
def check_responses_of_three_steps(slug):
    sdk, history, called = client(), [{"role": "user", "content": ASKED}], []
    for _ in range(5):
        made = sdk.responses.create(model=named(slug), input=history, tools=FLAT, store=False, include=["reasoning.encrypted_content"])
        history += made.output
        calls = [item for item in made.output if item.type == "function_call"]
        if not calls:
            break
        for call in calls:
            arguments = json.loads(call.arguments)
            called.append((call.name, arguments))
            output = answer(call.name, arguments)
            history.append({"type": "function_call_output", "call_id": call.call_id, "output": output})
    equal((made.output_text, called), (END, CALLS))
    equal((made.usage.input_tokens, made.usage.output_tokens), (50, 8))


@over(*EVERYWHERE)
def check_responses_structured(slug):
    equal(client().responses.parse(model=named(slug), input="which trip", text_format=Trip, store=False).output_parsed, Trip(city="mock", days=1))


@over("story-claude", "story-gemini", "story-cohere")
def check_what_a_response_refers_to_names_the_way_out(slug):
    asked = [{"type": "item_reference", "id": "msg_1"}, {"role": "user", "content": "hello"}]
    error = raises(openai.BadRequestError, lambda: client().responses.create(model=named(slug), input=asked))
    if "store" not in error.message:
        raise AssertionError(error.message)


def check_a_bad_key_and_a_bad_provider():
    error = raises(openai.AuthenticationError, lambda: client("nobody").chat.completions.create(model="x", messages=[]))
    equal(error.status_code, 401)
    error = raises(openai.BadRequestError, lambda: client().chat.completions.create(model="@no-such/x", messages=[{"role": "user", "content": "x"}]))
    if "no-such" not in error.message:
        raise AssertionError(error.message)


def check_what_the_sdk_sends_of_its_own_stays_here():
    chat("story-claude", "what do you see")
    asked = [one for one in seen() if "what do you see" in json.dumps(one["body"])][-1]
    own = [name for name in asked["headers"] if name.startswith(("x-stainless", "openai", "authorization", "x-gateway"))]
    equal((own, asked["headers"]["x-api-key"], asked["body"]["model"]), ([], "sk-managed", MODELS["story-claude"]))


if __name__ == "__main__":
    run(sys.modules["__main__"])
