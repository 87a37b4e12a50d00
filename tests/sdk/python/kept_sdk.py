"""What a provider keeps for its clients, by the package `openai`: uploads in parts, fine-tuning jobs, vector stores, assistants
and the runs of threads. Each check is made at one target, whose ids stay as they are, and at two, whose ids are bound: there
what was made is looked for under a config that begins with the other target."""

import json
import os
import tempfile
from pathlib import Path

import openai

import assistants  # noqa: F401, by which the keeper serves them
from checks import KEY, URL, equal, over, raises, run
from keeper import TUNED, USAGE, WORDS, Keeper

ONE, OTHER = Keeper("one"), Keeper("other")
MODEL = "gpt-4.1-mini-2025-04-14"
LINES = b'{"messages": []}\n'
everywhere = over("one", "two")


def target(keeper):
    return {"provider": "openai", "api_key": f"key-{keeper.name}", "custom_host": f"{keeper.root}/v1"}


def client(*keepers, key=KEY):
    config = target(keepers[0])
    if len(keepers) > 1:
        config = {"strategy": {"mode": "fallback"}, "targets": [target(keeper) for keeper in keepers]}
    headers = {"x-gateway-config": json.dumps(config)}
    return openai.OpenAI(api_key=key, base_url=f"{URL}/v1", default_headers=headers, max_retries=0)


def clients(targets):
    """The one that makes objects, and the one that looks for them."""
    return (client(ONE), client(ONE)) if targets == "one" else (client(ONE, OTHER), client(OTHER, ONE))


def named(id, start, targets):
    """The id is the provider's own where there is one provider, and sealed where there are two."""
    equal(id.startswith(f"{start}one" if targets == "one" else f"{start}gw1_"), True)
    return id


def uploaded(maker, purpose="fine-tune"):
    return maker.files.create(file=("train.jsonl", LINES), purpose=purpose).id


def unknown(targets, id, look):
    """Of another workspace an id tells no more than one that nobody made."""
    if targets == "one":
        return
    stranger = client(ONE, OTHER, key=os.environ["TEST_STRANGER_KEY"])
    made_up = f"{id[: id.index('gw1_')]}gw1_AAAA"
    told = [raises(openai.NotFoundError, lambda: look(*ask)).response.content
            for ask in ((stranger, id), (client(ONE, OTHER), made_up))]
    equal(told[0], told[1])


@everywhere
def check_files_that_end_by_themselves(targets):
    maker, finder = clients(targets)
    ends = {"anchor": "created_at", "seconds": 3600}
    made = maker.files.create(file=("train.jsonl", LINES), purpose="fine-tune", expires_after=ends)
    equal((made.expires_at - made.created_at, made.bytes, made.filename), (3600, len(LINES), "train.jsonl"))
    named(made.id, "file-", targets)
    equal((finder.files.retrieve(made.id), finder.files.content(made.id).read()), (made, LINES))
    ends = {"anchor": "created_at", "seconds": 60}
    wrong = raises(openai.BadRequestError,
                   lambda: maker.files.create(file=("f", LINES), purpose="fine-tune", expires_after=ends))
    equal(wrong.param, "expires_after.seconds")
    unknown(targets, made.id, lambda sdk, id: sdk.files.retrieve(id))


@everywhere
def check_uploads_in_parts(targets):
    maker, finder = clients(targets)
    about = {"filename": "train.jsonl", "mime_type": "application/jsonl", "purpose": "fine-tune"}
    made = maker.uploads.create(bytes=2 * len(LINES), **about)
    equal((made.object, made.status, made.file), ("upload", "pending", None))
    parts = [finder.uploads.parts.create(named(made.id, "upload_", targets), data=LINES) for _ in range(2)]
    equal([(part.object, part.upload_id) for part in parts], [("upload.part", made.id)] * 2)
    done = finder.uploads.complete(made.id, part_ids=[named(part.id, "part_", targets) for part in parts])
    equal((done.id, done.status, done.file.bytes), (made.id, "completed", 2 * len(LINES)))
    equal(finder.files.content(named(done.file.id, "file-", targets)).read(), LINES * 2)
    late = raises(openai.BadRequestError, lambda: finder.uploads.parts.create(made.id, data=LINES))
    equal(late.param, "upload_id")
    other = maker.uploads.create(bytes=1, **about)
    equal(finder.uploads.cancel(other.id).status, "cancelled")
    wrong = raises(openai.BadRequestError, lambda: maker.uploads.create(bytes=1, **{**about, "mime_type": "a/b"}))
    equal(wrong.param, "mime_type")
    unknown(targets, made.id, lambda sdk, id: sdk.uploads.cancel(id))


@everywhere
def check_uploads_cut_by_the_sdk(targets):
    maker, _ = clients(targets)
    whole = bytes(range(256)) * 1000
    given = {"mime_type": "application/jsonl", "purpose": "fine-tune", "part_size": 100_000}
    done = maker.uploads.upload_file_chunked(file=whole, filename="train.jsonl", bytes=len(whole), **given)
    equal((done.status, maker.files.content(done.file.id).read()), ("completed", whole))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "of a disk.jsonl"
        path.write_bytes(whole)
        done = maker.uploads.upload_file_chunked(file=path, **given)
    equal((done.file.filename, maker.files.content(done.file.id).read()), ("of a disk.jsonl", whole))


@everywhere
def check_fine_tuning_jobs(targets):
    maker, finder = clients(targets)
    file = uploaded(maker)
    method = {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 2}}}
    made = maker.fine_tuning.jobs.create(model=MODEL, training_file=file, method=method, seed=7, metadata={"of": "sdk"})
    equal((made.status, made.training_file, made.seed, made.metadata), ("queued", file, 7, {"of": "sdk"}))
    equal(made.method.supervised.hyperparameters.n_epochs, 2)
    jobs, id = finder.fine_tuning.jobs, named(made.id, "ftjob-", targets)
    equal(jobs.retrieve(id), made)
    equal([(jobs.pause(id).status, jobs.resume(id).status, jobs.cancel(id).status)], [("paused", "queued", "cancelled")])
    again = maker.fine_tuning.jobs.create(model=MODEL, training_file=file)
    # One to a page, so that the SDK asks for the next by what the page before ended with.
    listed = [job.id for job in maker.fine_tuning.jobs.list(limit=1)]
    equal(listed[:2], [again.id, id])
    equal([event.message for event in jobs.list_events(id, limit=2)], ["Step 2", "Step 1", "Step 0"])
    points = list(jobs.checkpoints.list(id, limit=2))
    equal([point.step_number for point in points], [2, 1, 0])
    equal({point.fine_tuning_job_id for point in points}, {id})
    equal(points[0].fine_tuned_model_checkpoint, f"{TUNED}:ckpt-step-2")
    wrong = raises(openai.BadRequestError,
                   lambda: maker.fine_tuning.jobs.create(model=MODEL, training_file=file, suffix="s" * 65))
    equal(wrong.param, "suffix")
    wrong = raises(openai.BadRequestError, lambda: maker.fine_tuning.jobs.create(model="gpt-2", training_file=file))
    equal(wrong.param, "model")
    unknown(targets, id, lambda sdk, id: sdk.fine_tuning.jobs.retrieve(id))


@everywhere
def check_tuned_models_are_deleted(targets):
    maker, _ = clients(targets)
    equal((maker.models.delete(TUNED).id, maker.models.delete(TUNED).deleted), (TUNED, True))
    raises(openai.NotFoundError, lambda: maker.models.delete("ft:nobodys"))


@everywhere
def check_vector_stores(targets):
    maker, finder = clients(targets)
    file = uploaded(maker, "assistants")
    made = maker.vector_stores.create(name="notes", file_ids=[file], expires_after={"anchor": "last_active_at", "days": 7})
    stores, id = finder.vector_stores, named(made.id, "vs_", targets)
    equal((made.name, made.expires_after.days, stores.retrieve(id)), ("notes", 7, made))
    equal(stores.update(id, name="others", metadata={"of": "sdk"}).name, "others")
    again = maker.vector_stores.create(name="more")
    equal([store.id for store in maker.vector_stores.list(limit=1)][:2], [again.id, id])
    wrong = raises(openai.BadRequestError, lambda: stores.search(id, query="q", max_num_results=51))
    equal(wrong.param, "max_num_results")
    unknown(targets, id, lambda sdk, id: sdk.vector_stores.retrieve(id))
    unknown(targets, id, lambda sdk, id: sdk.vector_stores.search(id, query="q"))
    equal((stores.delete(id).deleted, stores.delete(again.id).id), (True, again.id))
    raises(openai.NotFoundError, lambda: stores.retrieve(id))


@everywhere
def check_files_of_vector_stores(targets):
    maker, finder = clients(targets)
    store, file = maker.vector_stores.create(name="notes").id, uploaded(maker, "assistants")
    files = finder.vector_stores.files
    made = files.create(vector_store_id=store, file_id=file, attributes={"year": 2026})
    equal((made.id, made.vector_store_id, made.attributes), (file, store, {"year": 2026}))
    equal(files.retrieve(file, vector_store_id=store), made)
    equal(files.update(file, vector_store_id=store, attributes={"year": 2027}).attributes, {"year": 2027})
    polled = maker.vector_stores.files.upload_and_poll(vector_store_id=store, file=("b.txt", LINES), poll_interval_ms=1)
    equal((polled.status, polled.vector_store_id), ("completed", store))
    equal({one.id for one in files.list(store, limit=1)}, {file, polled.id})
    equal([one.text for one in files.content(file, vector_store_id=store)], ["what is in it"])
    found = list(finder.vector_stores.search(store, query="what", max_num_results=5))
    equal([(one.file_id, one.content[0].text) for one in found], [(file, "what is in it"), (polled.id, "what is in it")])
    equal((files.delete(file, vector_store_id=store).id, [one.id for one in files.list(store)]), (file, [polled.id]))
    raises(openai.NotFoundError, lambda: files.retrieve(file, vector_store_id=store))


@everywhere
def check_batches_of_files_of_vector_stores(targets):
    maker, finder = clients(targets)
    store, files = maker.vector_stores.create(name="notes").id, [uploaded(maker, "assistants") for _ in range(3)]
    batches = finder.vector_stores.file_batches
    made = batches.create_and_poll(store, file_ids=files, poll_interval_ms=1)
    equal((made.status, made.vector_store_id, made.file_counts.completed), ("completed", store, 3))
    id = named(made.id, "vsfb_", targets)
    equal(batches.retrieve(id, vector_store_id=store), made)
    equal({one.id for one in batches.list_files(id, vector_store_id=store, limit=2)}, set(files))
    both = maker.vector_stores.file_batches.upload_and_poll(store, files=[("c", LINES), ("d", LINES)], poll_interval_ms=1)
    equal(both.file_counts.total, 2)
    equal(batches.cancel(id, vector_store_id=store).status, "cancelled")
    unknown(targets, id, lambda sdk, id: sdk.vector_stores.file_batches.retrieve(id, vector_store_id=store))


TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}


@everywhere
def check_assistants(targets):
    maker, finder = clients(targets)
    file = uploaded(maker, "assistants")
    resources = {"code_interpreter": {"file_ids": [file]}}
    made = maker.beta.assistants.create(model="gpt-4o", name="Guide", tools=[{"type": "code_interpreter"}], tool_resources=resources)
    id = named(made.id, "asst_", targets)
    equal((made.name, made.tool_resources.code_interpreter.file_ids), ("Guide", [file]))
    equal(finder.beta.assistants.retrieve(id), made)
    equal(finder.beta.assistants.update(id, name="Other").name, "Other")
    again = maker.beta.assistants.create(model="gpt-4o")
    equal([one.id for one in maker.beta.assistants.list(limit=1)][:2], [again.id, id])
    wrong = raises(openai.BadRequestError, lambda: maker.beta.assistants.create(model="gpt-4o", extra_body={"voice": "x"}))
    equal(wrong.param, "voice")
    unknown(targets, id, lambda sdk, id: sdk.beta.assistants.retrieve(id))
    equal((finder.beta.assistants.delete(id).deleted, finder.beta.assistants.delete(again.id).deleted), (True, True))


@everywhere
def check_threads_and_messages(targets):
    maker, finder = clients(targets)
    file, made = uploaded(maker, "assistants"), maker.beta.threads.create(messages=[{"role": "user", "content": "hello"}])
    id, messages = named(made.id, "thread_", targets), finder.beta.threads.messages
    equal((finder.beta.threads.retrieve(id), finder.beta.threads.update(id, metadata={"of": "sdk"}).metadata), (made, {"of": "sdk"}))
    attached = [{"file_id": file, "tools": [{"type": "file_search"}]}]
    said = messages.create(id, role="user", content="and this", attachments=attached)
    equal((said.thread_id, said.attachments[0].file_id), (id, file))
    equal(messages.retrieve(named(said.id, "msg_", targets), thread_id=id), said)
    equal([one.content[0].text.value for one in messages.list(id, limit=1)], ["and this", "hello"])
    equal(messages.delete(said.id, thread_id=id).deleted, True)
    unknown(targets, id, lambda sdk, id: sdk.beta.threads.messages.list(id))
    equal(finder.beta.threads.delete(id).id, id)
    raises(openai.NotFoundError, lambda: finder.beta.threads.retrieve(id))


@everywhere
def check_runs(targets):
    maker, finder = clients(targets)
    assistant, thread = maker.beta.assistants.create(model="gpt-4o").id, maker.beta.threads.create().id
    runs = finder.beta.threads.runs
    made = runs.create(thread, assistant_id=assistant)
    id = named(made.id, "run_", targets)
    equal((made.status, made.assistant_id, made.thread_id), ("queued", assistant, thread))
    equal(runs.update(id, thread_id=thread, metadata={"of": "sdk"}).metadata, {"of": "sdk"})
    equal(runs.cancel(id, thread_id=thread).status, "cancelling")
    done = runs.create_and_poll(thread_id=thread, assistant_id=assistant, poll_interval_ms=1)
    equal((done.status, done.usage.model_dump()), ("completed", USAGE))
    equal({one.id for one in runs.list(thread, limit=1)}, {id, done.id})
    step = next(iter(runs.steps.list(done.id, thread_id=thread)))
    said = finder.beta.threads.messages.retrieve(step.step_details.message_creation.message_id, thread_id=thread)
    equal((said.run_id, said.assistant_id, said.content[0].text.value), (done.id, assistant, WORDS))
    wrong = raises(openai.BadRequestError, lambda: runs.create(thread, assistant_id=assistant, temperature=3))
    equal(wrong.param, "temperature")
    unknown(targets, id, lambda sdk, id: sdk.beta.threads.runs.retrieve(id, thread_id=thread))


@everywhere
def check_runs_that_call_tools(targets):
    maker, finder = clients(targets)
    assistant = maker.beta.assistants.create(model="gpt-4o", tools=[TOOL]).id
    run = maker.beta.threads.create_and_run_poll(assistant_id=assistant, thread={"messages": []}, poll_interval_ms=1)
    equal(run.status, "requires_action")
    call = run.required_action.submit_tool_outputs.tool_calls[0]
    equal((call.id, call.function.name), ("call_1", "weather"))
    outputs = [{"tool_call_id": call.id, "output": "sunny"}]
    runs = finder.beta.threads.runs
    done = runs.submit_tool_outputs_and_poll(tool_outputs=outputs, run_id=run.id, thread_id=run.thread_id, poll_interval_ms=1)
    equal((done.id, done.status), (run.id, "completed"))


@everywhere
def check_runs_that_are_streamed(targets):
    maker, finder = clients(targets)
    assistant, thread = maker.beta.assistants.create(model="gpt-4o").id, maker.beta.threads.create().id
    with finder.beta.threads.runs.stream(thread_id=thread, assistant_id=assistant) as stream:
        equal("".join(stream.text_deltas), WORDS)
        done, said = stream.get_final_run(), stream.get_final_messages()
    equal((done.status, done.thread_id, done.usage.total_tokens), ("completed", thread, 10))
    equal((named(done.id, "run_", targets), [one.run_id for one in said]), (done.id, [done.id]))
    equal(finder.beta.threads.messages.retrieve(said[0].id, thread_id=thread).content[0].text.value, WORDS)
    with maker.beta.threads.create_and_run_stream(assistant_id=assistant, thread={"messages": []}) as stream:
        kinds = [event.event for event in stream]
    equal((kinds[0], kinds[-1], kinds.count("thread.message.delta")), ("thread.run.created", "thread.run.completed", 2))


def check_what_two_keep_is_not_mixed():
    mine, theirs = (uploaded(client(*keepers)) for keepers in ((ONE, OTHER), (OTHER, ONE)))
    jobs = client(ONE, OTHER).fine_tuning.jobs
    refused = raises(openai.BadRequestError,
                     lambda: jobs.create(model=MODEL, training_file=mine, validation_file=theirs))
    equal("training_file and validation_file" in str(refused), True)


if __name__ == "__main__":
    import sys

    run(sys.modules["__main__"])
