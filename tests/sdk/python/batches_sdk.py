"""Files and batches of the gateway's own by OpenAI's SDK, as its users call them."""

import json
import sys
import time

import openai
from openai import OpenAI

from checks import KEY, PROVIDER, URL, equal, raises, run

client = OpenAI(base_url=f"{URL}/v1", api_key=KEY)
SENT = {"x-gateway-provider": PROVIDER}


def content(count):
    def line(number):
        body = {"model": "mock-large", "messages": [{"role": "user", "content": f"number {number}"}]}
        asked = {"custom_id": f"n-{number}", "method": "POST", "url": "/v1/chat/completions", "body": body}
        return json.dumps(asked) + "\n"

    return "".join(line(number) for number in range(count)).encode()


def upload(count, **fields):
    return client.files.create(file=("lines.jsonl", content(count)), purpose="batch", **fields)


def ended(batch):
    for _ in range(600):
        batch = client.batches.retrieve(batch.id)
        if batch.status in ("completed", "failed", "cancelled", "expired"):
            return batch
        time.sleep(0.05)
    raise AssertionError(f"the batch did not end: {batch}")


def check_files_are_made_listed_read_and_deleted():
    file = upload(3, expires_after={"anchor": "created_at", "seconds": 3600})
    equal((file.object, file.purpose, file.filename, file.bytes), ("file", "batch", "lines.jsonl", len(content(3))))
    equal(file.expires_at - file.created_at, 3600)
    equal(client.files.retrieve(file.id), file)
    equal(client.files.content(file.id).read(), content(3))
    other = upload(1)
    ids = [one.id for one in client.files.list(purpose="batch", limit=1)]
    assert other.id in ids and file.id in ids, ids
    equal(client.files.delete(file.id).deleted, True)
    raises(openai.NotFoundError, lambda: client.files.retrieve(file.id))


def check_a_batch_is_made_read_and_listed():
    made = client.batches.create(
        input_file_id=upload(5).id,
        endpoint="/v1/chat/completions",
        completion_window="immediate",
        metadata={"of": "sdk"},
        extra_headers=SENT,
    )
    equal((made.status, made.metadata), ("validating", {"of": "sdk"}))
    batch = ended(made)
    equal(batch.status, "completed")
    counts = batch.request_counts
    equal((counts.total, counts.completed, counts.failed, batch.error_file_id), (5, 5, 0, None))
    assert batch.created_at <= batch.in_progress_at <= batch.completed_at < batch.expires_at, batch
    lines = [json.loads(line) for line in client.files.content(batch.output_file_id).text.splitlines()]
    said = {line["custom_id"]: line["response"]["body"]["choices"][0]["message"]["content"] for line in lines}
    equal(said, {f"n-{number}": f"You said: number {number}" for number in range(5)})
    equal(batch.usage.total_tokens, sum(line["response"]["body"]["usage"]["total_tokens"] for line in lines))
    assert batch.id in [one.id for one in client.batches.list(limit=1)], "it is listed"
    equal(client.batches.cancel(batch.id).status, "completed")


def check_what_is_unknown_or_wrong_is_told():
    def create(**fields):
        asked = {"endpoint": "/v1/chat/completions", "completion_window": "immediate", **fields}
        return lambda: client.batches.create(**asked, extra_headers=SENT)

    raises(openai.NotFoundError, create(input_file_id="gw_file_" + "0" * 32))
    raises(openai.BadRequestError, create(input_file_id=upload(1).id, completion_window="12h"))
    raises(openai.BadRequestError, lambda: client.files.create(file=("f", b"x"), purpose="vision"))


if __name__ == "__main__":
    run(sys.modules["__main__"])
