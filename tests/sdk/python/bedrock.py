"""What goes to Bedrock, and what comes back, held against botocore's own model of the service."""

import base64
import json

import botocore.session

SESSION = botocore.session.get_session()
RUNTIME = SESSION.get_service_model("bedrock-runtime")
AGENTS = SESSION.get_service_model("bedrock-agent-runtime")
CONTROL = SESSION.get_service_model("bedrock")
TYPES = {"string": str, "boolean": bool, "integer": int, "long": int, "float": (int, float), "double": (int, float)}


def held(shape, value, at):
    """Stricter than botocore's parser, which passes over what it does not know."""
    kind = shape.type_name
    if getattr(shape, "is_document_type", False):
        return
    if kind == "structure":
        assert isinstance(value, dict), f"{at} is no object"
        unknown = value.keys() - shape.members.keys()
        assert not unknown, f"{at} has {unknown}, which {shape.name} has not"
        missing = {m for m in shape.required_members if "location" not in shape.members[m].serialization} - value.keys()
        assert not missing, f"{at} lacks {missing} of {shape.name}"
        if getattr(shape, "is_tagged_union", False):
            assert len(value) == 1, f"{at} is a union of {list(value)}"
        for key, one in value.items():
            held(shape.members[key], one, f"{at}.{key}")
    elif kind == "list":
        assert isinstance(value, list), f"{at} is no list"
        for i, one in enumerate(value):
            held(shape.member, one, f"{at}[{i}]")
    elif kind == "map":
        for key, one in value.items():
            held(shape.value, one, f"{at}.{key}")
    elif kind == "blob":
        base64.b64decode(value, validate=True)
    elif kind in TYPES:
        right = isinstance(value, TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
        assert right, f"{at} is no {kind}: {value!r}"
        known = getattr(shape, "enum", None)
        assert not known or value in known, f"{at} is {value!r}, not one of {known}"


def tuning(method, path):
    if path.endswith("/stop"):
        return "StopModelCustomizationJob"
    if not path.endswith("/model-customization-jobs"):
        return "GetModelCustomizationJob"
    return "CreateModelCustomizationJob" if method == "POST" else "ListModelCustomizationJobs"


def operation(method, path):
    end = path.rsplit("/", 1)[-1]
    names = {
        "converse": "Converse",
        "converse-stream": "ConverseStream",
        "count-tokens": "CountTokens",
        "invoke": "InvokeModel",
        "invoke-with-response-stream": "InvokeModelWithResponseStream",
    }
    if end == "foundation-models":
        return CONTROL.operation_model("ListFoundationModels")
    if "/model-customization-jobs" in path:
        return CONTROL.operation_model(tuning(method, path))
    if end == "rerank":
        return AGENTS.operation_model("Rerank")
    return RUNTIME.operation_model(names[end])


def request(case):
    head, _, body = (case / "upstream.http").read_text().partition("\n\n")
    body = body.partition("\nadjusted: ")[0]
    method, url = head.split("\n")[0].split(" ")[:2]
    return operation(method, url.split("?")[0]), body.strip()


def error(op, body):
    shapes = {shape.name for shape in op.error_shapes}
    assert shapes and (body.get("message") or body.get("Message")), f"no message in {body}"


def answer(case, op, message):
    body = json.loads((case / "upstream.json").read_text())
    if json.loads((case / "call.json").read_text()).get("status", 200) >= 400:
        error(op, body)
    elif op.name != "InvokeModel":
        held(op.output_shape, body, case.name)
    elif body.get("type") == "message":
        message(body)


def frames(case, op, event):
    stream = op.output_shape.members["stream" if "stream" in op.output_shape.members else "body"]
    for line in (case / "upstream.frames").read_text().splitlines():
        ((name, payload),) = json.loads(line).items()
        if name == "chunk":
            event(payload)
        else:
            held(stream.members[name], payload, f"{case.name}: {name}")


def read(case, message, event):
    op, body = request(case)
    if body and not op.name.startswith("InvokeModel"):
        held(op.input_shape, json.loads(body), f"{case.name}, request")
    if (case / "upstream.frames").exists():
        frames(case, op, event)
    else:
        answer(case, op, message)
    return "botocore"
