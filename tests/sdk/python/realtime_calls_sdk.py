"""Calls of realtime sessions over WebRTC and SIP, by the official `openai` client, through the gateway."""

import sys

import openai

from checks import KEY, URL, equal, headers, raises, run

MODEL = "gpt-realtime"
SESSION = {"type": "realtime", "model": MODEL}


def client(**more):
    return openai.OpenAI(base_url=f"{URL}/v1", api_key=KEY, max_retries=0, default_headers=headers(), **more)


def check_a_call_over_webrtc():
    made = client().realtime.calls.create(sdp="v=0\r\noffer", session=SESSION)
    equal(made.text, "v=0\r\nanswer")
    equal(made.response.headers["location"], "/v1/realtime/calls/rtc_1")
    client().realtime.calls.hangup("rtc_1")


def check_a_call_over_sip():
    calls = client().realtime.calls
    calls.accept("rtc_1", **SESSION)
    calls.refer("rtc_1", target_uri="tel:+14155550123")
    calls.reject("rtc_1", status_code=486)


def check_a_socket_beside_a_call():
    with client().realtime.connect(call_id="rtc_1", extra_headers=headers()) as connection:
        equal(connection.recv().session.model, MODEL)


def check_refusals():
    calls = client().realtime.calls
    dear = {"type": "realtime", "model": "dear"}
    refused = raises(openai.BadRequestError, lambda: calls.create(sdp="v=0", session=dear))
    equal(refused.param, "model")
    raises(openai.BadRequestError, lambda: calls.accept("rtc_1", **dear))
    refused = raises(openai.BadRequestError, lambda: calls.create(sdp="hello", session=SESSION))
    equal(refused.param, "sdp")


if __name__ == "__main__":
    run(sys.modules["__main__"])
