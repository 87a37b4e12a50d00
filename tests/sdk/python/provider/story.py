"""What the scripted provider says, whatever dialect it is asked in.

A conversation in which somebody asks to `plan` takes three answers: two calls at once, one call more, a sentence. Everything
else is echoed. Faults are asked for in words, since not every client can send a header of its own.
"""

import dataclasses
import itertools
import json
import re
import threading

PLAN = [
    [("weather", {"city": "Paris"}), ("weather", {"city": "Rome"})],
    [("book", {"city": "Rome"})],
]
BEFORE = "Let me see."
END = "Booked Rome for you."
THOUGHT = "Rome is warmer than Paris."
# What every dialect tells of usage in its own words; of the input some is read from a cache where a client asked for that.
INPUT, CACHED, OUTPUT, REASONING = 50, 40, 8, 3


class Refused(Exception):
    """An error of the provider's, to be told in its dialect."""

    def __init__(self, status, message, retry_after=None):
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after


@dataclasses.dataclass
class Asked:
    """What counts of a request, read by a dialect."""

    said: str
    results: list = dataclasses.field(default_factory=list)
    """What the tools have answered since somebody last spoke, in order."""
    tools: list = dataclasses.field(default_factory=list)
    images: int = 0
    schema: dict | None = None
    """Empty for any JSON object."""
    thinks: bool = False
    cached: bool = False
    stream: bool = False


@dataclasses.dataclass
class Call:
    id: str
    name: str
    arguments: dict


@dataclasses.dataclass
class Step:
    text: str | None = None
    calls: list = dataclasses.field(default_factory=list)
    thought: str | None = None
    cached: int = 0

    @property
    def input(self):
        return INPUT

    @property
    def reasoning(self):
        return REASONING if self.thought else 0

    @property
    def output(self):
        return OUTPUT + self.reasoning

    def pieces(self):
        """The text as a stream cuts it."""
        return re.findall(r"\s*\S+", self.text or "")


ids = itertools.count(1)
failed, lock = {}, threading.Lock()


def fail_as_told(said):
    told = re.search(r"error (\d{3})", said)
    if told:
        raise Refused(int(told[1]), f"the provider says {told[1]} as it was asked to", retry_after="7")
    told = re.search(r"fail (\d) times as (\S+)", said)
    if told:
        with lock:
            failed[told[2]] = failed.get(told[2], 0) + 1
            if failed[told[2]] <= int(told[1]):
                raise Refused(429, "the provider is busy just now", retry_after="0")


def example(schema, root=None):
    """The least value that fits."""
    root = root or schema
    if "$ref" in schema:
        return example(root["$defs" if "$defs" in root else "definitions"][schema["$ref"].rsplit("/", 1)[1]], root)
    for key in ("anyOf", "allOf", "oneOf"):
        if key in schema:
            return example(schema[key][0], root)
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    kind = schema.get("type", "object")
    kind = (kind[0] if isinstance(kind, list) else kind).lower()
    if kind == "object":
        return {name: example(one, root) for name, one in (schema.get("properties") or {"good": {"type": "boolean"}}).items()}
    if kind == "array":
        return [example(schema.get("items", {"type": "string"}), root)]
    return {"string": "mock", "integer": 1, "number": 1, "boolean": True}.get(kind)


def step(asked):
    """The next answer of the conversation."""
    fail_as_told(asked.said)
    thought = THOUGHT if asked.thinks else None
    cached = CACHED if asked.cached else 0
    if asked.said.startswith("plan") and {"weather", "book"} <= set(asked.tools):
        done, at = len(asked.results), 0
        while at < len(PLAN) and done >= len(PLAN[at]):
            done -= len(PLAN[at])
            at += 1
        if done:
            raise Refused(400, f"{done} results for {len(PLAN[at])} calls")
        if at < len(PLAN):
            calls = [Call(f"call{next(ids):05}", name, arguments) for name, arguments in PLAN[at]]
            return Step(text=BEFORE, calls=calls, thought=thought, cached=cached)
        return Step(text=END, thought=thought, cached=cached)
    if asked.schema is not None:
        return Step(text=json.dumps(example(asked.schema)), thought=thought, cached=cached)
    if asked.images:
        return Step(text=f"I see {asked.images} image.", thought=thought, cached=cached)
    if asked.results:
        return Step(text=f"The tool said: {asked.results[-1]}", thought=thought, cached=cached)
    return Step(text=f"You said: {asked.said}", thought=thought, cached=cached)
