"""The official `AzureOpenAI` client against the gateway: its own paths, passed through, with the gateway's key for its own."""

import json
import sys

import openai

from checks import ECHO, HELLO, KEY, URL, equal, headers, raises, run

MODEL = "mock-large"
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def client(key=KEY, **mock):
    return openai.AzureOpenAI(
        azure_endpoint=f"{URL}/v1", api_key=key, api_version="2024-10-21", max_retries=0, default_headers=headers(**mock)
    )


def check_chat():
    answer = client().chat.completions.create(model=MODEL, messages=HELLO)
    equal(answer.choices[0].message.content, ECHO)
    equal(answer.usage.total_tokens, 6)


def check_chat_with_a_token_of_the_platform_for_key():
    sdk = openai.AzureOpenAI(
        azure_endpoint=f"{URL}/v1", azure_ad_token=KEY, api_version="2024-10-21", default_headers=headers()
    )
    equal(sdk.chat.completions.create(model=MODEL, messages=HELLO).choices[0].message.content, ECHO)


def check_stream():
    chunks = list(client().chat.completions.create(model=MODEL, messages=HELLO, stream=True))
    equal("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), ECHO)


def check_tool_call_and_image():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    said = [{"role": "user", "content": [{"type": "text", "text": "hello there"}, image]}]
    answer = client().chat.completions.create(model=MODEL, messages=said, tools=[WEATHER], tool_choice="required")
    call = answer.choices[0].message.tool_calls[0]
    equal((call.function.name, json.loads(call.function.arguments)), ("weather", {"city": "mock city"}))


def check_embeddings():
    equal(len(client().embeddings.create(model="mock-embedding", input="a").data[0].embedding), 8)


def check_errors():
    error = raises(openai.RateLimitError, lambda: client(status=429).chat.completions.create(model=MODEL, messages=HELLO))
    equal(error.type, "rate_limit_error")
    raises(openai.AuthenticationError, lambda: client("no-such-key").chat.completions.create(model=MODEL, messages=HELLO))


if __name__ == "__main__":
    run(sys.modules["__main__"])
