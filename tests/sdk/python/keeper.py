"""A provider that keeps objects as OpenAI does: files, uploads, fine-tuning jobs, vector stores, assistants and threads, under
ids of its own. It refuses fields that its documentation does not have, and knows no id but those that it made."""

from scripted import Refusal, Routes, Scripted

ROUTES = Routes()
on = ROUTES.on
WORDS = "You said: hello"
USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
TUNED = "ft:gpt-4.1-mini-2025-04-14:acme::B1"


class Keeper(Scripted):
    """`name` stands in all of its ids."""

    def __init__(self, name):
        self.name, self.held, self.contents, self.stores, self.batches = name, {}, {}, {}, {}
        super().__init__(self.answer)

    def answer(self, asked):
        # What the gateway seals for its clients must never come up here.
        if "gw1_" in asked.path or any("gw1_" in value for value in asked.query.values()) or b"gw1_" in asked.body:
            raise Refusal(500, "an id of the gateway's came up")
        if asked.headers.get("authorization") != f"Bearer key-{self.name}":
            raise Refusal(401, "wrong key")
        asked.path = asked.path.removeprefix("/v1")
        if asked.path.startswith(("/assistants", "/threads")) and asked.headers.get("openai-beta") != "assistants=v2":
            raise Refusal(400, "You must provide the 'OpenAI-Beta' header", "OpenAI-Beta")
        function, ids = ROUTES.find(asked)
        return function(self, asked, *ids)

    def made(self, start, kind, **fields):
        id = f"{start}{self.name}{len(self.held) + 1}"
        self.held[id] = {"id": id, "object": kind, "created_at": len(self.held) + 1, **fields}
        return self.held[id]

    def known(self, id, param):
        if id not in self.held:
            raise Refusal(404, f"No such object: {id}", param)
        return self.held[id]

    def listed(self, asked, all):
        """Newest first, as OpenAI's lists are, a page at a time."""
        all = sorted(all, key=lambda one: -one["created_at"])
        after = asked.query.get("after")
        if after is not None:
            places = [place for place, one in enumerate(all) if one["id"] == after]
            if not places:
                raise Refusal(400, f"after: no object {after}", "after")
            all = all[places[0] + 1 :]
        page = all[: int(asked.query.get("limit", 20))]
        ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {}
        return {"object": "list", "data": page, "has_more": len(all) > len(page), **ends}

    def of_kind(self, kind):
        return [one for one in self.held.values() if one["object"] == kind]


def fields(asked, needed, more=()):
    body = asked.json()
    for name in needed:
        if name not in body:
            raise Refusal(400, f"Missing required parameter: '{name}'.", name)
    for name in body:
        if name not in needed and name not in more:
            raise Refusal(400, f"Unknown parameter: '{name}'.", name)
    return body


def deleted(keeper, id, kind):
    keeper.known(id, "id")
    del keeper.held[id]
    return {"id": id, "object": kind, "deleted": True}


@on("POST", "/files")
def make_file(keeper, asked):
    parts = asked.form()
    seconds = parts.pop("expires_after[seconds]", [None])[0]
    if parts.pop("expires_after[anchor]", ["created_at"]) != ["created_at"]:
        raise Refusal(400, "must be created_at", "expires_after.anchor")
    if seconds is not None and not 3600 <= int(seconds) <= 2_592_000:
        raise Refusal(400, "must be from 3600 to 2592000", "expires_after.seconds")
    if sorted(parts) != ["file", "purpose"]:
        raise Refusal(400, f"unknown parts: {sorted(parts)}", sorted(parts)[0])
    (name, content), purpose = parts["file"][0], parts["purpose"][0]
    made = keeper.made("file-", "file", bytes=len(content), filename=name, purpose=purpose, status="processed")
    keeper.contents[made["id"]] = content
    if seconds is not None:
        made["expires_at"] = made["created_at"] + int(seconds)
    return made


@on("GET", "/files/*")
def file(keeper, asked, id):
    return keeper.known(id, "file_id")


@on("GET", "/files/*/content")
def content(keeper, asked, id):
    keeper.known(id, "file_id")
    return 200, "application/octet-stream", keeper.contents[id]


@on("POST", "/uploads")
def make_upload(keeper, asked):
    body = fields(asked, ("bytes", "filename", "mime_type", "purpose"), ("expires_after",))
    if body["mime_type"] not in ("application/jsonl", "application/pdf"):
        raise Refusal(400, "The MIME type is not supported.", "mime_type")
    return keeper.made("upload_", "upload", status="pending", expires_at=3600, bytes=body["bytes"],
                       filename=body["filename"], purpose=body["purpose"])


@on("POST", "/uploads/*/parts")
def make_part(keeper, asked, id):
    if keeper.known(id, "upload_id")["status"] != "pending":
        raise Refusal(400, "The upload is not pending.", "upload_id")
    part = keeper.made("part_", "upload.part", upload_id=id)
    keeper.contents[part["id"]] = asked.form()["data"][0][1]
    return part


@on("POST", "/uploads/*/complete")
def complete(keeper, asked, id):
    upload, body = keeper.known(id, "upload_id"), fields(asked, ("part_ids",), ("md5",))
    for part in body["part_ids"]:
        if keeper.known(part, "part_ids")["upload_id"] != id:
            raise Refusal(400, "a part of another upload", "part_ids")
    whole = b"".join(keeper.contents[part] for part in body["part_ids"])
    if len(whole) != upload["bytes"]:
        raise Refusal(400, f"{len(whole)} bytes came, {upload['bytes']} were announced", "bytes")
    file = keeper.made("file-", "file", bytes=len(whole), filename=upload["filename"], purpose=upload["purpose"],
                       status="processed")
    keeper.contents[file["id"]] = whole
    upload.update(status="completed", file=file)
    return upload


@on("POST", "/uploads/*/cancel")
def cancel_upload(keeper, asked, id):
    upload = keeper.known(id, "upload_id")
    upload["status"] = "cancelled"
    return upload


@on("DELETE", "/models/*")
def delete_model(keeper, asked, id):
    if id != TUNED:
        raise Refusal(404, f"The model '{id}' does not exist", "model")
    return {"id": id, "object": "model", "deleted": True}


@on("POST", "/fine_tuning/jobs")
def make_job(keeper, asked):
    more = ("validation_file", "suffix", "seed", "method", "metadata", "hyperparameters", "integrations")
    body = fields(asked, ("model", "training_file"), more)
    keeper.known(body["training_file"], "training_file")
    if len(body.get("suffix", "")) > 64:
        raise Refusal(400, "string too long: at most 64", "suffix")
    if body["model"] != "gpt-4.1-mini-2025-04-14":
        raise Refusal(400, "The model cannot be fine-tuned.", "model")
    tuned = {"n_epochs": "auto", "batch_size": "auto", "learning_rate_multiplier": "auto"}
    return keeper.made("ftjob-", "fine_tuning.job", model=body["model"], training_file=body["training_file"],
                       validation_file=body.get("validation_file"), status="queued", organization_id="org-1",
                       result_files=[], seed=body.get("seed", 1), hyperparameters=tuned, finished_at=None,
                       fine_tuned_model=None, trained_tokens=None, error=None, method=body.get("method"),
                       metadata=body.get("metadata"), integrations=[], estimated_finish=None)


@on("GET", "/fine_tuning/jobs")
def jobs(keeper, asked):
    return keeper.listed(asked, keeper.of_kind("fine_tuning.job"))


@on("GET", "/fine_tuning/jobs/*")
def job(keeper, asked, id):
    return keeper.known(id, "fine_tuning_job_id")


@on("GET", "/fine_tuning/jobs/*/events")
def job_events(keeper, asked, id):
    keeper.known(id, "fine_tuning_job_id")
    told = [{"id": f"ftevent-{keeper.name}{number}", "object": "fine_tuning.job.event", "created_at": number,
             "level": "info", "message": f"Step {number}", "type": "message", "data": {}} for number in range(3)]
    return keeper.listed(asked, told)


@on("GET", "/fine_tuning/jobs/*/checkpoints")
def job_checkpoints(keeper, asked, id):
    keeper.known(id, "fine_tuning_job_id")
    told = [{"id": f"ftckpt_{keeper.name}{number}", "object": "fine_tuning.job.checkpoint", "created_at": number,
             "fine_tuned_model_checkpoint": f"{TUNED}:ckpt-step-{number}", "fine_tuning_job_id": id,
             "metrics": {"step": number, "train_loss": 0.5}, "step_number": number} for number in range(3)]
    return keeper.listed(asked, told)


def turn(word, status):
    @on("POST", f"/fine_tuning/jobs/*/{word}")
    def turned(keeper, asked, id):
        job = keeper.known(id, "fine_tuning_job_id")
        job["status"] = status
        return job


for word, status in (("cancel", "cancelled"), ("pause", "paused"), ("resume", "queued")):
    turn(word, status)

COUNTS = {"in_progress": 0, "completed": 1, "failed": 0, "cancelled": 0, "total": 1}


@on("POST", "/vector_stores")
def make_store(keeper, asked):
    body = fields(asked, (), ("name", "file_ids", "expires_after", "chunking_strategy", "metadata", "description"))
    for id in body.get("file_ids", []):
        keeper.known(id, "file_ids")
    if body.get("expires_after", {}).get("days", 1) > 365:
        raise Refusal(400, "must be at most 365", "expires_after.days")
    return keeper.made("vs_", "vector_store", name=body.get("name", ""), status="completed", usage_bytes=9,
                       file_counts=COUNTS, metadata=body.get("metadata", {}), last_active_at=1,
                       expires_after=body.get("expires_after"), expires_at=None)


@on("GET", "/vector_stores")
def stores(keeper, asked):
    return keeper.listed(asked, keeper.of_kind("vector_store"))


@on("GET", "/vector_stores/*")
def store(keeper, asked, id):
    return keeper.known(id, "vector_store_id")


@on("POST", "/vector_stores/*")
def change_store(keeper, asked, id):
    keeper.known(id, "vector_store_id").update(fields(asked, (), ("name", "expires_after", "metadata")))
    return keeper.held[id]


@on("DELETE", "/vector_stores/*")
def delete_store(keeper, asked, id):
    return deleted(keeper, id, "vector_store.deleted")


@on("POST", "/vector_stores/*/search")
def search(keeper, asked, id):
    keeper.known(id, "vector_store_id")
    body = fields(asked, ("query",), ("filters", "max_num_results", "ranking_options", "rewrite_query"))
    if not 1 <= body.get("max_num_results", 10) <= 50:
        raise Refusal(400, "must be from 1 to 50", "max_num_results")
    found = [{"file_id": file, "filename": "a.txt", "score": 0.9, "attributes": {},
              "content": [{"type": "text", "text": "what is in it"}]} for file in keeper.stores.get(id, {})]
    return {"object": "vector_store.search_results.page", "search_query": [body["query"]], "data": found,
            "has_more": False, "next_page": None}


def attach(keeper, store, file, attributes=None):
    keeper.known(file, "file_id")
    told = {"id": file, "object": "vector_store.file", "created_at": len(keeper.held), "status": "completed",
            "usage_bytes": 9, "vector_store_id": store, "last_error": None, "attributes": attributes or {}}
    keeper.stores.setdefault(store, {})[file] = told
    return told


def of_store(keeper, store, file):
    keeper.known(store, "vector_store_id")
    told = keeper.stores.get(store, {}).get(file)
    if told is None:
        raise Refusal(404, f"No such file: {file}", "file_id")
    return told


@on("POST", "/vector_stores/*/files")
def attach_file(keeper, asked, id):
    keeper.known(id, "vector_store_id")
    body = fields(asked, ("file_id",), ("attributes", "chunking_strategy"))
    return attach(keeper, id, body["file_id"], body.get("attributes"))


@on("GET", "/vector_stores/*/files")
def attached_files(keeper, asked, id):
    keeper.known(id, "vector_store_id")
    return keeper.listed(asked, keeper.stores.get(id, {}).values())


@on("GET", "/vector_stores/*/files/*")
def attached_file(keeper, asked, id, file):
    return of_store(keeper, id, file)


@on("POST", "/vector_stores/*/files/*")
def change_attached(keeper, asked, id, file):
    of_store(keeper, id, file).update(fields(asked, ("attributes",)))
    return of_store(keeper, id, file)


@on("DELETE", "/vector_stores/*/files/*")
def detach(keeper, asked, id, file):
    of_store(keeper, id, file)
    del keeper.stores[id][file]
    return {"id": file, "object": "vector_store.file.deleted", "deleted": True}


@on("GET", "/vector_stores/*/files/*/content")
def attached_content(keeper, asked, id, file):
    of_store(keeper, id, file)
    told = [{"type": "text", "text": "what is in it"}]
    return {"object": "vector_store.file_content.page", "data": told, "has_more": False, "next_page": None}


@on("POST", "/vector_stores/*/file_batches")
def attach_batch(keeper, asked, id):
    keeper.known(id, "vector_store_id")
    files = fields(asked, ("file_ids",), ("attributes", "chunking_strategy"))["file_ids"]
    for file in files:
        attach(keeper, id, file)
    counts = {**COUNTS, "completed": len(files), "total": len(files)}
    made = keeper.made("vsfb_", "vector_store.files_batch", status="in_progress", vector_store_id=id, file_counts=counts)
    keeper.batches[made["id"]] = files
    return made


@on("GET", "/vector_stores/*/file_batches/*")
def attached_batch(keeper, asked, id, batch):
    keeper.known(id, "vector_store_id")
    # It is at work when it is made, and done when it is looked at.
    found = keeper.known(batch, "batch_id")
    found["status"] = "completed" if found["status"] == "in_progress" else found["status"]
    return found


@on("POST", "/vector_stores/*/file_batches/*/cancel")
def cancel_batch(keeper, asked, id, batch):
    keeper.known(batch, "batch_id")["status"] = "cancelled"
    return keeper.held[batch]


@on("GET", "/vector_stores/*/file_batches/*/files")
def files_of_batch(keeper, asked, id, batch):
    keeper.known(batch, "batch_id")
    return keeper.listed(asked, [of_store(keeper, id, file) for file in keeper.batches[batch]])
