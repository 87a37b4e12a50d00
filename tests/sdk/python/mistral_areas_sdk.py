"""Sound, moderations and pages by the package `mistralai`, through the gateway to a provider that answers as Mistral's pages
say and refuses what they do not have."""

import base64
import json
import sys

import httpx
from mistralai.client import Mistral, errors

from checks import KEY, URL, equal, raises, run
from scripted import Refusal, Routes, Scripted, events

SOUND = b"ID3" + bytes(range(256)) * 8
PICTURE = "data:image/png;base64,QUFB"
SECONDS = {"prompt_audio_seconds": 3, "prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6}
HEARD = {"model": "voxtral-mini-2507", "text": "Hi there", "language": "en", "usage": SECONDS}
SEGMENT = {"text": "Hi there", "start": 0.0, "end": 1.5, "type": "transcription_segment"}
CATEGORIES = ["sexual", "hate_and_discrimination", "violence_and_threats", "dangerous_and_criminal_content", "selfharm",
              "health", "financial", "law", "pii"]
ROUTES = Routes()
on = ROUTES.on


def answer(asked):
    if asked.headers.get("authorization") != "Bearer k":
        raise Refusal(401, "Unauthorized")
    function, _ = ROUTES.find(asked)
    return function(asked)


def known(body, *names):
    for name in body:
        if name not in names:
            raise Refusal(422, f"Extra inputs are not permitted: {name}", name)
    return body


@on("POST", "/v1/audio/transcriptions")
def heard(asked):
    form = known(asked.form(), "model", "file", "file_url", "file_id", "language", "temperature", "stream", "diarize",
                 "context_bias", "timestamp_granularities")
    if len([name for name in ("file", "file_url", "file_id") if name in form]) != 1:
        raise Refusal(400, "one of file, file_url and file_id is needed")
    if "file" in form and form["file"][0][1] != SOUND:
        raise Refusal(400, "another sound")
    if form.get("stream") == ["true"]:
        return events(("transcription.language", {"type": "transcription.language", "audio_language": "en"}),
                      ("transcription.text.delta", {"type": "transcription.text.delta", "text": "Hi "}),
                      ("transcription.text.delta", {"type": "transcription.text.delta", "text": "there"}),
                      ("transcription.done", {"type": "transcription.done", "segments": [], **HEARD}))
    return {**HEARD, "segments": [SEGMENT] if "timestamp_granularities" in form else []}


@on("POST", "/v1/audio/speech")
def spoken(asked):
    body = known(asked.json(), "model", "input", "voice_id", "ref_audio", "response_format", "stream")
    if body.get("voice_id") == "nobody":
        raise Refusal(400, "no such voice", "voice_id")
    encoded = base64.b64encode(SOUND)
    if body.get("stream"):
        halves = [encoded[:400].decode(), encoded[400:].decode()]
        deltas = [("speech.audio.delta", {"type": "speech.audio.delta", "audio_data": half}) for half in halves]
        return events(*deltas, ("speech.audio.done", {"type": "speech.audio.done", "usage": SECONDS}))
    return {"audio_data": encoded.decode()}


@on("POST", "/v1/moderations")
def judged(asked):
    body = known(asked.json(), "model", "input", "metadata")
    inputs = [body["input"]] if isinstance(body["input"], str) else body["input"]
    told = [{"categories": {name: name == "pii" and "@" in text for name in CATEGORIES},
             "category_scores": {name: 0.25 for name in CATEGORIES}} for text in inputs]
    return {"id": "m", "model": body["model"], "results": told}


@on("POST", "/v1/ocr")
def read(asked):
    body = known(asked.json(), "model", "document", "pages", "include_image_base64", "image_limit", "image_min_size",
                 "bbox_annotation_format", "document_annotation_format", "document_annotation_prompt", "include_blocks",
                 "extract_header", "extract_footer")
    needed = {"image_url": "image_url", "document_url": "document_url", "file": "file_id"}
    if needed[body["document"]["type"]] not in body["document"]:
        raise Refusal(422, "the document is missing")
    if body.get("image_limit", 1) < 0:
        raise Refusal(400, "must not be negative", "image_limit")
    picture = {"id": "img-0", "top_left_x": 0, "top_left_y": 0, "bottom_right_x": 9, "bottom_right_y": 9}
    if "bbox_annotation_format" in body:
        picture["image_annotation"] = json.dumps({"of": "a cat"})
    size = {"dpi": 200, "height": 2, "width": 3}
    told = {"pages": [{"index": 0, "markdown": "# Title", "images": [picture], "dimensions": size}],
            "model": "mistral-ocr-2505", "usage_info": {"pages_processed": 1, "doc_size_bytes": 9}}
    if "document_annotation_format" in body:
        told["document_annotation"] = json.dumps({"title": "Title"})
    return told


PROVIDER = Scripted(answer)


def client(base="", key=KEY):
    config = json.dumps({"provider": "mistral-ai", "api_key": "k", "custom_host": f"{PROVIDER.root}/v1"})
    return Mistral(api_key=key, server_url=URL + base, client=httpx.Client(headers={"x-gateway-config": config}))


def native():
    """What is Mistral's own passes through."""
    return client("/v1/proxy")


SCHEMA = {"type": "json_schema", "json_schema": {"name": "of", "schema_definition": {"type": "object", "properties": {}}}}


def check_transcriptions():
    hear = native().audio.transcriptions
    file = {"file_name": "a.mp3", "content": SOUND}
    made = hear.complete(model="voxtral-mini-latest", file=file)
    equal((made.text, made.language, made.usage.prompt_audio_seconds), ("Hi there", "en", 3))
    made = hear.complete(model="voxtral-mini-latest", file=file, timestamp_granularities=["segment"], diarize=True)
    equal((made.segments[0].text, made.segments[0].end), ("Hi there", 1.5))
    equal(hear.complete(model="voxtral-mini-latest", file_id="5f1c").text, "Hi there")
    equal(hear.complete(model="voxtral-mini-latest", file_url="https://x.example/a.mp3").text, "Hi there")


def check_transcriptions_that_are_streamed():
    hear = native().audio.transcriptions
    with hear.stream(model="voxtral-mini-latest", file={"file_name": "a.mp3", "content": SOUND}) as stream:
        events = [event.data for event in stream]
    equal("".join(event.text for event in events if event.type == "transcription.text.delta"), "Hi there")
    equal((events[-1].type, events[-1].usage.prompt_audio_seconds), ("transcription.done", 3))


def check_speech():
    speak = native().audio.speech
    made = speak.complete(model="voxtral-tts", input="Hi there", voice_id="casual", response_format="mp3")
    equal(base64.b64decode(made.audio_data), SOUND)
    with speak.complete(model="voxtral-tts", input="Hi there", voice_id="casual", stream=True) as stream:
        events = [event.data for event in stream]
    equal(base64.b64decode("".join(event.audio_data for event in events[:-1])), SOUND)
    equal(events[-1].type, "speech.audio.done")


def check_moderations():
    judge = client().classifiers
    made = judge.moderate(model="mistral-moderation-latest", inputs=["hello", "me@x.example"])
    equal([one.categories["pii"] for one in made.results], [False, True])
    equal((len(made.results[0].category_scores), made.results[0].category_scores["law"]), (len(CATEGORIES), 0.25))
    equal(len(judge.moderate(model="mistral-moderation-latest", inputs="hello").results), 1)


def check_pages():
    reader = client().ocr
    for document in ({"type": "image_url", "image_url": PICTURE}, {"type": "file", "file_id": "5f1c"},
                     {"type": "image_url", "image_url": {"url": PICTURE}}):
        made = reader.process(model="mistral-ocr-latest", document=document)
        equal((made.pages[0].markdown, made.pages[0].dimensions.dpi), ("# Title", 200))
        equal(PROVIDER.asked[-1].json()["document"], document)
    made = reader.process(model="mistral-ocr-latest", document=document, pages=[0], bbox_annotation_format=SCHEMA,
                          document_annotation_format=SCHEMA, document_annotation_prompt="What is it?")
    equal(json.loads(made.document_annotation), {"title": "Title"})
    equal(json.loads(made.pages[0].images[0].image_annotation), {"of": "a cat"})
    asked = PROVIDER.asked[-1].json()
    equal((asked["pages"], asked["document_annotation_prompt"]), ([0], "What is it?"))
    equal(asked["bbox_annotation_format"]["json_schema"]["schema"], SCHEMA["json_schema"]["schema_definition"])


def check_what_is_wrong():
    page = {"type": "image_url", "image_url": PICTURE}
    wrong = raises(errors.SDKError, lambda: client().ocr.process(model="m", document=page, image_limit=-1))
    equal((wrong.status_code, json.loads(wrong.body)["error"]["param"]), (400, "image_limit"))
    speak = native().audio.speech
    wrong = raises(errors.SDKError, lambda: speak.complete(model="m", input="Hi", response_format="flac", voice_id="nobody"))
    equal((wrong.status_code, json.loads(wrong.body)["error"]["param"]), (400, "voice_id"))
    nobody = client(key="nobody").classifiers
    equal(raises(errors.SDKError, lambda: nobody.moderate(model="m", inputs="hello")).status_code, 401)
    nobody = client("/v1/proxy", key="nobody").audio.speech
    equal(raises(errors.SDKError, lambda: nobody.complete(model="m", input="hello")).status_code, 401)


if __name__ == "__main__":
    run(sys.modules["__main__"])
