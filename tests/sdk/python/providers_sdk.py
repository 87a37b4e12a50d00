"""Areas beside chat by the packages of providers that serve them: `anthropic`, `groq`, `mistralai`, `together` and `voyageai`,
through the gateway to an upstream that answers as the providers' pages say. The test that runs this looks at what went up."""

import sys

import anthropic
import groq
import httpx
import together
import voyageai
from mistralai.client import Mistral

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


def anthropic_client():
    headers = {"x-gateway-provider": "@claude"}
    return anthropic.Anthropic(api_key=KEY, base_url=URL, default_headers=headers, max_retries=0)


def mistral_client():
    return Mistral(api_key=KEY, server_url=URL, client=httpx.Client(headers={"x-gateway-provider": "@mistral"}))


def check_anthropic_makes_and_ends_batches():
    batches = anthropic_client().messages.batches
    said = [{"role": "user", "content": "hello"}]
    asked = {"custom_id": "a", "params": {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": said}}
    made = batches.create(requests=[asked])
    equal((made.id, made.processing_status), ("msgbatch_1", "ended"))
    equal((batches.retrieve(made.id).id, batches.cancel(made.id).id), ("msgbatch_1",) * 2)
    equal([one.id for one in batches.list()], ["msgbatch_1"])
    # It asks the address that the batch tells, which is to be the gateway's.
    equal([one.custom_id for one in batches.results(made.id)], ["a"])


def check_anthropic_keeps_files():
    files = anthropic_client().beta.files
    made = files.upload(file=("a.txt", b"what is in it", "text/plain"))
    equal((made.id, made.size_bytes, files.retrieve_metadata(made.id).filename), ("file_1", 19, "f"))
    equal(([one.id for one in files.list()], files.download(made.id).read()), (["file_1"], b"{}\n"))
    equal(files.delete(made.id).id, "file_1")


def check_mistral_keeps_files_and_runs_jobs():
    sdk = mistral_client()
    made = sdk.files.upload(file={"file_name": "lines.jsonl", "content": b'{"custom_id": "a"}\n'}, purpose="batch")
    equal((made.id, sdk.files.retrieve(file_id=made.id).id), ("file_1", "file_1"))
    job = sdk.batch.jobs.create(input_files=[made.id], endpoint="/v1/chat/completions", model="mistral-small-latest")
    equal((job.id, job.status), ("job_1", "QUEUED"))
    equal((sdk.batch.jobs.get(job_id=job.id).id, sdk.batch.jobs.cancel(job_id=job.id).id), ("job_1", "job_1"))


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
