"""Areas beside chat by the packages of providers that serve them: `groq`, `together` and `voyageai`, through the gateway to an
upstream that answers as the providers' pages say. The test that runs this looks at what went up."""

import sys

import groq
import together
import voyageai

from checks import KEY, URL, equal, raises, run

SOUND = b"ID3" + bytes(range(256))


def groq_client():
    headers = {"x-gateway-provider": "@groq"}
    return groq.Groq(api_key=KEY, base_url=f"{URL}/v1/proxy", default_headers=headers, max_retries=0)


def together_client():
    headers = {"x-gateway-provider": "@together"}
    return together.Together(api_key=KEY, base_url=URL, default_headers=headers, max_retries=0)


def voyage_client():
    return voyageai.Client(api_key=KEY, base_url=f"{URL}/v1/proxy")


def check_groq_hears_and_speaks():
    made = groq_client().audio.transcriptions.create(model="whisper-large-v3", file=("a.wav", SOUND))
    equal(made.text, "Hi")
    made = groq_client().audio.translations.create(model="whisper-large-v3", file=("a.wav", SOUND))
    equal(made.text, "Hi")
    made = groq_client().audio.speech.create(model="playai-tts", voice="Fritz-PlayAI", input="hello")
    equal(made.read(), SOUND)


def check_groq_keeps_files_and_batches():
    sdk = groq_client()
    made = sdk.files.create(file=("lines.jsonl", b'{"custom_id": "a"}\n'), purpose="batch")
    equal((made.id, sdk.files.info(made.id).id, sdk.files.content(made.id).read()), ("file_1", "file_1", b"{}\n"))
    batch = sdk.batches.create(completion_window="24h", endpoint="/v1/chat/completions", input_file_id=made.id)
    equal((batch.id, sdk.batches.retrieve(batch.id).id, sdk.batches.cancel(batch.id).id), ("batch_1",) * 3)
    equal([one.id for one in sdk.batches.list().data], ["batch_1"])
    equal(sdk.files.delete(made.id).deleted, True)


def check_together():
    sdk = together_client()
    made = sdk.rerank.create(model="Salesforce/Llama-Rank-v1", query="q", documents=["a", "b"], top_n=2)
    equal([(one.index, one.relevance_score) for one in made.results], [(1, 0.75), (0, 0.25)])
    made = sdk.images.generate(model="black-forest-labs/FLUX.1-schnell", prompt="a cat", width=512, height=256, steps=4)
    equal(made.data[0].b64_json, "QUFB")
    made = sdk.audio.speech.create(model="cartesia/sonic", voice="sweet", input="hello", response_format="mp3")
    equal(made.read(), SOUND)
    made = sdk.batches.create(endpoint="/v1/chat/completions", input_file_id="file-1", completion_window="24h")
    equal(made.job.id, "batch_1")


def check_voyage():
    made = voyage_client().rerank("q", ["a", "b"], model="@voyage/rerank-3", top_k=2)
    equal([(one.index, one.relevance_score, one.document) for one in made.results], [(1, 0.75, "b"), (0, 0.25, "a")])
    equal(made.total_tokens, 26)
    made = voyage_client().embed(["hello"], model="@voyage/voyage-3.5")
    equal((made.embeddings, made.total_tokens), ([[0.5, 0.25]], 3))


def check_a_refusal_is_the_sdks_own():
    wrong = groq.Groq(api_key="nobody", base_url=f"{URL}/v1/proxy", default_headers={"x-gateway-provider": "@groq"}, max_retries=0)
    raises(groq.AuthenticationError, lambda: wrong.audio.speech.create(model="m", voice="v", input="i"))
    # Its reader of errors knows no form but its provider's own: the status is what it has to go by.
    nobody = voyageai.Client(api_key="nobody", base_url=f"{URL}/v1/proxy")
    equal(raises(voyageai.error.APIError, lambda: nobody.embed(["a"], model="@voyage/voyage-3.5")).http_status, 401)


if __name__ == "__main__":
    run(sys.modules["__main__"])
