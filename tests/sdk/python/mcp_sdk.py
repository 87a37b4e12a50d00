"""The official SDK of the Model Context Protocol on both sides of the gateway: its server behind it, its client before it."""

import os
import re
import socket
import threading
import time
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx
import uvicorn
from mcp import ClientSession, McpError, types
from mcp.client.auth import OAuthClientProvider, TokenStorage
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamablehttp_client
from mcp.server.fastmcp import Context, FastMCP
from mcp.shared.auth import OAuthClientMetadata
from pydantic import BaseModel

URL, KEY = os.environ["TEST_URL"], os.environ["TEST_KEY"]
ADMIN_URL, ADMIN_KEY = os.environ["TEST_ADMIN_URL"], os.environ["TEST_ADMIN_KEY"]


class Name(BaseModel):
    name: str


def upstream(json_response):
    """A server with tools, a prompt and a resource, in a thread of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = FastMCP("sdk", host="127.0.0.1", port=port, json_response=json_response)

    @server.tool()
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    @server.tool()
    def hidden() -> str:
        return "seen"

    @server.tool()
    def broken() -> str:
        raise ValueError("on purpose")

    @server.tool()
    async def slow(ctx: Context) -> str:
        await ctx.report_progress(1, 2)
        await ctx.info("half of it")
        return "done"

    @server.tool()
    async def greet(ctx: Context) -> str:
        answer = await ctx.elicit("Who is there?", schema=Name)
        return f"hello {answer.data.name}"

    @server.prompt()
    def poem(about: str) -> str:
        return f"Write of {about}"

    @server.resource("note://one")
    def note() -> str:
        return "remember"

    running = uvicorn.Server(uvicorn.Config(server.streamable_http_app(), host="127.0.0.1", port=port, log_level="error"))
    threading.Thread(target=running.run, daemon=True).start()
    while not running.started:
        time.sleep(0.01)
    return f"http://127.0.0.1:{port}/mcp"


def admin(method, path, body=None):
    answer = httpx.request(method, f"{ADMIN_URL}/v1{path}", json=body, headers={"x-gateway-api-key": ADMIN_KEY}, timeout=30)
    assert answer.status_code == 200, answer.text
    return answer.json()


def register(slug, url):
    admin("POST", "/mcp-integrations", {"name": slug, "slug": f"{slug}-int", "url": url, "auth_type": "none",
                                        "transport": "http"})
    admin("POST", "/mcp-servers", {"name": slug, "slug": slug, "mcp_integration_id": f"{slug}-int"})
    told = admin("GET", f"/mcp-servers/{slug}/metadata")
    assert told["sync_status"] == "ok" and told["server_name"] == "sdk", told
    off = {"capabilities": [{"name": "hidden", "type": "tool", "enabled": False}]}
    admin("PUT", f"/mcp-servers/{slug}/capabilities", off)


async def elicited(_context, asked):
    assert asked.message == "Who is there?", asked
    return types.ElicitResult(action="accept", content={"name": "you"})


async def tools(session):
    listed = [tool.name for tool in (await session.list_tools()).tools]
    assert listed == ["add", "broken", "slow", "greet"], listed
    result = await session.call_tool("add", {"a": 2, "b": 3})
    assert result.content[0].text == "5" and not result.isError, result
    assert result.structuredContent == {"result": 5}, result
    failed = await session.call_tool("broken", {})
    assert failed.isError and "on purpose" in failed.content[0].text, failed
    try:
        await session.call_tool("hidden", {})
    except McpError as error:
        assert error.error.code == -32602, error
    else:
        raise AssertionError("a tool that is switched off was called")


async def the_rest(session):
    assert [p.name for p in (await session.list_prompts()).prompts] == ["poem"]
    prompt = await session.get_prompt("poem", {"about": "rain"})
    assert prompt.messages[0].content.text == "Write of rain", prompt
    assert [str(r.uri) for r in (await session.list_resources()).resources] == ["note://one"]
    read = await session.read_resource("note://one")
    assert read.contents[0].text == "remember", read
    await session.send_ping()


async def streams(session, notes):
    steps = []

    async def progress(done, total, message):
        steps.append((done, total))

    result = await session.call_tool("slow", {}, progress_callback=progress)
    assert result.content[0].text == "done" and steps == [(1, 2)], (result, steps)
    assert "half of it" in notes, notes
    asked = await session.call_tool("greet", {})
    assert asked.content[0].text == "hello you", asked


async def conversation(slug, with_streams):
    notes = []

    async def logged(params):
        notes.append(params.data)

    headers = {"x-gateway-api-key": KEY}
    async with streamablehttp_client(f"{URL}/{slug}/mcp", headers=headers) as (read, write, session_id):
        async with ClientSession(read, write, elicitation_callback=elicited, logging_callback=logged) as session:
            opened = await session.initialize()
            assert opened.serverInfo.name == "sdk" and session_id(), opened
            await tools(session)
            await the_rest(session)
            if with_streams:
                await streams(session, notes)


async def older_conversation(slug, with_streams):
    """The transport of 2024-11-05."""
    notes = []

    async def logged(params):
        notes.append(params.data)

    async with sse_client(f"{URL}/{slug}/sse", headers={"x-gateway-api-key": KEY}) as (read, write):
        async with ClientSession(read, write, elicitation_callback=elicited, logging_callback=logged) as session:
            opened = await session.initialize()
            assert opened.serverInfo.name == "sdk", opened
            await tools(session)
            await the_rest(session)
            if with_streams:
                await streams(session, notes)


class Kept(TokenStorage):
    """What a client keeps of a sign-in."""

    client = tokens = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


async def browser(url):
    """What somebody does on the pages: where they are sent in the end."""

    def field(page, name):
        return re.search(f'name="{name}" value="([^"]*)"', page.text).group(1)

    async with httpx.AsyncClient() as web:
        page = await web.get(url)
        assert page.status_code == 200, page.text
        cookie = page.headers["set-cookie"].split(";")[0]
        # Such cookies are for TLS alone, but for browsers on the same machine.
        headers = {"cookie": cookie, "sec-fetch-site": "same-origin"}
        press = {"ticket": field(page, "ticket"), "step": "key", "key": os.environ["TEST_USER_KEY"]}
        page = await web.post(f"{URL}/oauth/authorize", data=press, headers=headers)
        press = {"ticket": field(page, "ticket"), "step": "allow", "workspace": field(page, "workspace")}
        left = await web.post(f"{URL}/oauth/authorize", data=press, headers=headers)
        assert left.status_code == 303, left.text
        told = parse_qs(urlsplit(left.headers["location"]).query)
        assert told["iss"] == [URL], told
        return told["code"][0], told["state"][0]


async def signs_in(slug):
    """The client is given an address and nothing else."""
    kept, seen = Kept(), []

    async def redirected(url):
        seen.append(url)

    async def called_back():
        return await browser(seen[-1])

    metadata = OAuthClientMetadata(client_name="Python", redirect_uris=["http://127.0.0.1:33418/callback"],
                                   grant_types=["authorization_code", "refresh_token"], response_types=["code"])
    provider = OAuthClientProvider(f"{URL}/{slug}/mcp", metadata, kept, redirected, called_back)
    async with streamablehttp_client(f"{URL}/{slug}/mcp", auth=provider) as (read, write, _):
        async with ClientSession(read, write) as session:
            await session.initialize()
            added = await session.call_tool("add", {"a": 2, "b": 3})
            assert added.content[0].text == "5", added
            first = kept.tokens
            assert first.refresh_token and kept.client.client_id and len(seen) == 1, kept.client
            provider.context.token_expiry_time = 1
            again = await session.call_tool("add", {"a": 3, "b": 4})
            assert again.content[0].text == "7", again
            assert kept.tokens.access_token != first.access_token and len(seen) == 1, "refreshed, and nobody was asked"


for slug, json_response in (("events", False), ("plain", True)):
    register(slug, upstream(json_response))
    anyio.run(conversation, slug, not json_response)
    anyio.run(older_conversation, slug, not json_response)
    anyio.run(signs_in, slug)
    print("ok", slug)
