"""Google's generateContent, embeddings and token counts, as strict as <https://ai.google.dev/api/generate-content>."""

import json
import re

from story import INPUT, Asked, Refused

FIELDS = set("contents tools toolConfig safetySettings systemInstruction generationConfig cachedContent serviceTier store".split())
CONFIG = set(
    "stopSequences responseMimeType responseSchema responseJsonSchema _responseJsonSchema responseModalities candidateCount maxOutputTokens "
    "temperature topP topK seed presencePenalty frequencyPenalty responseLogprobs logprobs enableEnhancedCivicAnswers speechConfig "
    "thinkingConfig imageConfig mediaResolution".split()
)
SIGNATURE = "dGhvdWdodCBzaWduYXR1cmU="
# What Google takes for histories that were made elsewhere (https://ai.google.dev/gemini-api/docs/thought-signatures).
UNSIGNED = "skip_thought_signature_validator"


def serves(path):
    return bool(re.search(r"^/v1(beta|alpha)?/models/[^/:]+:\w+$", path))


def listed(path, headers):
    model = {"name": "models/gemini-3-story", "displayName": "Story", "supportedGenerationMethods": ["generateContent"]}
    # OpenAI's list has the same path as the first version of Google's.
    if "x-goog-api-key" not in headers:
        return None
    return {"/models": {"models": [model]}, "/models/gemini-3-story": model}.get(re.sub("^/v1(beta)?", "", path))


def other(path, body):
    verb = path.rsplit(":", 1)[1]
    values = {"values": [0.5, -0.25, 1.0]}
    if verb == "countTokens":
        return {"totalTokens": INPUT}
    if verb == "embedContent":
        return {"embedding": values}
    if verb == "batchEmbedContents":
        return {"embeddings": [values for _ in body["requests"]]}
    return None


def error(status, message):
    kinds = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}
    return {"error": {"code": status, "message": message, "status": kinds.get(status, "INTERNAL")}}


def camel(name):
    return re.sub(r"_(\w)", lambda found: found[1].upper(), name) if not name.startswith("_") else name


def known(body, fields):
    for name in body:
        if camel(name) not in fields:
            raise Refused(400, f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.')
    return {camel(name): value for name, value in body.items()}


def read(path, body, _headers):
    body = known(body, FIELDS)
    config = known(body.get("generationConfig") or {}, CONFIG)
    signed = "gemini-3" in path
    said, results, images, open_calls = "", [], 0, 0
    last = max((at for at, one in enumerate(body["contents"]) if spoken(one)), default=0)
    for at, one in enumerate(body["contents"]):
        parts = [{camel(name): value for name, value in part.items()} for part in one["parts"]]
        answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
        if len(answers) != open_calls:
            raise Refused(400, "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.")
        calls = [part for part in parts if "functionCall" in part]
        if calls and signed and at > last and calls[0].get("thoughtSignature") not in (SIGNATURE, UNSIGNED):
            raise Refused(400, "Function call is missing a thought_signature in functionCall parts.")
        open_calls = len(calls)
        results += [json.dumps(answer["response"]) for answer in answers]
        if spoken(one):
            said, results = " ".join(part["text"] for part in parts if "text" in part), []
            images = sum(part.get("inlineData", {}).get("mimeType", part.get("inlineData", {}).get("mime_type", "")).startswith("image/") for part in parts)
    if open_calls:
        raise Refused(400, "the conversation ends with calls")
    declared = [f["name"] for tool in body.get("tools") or [] for f in tool.get("functionDeclarations", tool.get("function_declarations", []))]
    form = config.get("responseJsonSchema") or config.get("_responseJsonSchema") or config.get("responseSchema")
    schema = (form or {}) if config.get("responseMimeType") == "application/json" else None
    thinks = bool(known(config.get("thinkingConfig") or {}, {"includeThoughts", "thinkingBudget", "thinkingLevel"}).get("includeThoughts"))
    return Asked(said, results, declared, images, schema, thinks, "cachedContent" in body, "streamGenerateContent" in path)


def spoken(content):
    return content.get("role", "user") == "user" and not any("functionResponse" in part or "function_response" in part for part in content["parts"])


def parts(step):
    made = [{"text": step.thought, "thought": True}] if step.thought else []
    if step.calls:
        made.append({"text": step.text})
    for at, call in enumerate(step.calls):
        made.append({"functionCall": {"name": call.name, "args": call.arguments}})
        if at == 0:
            made[-1]["thoughtSignature"] = SIGNATURE
    return made


def answer(step, made, finish=None):
    candidate = {"content": {"role": "model", "parts": made}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    usage = {
        "promptTokenCount": step.input, "candidatesTokenCount": step.output - step.reasoning,
        "totalTokenCount": step.input + step.output,
    }
    if step.cached:
        usage["cachedContentTokenCount"] = step.cached
    if step.reasoning:
        usage["thoughtsTokenCount"] = step.reasoning
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-3-story", "responseId": "r1"}


def whole(step, _body):
    text = [] if step.calls else [{"text": step.text}]
    return answer(step, [*parts(step), *text], "STOP")


def events(step, _body):
    for part in parts(step):
        yield f"data: {json.dumps(answer(step, [part]))}\r\n\r\n"
    for piece in [] if step.calls else step.pieces():
        yield f"data: {json.dumps(answer(step, [{'text': piece}]))}\r\n\r\n"
    yield f"data: {json.dumps(answer(step, [{'text': ''}], 'STOP'))}\r\n\r\n"
