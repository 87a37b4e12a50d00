"""Reads the price list of the package genai-prices: Python literals, taken apart as a syntax tree and never run.

What is special about it: a model answers to many names by rules, of which only plain equality is taken over; prices
may begin on a date; `output_mtok` of models that make pictures is the rate of the picture's tokens.
"""

import ast
from decimal import Decimal

from archive import Source
from card import Listing, Name, Period, Place

TOKENS = {
    "input_mtok": "input", "output_mtok": "output", "output_reasoning_mtok": "reasoning",
    "cache_read_mtok": "cache_read", "cache_write_mtok": "cache_write", "cache_write_5m_mtok": "cache_write",
    "cache_write_1h_mtok": "cache_write_1h", "input_audio_mtok": "audio_in", "output_audio_mtok": "audio_out",
    "cache_audio_read_mtok": "audio_cache_read", "input_image_mtok": "image_in", "output_image_mtok": "image_out",
    "cache_image_read_mtok": "image_cache_read", "input_video_mtok": "video_in",
}
COUNTED = {"web_searches_kcount": ("web_search", 1000), "storage_searches_kcount": ("file_search", 1000),
           "requests_kcount": ("request", 1000)}
TIERS = {"batch": "batch", "flex": "flex", "priority": "priority", "fast": "fast", "ultrafast": "ultrafast"}


def read(source: Source, slugs: dict[str, str]) -> list[Listing]:
    tree = ast.parse(source.read())
    listings = []
    for statement in tree.body:
        if isinstance(statement, ast.AnnAssign) and getattr(statement.target, "id", None) == "providers":
            for provider in literal(statement.value):
                slug = slugs.get(provider["id"])
                if slug:
                    url = (provider.get("pricing_urls") or [""])[0]
                    listings += [listing(source, cloud(slug, model["id"]), url, model) for model in provider["models"]]
    return [listing for listing in listings if listing.rates]


def cloud(slug: str, model: str) -> str:
    """This list knows one Google; of its two services only the cloud has other makers' models."""
    return "vertex-ai" if slug == "google" and model.startswith("claude") else slug


def literal(node):
    """The value of an expression of literals, constructors as tables of what they were given."""
    match node:
        case ast.Constant():
            return node.value
        case ast.List() | ast.Tuple():
            return [literal(element) for element in node.elts]
        case ast.Dict():
            return {literal(key): literal(value) for key, value in zip(node.keys, node.values)}
        case ast.Call(func=ast.Name(id="Decimal")):
            return Decimal(literal(node.args[0]))
        case ast.Call(func=ast.Attribute(attr="date")):
            year, month, day = (literal(argument) for argument in node.args)
            return f"{year:04}-{month:02}-{day:02}"
        case ast.Call(func=func):
            return {"": func.attr if isinstance(func, ast.Attribute) else func.id,
                    **{word.arg: literal(word.value) for word in node.keywords}}
        case ast.UnaryOp(op=ast.USub()):
            return -literal(node.operand)
        case ast.Attribute():
            return node.attr
    raise ValueError(f"line {node.lineno}: no literal")


def listing(source: Source, slug: str, url: str, model: dict) -> Listing:
    name = model["id"]
    listing = Listing(Name(slug, name), source.title, source.date, url)
    listing.context, listing.title = model.get("context_window"), model.get("name")
    listing.also = [other for other in equals(model["match"]) if other != name]
    prices = model["prices"]
    for conditional in prices if isinstance(prices, list) else [{"prices": prices}]:
        limit = conditional.get("constraint") or {}
        # Hours of the day come from the lists that know weekdays too.
        if limit.get("") == "TimeOfDateConstraint":
            continue
        rates: dict = {}
        fill(rates, "", conditional["prices"], listing)
        listing.history.append(Period(limit.get("start_date"), rates, url))
    # Where the only prices are by hours, nothing is left.
    listing.rates = dict(listing.history[-1].rates) if listing.history else {}
    for variant in model.get("price_variants") or []:
        when = variant["when"]
        tier = TIERS.get(when.get("service_tier") or when.get("speed") or when.get("mode") or "")
        if tier and len(when) == 1 and not variant.get("constraint"):
            fill(listing.rates, tier, variant["prices"], listing)
    return listing


def equals(match: dict) -> list[str]:
    if match[""] == "ClauseEquals":
        return [match["equals"]]
    return [name for part in match.get("or_") or [] for name in equals(part)]


def fill(rates: dict, tier: str, prices: dict, listing: Listing) -> None:
    before, listing.rates = listing.rates, rates
    for field, price in prices.items():
        if field in COUNTED and price:
            what, per = COUNTED[field]
            listing.put(Place(tier, 0, what), price, per)
        if field not in TOKENS:
            continue
        steps = price["tiers"] if isinstance(price, dict) else []
        base = price["base"] if isinstance(price, dict) else price
        for over, dollars in [(0, base), *((step["start"], step["price"]) for step in steps)]:
            # "Above 199,999" is how this list says "from 200,000 on"; a row says that with `inclusive`.
            if over % 1000 == 999:
                over, listing.inclusive = over + 1, True
            if dollars or field in ("input_mtok", "output_mtok"):
                listing.put(Place(tier, over, TOKENS[field]), dollars, 1_000_000)
    listing.rates = before
