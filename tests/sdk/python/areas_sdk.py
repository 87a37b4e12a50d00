"""Pictures, sound, moderations, rerank and pages by official packages: `openai`, `cohere` and `mistralai`, through the gateway
to an upstream of this script, which answers as the providers' pages say and keeps what it was asked."""

import base64
import io
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import cohere
import httpx
import openai
from mistralai.client import Mistral

from checks import KEY, URL, equal, raises, run

SOUND = b"\xff\xfb" + bytes(range(256)) * 8
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
ENCODED = base64.b64encode(PICTURE).decode()
TOKENS = {"input_tokens": 50, "output_tokens": 4160, "total_tokens": 4210}
HEARD = {"type": "tokens", "input_tokens": 14, "output_tokens": 4, "total_tokens": 18,
         "input_token_details": {"text_tokens": 4, "audio_tokens": 10}}
PAGES = {"pages": [{"index": 0, "markdown": "# Title", "images": [], "dimensions": {"dpi": 1, "height": 2, "width": 3}}],
         "model": "mistral-ocr-2505", "usage_info": {"pages_processed": 1, "doc_size_bytes": 9}}
asked = []


def events(*all):
    return "text/event-stream", "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in all).encode()


def pictures(path, body):
    kind = "image_edit" if "edits" in path else "image_generation"
    if b'"stream":true' in body.replace(b" ", b"") or b'name="stream"' in body:
        partial = {"type": f"{kind}.partial_image", "b64_json": "QQ==", "partial_image_index": 0}
        return events(partial, {"type": f"{kind}.completed", "b64_json": ENCODED, "usage": TOKENS})
    return "application/json", json.dumps({"created": 1, "data": [{"b64_json": ENCODED}], "usage": TOKENS}).encode()


def speech(path, body):
    if b'"sse"' in body:
        halves = [SOUND[:100], SOUND[100:]]
        deltas = [{"type": "speech.audio.delta", "audio": base64.b64encode(half).decode()} for half in halves]
        return events(*deltas, {"type": "speech.audio.done", "usage": TOKENS})
    return "audio/mpeg", SOUND


def transcript(path, body):
    if b'name="stream"' in body:
        return events({"type": "transcript.text.delta", "delta": "Hi"},
                      {"type": "transcript.text.done", "text": "Hi", "usage": HEARD})
    if b"\r\n\r\nsrt\r\n" in body or b"\r\n\r\nvtt\r\n" in body:
        return "text/plain", b"1\n00:00:00,000 --> 00:00:01,000\nHi\n"
    told = {"text": "Hi", "usage": HEARD, "duration": 1.0, "language": "english"}
    return "application/json", json.dumps(told).encode()


def judged(path, body):
    return "application/json", json.dumps({"id": "m", "model": "omni", "results": [
        {"flagged": True, "categories": {}, "category_scores": {}, "category_applied_input_types": {}}]}).encode()


def ranked(path, body):
    return "application/json", json.dumps({"id": "r", "results": [
        {"index": 1, "relevance_score": 0.25}, {"index": 0, "relevance_score": 0.75}],
        "meta": {"billed_units": {"search_units": 1}}}).encode()


ROUTES = {"/images/": pictures, "/audio/speech": speech, "/audio/tr": transcript, "/moderations": judged, "/rerank": ranked,
          "/ocr": lambda path, body: ("application/json", json.dumps(PAGES).encode())}


class Upstream(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        asked.append((self.path, body))
        answer = next(route for start, route in ROUTES.items() if start in self.path)
        kind, told = answer(self.path, body)
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
threading.Thread(target=server.serve_forever, daemon=True).start()


def config(family, base="/v1"):
    host = f"http://127.0.0.1:{server.server_address[1]}{base}"
    return {"x-gateway-config": json.dumps({"provider": family, "api_key": "k", "custom_host": host})}


def client():
    return openai.OpenAI(api_key=KEY, base_url=f"{URL}/v1", default_headers=config("openai"), max_retries=0)


def file(name="a.png", content=PICTURE):
    held = io.BytesIO(content)
    held.name = name
    return held


def sent():
    return asked[-1][1]


def check_pictures():
    made = client().images.generate(model="gpt-image-2", prompt="a cat")
    equal((made.data[0].b64_json, made.usage.output_tokens), (ENCODED, 4160))
    kinds = [event.type for event in client().images.generate(model="gpt-image-2", prompt="a cat", stream=True)]
    equal(kinds, ["image_generation.partial_image", "image_generation.completed"])


def check_edits():
    made = client().images.edit(model="gpt-image-2", image=file(), prompt="a hat")
    equal((made.data[0].b64_json, sent().count(PICTURE)), (ENCODED, 1))
    client().images.edit(model="gpt-image-2", image=[file(), file("b.png")], mask=file("m.png"), prompt="a hat")
    equal((sent().count(PICTURE), sent().count(b'name="image[]"'), sent().count(b'name="mask"')), (3, 2, 1))
    events = list(client().images.edit(model="gpt-image-2", image=file(), prompt="a hat", stream=True))
    equal((events[-1].type, events[-1].usage.total_tokens), ("image_edit.completed", 4210))


def check_variations():
    made = client().images.create_variation(model="dall-e-2", image=file(), n=1)
    equal((made.data[0].b64_json, asked[-1][0]), (ENCODED, "/v1/images/variations"))


def check_speech():
    made = client().audio.speech.create(model="tts-1", voice="alloy", input="hello")
    equal((made.content, b"stream_format" in sent()), (SOUND, False))
    made = client().audio.speech.create(model="gpt-4o-mini-tts", voice="alloy", input="hello")
    equal((made.content, b'"sse"' in sent()), (SOUND, True))
    with client().audio.speech.with_streaming_response.create(model="gpt-4o-mini-tts", voice="alloy", input="hello") as made:
        equal(b"".join(made.iter_bytes()), SOUND)
    made = client().audio.speech.create(model="gpt-4o-mini-tts", voice="alloy", input="hello", stream_format="sse")
    equal(made.content.count(b"speech.audio.delta\n"), 2)


def check_transcriptions():
    heard = client().audio.transcriptions
    made = heard.create(model="gpt-4o-transcribe", file=file("a.wav", SOUND))
    equal((made.text, made.usage.total_tokens, sent().count(SOUND)), ("Hi", 18, 1))
    equal(heard.create(model="whisper-1", file=file("a.wav", SOUND), response_format="text"), "Hi\n")
    equal(heard.create(model="whisper-1", file=file("a.wav", SOUND), response_format="verbose_json").duration, 1.0)
    for kind in ("srt", "vtt"):
        equal("-->" in heard.create(model="whisper-1", file=file("a.wav", SOUND), response_format=kind), True)
    events = list(heard.create(model="gpt-4o-transcribe", file=file("a.wav", SOUND), stream=True))
    equal([event.type for event in events], ["transcript.text.delta", "transcript.text.done"])
    wrong = raises(openai.BadRequestError,
                   lambda: heard.create(model="whisper-1", file=file("a.wav", SOUND), temperature=7))
    equal(wrong.param, "temperature")


def check_translations():
    made = client().audio.translations.create(model="whisper-1", file=file("a.wav", SOUND))
    equal((made.text, asked[-1][0]), ("Hi", "/v1/audio/translations"))


def check_moderations():
    part = [{"type": "text", "text": "hello"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}}]
    for given in ("hello", ["hello", "there"], part):
        equal(client().moderations.create(model="omni-moderation-latest", input=given).results[0].flagged, True)


def check_rerank():
    for kind, base in ((cohere.ClientV2, URL), (cohere.ClientV2, f"{URL}/v1"), (cohere.Client, URL)):
        sdk = kind(api_key=KEY, base_url=base, httpx_client=httpx.Client(headers=config("cohere", "")))
        made = sdk.rerank(model="rerank-v4.0-fast", query="q", documents=["a", "b"])
        equal([(result.index, result.relevance_score) for result in made.results], [(0, 0.75), (1, 0.25)])
        if kind is cohere.ClientV2:
            equal(made.meta.billed_units.search_units, 1)


def check_pages():
    sdk = Mistral(api_key=KEY, server_url=URL, client=httpx.Client(headers=config("mistral-ai")))
    made = sdk.ocr.process(model="mistral-ocr-latest", document={"type": "document_url", "document_url": "https://x.example/a.pdf"})
    equal((made.pages[0].markdown, made.usage_info.pages_processed), ("# Title", 1))


if __name__ == "__main__":
    run(sys.modules["__main__"])
