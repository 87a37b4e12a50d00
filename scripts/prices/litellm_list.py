"""Reads the price list of the package litellm: one flat JSON object, a key for each model, dollars for each unit.

What is special about it: keys carry a provider's prefix, sizes of pictures and regions; seconds are listed going in and
coming out though only one is billed; and a zero often means that nobody filled the field in.
"""

import json
import re
from decimal import Decimal

from archive import Source
from card import Listing, Name, Place, Window

KINDS = {
    "chat": "chat", "responses": "chat", "completion": "completion", "embedding": "embedding",
    "image_generation": "image", "image_edit": "image", "audio_transcription": "transcription",
    "audio_speech": "speech", "realtime": "realtime", "rerank": "rerank", "moderation": "moderation", "ocr": "ocr",
    "video_generation": "video",
}
#: Fields that hold a rate for a token, and its class.
TOKENS = {
    "input_cost_per_token": "input", "output_cost_per_token": "output",
    "output_cost_per_reasoning_token": "reasoning", "cache_read_input_token_cost": "cache_read",
    "cache_creation_input_token_cost": "cache_write",
    "cache_creation_input_token_cost_above_1hr": "cache_write_1h",
    "cache_creation_input_token_cost_above_12hr": "cache_write_12h", "input_cost_per_audio_token": "audio_in",
    "output_cost_per_audio_token": "audio_out", "cache_read_input_audio_token_cost": "audio_cache_read",
    "input_cost_per_image_token": "image_in", "output_cost_per_image_token": "image_out",
    "cache_read_input_image_token_cost": "image_cache_read", "input_cost_per_video_token": "video_in",
}
TIERS = {"": "", "_batches": "batch", "_flex": "flex", "_priority": "priority", "_ultrafast": "ultrafast"}
FIELD = re.compile(
    "^(" + "|".join(sorted(TOKENS, key=len, reverse=True)) + r")(?:_above_(\d+)k_tokens)?(_batches|_flex|_priority|_ultrafast|)$"
)
#: Other fields, with what they count.
UNITS = {
    "input_cost_per_character": "character", "input_cost_per_query": "search_unit", "input_cost_per_request": "request",
    "ocr_cost_per_page": "page", "code_interpreter_cost_per_session": "code_session",
    "google_maps_grounding_cost_per_query": "maps", "file_search_cost_per_gb_per_day": "file_gb_day",
}
SKIPPED = re.compile(r"commitment|/\*/|^fireworks-ai-|^together-ai-|steps/|bedrock/guardrails|^bedrock/invoke/|sample_spec")
SIZED = re.compile(r"^(?:(low|medium|high|standard|hd|auto)/)?(?:(\d+-x-\d+)/)?(.+)$")
BARE = {"azure", "azure_ai", "bedrock", "bedrock_mantle", "cloudflare", "codestral", "cohere", "text-completion-codestral",
        "text-completion-openai", "vertex_ai", "openai", "ai21", "anyscale"}
REGION = re.compile(r"^(?:us|eu|ap|ca|sa|me|af|il|mx|cn)-(?:gov-)?[a-z]+-\d$")
MODALITIES = {"text", "image", "audio", "video"}
CAN = {
    "supports_function_calling": "tools", "supports_reasoning": "reasoning", "supports_vision": "vision",
    "supports_prompt_caching": "caching", "supports_response_schema": "schema", "supports_web_search": "search",
    "supports_pdf_input": "pdf",
}


def read(source: Source, slugs: dict[str, str]) -> list[Listing]:
    rows = json.loads(source.read(), parse_float=Decimal)
    found: dict[Name, Listing] = {}
    for key, row in rows.items():
        provider = slugs.get(row.get("litellm_provider"))
        kind = KINDS.get(row.get("mode"))
        if not provider or not kind or SKIPPED.search(key):
            continue
        name, quality, size = named(key, row["litellm_provider"], provider)
        listing = Listing(name, source.title, source.date, row.get("source") or "")
        listing.kind = kind
        fill(listing, row, (quality, size))
        known = found.setdefault(name, listing)
        if known is not listing:
            # The same model under two keys: the first is kept, the other adds what it alone has.
            for place, rate in listing.rates.items():
                known.rates.setdefault(place, rate)
            known.url = known.url or listing.url
    return [listing for listing in found.values() if listing.rates]


def named(key: str, theirs: str, provider: str):
    """Our name of a model, and the quality and size of pictures that its key tells."""
    parts = key.split("/")
    region = ""
    if parts[0] in BARE | {theirs} or parts[0] in ("gemini", "together_ai", "fireworks_ai"):
        parts = parts[1:]
    if provider == "bedrock" and len(parts) > 1 and REGION.match(parts[0]):
        region, parts = parts[0], parts[1:]
    quality, size, model = SIZED.match("/".join(parts)).groups()
    if model.split("/")[0] in BARE:
        model = model.split("/", 1)[1]
    return Name(provider, model, region), quality or "default", (size or "default").replace("-x-", "x")


def fill(listing: Listing, row: dict, picture) -> None:
    for field, dollars in row.items():
        match = FIELD.match(field)
        if match and isinstance(dollars, (int, Decimal)):
            what, over, tier = match.groups()
            place = Place(TIERS[tier], int(over or 0) * 1000, TOKENS[what])
            # A zero is a gap that nobody filled, but where a model is given away.
            if dollars != 0 or (place.what in ("input", "output") and free(row)):
                listing.put(place, dollars)
        elif field in UNITS and dollars:
            listing.put(Place("", 0, UNITS[field]), dollars)
    for step in row.get("tiered_pricing") or []:
        fill_step(listing, step)
    fill_others(listing, row, picture)
    fill_facts(listing, row)


def free(row: dict) -> bool:
    return row.get("mode") in ("chat", "responses") and not row.get("input_cost_per_token") and not row.get("output_cost_per_token")


def fill_step(listing: Listing, step: dict) -> None:
    if "range" not in step:
        return
    over = int(step["range"][0])
    for field, dollars in step.items():
        if field in TOKENS and dollars:
            listing.put(Place("", over, TOKENS[field]), dollars)


def fill_others(listing: Listing, row: dict, picture) -> None:
    put = lambda what, dollars, per=1: listing.put(Place("", 0, what), dollars, per) if dollars else None
    seconds = row.get("input_cost_per_second"), row.get("output_cost_per_second")
    if listing.kind == "transcription":
        put("second_in", seconds[0] or seconds[1])
    elif listing.kind in ("speech", "video"):
        put("second_out", seconds[1])
    if row.get("annotation_cost_per_page") and row.get("ocr_cost_per_page"):
        put("page_annotated", row["annotation_cost_per_page"])
    put("file_search", row.get("file_search_cost_per_1k_calls"), 1000)
    search = row.get("search_context_cost_per_query") or {}
    rates = {search.get(f"search_context_size_{size}") for size in ("low", "medium", "high")} - {None, 0}
    # By how much of the web is read: only where that makes no difference does a search have one price.
    if len(rates) == 1:
        put("web_search", rates.pop())
    if listing.kind == "image":
        fill_picture(listing, row, picture)


def fill_picture(listing: Listing, row: dict, picture) -> None:
    quality, size = picture
    dollars = row.get("output_cost_per_image") or row.get("input_cost_per_image")
    pixel = row.get("input_cost_per_pixel") or row.get("output_cost_per_pixel")
    if not dollars and pixel and size != "default":
        width, height = size.split("x")
        # Figures for a pixel are written with so many digits that a picture comes out in hundredths of a cent.
        dollars = round(pixel * int(width) * int(height), 4)
    if dollars:
        listing.put(Place("", 0, f"image:{quality}:{size}"), dollars)


def fill_facts(listing: Listing, row: dict) -> None:
    listing.context = row.get("max_input_tokens") if isinstance(row.get("max_input_tokens"), int) else None
    listing.output_limit = row.get("max_output_tokens") if isinstance(row.get("max_output_tokens"), int) else None
    day = str(row.get("deprecation_date") or "")
    listing.shutdown = day if re.fullmatch(r"\d{4}-\d{2}-\d{2}", day) else None
    listing.reads = [m for m in row.get("supported_modalities") or [] if m in MODALITIES]
    listing.writes = [m for m in row.get("supported_output_modalities") or [] if m in MODALITIES]
    listing.can = [ours for theirs, ours in CAN.items() if row.get(theirs) is True]
    # xAI counts from 200,000 on.
    listing.inclusive = listing.name.provider == "x-ai"
    cheap = row.get("off_peak_pricing")
    if cheap:
        fill_hours(listing, cheap)


def fill_hours(listing: Listing, cheap: dict) -> None:
    """The list has the dear hours' rates and says when it is cheap; a row has the cheap ones and says when it is dear."""
    dear = {place.what: rate for place, rate in listing.rates.items() if place[:2] == ("", 0)}
    for field, dollars in cheap.items():
        if field in TOKENS:
            listing.put(Place("", 0, TOKENS[field]), dollars)
    free_minutes = {day: [True] * 1440 for day in range(1, 8)}
    for window in cheap["windows"]:
        hours = window["hours_utc"]
        for span in [hours] if isinstance(hours, str) else hours:
            start, end = (minute(text) for text in span.split("-"))
            for day in window["weekdays"]:
                free_minutes[day][start:end or 1440] = [False] * ((end or 1440) - start)
    by_span: dict[tuple[str, ...], list[int]] = {}
    for day, minutes in free_minutes.items():
        if spans(minutes):
            by_span.setdefault(spans(minutes), []).append(day)
    listing.windows = [Window(days, list(utc), dear) for utc, days in by_span.items()]


def minute(text: str) -> int:
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)


def spans(minutes: list[bool]) -> tuple[str, ...]:
    found, start = [], None
    for at, dear in enumerate([*minutes, False]):
        if dear and start is None:
            start = at
        elif not dear and start is not None:
            found.append(f"{start // 60:02}:{start % 60:02}-{at // 60:02}:{at % 60:02}")
            start = None
    return tuple(found)
