"""The official SDK of Agent2Agent on both sides of the gateway: an agent of both versions behind it, its client before it, by
each binding."""

import asyncio
import os
import socket
import threading
import time
import uuid

import httpx
import uvicorn
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.helpers import new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    CancelTaskRequest,
    GetTaskRequest,
    Role,
    SendMessageRequest,
    TaskState,
)
from starlette.applications import Starlette

URL, KEY = os.environ["TEST_URL"], os.environ["TEST_KEY"]
ADMIN_URL, ADMIN_KEY = os.environ["TEST_ADMIN_URL"], os.environ["TEST_ADMIN_KEY"]
# By binding and version, in the order in which the agent prefers them.
WAYS = [("JSONRPC", "1.0"), ("HTTP+JSON", "1.0"), ("JSONRPC", "0.3")]


class Agent(AgentExecutor):
    async def execute(self, context, event_queue):
        task = context.current_task or new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        said = context.get_user_input()
        if said == "wait":
            await asyncio.sleep(60)
        await updater.add_artifact([new_text_part(f"heard {said}")], name="answer")
        await updater.complete()

    async def cancel(self, context, event_queue):
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def agent(only):
    """In a thread of its own; its card names these ways alone."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    root = f"http://127.0.0.1:{port}"
    paths = {"JSONRPC": "/rpc", "HTTP+JSON": "/rest"}
    ways = [AgentInterface(url=root + paths[binding], protocol_binding=binding, protocol_version=version) for binding, version in only]
    card = AgentCard(
        name="Echo", description="says it again", version="1", supported_interfaces=ways,
        capabilities=AgentCapabilities(streaming=True), default_input_modes=["text/plain"], default_output_modes=["text/plain"],
        skills=[AgentSkill(id="echo", name="echo", description="says it again", tags=["echo"])],
    )
    handler = DefaultRequestHandler(Agent(), InMemoryTaskStore(), card)
    routes = [
        *create_agent_card_routes(card),
        *create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=True),
        *create_rest_routes(handler, path_prefix="/rest", enable_v0_3_compat=True),
    ]
    running = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), host="127.0.0.1", port=port, log_level="error"))
    threading.Thread(target=running.run, daemon=True).start()
    while not running.started:
        time.sleep(0.01)
    return root


def admin(method, path, body=None):
    answer = httpx.request(method, f"{ADMIN_URL}/v1{path}", json=body, headers={"x-gateway-api-key": ADMIN_KEY}, timeout=30)
    assert answer.status_code == 200, answer.text
    return answer.json()


def message(text, **more):
    return SendMessageRequest(message=new_text_message(text, role=Role.ROLE_USER, **more))


async def conversation(slug, binding, version):
    async with httpx.AsyncClient(headers={"x-gateway-api-key": KEY}, timeout=30) as web:
        card = await A2ACardResolver(web, f"{URL}/v1/agent/{slug}").get_agent_card()
        assert card.name == "Echo" and [skill.id for skill in card.skills] == ["echo"], card
        assert all(way.url.startswith(f"{URL}/v1/agent/{slug}") for way in card.supported_interfaces), card
        found = [(way.protocol_binding, way.protocol_version) for way in card.supported_interfaces]
        assert found == [(binding, version)], found
        for streaming in (False, True):
            config = ClientConfig(httpx_client=web, streaming=streaming, supported_protocol_bindings=[binding])
            client = ClientFactory(config).create(card)
            steps = [step async for step in client.send_message(message("hello"))]
            tasks = [step.task for step in steps if step.HasField("task")]
            assert tasks, steps
            if streaming:
                artifacts = [step.artifact_update.artifact for step in steps if step.HasField("artifact_update")]
                states = [step.status_update.status.state for step in steps if step.HasField("status_update")]
                assert states[-1] == TaskState.TASK_STATE_COMPLETED, steps
            else:
                artifacts = list(tasks[-1].artifacts)
                assert tasks[-1].status.state == TaskState.TASK_STATE_COMPLETED, steps
            assert [artifact.parts[0].text for artifact in artifacts] == ["heard hello"], steps
            found = await client.get_task(GetTaskRequest(id=tasks[0].id))
            assert found.id == tasks[0].id and found.status.state == TaskState.TASK_STATE_COMPLETED, found
        await cancelled(client)
        try:
            await client.get_task(GetTaskRequest(id=str(uuid.uuid4())))
        except Exception as error:
            assert "NotFound" in type(error).__name__, repr(error)
        else:
            raise AssertionError("a task that nobody has was found")


async def cancelled(client):
    """A task that is under way is seen, and ended."""
    steps = aiter(client.send_message(message("wait")))
    task = (await anext(steps)).task.id
    ended = await client.cancel_task(CancelTaskRequest(id=task))
    assert ended.id == task and ended.status.state == TaskState.TASK_STATE_CANCELED, ended
    rest = [step async for step in steps]
    assert rest[-1].status_update.status.state == TaskState.TASK_STATE_CANCELED, rest


for number, way in enumerate(WAYS):
    slug = f"echo-{number}"
    admin("POST", "/agent-integrations", {"name": slug, "slug": f"{slug}-int", "url": agent([way]), "auth_type": "none"})
    admin("POST", "/agent-servers", {"name": slug, "slug": slug, "agent_integration_id": f"{slug}-int"})
    asyncio.run(conversation(slug, *way))
    print("ok", *way)
