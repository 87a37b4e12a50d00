"""pydantic-ai's agents on OpenAI's, Anthropic's and Google's models, with the gateway's address and key."""

import base64
import sys

import anthropic
import openai
import pydantic
from google import genai
from pydantic_ai import Agent, BinaryContent, ModelHTTPError, ModelSettings, NativeOutput
from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel, OpenAIResponsesModelSettings
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.providers.openai import OpenAIProvider

from checks import KEY, URL, equal, over, run
from plan import ASKED, CALLS, END, EVERYWHERE, MODELS, PIXEL, answer


def header(slug):
    return {"x-gateway-provider": f"@{slug}"}


def openai_provider(slug, key):
    sdk = openai.AsyncOpenAI(base_url=f"{URL}/v1", api_key=key, default_headers=header(slug), max_retries=0)
    return OpenAIProvider(openai_client=sdk)


def openai_chat(slug, key):
    return OpenAIChatModel(MODELS[slug], provider=openai_provider(slug, key))


def openai_responses(slug, key):
    return OpenAIResponsesModel(MODELS[slug], provider=openai_provider(slug, key))


def anthropic_messages(slug, key):
    # By a header, since what a model can do is known by the beginning of its name.
    sdk = anthropic.AsyncAnthropic(base_url=URL, api_key=key, default_headers=header(slug), max_retries=0)
    return AnthropicModel("claude-sonnet-4-5", provider=AnthropicProvider(anthropic_client=sdk))


def google_native(slug, key):
    options = genai.types.HttpOptions(base_url=f"{URL}/v1/proxy", headers=header(slug))
    sdk = genai.Client(api_key=key, http_options=options)
    return GoogleModel(MODELS[slug], provider=GoogleProvider(client=sdk))


WAYS = {"openai": openai_chat, "responses": openai_responses, "anthropic": anthropic_messages, "google": google_native}
ALL = [f"{way} {slug}" for way in ("openai", "responses", "anthropic") for slug in EVERYWHERE] + ["google story-gemini"]


def agent(told, key=KEY, **more):
    way, slug = told.split()
    return Agent(WAYS[way](slug, key), **more)


def planner(told, **more):
    one, called = agent(told, **more), []

    @one.tool_plain
    def weather(city: str) -> str:
        """Weather of a city"""
        called.append(("weather", {"city": city}))
        return answer("weather", {"city": city})

    @one.tool_plain
    def book(city: str) -> str:
        """Books a trip to a city"""
        called.append(("book", {"city": city}))
        return answer("book", {"city": city})

    return one, called


def in_order(called):
    """The two of the first step run side by side."""
    return sorted(called[:2], key=str) + called[2:]


@over(*ALL)
async def check_a_run(told):
    run = await agent(told).run("hello there")
    equal(run.output, "You said: hello there")
    usage = run.usage() if callable(run.usage) else run.usage
    equal((usage.input_tokens, usage.output_tokens), (50, 8))


@over(*ALL)
async def check_a_stream(told):
    async with agent(told).run_stream("hello there") as run:
        pieces = [piece async for piece in run.stream_text(delta=True, debounce_by=None)]
    equal("".join(pieces), "You said: hello there")


@over(*ALL)
async def check_a_plan_of_three_steps(told):
    one, called = planner(told)
    equal(((await one.run(ASKED)).output, in_order(called)), (END, CALLS))


@over(*ALL)
async def check_a_plan_streamed(told):
    one, called = planner(told)
    kinds = set()

    async def handle(_, events):
        async for event in events:
            kinds.add(event.event_kind)

    run = await one.run(ASKED, event_stream_handler=handle)
    equal((run.output, in_order(called)), (END, CALLS))
    if "part_delta" not in kinds:
        raise AssertionError(f"no deltas in {kinds}")


@over("anthropic story-claude", "responses story-claude", "responses story-gemini")
async def check_a_plan_with_thinking(told):
    anthropic = told.startswith("anthropic")
    settings = (
        AnthropicModelSettings(anthropic_thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=4000)
        if anthropic
        else OpenAIResponsesModelSettings(openai_reasoning_effort="low", max_tokens=4000)
    )
    one, called = planner(told, model_settings=settings)
    run = await one.run(ASKED)
    equal((run.output, in_order(called)), (END, CALLS))
    thoughts = [part.content for message in run.all_messages() for part in message.parts if part.part_kind == "thinking" and part.content]
    if anthropic:
        equal(thoughts, ["Rome is warmer than Paris."] * 3)


class Trip(pydantic.BaseModel):
    city: str
    days: int


@over(*ALL)
async def check_native_structured_output(told):
    equal((await agent(told, output_type=NativeOutput(Trip)).run("which trip")).output, Trip(city="mock", days=1))


@over(*[told for told in ALL if not told.endswith("mistral")])
async def check_an_image(told):
    image = BinaryContent(base64.b64decode(PIXEL), media_type="image/png")
    equal((await agent(told).run(["look", image])).output, "I see 1 image.")


@over(*ALL)
async def check_errors(told):
    settings = ModelSettings(timeout=5)
    for key, said, status, words in [(KEY, "error 422", 422, "as it was asked to"), ("nobody", "hello", 401, "key")]:
        try:
            await agent(told, key, model_settings=settings).run(said)
        except ModelHTTPError as error:
            equal(error.status_code, status)
            if words not in str(error.body):
                raise AssertionError(error.body) from None
        else:
            raise AssertionError("no error was raised")


if __name__ == "__main__":
    run(sys.modules["__main__"])
