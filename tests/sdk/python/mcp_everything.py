"""The official SDK of the Model Context Protocol, the first or the second line of it, before the gateway; the official server of
everything is behind it."""

import sys

import anyio

LINE, URL = sys.argv[1:]


async def tries(client):
    """What both lines do in the same words."""
    tools = [tool.name for tool in (await client.list_tools()).tools]
    assert "echo" in tools and len(tools) >= 5, tools
    echoed = await client.call_tool("echo", {"message": "hi"})
    assert echoed.content[0].text == "Echo: hi", echoed
    resources = (await client.list_resources()).resources
    read = await client.read_resource(resources[0].uri)
    assert read.contents[0].text, read
    assert (await client.list_prompts()).prompts
    prompt = await client.get_prompt("simple-prompt")
    assert prompt.messages[0].content.text, prompt


async def first():
    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client

    async with streamablehttp_client(URL) as (read, write, _):
        async with ClientSession(read, write) as session:
            await session.initialize()
            await tries(session)


async def second():
    from mcp import Client

    for mode in ["auto", "legacy"]:
        async with Client(URL, mode=mode) as client:
            await tries(client)


anyio.run({"1": first, "2": second}[LINE])
print("ok python line", LINE)
