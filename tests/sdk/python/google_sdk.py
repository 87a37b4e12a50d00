"""The official `google-genai` package on Gemini's own API, passed through, with the gateway's key for its own."""

import sys

from google import genai
from google.genai import errors, types

from checks import ECHO, KEY, URL, equal, headers, raises, run

MODEL = "mock-large"
WEATHER = types.FunctionDeclaration(
    name="weather",
    description="Weather of a city",
    parameters_json_schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


def client(key=KEY, **mock):
    options = types.HttpOptions(base_url=f"{URL}/v1/proxy", headers=headers(**mock))
    return genai.Client(api_key=key, http_options=options)


def ask(sdk, contents="hello there", **config):
    return sdk.models.generate_content(model=MODEL, contents=contents, config=types.GenerateContentConfig(**config))


def check_content():
    answer = ask(client())
    equal(answer.text, ECHO)
    equal(answer.candidates[0].finish_reason, types.FinishReason.STOP)
    equal((answer.usage_metadata.prompt_token_count, answer.usage_metadata.candidates_token_count), (2, 4))


def check_stream():
    sdk = client()
    chunks = list(sdk.models.generate_content_stream(model=MODEL, contents="hello there"))
    equal("".join(chunk.text or "" for chunk in chunks), ECHO)
    if len(chunks) < 3:
        raise AssertionError(f"{len(chunks)} chunks")


async def check_async_stream():
    sdk, said = client(), []
    async for chunk in await sdk.aio.models.generate_content_stream(model=MODEL, contents="hello there"):
        said.append(chunk.text or "")
    equal("".join(said), ECHO)


def check_image():
    image = types.Part.from_bytes(data=b"\x89PNG", mime_type="image/png")
    equal(ask(client(), ["hello there", image]).text, ECHO)


def check_function_call_and_its_result():
    calling = types.ToolConfig(function_calling_config=types.FunctionCallingConfig(mode="ANY"))
    tools = [types.Tool(function_declarations=[WEATHER])]
    answer = ask(client(), tools=tools, tool_config=calling)
    call = answer.function_calls[0]
    equal((call.name, call.args), ("weather", {"city": "mock city"}))
    result = types.Part.from_function_response(name="weather", response={"output": "rain"})
    history = [types.UserContent("hello there"), answer.candidates[0].content, types.UserContent(result)]
    equal(ask(client(), history, tools=tools).text, "You said: rain")


def check_chat_of_two_turns():
    sdk = client()
    chat = sdk.chats.create(model=MODEL)
    equal(chat.send_message("hello there").text, ECHO)
    equal(chat.send_message("and now").text, "You said: and now")


def check_errors():
    error = raises(errors.ClientError, lambda: ask(client(status=429)))
    equal((error.code, error.status), (429, "RESOURCE_EXHAUSTED"))
    error = raises(errors.ClientError, lambda: ask(client("no-such-key")))
    equal(error.code, 401)
    raises(errors.ServerError, lambda: ask(client(status=503)))


if __name__ == "__main__":
    run(sys.modules["__main__"])
