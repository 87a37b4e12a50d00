"""What the official conformance suite of the Model Context Protocol asks of a server: its tools, resources and prompts by
the names and with the answers that the suite looks for, in both eras. The suite asks it directly, and through the gateway."""

import base64
import json
import sys

import anyio
from mcp.server.mcpserver import Context, MCPServer, RequestStateSecurity
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.shared.exceptions import MCPError
from mcp import types
from pydantic import Field, create_model
from typing import Annotated

PIXEL = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63f8cfc0f01f00050001ff"
        "5c27f0bc0000000049454e44ae426082"
    )
).decode()
SILENCE = base64.b64encode(b"RIFF\x26\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0data\2\0\0\0\0\0").decode()


class Events(EventStore):
    """Events in the order in which they were told, so that a client may come back for those that it missed."""

    def __init__(self):
        self.told = []

    async def store_event(self, stream_id, message):
        self.told.append((stream_id, message))
        return str(len(self.told))

    async def replay_events_after(self, last_event_id, send_callback):
        last = int(last_event_id)
        if not 0 < last <= len(self.told):
            return None
        stream = self.told[last - 1][0]
        for number, (of, message) in enumerate(self.told[last:], last + 1):
            if of == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


server = MCPServer(
    name="conformance", version="1", request_state_security=RequestStateSecurity(keys=[b"conformance state of requests 32 bytes"])
)


def text(said):
    return types.TextContent(type="text", text=said)


def image():
    return types.ImageContent(type="image", data=PIXEL, mime_type="image/png")


def embedded(uri, kind, said):
    return types.EmbeddedResource(type="resource", resource=types.TextResourceContents(uri=uri, mime_type=kind, text=said))


# Tools that answer at once.


@server.tool()
def test_simple_text() -> str:
    return "This is a simple text response for testing."


@server.tool()
def test_image_content() -> list[types.ImageContent]:
    return [image()]


@server.tool()
def test_audio_content() -> list[types.AudioContent]:
    return [types.AudioContent(type="audio", data=SILENCE, mime_type="audio/wav")]


@server.tool()
def test_embedded_resource() -> list[types.EmbeddedResource]:
    return [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]


@server.tool()
def test_multiple_content_types() -> list[types.TextContent | types.ImageContent | types.EmbeddedResource]:
    mixed = embedded("test://mixed-content-resource", "application/json", '{"test": "data", "value": 123}')
    return [text("Multiple content types test:"), image(), mixed]


@server.tool()
def test_error_handling() -> str:
    raise ValueError("This tool intentionally returns an error for testing")


@server.tool()
def test_x_mcp_header(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "none") -> str:
    return f"region {region}"


# Tools that say something on the way.


@server.tool()
async def test_tool_with_logging(ctx: Context) -> str:
    for said in ["Tool execution started", "Tool processing data", "Tool execution completed"]:
        await ctx.info(said)
        await anyio.sleep(0.02)
    return "Logged three times"


@server.tool()
async def test_tool_with_progress(ctx: Context) -> str:
    for done in [0, 50, 100]:
        await ctx.report_progress(done, 100, f"{done} of 100")
        await anyio.sleep(0.02)
    return "Told of its progress three times"


@server.tool()
async def test_reconnection(ctx: Context) -> str:
    await ctx.info("before the stream ends")
    await ctx.close_sse_stream()
    await anyio.sleep(0.2)
    await ctx.info("after it was opened again")
    return "The answer came on another stream"


# Tools that ask their client, in the era of sessions.


@server.tool()
async def test_sampling(prompt: str, ctx: Context) -> str:
    asked = [types.SamplingMessage(role="user", content=text(prompt))]
    answer = await ctx.session.create_message(messages=asked, max_tokens=100, related_request_id=ctx.request_id)
    return f"LLM response: {answer.content.text}"


async def elicited(ctx, message, schema):
    answer = await ctx.elicit(message=message, schema=schema)
    content = answer.data.model_dump_json() if answer.action == "accept" else "{}"
    return f"action={answer.action}, content={content}"


@server.tool()
async def test_elicitation(message: str, ctx: Context) -> str:
    asked = create_model("Asked", response=(str, Field(description="What the user says")))
    return "User response: " + await elicited(ctx, message, asked)


@server.tool()
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    status = Field(default="active", json_schema_extra={"enum": ["active", "inactive", "pending"]})
    asked = create_model(
        "Defaults", name=(str, "John Doe"), age=(int, 30), score=(float, 95.5), status=(str, status), verified=(bool, True)
    )
    return "Elicitation completed: " + await elicited(ctx, "Everything has a default", asked)


@server.tool()
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    def choice(kind, **schema):
        return (kind, Field(json_schema_extra=schema))

    names = {"a": "First", "b": "Second", "c": "Third"}
    titled = [{"const": value, "title": title} for value, title in names.items()]
    asked = create_model(
        "Choices",
        untitledSingle=choice(str, enum=list(names)),
        titledSingle=choice(str, oneOf=titled),
        untitledMulti=choice(list[str], items={"type": "string", "enum": list(names)}),
        titledMulti=choice(list[str], items={"anyOf": titled}),
        legacyEnum=choice(str, enum=list(names), enumNames=list(names.values())),
    )
    return "Elicitation completed: " + await elicited(ctx, "Choose", asked)


# Tools that ask their client, in the era without: they are called again with the answers.


def form(message, field, kind="string"):
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(prompt):
    asked = [types.SamplingMessage(role="user", content=text(prompt))]
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=asked, max_tokens=50))


def wants(state=None, **requests):
    return types.InputRequiredResult(input_requests=requests, request_state=state)


def answers(ctx, *names):
    """What the client answered to these, or nothing before it has answered all of them."""
    found = ctx.input_responses or {}
    return [found[name] for name in names] if set(names) <= set(found) else None


def filled(answer, field):
    content = answer.content if isinstance(answer, types.ElicitResult) else None
    return (content or {}).get(field, "nothing")


@server.tool()
async def test_input_required_result_elicitation(ctx: Context) -> str | types.InputRequiredResult:
    got = answers(ctx, "user_name")
    return f"Hello, {filled(got[0], 'name')}!" if got else wants(user_name=form("What is your name?", "name"))


@server.tool()
async def test_input_required_result_sampling(ctx: Context) -> str | types.InputRequiredResult:
    got = answers(ctx, "capital_question")
    if not got:
        return wants(capital_question=sample("What is the capital of France?"))
    return f"The model said: {got[0].content.text}"


@server.tool()
async def test_input_required_result_list_roots(ctx: Context) -> str | types.InputRequiredResult:
    got = answers(ctx, "client_roots")
    return f"{len(got[0].roots)} roots" if got else wants(client_roots=types.ListRootsRequest())


@server.tool()
async def test_input_required_result_request_state(ctx: Context) -> str | types.InputRequiredResult:
    if answers(ctx, "confirm") and ctx.request_state == "first":
        return "state-ok: it came back"
    return wants("first", confirm=form("Is that so?", "ok", "boolean"))


@server.tool()
async def test_input_required_result_multiple_inputs(ctx: Context) -> str | types.InputRequiredResult:
    if answers(ctx, "user_name", "greeting", "client_roots"):
        return "All three were answered"
    asked = {"user_name": form("What is your name?", "name"), "greeting": sample("Greet me"), "client_roots": types.ListRootsRequest()}
    return wants("three", **asked)


@server.tool()
async def test_input_required_result_multi_round(ctx: Context) -> str | types.InputRequiredResult:
    state = json.loads(ctx.request_state or "{}")
    if state.get("round") == 1 and (got := answers(ctx, "step1")):
        state = json.dumps({"round": 2, "name": filled(got[0], "name")})
        return wants(state, step2=form("Step 2: which colour?", "color"))
    if state.get("round") == 2 and (got := answers(ctx, "step2")):
        return f"{state['name']} likes {filled(got[0], 'color')}"
    return wants(json.dumps({"round": 1}), step1=form("Step 1: what is your name?", "name"))


@server.tool()
async def test_input_required_result_tampered_state(ctx: Context) -> str | types.InputRequiredResult:
    # That a state was changed on its way is found before this is called.
    return f"state-ok: {ctx.request_state}" if ctx.request_state else wants("untouched", confirm=form("Sure?", "ok", "boolean"))


@server.tool()
async def test_input_required_result_capabilities(ctx: Context) -> types.InputRequiredResult:
    able, asked = ctx.client_capabilities, {}
    if able is None or able.sampling is not None:
        asked["sample"] = sample("Say hello")
    if able is None or able.elicitation is not None:
        asked["ask"] = form("What is your name?", "name")
    return wants("able", **asked)


@server.tool()
async def test_missing_capability(ctx: Context) -> str:
    able = ctx.session.client_capabilities
    if able is None or able.sampling is None:
        data = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(code=types.MISSING_REQUIRED_CLIENT_CAPABILITY, message="sampling is needed", data=data)
    return "The client can sample"


# Lists that change.


def fleeting() -> str:
    return "fleeting"


@server.tool()
async def test_trigger_tool_change(ctx: Context) -> str:
    server.add_tool(fleeting, name="test_fleeting_tool")
    server.remove_tool("test_fleeting_tool")
    await ctx.notify_tools_changed()
    return "Tools changed"


@server.tool()
async def test_trigger_prompt_change(ctx: Context) -> str:
    await ctx.notify_prompts_changed()
    return "Prompts changed"


@server.tool()
def json_schema_2020_12_tool() -> str:
    return "Its schema says all that a schema can"


# The SDK makes schemas of functions; the suite looks for words that it never writes.
server._tool_manager._tools["json_schema_2020_12_tool"].parameters = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


# Resources and prompts.


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    return base64.b64decode(PIXEL)


@server.resource("test://template/{id}/data", mime_type="application/json")
def template(id: str) -> str:
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


@server.resource("test://watched-resource")
def watched() -> str:
    return "watched"


def asks(*contents):
    return [UserMessage(role="user", content=content) for content in contents]


@server.prompt()
def test_simple_prompt() -> list[UserMessage]:
    return asks(text("This is a simple prompt for testing."))


@server.prompt()
def test_prompt_with_arguments(arg1: str, arg2: str) -> list[UserMessage]:
    return asks(text(f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"))


@server.prompt()
def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:
    return asks(embedded(resourceUri, "text/plain", "Embedded resource content for testing."), text("Read it."))


@server.prompt()
def test_prompt_with_image() -> list[UserMessage]:
    return asks(image(), text("Look at it."))


@server.prompt()
async def test_input_required_result_prompt(ctx: Context) -> list[UserMessage] | types.InputRequiredResult:
    got = answers(ctx, "user_context")
    return asks(text(f"Bear in mind: {filled(got[0], 'context')}")) if got else wants(user_context=form("Of what?", "context"))


@server.completion()
async def complete(ref, argument, context):
    return types.Completion(values=[], total=0, has_more=False)


async def taken(_context, _params):
    return types.EmptyResult()


for method, params in [
    ("logging/setLevel", types.SetLevelRequestParams),
    ("resources/subscribe", types.SubscribeRequestParams),
    ("resources/unsubscribe", types.UnsubscribeRequestParams),
]:
    server._lowlevel_server.add_request_handler(method, params, taken)

for item in [*server._tool_manager._tools.values(), *server._prompt_manager._prompts.values()]:
    item.description = f"{item.name.replace('_', ' ')}, as the suite wants it"

if __name__ == "__main__":
    server.run(transport="streamable-http", port=int(sys.argv[1]), event_store=Events(), retry_interval=100)
