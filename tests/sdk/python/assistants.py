"""Assistants, threads, messages and runs of the provider in `keeper.py`, as OpenAI served them until 2026 and servers that
are compatible with it still do."""

from keeper import USAGE, WORDS, deleted, fields, on
from scripted import Refusal, events

CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}}


def text(words):
    return [{"type": "text", "text": {"value": words, "annotations": []}}]


@on("POST", "/assistants")
def make_assistant(keeper, asked):
    more = ("name", "description", "instructions", "tools", "tool_resources", "metadata", "temperature", "top_p",
            "response_format", "reasoning_effort")
    body = fields(asked, ("model",), more)
    for file in body.get("tool_resources", {}).get("code_interpreter", {}).get("file_ids", []):
        keeper.known(file, "tool_resources")
    told = {"name": None, "description": None, "instructions": None, "tools": [], "metadata": {}, **body}
    return keeper.made("asst_", "assistant", **told)


@on("GET", "/assistants")
def assistants(keeper, asked):
    return keeper.listed(asked, keeper.of_kind("assistant"))


@on("GET", "/assistants/*")
def assistant(keeper, asked, id):
    return keeper.known(id, "assistant_id")


@on("POST", "/assistants/*")
def change_assistant(keeper, asked, id):
    keeper.known(id, "assistant_id").update(fields(asked, (), ("name", "instructions", "tools", "model", "metadata")))
    return keeper.held[id]


@on("DELETE", "/assistants/*")
def delete_assistant(keeper, asked, id):
    return deleted(keeper, id, "assistant.deleted")


def thread_of(keeper, body):
    made = keeper.made("thread_", "thread", metadata=body.get("metadata", {}), tool_resources=body.get("tool_resources"))
    for message in body.get("messages", []):
        message_of(keeper, made["id"], message["role"], message["content"], message.get("attachments"))
    return made


def message_of(keeper, thread, role, words, attachments=None, **more):
    return keeper.made("msg_", "thread.message", thread_id=thread, role=role, content=text(words), status="completed",
                       metadata={}, attachments=attachments or [], **{"assistant_id": None, "run_id": None, **more})


@on("POST", "/threads")
def make_thread(keeper, asked):
    return thread_of(keeper, fields(asked, (), ("messages", "metadata", "tool_resources")))


@on("GET", "/threads/*")
def thread(keeper, asked, id):
    return keeper.known(id, "thread_id")


@on("POST", "/threads/*")
def change_thread(keeper, asked, id):
    # The path of runs that bring their thread.
    if id == "runs":
        return run_with_thread(keeper, asked)
    keeper.known(id, "thread_id").update(fields(asked, (), ("metadata", "tool_resources")))
    return keeper.held[id]


@on("DELETE", "/threads/*")
def delete_thread(keeper, asked, id):
    return deleted(keeper, id, "thread.deleted")


@on("POST", "/threads/*/messages")
def make_message(keeper, asked, id):
    keeper.known(id, "thread_id")
    body = fields(asked, ("role", "content"), ("attachments", "metadata"))
    for attachment in body.get("attachments", []):
        keeper.known(attachment["file_id"], "attachments")
    return message_of(keeper, id, body["role"], body["content"], body.get("attachments"))


@on("GET", "/threads/*/messages")
def messages(keeper, asked, id):
    keeper.known(id, "thread_id")
    return keeper.listed(asked, [one for one in keeper.of_kind("thread.message") if one["thread_id"] == id])


@on("GET", "/threads/*/messages/*")
def message(keeper, asked, thread, id):
    return keeper.known(id, "message_id")


@on("DELETE", "/threads/*/messages/*")
def delete_message(keeper, asked, thread, id):
    return deleted(keeper, id, "thread.message.deleted")


def run_of(keeper, thread, body):
    assistant = keeper.known(body["assistant_id"], "assistant_id")
    return keeper.made(
        "run_", "thread.run", assistant_id=assistant["id"], thread_id=thread, status="queued", model=assistant["model"],
        instructions=body.get("instructions") or "", tools=assistant["tools"], parallel_tool_calls=True, metadata={},
        response_format="auto", tool_choice="auto", truncation_strategy={"type": "auto", "last_messages": None}, usage=None)


RUN_FIELDS = ("instructions", "additional_instructions", "additional_messages", "tools", "metadata", "stream", "model",
              "temperature", "top_p", "max_prompt_tokens", "max_completion_tokens", "truncation_strategy", "tool_choice",
              "parallel_tool_calls", "response_format", "reasoning_effort")


def played(keeper, run):
    """The events of a run that is streamed to its end."""
    told = [("thread.run.created", dict(run))]
    run["status"] = "in_progress"
    told.append(("thread.run.in_progress", dict(run)))
    said = message_of(keeper, run["thread_id"], "assistant", WORDS, assistant_id=run["assistant_id"], run_id=run["id"])
    begun = {**said, "content": [], "status": "in_progress"}
    told += [("thread.message.created", begun), ("thread.message.in_progress", begun)]
    for part in (WORDS[:4], WORDS[4:]):
        delta = {"content": [{"index": 0, "type": "text", "text": {"value": part, "annotations": []}}]}
        told.append(("thread.message.delta", {"id": said["id"], "object": "thread.message.delta", "delta": delta}))
    told.append(("thread.message.completed", said))
    run.update(status="completed", usage=USAGE)
    return events(*told, ("thread.run.completed", dict(run)), ("done", "[DONE]"))


@on("POST", "/threads/*/runs")
def make_run(keeper, asked, id):
    keeper.known(id, "thread_id")
    body = fields(asked, ("assistant_id",), RUN_FIELDS)
    run = run_of(keeper, id, body)
    return played(keeper, run) if body.get("stream") else run


def run_with_thread(keeper, asked):
    body = fields(asked, ("assistant_id",), (*RUN_FIELDS, "thread", "tool_resources"))
    run = run_of(keeper, thread_of(keeper, body.get("thread", {}))["id"], body)
    return played(keeper, run) if body.get("stream") else run


@on("GET", "/threads/*/runs")
def runs(keeper, asked, id):
    return keeper.listed(asked, [one for one in keeper.of_kind("thread.run") if one["thread_id"] == id])


@on("GET", "/threads/*/runs/*")
def run(keeper, asked, thread, id):
    """Each look at a run takes it a step on; one whose assistant has a tool waits for what that says."""
    run = keeper.known(id, "run_id")
    if run["status"] == "queued" and run["tools"]:
        run["status"] = "requires_action"
        run["required_action"] = {"type": "submit_tool_outputs", "submit_tool_outputs": {"tool_calls": [CALL]}}
    elif run["status"] in ("queued", "in_progress"):
        message_of(keeper, thread, "assistant", WORDS, assistant_id=run["assistant_id"], run_id=id)
        run.update(status="completed", usage=USAGE)
    return run


@on("POST", "/threads/*/runs/*")
def change_run(keeper, asked, thread, id):
    keeper.known(id, "run_id").update(fields(asked, (), ("metadata",)))
    return keeper.held[id]


@on("POST", "/threads/*/runs/*/submit_tool_outputs")
def submit(keeper, asked, thread, id):
    run, body = keeper.known(id, "run_id"), fields(asked, ("tool_outputs",), ("stream",))
    if [one["tool_call_id"] for one in body["tool_outputs"]] != [CALL["id"]]:
        raise Refusal(400, "no such call", "tool_outputs")
    run.update(status="in_progress", required_action=None)
    return played(keeper, run) if body.get("stream") else run


@on("POST", "/threads/*/runs/*/cancel")
def cancel_run(keeper, asked, thread, id):
    keeper.known(id, "run_id")["status"] = "cancelling"
    return keeper.held[id]


@on("GET", "/threads/*/runs/*/steps")
def steps(keeper, asked, thread, id):
    run = keeper.known(id, "run_id")
    said = [one["id"] for one in keeper.of_kind("thread.message") if one.get("run_id") == id]
    details = {"type": "message_creation", "message_creation": {"message_id": said[0]}}
    step = {"id": f"step_{keeper.name}1", "object": "thread.run.step", "created_at": 1, "run_id": id, "status": "completed",
            "assistant_id": run["assistant_id"], "thread_id": thread, "type": "message_creation", "step_details": details}
    return keeper.listed(asked, [step])
