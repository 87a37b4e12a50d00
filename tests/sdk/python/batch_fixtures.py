"""What is asked of providers for batches, and what they tell of them, held against their own SDKs.

`batch_fixtures.py FOLDER` reads `providers/tests/batches` and prints what was read by whom.
"""

import json
import pathlib
import re
import sys

import anthropic.types.messages as claude
import anthropic.types.messages.batch_create_params as claude_params
import bedrock
import botocore.config
import mistralai.client.models as mistral
from google.genai import batches as genai_batches
from google.genai import types as gemini
from openai.types import ImagesResponse
from openai.types.chat import ChatCompletion, ChatCompletionMessageParam
from openai.types.responses import Response
from pydantic import TypeAdapter

CALL = re.compile(r"^(?:(Control|Storage): )?(GET|POST|PUT|DELETE) (/\S*)$", re.M)


def calls(case):
    """Service, method, path and body of each call."""
    parts = CALL.split((case / "calls.http").read_text())[1:]
    return [tuple(parts[at : at + 3]) + (parts[at + 3].strip(),) for at in range(0, len(parts), 4)]


def made(case, end):
    return next(json.loads(body) for _, method, path, body in calls(case) if method == "POST" and path.endswith(end))


def lines(case, end):
    body = next(body for _, method, path, body in calls(case) if method in ("POST", "PUT") and path.endswith(end))
    return [json.loads(line) for line in body.splitlines() if line.startswith("{")]


def told(case):
    return [(path.stem.removeprefix("told-"), json.loads(path.read_text())) for path in sorted(case.glob("told-*.json"))]


def results(case):
    text = (case / "results.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def anthropic(case):
    body = next(body for _, method, path, body in calls(case) if path == "/messages/batches")
    asked = json.loads(body.split("\n", 1)[1])
    for request in asked["requests"]:
        TypeAdapter(claude_params.Request).validate_python(request)
    for _, batch in told(case):
        claude.MessageBatch.model_validate(batch)
    for line in results(case):
        TypeAdapter(claude.MessageBatchIndividualResponse).validate_python(line)


def mistral_ai(case):
    for line in lines(case, "/files"):
        mistral.BatchRequest.model_validate(line)
    mistral.CreateBatchJobRequest.model_validate(made(case, "/batch/jobs"))
    for _, job in told(case):
        read = mistral.BatchJob.model_validate(job)
        assert read.status in ("QUEUED", "RUNNING", "SUCCESS", "FAILED", "TIMEOUT_EXCEEDED", "CANCELLATION_REQUESTED", "CANCELLED")


def put_by_botocore(bucket, key, body):
    """Where botocore itself would put an object, as method and path."""
    config = botocore.config.Config(s3={"addressing_style": "path"}, signature_version="s3v4")
    client = bedrock.SESSION.create_client(
        "s3", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="s", config=config
    )
    seen = []

    def catch(request, **_):
        seen.append((request.method, re.sub(r"^https://[^/]+", "", request.url)))
        raise ConnectionError

    client.meta.events.register("before-send.s3", catch)
    try:
        client.put_object(Bucket=bucket, Key=key, Body=body)
    except ConnectionError:
        pass
    return seen[0]


def bedrock_jobs(case):
    create = bedrock.CONTROL.operation_model("CreateModelInvocationJob")
    get = bedrock.CONTROL.operation_model("GetModelInvocationJob")
    bedrock.held(create.input_shape, made(case, "/model-invocation-job"), "the job")
    for name, job in told(case):
        bedrock.held((create if name == "created" else get).output_shape, job, name)
    converse = bedrock.RUNTIME.operation_model("Converse")
    for line in lines(case, "/lines.jsonl"):
        # The model stands in the job.
        body = {**line["modelInput"]}
        for name, value in body.items():
            bedrock.held(converse.input_shape.members[name], value, name)
    for line in results(case):
        if "modelOutput" in line:
            bedrock.held(converse.output_shape, line["modelOutput"], "an answer")
    _, method, path, body = next(call for call in calls(case) if call[0] == "Storage" and call[1] == "PUT")
    bucket, key = path.lstrip("/").split("/", 1)
    assert put_by_botocore(bucket, key, b"x") == (method, path), (method, path)
    paths = {(method, path) for service, method, path, _ in calls(case) if service == "Control"}
    for operation in ("CreateModelInvocationJob", "GetModelInvocationJob", "StopModelInvocationJob"):
        http = bedrock.CONTROL.operation_model(operation).http
        assert (http["method"], http["requestUri"].replace("{jobIdentifier}", "ID")) in paths, operation


def google(case):
    for name, batch in told(case):
        read = gemini.BatchJob.model_validate(genai_batches._BatchJob_from_mldev(batch))
        state = name.removesuffix("-file").upper()
        assert read.name == "batches/123456" and read.state.name.endswith(state), (name, read.state)
        if name.endswith("-file"):
            assert read.dest.file_name == "files/batch-123456", read.dest
    asked = made(case, ":batchGenerateContent")["batch"]
    assert asked["displayName"] and asked["inputConfig"]["fileName"].startswith("files/"), asked
    about, *requests = lines(case, "?uploadType=multipart")
    gemini.File.model_validate(about["file"])
    for line in requests:
        assert line.keys() == {"key", "request"}, line
        for content in line["request"]["contents"]:
            gemini.Content.model_validate(content)
    for line in results(case):
        if "response" in line:
            gemini.GenerateContentResponse.model_validate(line["response"])


def fireworks(case):
    """Its own SDK is not at hand: lines and answers are held against OpenAI's, whose shape they have."""
    for line in lines(case, ":upload"):
        assert line.keys() == {"custom_id", "body"} and "model" not in line["body"], line
        for message in line["body"]["messages"]:
            TypeAdapter(ChatCompletionMessageParam).validate_python(message)
    for line in results(case)[:1]:
        ChatCompletion.model_validate(line["response"])


def vertex(case):
    for name, job in told(case):
        read = gemini.BatchJob.model_validate(genai_batches._BatchJob_from_vertex(job))
        assert read.state.name.endswith(name) or name == "claude", (name, read.state)
    job = made(case, "/batchPredictionJobs")
    source = genai_batches._BatchJobSource_from_vertex(job["inputConfig"])
    assert gemini.BatchJobSource.model_validate(source).gcs_uri == job["inputConfig"]["gcsSource"]["uris"]
    destination = genai_batches._BatchJobDestination_from_vertex(job["outputConfig"])
    assert gemini.BatchJobDestination.model_validate(destination).gcs_uri.startswith("gs://")


def x_ai(case):
    """xAI's own package speaks gRPC alone. Its file is one of OpenAI's lines, and its answers are OpenAI's."""
    asked = lines(case, "/files")
    assert len(asked) == len({line["custom_id"] for line in asked}) > 0
    for line in asked:
        assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
        for message in line["body"]["messages"]:
            TypeAdapter(ChatCompletionMessageParam).validate_python(message)
    assert made(case, "/batches").keys() == {"name", "input_file_id"}
    for _, batch in told(case):
        counts = {name: count for name, count in batch.get("state", {}).items() if name != "num_requests"}
        assert counts.keys() <= {"num_pending", "num_success", "num_error", "num_cancelled"}, batch
        assert sum(counts.values()) <= batch.get("state", {}).get("num_requests", 0), batch
    found = [(line.get("batch_result") or {}).get("response") or {} for line in results(case)]
    answers = [pair for response in found for pair in response.items()]
    assert {"chat_get_completion", "responses", "image_generation"} <= {kind for kind, _ in answers}
    for kind, answer in answers:
        if kind == "chat_get_completion" and answer["choices"]:
            assert ChatCompletion.model_validate({"created": 0, **answer}).choices[0].message.content
        elif kind == "responses":
            assert Response.construct(**answer).output_text
        elif kind == "image_generation":
            # xAI tells what pictures cost in the place of tokens.
            assert ImagesResponse.model_validate({"created": 0, **answer, "usage": None}).data[0].url


READERS = {
    "anthropic": anthropic,
    "bedrock": bedrock_jobs,
    "fireworks-ai": fireworks,
    "google": google,
    "mistral-ai": mistral_ai,
    "vertex-ai": vertex,
    "x-ai": x_ai,
}

if __name__ == "__main__":
    root = pathlib.Path(sys.argv[1])
    assert {path.name for path in root.iterdir()} == READERS.keys(), "every family has a reader"
    for name, reader in READERS.items():
        reader(root / name)
        print("ok", name)
