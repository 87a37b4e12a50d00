"""The official `google-genai` package on Gemini's own API, passed through to a strict provider."""

import base64
import json
import os
import sys

import pydantic
from google import genai
from google.genai import errors, types

from checks import KEY, URL, equal, over, raises, run
from plan import ASKED, CALLS, CITY, DOES, END, MODELS, PIXEL, answer, comes, left, seen

SLUG = "story-gemini"
MODEL = MODELS[SLUG]
TOOLS = [types.Tool(function_declarations=[types.FunctionDeclaration(name=name, description=DOES[name], parameters_json_schema=CITY) for name in DOES])]


# A client that nobody holds closes its connections, also under a call.
HELD = []


def client(key=KEY, slug=SLUG, base=f"{URL}/v1/proxy", **more):
    options = types.HttpOptions(base_url=base, headers={"x-gateway-provider": f"@{slug}"}, **more)
    HELD.append(genai.Client(api_key=key, http_options=options))
    return HELD[-1]


def ask(contents, sdk=None, **config):
    return (sdk or client()).models.generate_content(model=MODEL, contents=contents, config=types.GenerateContentConfig(**config))


# The root works since version 3, which asks for /v1; the others with whichever version of the API a client asks for.
@over("", "/v1", "/v1/proxy", "/v1/proxy/")
def check_base_urls(base):
    equal(ask("hello there", client(base=f"{URL}{base}")).text, "You said: hello there")
    equal(seen()[-1]["path"], f"/v1/models/{MODEL}:generateContent")


@over("v1", "v1beta")
def check_versions_of_the_api(version):
    equal(ask("hello there", client(api_version=version)).text, "You said: hello there")
    equal(seen()[-1]["path"], f"/{version}/models/{MODEL}:generateContent")


def loop(ask_once):
    contents, called = [types.UserContent(ASKED)], []
    for _ in range(5):
        content = ask_once(contents)
        contents.append(content)
        calls = [part.function_call for part in content.parts if part.function_call]
        if not calls:
            return "".join(part.text for part in content.parts if part.text and not part.thought), called
        called += [(call.name, call.args) for call in calls]
        results = [types.Part.from_function_response(name=call.name, response={"output": answer(call.name, call.args)}) for call in calls]
        contents.append(types.UserContent(results))
    raise AssertionError(f"no end: {called}")


def check_a_plan_of_three_steps():
    equal(loop(lambda contents: ask(contents, tools=TOOLS).candidates[0].content), (END, CALLS))


def check_a_plan_with_thinking_streamed():
    sdk, thoughts = client(), []
    config = types.GenerateContentConfig(tools=TOOLS, thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_level="low"))

    def ask_once(contents):
        parts = []
        for chunk in sdk.models.generate_content_stream(model=MODEL, contents=contents, config=config):
            parts += [part for part in chunk.candidates[0].content.parts if part.text != ""]
        thoughts.extend(part.text for part in parts if part.thought)
        return types.ModelContent(parts)

    equal(loop(ask_once), (END, CALLS))
    equal(thoughts, ["Rome is warmer than Paris."] * 3)


def check_functions_that_the_sdk_calls_itself():
    called = []

    def weather(city: str) -> str:
        """Weather of a city"""
        called.append(("weather", {"city": city}))
        return answer("weather", {"city": city})

    def book(city: str) -> str:
        """Books a trip to a city"""
        called.append(("book", {"city": city}))
        return answer("book", {"city": city})

    equal((ask(ASKED, tools=[weather, book]).text, called), (END, CALLS))


class Trip(pydantic.BaseModel):
    city: str
    days: int


def check_structured_output():
    equal(ask("which trip", response_mime_type="application/json", response_schema=Trip).parsed, Trip(city="mock", days=1))


def check_an_image():
    equal(ask(["look", types.Part.from_bytes(data=base64.b64decode(PIXEL), mime_type="image/png")]).text, "I see 1 image.")


def check_usage():
    usage = ask("hello", thinking_config=types.ThinkingConfig(include_thoughts=True)).usage_metadata
    equal((usage.prompt_token_count, usage.candidates_token_count, usage.thoughts_token_count), (50, 8, 3))


def check_embeddings_tokens_and_models():
    sdk = client()
    made = sdk.models.embed_content(model="gemini-embedding-001", contents=["a", "b"])
    equal([one.values for one in made.embeddings], [[0.5, -0.25, 1.0]] * 2)
    equal(sdk.models.count_tokens(model=MODEL, contents="hello").total_tokens, 50)
    equal([one.name for one in sdk.models.list()], [f"models/{MODEL}"])
    equal(sdk.models.get(model=MODEL).name, f"models/{MODEL}")


async def check_the_async_client():
    async with client().aio as sdk:
        said = [chunk.text or "" async for chunk in await sdk.models.generate_content_stream(model=MODEL, contents="hello there")]
    equal("".join(said), "You said: hello there")


def check_a_key_whose_config_names_the_provider():
    options = types.HttpOptions(base_url=f"{URL}/v1/proxy")
    HELD.append(genai.Client(api_key=os.environ["TEST_GEMINI_KEY"], http_options=options))
    equal(ask("hello there", HELD[-1]).text, "You said: hello there")


def check_errors():
    error = raises(errors.ClientError, lambda: ask("error 429"))
    equal((error.code, error.status, error.message), (429, "RESOURCE_EXHAUSTED", "the provider says 429 as it was asked to"))
    raises(errors.ServerError, lambda: ask("error 503"))
    error = raises(errors.ClientError, lambda: ask("hello", client("nobody")))
    equal((error.code, error.status), (401, "UNAUTHENTICATED"))
    if "key" not in error.message:
        raise AssertionError(error.message)
    error = raises(errors.ClientError, lambda: ask("hello", client(slug="no-such")))
    equal((error.code, error.status), (400, "INVALID_ARGUMENT"))
    if "no-such" not in error.message:
        raise AssertionError(error.message)


def check_retries_of_the_sdk():
    options = types.HttpRetryOptions(attempts=3, initial_delay=0.01, max_delay=0.02)
    asked = "fail 2 times as google"
    equal(ask(asked, client(retry_options=options)).text, f"You said: {asked}")


def check_a_stream_that_is_left_ends_upstream():
    before = left()
    stream = client().models.generate_content_stream(model=MODEL, contents="dawdle a while over these words")
    next(stream)
    stream.close()
    comes("the end of the provider's stream", lambda: left() > before)


def check_the_gateways_key_stays_here():
    ask("what do you see")
    asked = [one for one in seen() if "what do you see" in json.dumps(one["body"])][-1]
    equal((asked["headers"]["x-goog-api-key"], "x-gateway-provider" in asked["headers"]), ("sk-managed", False))


if __name__ == "__main__":
    run(sys.modules["__main__"])
