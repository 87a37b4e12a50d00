"""Guardrails as users of the official `openai` and `anthropic` packages meet them."""

import json
import sys

import anthropic
import openai

from checks import ECHO, HELLO, KEY, PROVIDER, URL, equal, raises, run

MODEL = "mock-large"


def told(**keys):
    config = {"provider": PROVIDER, **keys}
    return {"x-gateway-config": json.dumps(config)}


def forbids(word, **actions):
    return {"default.contains": {"words": [word], "operator": "none"}, **actions}


def redacts(rule):
    return {"default.regexReplace": {"rule": rule, "redactText": "[X]"}}


def oa(**keys):
    return openai.OpenAI(base_url=f"{URL}/v1", api_key=KEY, max_retries=2, default_headers=told(**keys))


def claude(**keys):
    return anthropic.Anthropic(base_url=URL, api_key=KEY, max_retries=2, default_headers=told(**keys))


def chat(sdk, **more):
    return sdk.chat.completions.create(model=MODEL, messages=HELLO, **more)


def message(sdk, **more):
    return sdk.messages.create(model=MODEL, max_tokens=100, messages=HELLO, **more)


def said_by_chat(stream):
    return "".join(c.choices[0].delta.content or "" for c in stream if c.choices)


def check_a_denied_request_is_an_error_that_is_not_tried_again():
    keys = {"input_guardrails": [forbids("hello", deny=True)]}
    error = raises(openai.APIStatusError, lambda: chat(oa(**keys)))
    equal((error.status_code, error.type), (446, "hooks_failed"))
    equal(error.response.json()["hook_results"]["before_request_hooks"][0]["deny"], True)
    error = raises(anthropic.APIStatusError, lambda: message(claude(**keys)))
    equal((error.status_code, error.body["error"]["type"]), (446, "hooks_failed"))
    error = raises(openai.APIStatusError, lambda: oa(**keys).responses.create(model=MODEL, input="hello there"))
    equal(error.status_code, 446)


def check_a_soft_failure_is_an_answer():
    answer = chat(oa(output_guardrails=[forbids("hello")]))
    equal(answer.choices[0].message.content, ECHO)
    equal(answer.hook_results["after_request_hooks"][0]["verdict"], False)
    equal(message(claude(output_guardrails=[forbids("hello")])).content[0].text, ECHO)


def check_a_soft_denial_is_an_answer_of_the_model():
    keys = {"input_guardrails": [forbids("hello", deny=True, soft_deny_200=True)]}
    answer = chat(oa(**keys))
    equal((answer.choices[0].finish_reason, "guardrail" in answer.choices[0].message.content), ("stop", True))
    equal(message(claude(**keys)).stop_reason, "end_turn")
    equal(oa(**keys).responses.create(model=MODEL, input="hello there").status, "completed")
    equal("guardrail" in said_by_chat(chat(oa(**keys), stream=True)), True)
    with claude(**keys).messages.stream(model=MODEL, max_tokens=100, messages=HELLO) as stream:
        equal("guardrail" in "".join(stream.text_stream), True)
        equal(stream.get_final_message().stop_reason, "end_turn")
    events = list(oa(**keys).responses.create(model=MODEL, input="hello there", stream=True))
    equal(("guardrail" in events[-1].response.output_text, events[-1].type), (True, "response.completed"))


def check_a_redaction_is_the_same_streamed_and_whole():
    keys = {"output_guardrails": [redacts("said|ther")]}
    whole = chat(oa(**keys)).choices[0].message.content
    equal(whole, "You [X]: hello [X]e")
    equal(said_by_chat(chat(oa(**keys), stream=True)), whole)
    with claude(**keys).messages.stream(model=MODEL, max_tokens=100, messages=HELLO) as stream:
        equal("".join(stream.text_stream), whole)
        equal(stream.get_final_message().content[0].text, whole)
    with oa(**keys).responses.stream(model=MODEL, input="hello there") as stream:
        pieces = [event.delta for event in stream if event.type == "response.output_text.delta"]
        equal("".join(pieces), stream.get_final_response().output_text)
        equal("".join(pieces), whole)


def check_a_cut_stream_raises_and_hangs_nobody():
    keys = {"output_guardrails": [forbids("there", deny=True)]}
    error = raises(openai.APIError, lambda: said_by_chat(chat(oa(**keys), stream=True)))
    equal("guardrail" in str(error), True)
    raises(anthropic.APIError, lambda: list(message(claude(**keys), stream=True)))
    events = []

    def responses():
        for event in oa(**keys).responses.create(model=MODEL, input="hello there", stream=True):
            events.append(event)

    # The package raises at errors before the stream; inside of it, it gives them as its last event.
    try:
        responses()
    except openai.APIError:
        pass
    else:
        equal(events[-1].type in ("response.failed", "error"), True)
    equal(any(event.type == "response.completed" for event in events), False)


if __name__ == "__main__":
    run(sys.modules[__name__])
