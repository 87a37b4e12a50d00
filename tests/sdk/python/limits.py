"""What the gateway tells of its limits, the official SDKs do: they wait as long as they are told to, and try nothing again
that cannot pass."""

import os
import sys
import time

import anthropic
import openai

from checks import ECHO, HELLO, URL, equal, headers, raises, run

MODEL = "mock-large"
# One request a second; one a week; a budget that the first call uses up.
SECOND, WEEK, BUDGET = (os.environ[f"TEST_{name}_KEY"] for name in ("SECOND", "WEEK", "BUDGET"))


class Wire:
    """When each request left, and what came back when."""

    def __init__(self, module):
        self.module, self.sent, self.answers = module, [], []
        hooks = {"request": [self.note_request], "response": [self.note_answer]}
        self.http = module.DefaultHttpxClient(event_hooks=hooks)

    def note_request(self, _):
        self.sent.append(time.monotonic())

    def note_answer(self, answer):
        self.answers.append((time.monotonic(), answer.status_code, answer.headers))

    def ask(self, key):
        more = {"api_key": key, "max_retries": 3, "default_headers": headers(), "http_client": self.http}
        if self.module is anthropic:
            sdk = anthropic.Anthropic(base_url=URL, **more)
            return sdk.messages.create(model=MODEL, max_tokens=100, messages=HELLO).content[0].text
        sdk = openai.OpenAI(base_url=f"{URL}/v1", **more)
        return sdk.chat.completions.create(model=MODEL, messages=HELLO).choices[0].message.content

    def statuses(self):
        return [status for _, status, _ in self.answers]


def waits_as_told(module):
    wire = Wire(module)
    # The first two may fall into different seconds, twenty do not.
    for _ in range(20):
        equal(wire.ask(SECOND), ECHO)
        if 429 in wire.statuses():
            break
    refused = wire.statuses().index(429)
    at, _, told = wire.answers[refused]
    wait = wire.sent[refused + 1] - at
    wanted = int(told["retry-after-ms"]) / 1000
    equal(told["retry-after"], "1")
    equal(told["x-gateway-ratelimit-remaining-requests"], "0")
    if not wanted - 0.01 <= wait <= wanted + 0.25:
        raise AssertionError(f"told to wait {wanted} s, waited {wait} s")
    equal(wire.statuses()[refused + 1], 200)


def gives_up_at_once(module, key, status):
    wire = Wire(module)
    equal(wire.ask(key), ECHO)
    error = raises(module.APIStatusError, lambda: wire.ask(key))
    equal((error.status_code, wire.statuses()), (status, [200, status]))
    equal(error.response.headers["x-should-retry"], "false")
    return error


def check_openai_waits_what_it_is_told():
    waits_as_told(openai)


def check_anthropic_waits_what_it_is_told():
    waits_as_told(anthropic)


def check_a_week_is_not_waited_for():
    error = gives_up_at_once(openai, WEEK, 429)
    if not 0 < int(error.response.headers["retry-after"]) <= 7 * 86400:
        raise AssertionError(error.response.headers)
    wire = Wire(anthropic)
    raises(anthropic.RateLimitError, lambda: wire.ask(WEEK))
    equal(wire.statuses(), [429])


def check_a_budget_is_not_tried_again():
    error = gives_up_at_once(openai, BUDGET, 412)
    equal((error.code, error.type), ("budget_exhausted", "insufficient_quota"))
    wire = Wire(anthropic)
    raises(anthropic.APIStatusError, lambda: wire.ask(BUDGET))
    equal(wire.statuses(), [412])


if __name__ == "__main__":
    run(sys.modules[__name__])
