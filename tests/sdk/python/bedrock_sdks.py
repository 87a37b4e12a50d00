"""The official `openai` and `anthropic` packages on a model of Bedrock, behind signatures that botocore checks."""

import json
import sys

import anthropic
import openai

import boto3_sdk
from checks import KEY, URL, equal, raises, run

PORT = boto3_sdk.serve()
MODEL = boto3_sdk.MODEL
HELLO = [{"role": "user", "content": "Hi"}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PIXEL = "iVBORw0KGgo="


def read(stream):
    """All events, and what ended them."""
    events = []
    try:
        for event in stream:
            events.append(event)
            boto3_sdk.BEGUN.set()
        return events, None
    except Exception as error:
        return events, error


def extra():
    made = boto3_sdk.headers(PORT, "AKIDOFTHEGATEWAY", "eu-central-1")
    return {name: value for name, value in made.items() if name != "x-gateway-api-key"}


def gpt():
    # The credential is that of the headers, so the gateway's key must have a place of its own.
    told = {**extra(), "x-gateway-api-key": KEY}
    return openai.OpenAI(base_url=f"{URL}/v1", api_key="unused", max_retries=0, default_headers=told)


def claude():
    told = {**extra(), "x-gateway-api-key": KEY}
    return anthropic.Anthropic(base_url=URL, api_key="unused", max_retries=0, default_headers=told)


def check_chat():
    answer = gpt().chat.completions.create(model=MODEL, messages=HELLO)
    equal((answer.choices[0].message.content, answer.usage.total_tokens), ("Hello", 5))
    chunks = gpt().chat.completions.create(model=MODEL, messages=HELLO, stream=True)
    equal("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), "Hello")


def check_chat_with_tool_and_image():
    tool = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    said = [{"role": "user", "content": [{"type": "text", "text": "Hi"}, image]}]
    asked = {"model": MODEL, "messages": said, "tools": [tool], "tool_choice": "required"}
    call = gpt().chat.completions.create(**asked).choices[0].message.tool_calls[0]
    equal((call.function.name, json.loads(call.function.arguments)), ("weather", {"city": "Rome"}))
    sent = json.loads(boto3_sdk.SEEN[-1][2])["messages"][0]["content"][1]
    equal(sent, {"image": {"format": "png", "source": {"bytes": PIXEL}}})
    with gpt().chat.completions.stream(**asked) as stream:
        call = stream.get_final_completion().choices[0].message.tool_calls[0]
    equal(json.loads(call.function.arguments), {"city": "Rome"})


def check_chat_errors():
    throttled = [{"role": "user", "content": "throttle"}]
    error = raises(openai.RateLimitError, lambda: gpt().chat.completions.create(model=MODEL, messages=throttled))
    equal((error.type, "slow down" in error.message), ("ThrottlingException", True))
    broken = [{"role": "user", "content": "break"}]
    events, error = read(gpt().chat.completions.create(model=MODEL, messages=broken, stream=True))
    equal((isinstance(error, openai.APIError), "broke off" in str(error)), (True, True))
    equal("".join(c.choices[0].delta.content or "" for c in events), "Hel")


def check_response():
    tool = {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}
    equal(gpt().responses.create(model=MODEL, input="Hi").output_text, "Hello")
    with gpt().responses.stream(model=MODEL, input="Hi", tools=[tool], tool_choice="required") as stream:
        call = [item for item in stream.get_final_response().output if item.type == "function_call"][0]
    equal(json.loads(call.arguments), {"city": "Rome"})
    events, _ = read(gpt().responses.create(model=MODEL, input="break", stream=True))
    equal([event.type for event in events][-2:], ["error", "response.failed"])


def check_message():
    asked = {"model": MODEL, "max_tokens": 50, "messages": HELLO}
    answer = claude().messages.create(**asked)
    equal((answer.content[0].text, answer.stop_reason, answer.usage.output_tokens), ("Hello", "end_turn", 2))
    tool = {"name": "weather", "input_schema": SCHEMA}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    asked["messages"] = [{"role": "user", "content": [{"type": "text", "text": "Hi"}, image]}]
    with claude().messages.stream(**asked, tools=[tool], tool_choice={"type": "any"}) as stream:
        answer = stream.get_final_message()
    equal((answer.content[0].name, answer.content[0].input, answer.stop_reason), ("weather", {"city": "Rome"}, "tool_use"))
    equal(claude().messages.count_tokens(model=MODEL, messages=HELLO).input_tokens, 7)


def check_message_errors():
    ask = lambda said, **more: claude().messages.create(
        model=MODEL, max_tokens=50, messages=[{"role": "user", "content": said}], **more
    )
    error = raises(anthropic.RateLimitError, lambda: ask("throttle"))
    equal(error.body["error"]["type"], "rate_limit_error")
    events, error = read(ask("break", stream=True))
    equal((isinstance(error, anthropic.APIStatusError), "broke off" in str(error)), (True, True))
    equal([event.delta.text for event in events if event.type == "content_block_delta"], ["Hel"])


if __name__ == "__main__":
    run(sys.modules["__main__"])
