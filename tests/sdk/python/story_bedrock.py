"""boto3 and `AnthropicBedrock` on Bedrock's native API, passed through to a strict provider.
"""

import base64
import json
import sys

import anthropic
import boto3
import botocore.config

from checks import KEY, URL, equal, over, raises, run
from plan import ASKED, CALLS, CITY, DOES, END, MODELS, PIXEL, answer, comes, left, seen

SLUG = "story-bedrock"
MODEL, CLAUDE = MODELS[SLUG], "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
TOOLS = [{"toolSpec": {"name": name, "description": DOES[name], "inputSchema": {"json": CITY}}} for name in DOES]


def client(key=KEY, slug=SLUG):
    config = botocore.config.Config(retries={"total_max_attempts": 1})
    # It signs with what it is given, which the gateway drops. As an API key the gateway's own would do over HTTPS alone.
    unused = {"aws_access_key_id": "unused", "aws_secret_access_key": "unused"}
    made = boto3.client("bedrock-runtime", region_name="us-east-1", endpoint_url=f"{URL}/v1/proxy", config=config, **unused)
    headers = {"x-gateway-api-key": key, "x-gateway-provider": f"@{slug}"}
    made.meta.events.register("before-send.bedrock-runtime", lambda request, **_: request.headers.update(headers))
    return made


def said(*content):
    return [{"role": "user", "content": list(content)}]


def gathered(stream):
    """The message that the events of `converse_stream` make."""
    blocks = {}
    for event in stream:
        if start := event.get("contentBlockStart"):
            blocks[start["contentBlockIndex"]] = {"toolUse": {**start["start"]["toolUse"], "input": ""}}
        if delta := event.get("contentBlockDelta"):
            block = blocks.setdefault(delta["contentBlockIndex"], {"text": ""})
            if "text" in delta["delta"]:
                block["text"] += delta["delta"]["text"]
            else:
                block["toolUse"]["input"] += delta["delta"]["toolUse"]["input"]
    for block in blocks.values():
        if "toolUse" in block:
            block["toolUse"]["input"] = json.loads(block["toolUse"]["input"])
    return {"role": "assistant", "content": [blocks[at] for at in sorted(blocks)]}


@over("whole", "streamed")
def check_a_plan_of_three_steps(way):
    sdk, messages, called = client(), said({"text": ASKED}), []
    for _ in range(5):
        asked = {"modelId": MODEL, "messages": messages, "toolConfig": {"tools": TOOLS}}
        message = sdk.converse(**asked)["output"]["message"] if way == "whole" else gathered(sdk.converse_stream(**asked)["stream"])
        messages.append(message)
        uses = [block["toolUse"] for block in message["content"] if "toolUse" in block]
        if not uses:
            break
        called += [(use["name"], use["input"]) for use in uses]
        results = [{"toolUseId": use["toolUseId"], "content": [{"text": answer(use["name"], use["input"])}]} for use in uses]
        messages.append({"role": "user", "content": [{"toolResult": result} for result in results]})
    equal((message["content"][0]["text"], called), (END, CALLS))


def check_usage_and_an_image():
    made = client().converse(modelId=MODEL, messages=said({"text": "look"}, {"image": {"format": "png", "source": {"bytes": base64.b64decode(PIXEL)}}}))
    equal((made["output"]["message"]["content"][0]["text"], made["usage"]["totalTokens"]), ("I see 1 image.", 58))


def check_errors():
    sdk = client()
    error = raises(sdk.exceptions.ClientError, lambda: sdk.converse(modelId=MODEL, messages=said({"text": "error 429"})))
    equal((error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Message"]), (429, "the provider says 429 as it was asked to"))
    error = raises(sdk.exceptions.ClientError, lambda: client("nobody").converse(modelId=MODEL, messages=said({"text": "hello"})))
    equal(error.response["ResponseMetadata"]["HTTPStatusCode"], 401)
    if "key" not in error.response["Error"]["Message"].lower():
        raise AssertionError(error.response)
    error = raises(sdk.exceptions.ClientError, lambda: client(slug="no-such").converse(modelId=MODEL, messages=said({"text": "hello"})))
    if "no-such" not in error.response["Error"]["Message"]:
        raise AssertionError(error.response)


def check_a_stream_that_is_left_ends_upstream():
    before = left()
    stream = client().converse_stream(modelId=MODEL, messages=said({"text": "dawdle a while over these words"}))["stream"]
    next(iter(stream))
    stream.close()
    comes("the end of the provider's stream", lambda: left() > before)


def claude(key=KEY):
    return anthropic.AnthropicBedrock(
        api_key=key, aws_region="us-east-1", base_url=f"{URL}/v1/proxy", default_headers={"x-gateway-provider": f"@{SLUG}"}, max_retries=0
    )


@over("whole", "streamed")
def check_claude_by_anthropics_own_client(way):
    sdk, messages, called = claude(), [{"role": "user", "content": ASKED}], []
    tools = [{"name": name, "description": DOES[name], "input_schema": CITY} for name in DOES]
    for _ in range(5):
        asked = {"model": CLAUDE, "max_tokens": 4000, "messages": messages, "tools": tools}
        if way == "whole":
            message = sdk.messages.create(**asked)
        else:
            with sdk.messages.stream(**asked) as stream:
                message = stream.get_final_message()
        messages.append({"role": "assistant", "content": message.content})
        uses = [block for block in message.content if block.type == "tool_use"]
        if not uses:
            break
        called += [(use.name, use.input) for use in uses]
        results = [{"type": "tool_result", "tool_use_id": use.id, "content": answer(use.name, use.input)} for use in uses]
        messages.append({"role": "user", "content": results})
    equal((message.content[-1].text, called), (END, CALLS))


def check_errors_of_claude():
    ask = lambda key, text: claude(key).messages.create(model=CLAUDE, max_tokens=10, messages=[{"role": "user", "content": text}])
    raises(anthropic.RateLimitError, lambda: ask(KEY, "error 429"))
    raises(anthropic.AuthenticationError, lambda: ask("nobody", "hello"))


def check_the_gateways_key_stays_here():
    client().converse(modelId=MODEL, messages=said({"text": "what do you see"}))
    asked = [one for one in seen() if "what do you see" in json.dumps(one["body"])][-1]
    equal((asked["headers"]["authorization"], "x-gateway-provider" in asked["headers"]), ("Bearer sk-managed", False))


if __name__ == "__main__":
    run(sys.modules["__main__"])
