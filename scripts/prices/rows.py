"""Writes merged models as the rows of domain/data/prices.json: sorted, one a line, so that a change reads as what it is."""

import json
from collections import defaultdict
from datetime import date, timedelta
from decimal import Decimal

from card import CLASSES, TIERS, Listing, Name, Period, Place
from merge import Merged

#: Rows stay so long behind their end, for records that are priced late.
KEPT_DAYS = 180
#: Prices that held before are kept so long.
HISTORY_DAYS = 400
EMBED = ("embed", "bge-", "gte-", "e5-", "arctic-embed")


def rows(merged: dict[Name, Merged], today: str) -> list[dict]:
    found = []
    for name, model in merged.items():
        row = row_of(model)
        gone = row and row.get("shutdown") and days_before(today, KEPT_DAYS) > row["shutdown"]
        if row and not gone:
            found += with_past(row, model, today)
    drop_clashing_names(found)
    found.sort(key=lambda row: (row["provider"], row["model"], row.get("region") or "", row.get("from") or ""))
    return found


def days_before(day: str, count: int) -> str:
    return (date.fromisoformat(day) - timedelta(days=count)).isoformat()


def row_of(model: Merged) -> dict | None:
    rates = model.rates
    if not rates or not useful(rates):
        return None
    row: dict = {"provider": model.name.provider, "model": model.name.model}
    also = sorted({other for fact in model.facts for other in fact.also if other != model.name.model})
    if also:
        row["also"] = also
    if model.name.region:
        row["region"] = model.name.region
    row["kind"] = kind(model)
    facts(row, model)
    row["source"] = " + ".join(sorted(model.sources)) + (", single" if model.single and len(model.sources) == 1 else "")
    if model.urls:
        row["url"] = model.urls[0]
    row["date"] = max(model.dates)
    row["rates"] = table(rates, "", 0)
    pictures = picture_table(rates)
    if pictures:
        row["image"] = pictures
    over = steps(rates, "", any(fact.inclusive for fact in model.facts))
    if over:
        row["over"] = over
    tiers = {}
    for tier in TIERS[1:]:
        own = table(rates, tier, 0)
        if own:
            tiers[tier] = {"rates": own}
            above = steps(rates, tier, any(fact.inclusive for fact in model.facts))
            if above:
                tiers[tier]["over"] = above
    if tiers:
        row["tiers"] = tiers
    windows = next((fact.windows for fact in model.facts if fact.windows), [])
    if windows:
        row["windows"] = [{"days": w.days, "utc": w.utc, "rates": ordered(w.rates)} for w in windows]
    return row


def useful(rates: dict[Place, Decimal]) -> bool:
    """Whether any call at all can be priced: what goes in and comes out, or what is counted instead."""
    known = {place.what for place in rates if not place.tier and not place.over}
    counted = known - {"cache_read", "cache_write", "cache_write_1h", "web_search", "file_search", "maps", "reasoning"}
    return bool(counted)


def kind(model: Merged) -> str:
    told = next((fact.kind for fact in model.facts if fact.kind), None)
    if told:
        return told
    name = model.name.model.lower()
    if any(part in name for part in EMBED):
        return "embedding"
    if "rerank" in name:
        return "rerank"
    writes = next((fact.writes for fact in model.facts if fact.writes), [])
    return "image" if writes == ["image"] else "speech" if writes == ["audio"] else "chat"


def facts(row: dict, model: Merged) -> None:
    first = lambda get: next((get(fact) for fact in model.facts if get(fact)), None)
    told = {
        "name": " ".join((first(lambda f: f.title) or "").split()), "context": first(lambda f: f.context), "output": first(lambda f: f.output_limit),
        "reads": sorted(first(lambda f: f.reads) or []), "writes": sorted(first(lambda f: f.writes) or []),
        "can": sorted({ability for fact in model.facts for ability in fact.can}), "shutdown": first(lambda f: f.shutdown),
    }
    row.update({key: value for key, value in told.items() if value})


def table(rates: dict[Place, Decimal], tier: str, over: int) -> dict[str, int]:
    return ordered({place.what: rate for place, rate in rates.items() if place[:2] == (tier, over)})


def ordered(rates: dict[str, Decimal]) -> dict[str, int]:
    return {what: int(rates[what]) for what in CLASSES if what in rates}


def steps(rates: dict[Place, Decimal], tier: str, inclusive: bool) -> list[dict]:
    found = []
    for over in sorted({place.over for place in rates if place.tier == tier and place.over}):
        step = {"tokens": over, "rates": table(rates, tier, over)}
        if inclusive:
            step["inclusive"] = True
        found.append(step)
    return found


def picture_table(rates: dict[Place, Decimal]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for place, rate in sorted(rates.items()):
        if place.what.startswith("image:"):
            _, quality, size = place.what.split(":")
            found[quality][size] = int(rate)
    return dict(found)


def with_past(row: dict, model: Merged, today: str) -> list[dict]:
    """The row, and before it those of the prices that held earlier, where one list dates them and agrees on today's."""
    dated = next((fact for fact in model.facts if len(fact.history) > 1 and agrees(fact.history[-1], model)), None)
    if not dated or model.name.region:
        return [row]
    periods = squeezed(dated.history)
    past = []
    for earlier, later in zip(periods, periods[1:]):
        if not later.start or later.start < days_before(today, HISTORY_DAYS) or not earlier.rates:
            continue
        old = {key: row[key] for key in ("provider", "model", "also", "kind") if key in row}
        old |= {"from": earlier.start, "until": later.start, "source": f"{dated.source}, single", "date": later.start}
        old["url"] = earlier.url
        old["rates"] = table(earlier.rates, "", 0)
        over = steps(earlier.rates, "", dated.inclusive)
        past.append({key: value for key, value in (old | ({"over": over} if over else {})).items() if value})
    if past and periods[-1].start:
        row["from"] = periods[-1].start
    return [*past, in_order(row)]


def agrees(period: Period, model: Merged) -> bool:
    return all(model.rates.get(Place("", 0, what)) == period.rates.get(Place("", 0, what)) for what in ("input", "output"))


def squeezed(history: list[Period]) -> list[Period]:
    """Without those that changed nothing: a later commit often says the same again."""
    found: list[Period] = []
    for period in history:
        if found and grown(found[-1].rates, period.rates):
            found[-1] = Period(found[-1].start, period.rates, period.url)
        else:
            found.append(period)
    return found


def grown(before: dict[Place, Decimal], after: dict[Place, Decimal]) -> bool:
    """Whether the later list only says more than the earlier one."""
    return bool(before) and all(after.get(place) == rate for place, rate in before.items())


def in_order(row: dict) -> dict:
    first = ["provider", "model", "also", "region", "kind", "name", "context", "output", "reads", "writes", "can", "from",
             "until", "shutdown", "source", "url", "date", "rates", "image", "over", "tiers", "windows"]
    return {key: row[key] for key in first if key in row}


def drop_clashing_names(found: list[dict]) -> None:
    """A second name must not be a model of its own, nor that of two models."""
    own = {(row["provider"], row["model"]) for row in found}
    seen: dict = {}
    for row in found:
        keep = []
        for name in row.get("also", []):
            key = (row["provider"], name)
            if key not in own and seen.setdefault(key, row["model"]) == row["model"]:
                keep.append(name)
        if keep:
            row["also"] = keep
        else:
            row.pop("also", None)


def text(found: list[dict]) -> str:
    lines = [json.dumps(in_order(row), ensure_ascii=False, separators=(",", ":")) for row in found]
    return "[\n" + ",\n".join(lines) + "\n]\n"
