"""The official `openai` client's realtime sessions, and keys for browsers, through the gateway."""

import sys

import openai
from openai.types.realtime import ConversationItemInputAudioTranscriptionCompletedEvent, ResponseDoneEvent
from websockets.exceptions import InvalidStatus

from checks import KEY, PROVIDER, URL, equal, headers, run

WS = URL.replace("http://", "ws://")
MODEL = "gpt-realtime"


def client(key=KEY, **more):
    return openai.AsyncOpenAI(base_url=f"{URL}/v1", api_key=key, max_retries=0, **more)


async def converse(connection):
    """One response, as it comes in events."""
    said = ""
    async for event in connection:
        if event.type == "response.output_text.delta":
            said += event.delta
        if event.type == "response.done":
            assert isinstance(event, ResponseDoneEvent)
            return said, event.response.usage
        if event.type == "error":
            raise AssertionError(event.error)


async def check_a_session():
    async with client().realtime.connect(model=MODEL, extra_headers=headers()) as connection:
        await connection.session.update(session={"type": "realtime", "instructions": "Be kind."})
        await connection.conversation.item.create(
            item={"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}
        )
        await connection.response.create()
        said, usage = await converse(connection)
        equal(said, "hello there")
        equal((usage.total_tokens, usage.input_token_details.cached_tokens_details.audio_tokens), (60, 5))


async def check_a_model_that_names_its_provider():
    async with client().realtime.connect(model=f"{PROVIDER}/{MODEL}") as connection:
        await connection.response.create()
        equal((await converse(connection))[0], "hello there")


async def check_responses_over_a_socket():
    async with client().responses.connect(extra_headers=headers()) as connection:
        await connection.send({"type": "response.create", "model": MODEL, "input": "hello"})
        kinds = []
        async for event in connection:
            # The stand-in greets every socket as one for realtime.
            if event.type != "session.created":
                kinds.append(event.type)
            if event.type in ("response.completed", "error"):
                break
        equal((kinds, event.response.usage.total_tokens), (["response.created", "response.completed"], 60))
        await connection.send({"type": "response.create", "model": "other", "input": "hello"})
        async for event in connection:
            equal((event.type, event.code), ("error", "model_not_permitted"))
            break


async def check_transcripts():
    async with client().realtime.connect(model=MODEL, extra_headers=headers()) as connection:
        await connection.input_audio_buffer.append(audio="AAAA")
        await connection.input_audio_buffer.commit()
        async for event in connection:
            if isinstance(event, ConversationItemInputAudioTranscriptionCompletedEvent):
                equal((event.transcript, event.usage.seconds), ("hi", 1.5))
                return


async def check_errors_of_the_gateway_are_events():
    async with client().realtime.connect(model=MODEL, extra_headers=headers()) as connection:
        await connection.send({"type": "session.update", "event_id": "mine", "session": {"type": "realtime", "model": "dear"}})
        async for event in connection:
            if event.type == "error":
                equal((event.error.code, event.error.event_id), ("model_not_permitted", "mine"))
                return


async def check_refusals_before_it_opens():
    for key, model, status in [("nobody", MODEL, 401), (KEY, "dear", 400)]:
        try:
            async with client(key).realtime.connect(model=model, extra_headers=headers()):
                raise AssertionError("it opened")
        except InvalidStatus as refused:
            equal(refused.response.status_code, status)
            assert b'"error"' in refused.response.body


async def check_a_key_for_a_browser():
    server = client(default_headers=headers())
    made = await server.realtime.client_secrets.create(
        expires_after={"anchor": "created_at", "seconds": 60}, session={"type": "realtime", "model": MODEL}
    )
    equal((made.value[:6], made.session.type, made.session.model), ("ek_gw_", "realtime", MODEL))
    async with client(made.value).realtime.connect(model=MODEL) as connection:
        await connection.response.create()
        equal((await converse(connection))[0], "hello there")


async def check_a_client_made_for_azure():
    azure = openai.AsyncAzureOpenAI(
        azure_endpoint=f"{URL}/v1",
        websocket_base_url=f"{WS}/v1/openai",
        api_key=KEY,
        api_version="2025-04-01-preview",
        max_retries=0,
    )
    extra = {"x-gateway-provider": "@azure-live"}
    async with azure.realtime.connect(model=MODEL, extra_headers=extra) as connection:
        await connection.response.create()
        equal((await converse(connection))[0], "hello there")


if __name__ == "__main__":
    run(sys.modules["__main__"])
