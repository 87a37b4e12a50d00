"""LangChain's packages for OpenAI, Anthropic and Google, unmodified, with the gateway's address and key."""

import sys

import anthropic
import openai
import pydantic
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_google_genai import ChatGoogleGenerativeAI, GoogleGenerativeAIEmbeddings
from langchain_google_genai.chat_models import ChatGoogleGenerativeAIError
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

from checks import KEY, URL, equal, over, raises, run
from plan import ASKED, CALLS, END, EVERYWHERE, MODELS, PIXEL, answer, named


def chat_openai(slug, key=KEY, **more):
    return ChatOpenAI(base_url=f"{URL}/v1", api_key=key, model=named(slug), **{"max_retries": 0, **more})


def chat_anthropic(slug, key=KEY, **more):
    return ChatAnthropic(base_url=URL, api_key=key, model=named(slug), **{"max_tokens": 4000, "max_retries": 0, **more})


def chat_google(slug, key=KEY, **more):
    header = {"x-gateway-provider": f"@{slug}"}
    return ChatGoogleGenerativeAI(
        base_url=f"{URL}/v1/proxy", api_key=key, model=MODELS[slug], additional_headers=header, **{"max_retries": 1, **more}
    )


WAYS = {"openai": chat_openai, "anthropic": chat_anthropic, "google": chat_google}
# Each class with every provider that it can ask.
ALL = [f"{way} {slug}" for way in ("openai", "anthropic") for slug in EVERYWHERE] + ["google story-gemini"]


def model(told, **more):
    way, slug = told.split()
    return WAYS[way](slug, **more)


@tool
def weather(city: str) -> str:
    """Weather of a city"""
    return answer("weather", {"city": city})


@tool
def book(city: str) -> str:
    """Books a trip to a city"""
    return answer("book", {"city": city})


TOOLS = {"weather": weather, "book": book}


def loop(ask):
    messages, called = [SystemMessage("be brief"), HumanMessage(ASKED)], []
    for _ in range(5):
        message = ask(messages)
        messages.append(message)
        if not message.tool_calls:
            return message.text, called
        for call in message.tool_calls:
            called.append((call["name"], call["args"]))
            messages.append(TOOLS[call["name"]].invoke(call))
            if not isinstance(messages[-1], ToolMessage):
                raise AssertionError(messages[-1])
    raise AssertionError(f"no end: {called}")


def whole(chunks):
    gathered = None
    for chunk in chunks:
        gathered = chunk if gathered is None else gathered + chunk
    return gathered


@over(*ALL)
def check_a_message(told):
    message = model(told).invoke("hello there")
    equal(message.text, "You said: hello there")
    usage = message.usage_metadata
    equal((usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]), (50, 8, 58))


@over(*ALL)
def check_a_stream(told):
    chunks = list(model(told).stream("hello there"))
    equal("".join(chunk.text for chunk in chunks), "You said: hello there")
    # One for each word at least, so that it was a stream.
    if len(chunks) < 4:
        raise AssertionError(f"{len(chunks)} chunks")


@over(*ALL)
async def check_async(told):
    equal("".join([chunk.text async for chunk in model(told).astream("hello there")]), "You said: hello there")


@over(*ALL)
def check_a_plan_of_three_steps(told):
    bound = model(told).bind_tools([weather, book])
    equal(loop(bound.invoke), (END, CALLS))


@over(*ALL)
def check_a_plan_streamed(told):
    bound = model(told).bind_tools([weather, book])
    equal(loop(lambda messages: whole(bound.stream(messages))), (END, CALLS))


@over("anthropic story-claude", "anthropic story-gemini", "google story-gemini")
def check_a_plan_with_thinking(told):
    way = told.split()[0]
    more = {"thinking": {"type": "enabled", "budget_tokens": 1024}} if way == "anthropic" else {"include_thoughts": True, "thinking_level": "low"}
    bound, thoughts = model(told, **more).bind_tools([weather, book]), []

    def ask(messages):
        message = bound.invoke(messages)
        thoughts.extend(block["reasoning"] for block in message.content_blocks if block["type"] == "reasoning")
        return message

    equal(loop(ask), (END, CALLS))
    equal(thoughts, ["Rome is warmer than Paris."] * 3)


class Trip(pydantic.BaseModel):
    """A trip"""

    city: str
    days: int


@over(*ALL)
def check_structured_output(told):
    way = told.split()[0]
    more = {} if way == "google" else {"method": "json_schema"}
    equal(model(told).with_structured_output(Trip, **more).invoke("which trip"), Trip(city="mock", days=1))


@over(*[told for told in ALL if told.startswith("openai")])
def check_json_mode(told):
    equal(model(told).with_structured_output(None, method="json_mode").invoke("some json"), {"good": True})


@over(*[told for told in ALL if not told.endswith("mistral")])
def check_an_image(told):
    image = {"type": "image", "base64": PIXEL, "mime_type": "image/png"}
    said = [HumanMessage(content=[{"type": "text", "text": "look"}, image])]
    equal(model(told).invoke(said).text, "I see 1 image.")


@over("openai story-openai", "openai story-gemini", "openai story-cohere", "openai story-mistral", "google story-gemini")
def check_embeddings(told):
    way, slug = told.split()
    if way == "google":
        header = {"x-gateway-provider": f"@{slug}"}
        made = GoogleGenerativeAIEmbeddings(model=MODELS[slug], api_key=KEY, base_url=f"{URL}/v1/proxy", additional_headers=header)
    else:
        # What is not OpenAI's own takes text, not OpenAI's tokens.
        made = OpenAIEmbeddings(base_url=f"{URL}/v1", api_key=KEY, model=named(slug), check_embedding_ctx_length=False)
    equal(made.embed_query("a"), [0.5, -0.25, 1.0])
    equal(made.embed_documents(["a", "b"]), [[0.5, -0.25, 1.0]] * 2)


@over("openai story-openai", "openai story-claude", "openai story-gemini", "openai story-cohere")
def check_responses(told):
    bound = model(told, use_responses_api=True, store=False, include=["reasoning.encrypted_content"]).bind_tools([weather, book])
    equal(loop(bound.invoke), (END, CALLS))
    equal(loop(lambda messages: whole(bound.stream(messages))), (END, CALLS))


LIMITED = {"openai": openai.RateLimitError, "anthropic": anthropic.RateLimitError, "google": ChatGoogleGenerativeAIError}
UNKNOWN = {"openai": openai.AuthenticationError, "anthropic": anthropic.AuthenticationError, "google": ChatGoogleGenerativeAIError}


@over(*ALL)
def check_errors(told):
    way = told.split()[0]
    error = raises(LIMITED[way], lambda: model(told).invoke("error 429"))
    if "as it was asked to" not in str(error):
        raise AssertionError(error)
    error = raises(UNKNOWN[way], lambda: model(told, key="nobody").invoke("hello"))
    if "key" not in str(error).lower():
        raise AssertionError(error)


if __name__ == "__main__":
    run(sys.modules["__main__"])
