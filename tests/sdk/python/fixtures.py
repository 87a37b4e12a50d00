"""Every answer of a provider in the golden folders, read by the types of that provider's own SDK.

Where a provider has no SDK of its own, its answers are OpenAI's by its own words, and OpenAI's types read them.
`fixtures.py FOLDER` prints what was read by whom, and fails where something cannot be read.
"""

import collections
import json
import pathlib
import sys
import traceback

import anthropic.types as claude
import anthropic.types.shared as claude_errors
import bedrock
import cohere
import mistralai.client.models as mistral
import openai.types as gpt
import openai.types.responses as gpt_responses
from cohere.v2.types import V2ChatResponse, V2ChatStreamResponse
from google.genai import errors as gemini_errors
from google.genai import types as gemini
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import TypeAdapter

# SDKs of which nothing but types is used have a folder of their own.
sys.path.append(str(pathlib.Path(sys.prefix).parent / "readers"))
import cloudflare.types.ai.ai_run_response as cloudflare  # noqa: E402
import perplexity.types as perplexity  # noqa: E402
from perplexity.types.response_stream_chunk import ResponseStreamChunk  # noqa: E402


def of(kind):
    return TypeAdapter(kind).validate_python


def message(body):
    """An error whose SDK has no type for it hands its body on; it must say something."""
    error = body.get("error", body) if isinstance(body, dict) else None
    # AWS writes it with a capital in places; botocore reads both.
    words = error if isinstance(error, dict) else {}
    said = error if isinstance(error, str) else words.get("message") or words.get("Message") or words.get("detail")
    if not said:
        raise AssertionError(f"no message in {body}")


def openai_error(body):
    # What `APIError` of the SDK looks for.
    error = body["error"]
    if not (isinstance(error["message"], str) and {"type", "param", "code"} <= error.keys()):
        raise AssertionError(f"not OpenAI's form: {body}")


def google_error(body):
    for one in body if isinstance(body, list) else [body]:
        error = gemini_errors.APIError(one["error"]["code"], one)
        if not (error.message and error.status):
            raise AssertionError(f"not Google's form: {body}")


def each(key, read):
    return lambda body: [read(item) for item in body[key]]


def openai_chunk(body):
    if "error" in body:
        return message(body)
    return of(ChatCompletionChunk)(body)


def azure_chunk(body):
    # What a filter says comes in chunks that name neither object nor delta; the SDK takes them unchecked.
    choices = [{"delta": {}, **choice} for choice in body.get("choices", [])]
    return openai_chunk({**body, "object": body.get("object") or "chat.completion.chunk", "choices": choices})


def google_chunk(body):
    return google_error(body) if "error" in body else of(gemini.GenerateContentResponse)(body)


def completion_chunk(body):
    # The type demands the reason that only the last chunk has.
    ended = [{**choice, "finish_reason": choice["finish_reason"] or "stop"} for choice in body["choices"]]
    return of(gpt.Completion)({**body, "choices": ended})


def token_count(body):
    # The SDK picks these two out of what the API says.
    known = {"totalTokens", "cachedContentTokenCount"}
    return of(gemini.CountTokensResponse)({key: body[key] for key in body if key in known})


def embedding(body):
    return [of(gemini.ContentEmbedding)(one) for one in body["embeddings"]]


def prediction(body):
    # The SDK reads Vertex's embeddings and pictures by hand; these are the names it looks for.
    def one(found):
        if "embeddings" in found:
            return of(gemini.ContentEmbedding)({"values": found["embeddings"]["values"]})
        return of(gemini.Image)({"imageBytes": found["bytesBase64Encoded"], "mimeType": found["mimeType"]})

    return [one(found) for found in body["predictions"]]


OPENAI = {
    "/chat/completions": (of(ChatCompletion), openai_chunk),
    "/completions": (of(gpt.Completion), completion_chunk),
    "/embeddings": (of(gpt.CreateEmbeddingResponse), None),
    "/images/generations": (of(gpt.ImagesResponse), of(gpt.ImageGenStreamEvent)),
    "/models": (each("data", of(gpt.Model)), None),
    "/responses": (of(gpt_responses.Response), of(gpt_responses.ResponseStreamEvent)),
}
# Its list of models says more and other things than OpenAI's, and the SDK has no type for it.
AZURE = {end: kinds for end, kinds in OPENAI.items() if end != "/models"}
AZURE["/chat/completions"] = (of(ChatCompletion), azure_chunk)
ANTHROPIC = {
    "/messages": (of(claude.Message), of(claude.RawMessageStreamEvent | claude_errors.ErrorResponse)),
    "/messages/count_tokens": (of(claude.MessageTokensCount), None),
    ":rawPredict": (of(claude.Message), None),
    ":streamRawPredict": (None, of(claude.RawMessageStreamEvent | claude_errors.ErrorResponse)),
    "count-tokens:rawPredict": (of(claude.MessageTokensCount), None),
    "/models": (each("data", of(claude.ModelInfo)), None),
}
GOOGLE = {
    ":generateContent": (of(gemini.GenerateContentResponse), None),
    ":streamGenerateContent": (None, google_chunk),
    ":countTokens": (token_count, None),
    ":batchEmbedContents": (embedding, None),
    ":predict": (prediction, None),
}
COHERE = {
    "/v2/chat": (of(V2ChatResponse), of(V2ChatStreamResponse)),
    "/v2/embed": (of(cohere.EmbedByTypeResponse), None),
    "/v2/rerank": (of(cohere.V2RerankResponse), None),
    "/v1/models": (of(cohere.ListModelsResponse), None),
}
MISTRAL = {
    "/chat/completions": (of(mistral.ChatCompletionResponse), of(mistral.CompletionChunk)),
    "/embeddings": (of(mistral.EmbeddingResponse), None),
}


def inside(read):
    """What Cloudflare's own routes answer lies in an envelope."""

    def unpack(body):
        if body["success"] is not True:
            return message(body["errors"][0])
        return read(body["result"])

    return unpack


CLOUDFLARE = {
    **OPENAI,
    "whisper-large-v3-turbo": (inside(of(cloudflare.AutomaticSpeechRecognition)), None),
}
PERPLEXITY = {
    "/v1/responses": (of(perplexity.ResponseCreateResponse), of(ResponseStreamChunk)),
    "/v1/embeddings": (of(perplexity.EmbeddingCreateResponse), None),
}
FAMILIES = {
    "azure-openai": ("openai", AZURE, message),
    "anthropic": ("anthropic", ANTHROPIC, of(claude_errors.ErrorResponse)),
    "cohere": ("cohere", COHERE, message),
    "google": ("google-genai", GOOGLE, google_error),
    "mistral-ai": ("mistralai", MISTRAL, message),
    "openai": ("openai", OPENAI, openai_error),
    "perplexity-ai": ("perplexityai", PERPLEXITY, message),
    "workers-ai": ("cloudflare", CLOUDFLARE, lambda body: message(body["errors"][0])),
}


# No package has a type for these; the reason stands behind each.
UNTYPED = {
    # It keeps up no SDK of its REST API: `stability-sdk` speaks an older one over gRPC (last in 2024); others on npm are not its own.
    "stability-ai",
}
UNTYPED_CASES = {
    # Its SDK knows content as text alone, and no parts.
    "databricks/stream",
    "databricks/stream-messages",
    "databricks/unary",
    # A bare list, and no SDK of theirs.
    "github/unary-models",
    # Errors inside a 200, and no SDK of theirs: there is a client for MCP, and there are others' for single models.
    "minimax/error-inside-200",
    "minimax/error-messages",
    "minimax/error-stream-first",
    "minimax/error-stream-late",
    # A list of its own beside OpenAI's path, and no SDK of theirs.
    "siliconflow/unary-pictures",
    # OpenAI's type wants a date that they do not tell; their own SDK starts a command line where it is imported.
    "together-ai/unary-pictures",
}


def family(provider, path):
    if provider == "vertex-ai" and "/publishers/anthropic/" in path:
        # The platform itself fails in Google's words.
        return "anthropic", ANTHROPIC, lambda body: google_error(body) if "type" not in body else message(body)
    if provider == "vertex-ai" and "/publishers/mistralai/" in path:
        pages = {"/mistral-ocr-2505:rawPredict": (of(mistral.OCRResponse), None)}
        return "mistralai", {":rawPredict": MISTRAL["/chat/completions"], **pages}, message
    if provider == "vertex-ai" and "/endpoints/" not in path:
        return FAMILIES["google"]
    if provider == "claude-platform-aws" or (provider == "azure-ai" and "/anthropic/" in path):
        return FAMILIES["anthropic"]
    if provider == "mock" and path.endswith("/messages"):
        return FAMILIES["anthropic"]
    return FAMILIES.get(provider, ("openai", OPENAI, message))


def events(text):
    *whole, cut = text.replace("\r\n", "\n").split("\n\n")
    # What was cut off in the middle of its JSON is nothing that anybody could read.
    for event in [*whole, *([cut] if cut.endswith(("}", "}\n")) else [])]:
        data = "\n".join(line[5:].removeprefix(" ") for line in event.split("\n") if line.startswith("data:"))
        # Pings are known to the SDK as nothing to be read.
        if data and data != "[DONE]" and not event.startswith("event: ping"):
            yield json.loads(data)


def read(case):
    """The SDK that read the case's answer, or None where no SDK has a type for it."""
    if case.parent.name in UNTYPED or f"{case.parent.name}/{case.name}" in UNTYPED_CASES:
        return None
    if case.parent.name == "bedrock":
        return bedrock.read(case, of(claude.Message), of(claude.RawMessageStreamEvent))
    asked = json.loads((case / "call.json").read_text())
    path = (case / "upstream.http").read_text().split("\n")[0].split(" ", 1)[1].split("?")[0]
    name, kinds, error = family(case.parent.name, path)
    # The longest end wins.
    end = max((end for end in kinds if path.endswith(end)), key=len, default=None)
    if asked.get("status", 200) >= 400:
        error(json.loads((case / "upstream.json").read_text()))
    elif end is None:
        return None
    elif (case / "upstream.sse").exists():
        for event in events((case / "upstream.sse").read_text()):
            kinds[end][1](event)
    else:
        body = json.loads((case / "upstream.json").read_text())
        failed = isinstance(body, dict) and isinstance(body.get("error"), dict) and end != "/responses"
        (error if failed else kinds[end][0])(body)
    return name


def main(root):
    count, unread, failed = collections.Counter(), [], 0
    for case in sorted(path.parent for path in root.glob("*/*/source")):
        source = case.joinpath("source").read_text().strip()
        if source.startswith(("unverified: ", "made up: ")) or case.joinpath("upstream.txt").exists():
            # Deliberately nothing that the API says, such as a page of a proxy.
            unread.append(f"{case.parent.name}/{case.name}")
            continue
        try:
            sdk = read(case)
        except Exception:
            failed += 1
            print(f"FAILED {case.parent.name}/{case.name}")
            print(traceback.format_exc(limit=-1)[:1500])
            continue
        if sdk:
            count[sdk] += 1
        else:
            unread.append(f"{case.parent.name}/{case.name}")
    print("ok", ", ".join(f"{n} by {sdk}" for sdk, n in sorted(count.items())))
    print(f"{len(unread)} without a type: {', '.join(unread)}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
