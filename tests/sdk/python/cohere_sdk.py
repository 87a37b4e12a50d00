"""The official `cohere` package on Cohere's own API, passed through: chat, embed, rerank."""

import json
import sys

import cohere
import httpx
from cohere.errors import TooManyRequestsError, UnauthorizedError

from checks import KEY, URL, equal, raises, run
from plan import ASKED, CALLS, CITY, DOES, END, MODELS, PIXEL, answer, comes, left, named, seen

SLUG = "story-cohere"
MODEL = MODELS[SLUG]
TOOLS = [{"type": "function", "function": {"name": name, "description": DOES[name], "parameters": CITY}} for name in DOES]


def client(key=KEY, slug=SLUG, kind=cohere.ClientV2, http=httpx.Client):
    # The SDK has no place for headers of all calls but its HTTP client.
    return kind(api_key=key, base_url=f"{URL}/v1/proxy", httpx_client=http(headers={"x-gateway-provider": f"@{slug}"}))


def said(content):
    return [{"role": "user", "content": content}]


def check_chat():
    made = client().chat(model=MODEL, messages=said("hello there"))
    equal((made.message.content[0].text, made.finish_reason), ("You said: hello there", "COMPLETE"))
    equal((made.usage.tokens.input_tokens, made.usage.tokens.output_tokens), (50, 8))


def check_the_provider_named_in_each_call():
    sdk = cohere.ClientV2(api_key=KEY, base_url=f"{URL}/v1/proxy")
    options = {"additional_headers": {"x-gateway-provider": f"@{SLUG}"}}
    made = sdk.chat(model=MODEL, messages=said("hello there"), request_options=options)
    equal(made.message.content[0].text, "You said: hello there")


def check_the_provider_named_by_the_model():
    sdk = cohere.ClientV2(api_key=KEY, base_url=f"{URL}/v1/proxy")
    equal(sdk.chat(model=named(SLUG), messages=said("hello there")).message.content[0].text, "You said: hello there")
    equal([one.index for one in sdk.rerank(model=f"@{SLUG}/rerank-story", query="which", documents=["a", "b"]).results], [0, 1])
    equal([one["body"]["model"] for one in seen()[-2:]], [MODEL, "rerank-story"])


def check_stream():
    events = list(client().chat_stream(model=MODEL, messages=said("hello there")))
    texts = [event.delta.message.content.text for event in events if event.type == "content-delta"]
    equal(("".join(texts), events[-1].type), ("You said: hello there", "message-end"))
    equal(len(texts), 4)


async def check_the_async_client():
    sdk = client(kind=cohere.AsyncClientV2, http=httpx.AsyncClient)
    stream = sdk.chat_stream(model=MODEL, messages=said("hello there"))
    texts = [event.delta.message.content.text async for event in stream if event.type == "content-delta"]
    equal("".join(texts), "You said: hello there")


def check_a_plan_of_three_steps():
    sdk, messages, called = client(), said(ASKED), []
    for _ in range(5):
        message = sdk.chat(model=MODEL, messages=messages, tools=TOOLS).message
        messages.append(message)
        if not message.tool_calls:
            break
        for call in message.tool_calls:
            arguments = json.loads(call.function.arguments)
            called.append((call.function.name, arguments))
            document = {"type": "document", "document": {"data": json.dumps({"said": answer(call.function.name, arguments)})}}
            messages.append({"role": "tool", "tool_call_id": call.id, "content": [document]})
    equal((message.content[0].text, called), (END, CALLS))


def check_json_and_an_image():
    made = client().chat(model=MODEL, messages=said("some json"), response_format={"type": "json_object", "json_schema": CITY})
    equal(json.loads(made.message.content[0].text), {"city": "mock"})
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    made = client().chat(model=MODEL, messages=said([{"type": "text", "text": "look"}, image]))
    equal(made.message.content[0].text, "I see 1 image.")


def check_embed():
    made = client().embed(model="embed-story", texts=["a", "b"], input_type="search_document", embedding_types=["float"])
    equal(made.embeddings.float_, [[0.5, -0.25, 1.0]] * 2)


def check_rerank():
    made = client().rerank(model="rerank-story", query="which", documents=["a", "b", "c"], top_n=2)
    equal([one.index for one in made.results], [0, 1])


def check_errors():
    error = raises(TooManyRequestsError, lambda: client().chat(model=MODEL, messages=said("error 429"), request_options={"max_retries": 0}))
    equal((error.body["message"], error.headers["retry-after"]), ("the provider says 429 as it was asked to", "7"))
    error = raises(UnauthorizedError, lambda: client("nobody").chat(model=MODEL, messages=said("hello")))
    if "key" not in json.dumps(error.body):
        raise AssertionError(error.body)
    error = raises(cohere.BadRequestError, lambda: client(slug="no-such").chat(model=MODEL, messages=said("hello")))
    if "no-such" not in json.dumps(error.body):
        raise AssertionError(error.body)


def check_retries_of_the_sdk():
    asked = "fail 1 times as cohere"
    equal(client().chat(model=MODEL, messages=said(asked)).message.content[0].text, f"You said: {asked}")


def check_a_stream_that_is_left_ends_upstream():
    before = left()
    stream = client().chat_stream(model=MODEL, messages=said("dawdle a while over these words"))
    next(iter(stream))
    stream.close()
    comes("the end of the provider's stream", lambda: left() > before)


def check_the_gateways_key_stays_here():
    client().chat(model=MODEL, messages=said("what do you see"))
    asked = [one for one in seen() if "what do you see" in json.dumps(one["body"])][-1]
    equal((asked["path"], asked["headers"]["authorization"]), ("/v2/chat", "Bearer sk-managed"))


if __name__ == "__main__":
    run(sys.modules["__main__"])
