"""What no price can be. `mend` takes out of merged models what cannot be so and tells the report; `check` fails the run
if something of the kind is left in the rows, overrides of our own included.
"""

import json
from decimal import Decimal

from card import PICO, TOKENS, Place
from merge import Merged

#: A thousand dollars for a million tokens, and ten thousand for anything else that is counted.
DEAREST_TOKEN = PICO / 1000
DEAREST_UNIT = PICO * 10_000


def faults(rates: dict[Place, Decimal]) -> list[tuple[Place, str]]:
    """The figures that cannot be, with what is wrong."""
    found = []
    for place, rate in rates.items():
        plain = rates.get(Place("", place.over, place.what))
        below = rates.get(Place(place.tier, 0, place.what))
        whole = rates.get(Place(place.tier, place.over, "input"))
        if rate < 0 or rate > (DEAREST_TOKEN if place.what in TOKENS else DEAREST_UNIT):
            found.append((place, "absurd"))
        elif place.what == "cache_read" and whole is not None and rate > whole:
            found.append((place, "a cache read dearer than what it reads"))
        elif place.tier == "batch" and plain is not None and rate > plain:
            found.append((place, "a batch dearer than no batch"))
        elif place.tier == "flex" and plain is not None and rate > plain:
            found.append((place, "flex dearer than standard"))
        elif place.over and below is not None and rate < below:
            found.append((place, "an upper step below the base"))
    return found


def mend(models: list[Merged]) -> list[tuple[Merged, Place, str]]:
    """Takes out what cannot be, until nothing of it is left."""
    told = []
    for model in models:
        while wrong := faults(model.rates):
            for place, why in wrong:
                told.append((model, place, why))
                model.rates.pop(place, None)
        # A step that lacks the base, or what else makes the price of a request, is none.
        for place in list(model.rates):
            base = Place("", 0, place.what)
            if (place.tier or place.over) and base not in model.rates and place.what in ("input", "output"):
                told.append((model, place, "without a base rate"))
                model.rates.pop(place)
    return told


def check(rows: list[dict]) -> list[str]:
    """Sentences about rows that must not leave the house."""
    wrong = []
    seen = set()
    for row in rows:
        name = f"{row['provider']}/{row['model']}"
        if any(mark in json.dumps(row, ensure_ascii=False) for mark in ("\\",)):
            wrong.append(f"{name}: holds a sign that JSON escapes: the reader borrows texts as they stand")
        if not row.get("source") or not row.get("date"):
            wrong.append(f"{name}: no source or no date")
        key = (row["provider"], row["model"], row.get("region"), row.get("from"))
        if key in seen:
            wrong.append(f"{name}: twice from {row.get('from')}")
        seen.add(key)
        if row.get("until") and row.get("from") and row["until"] <= row["from"]:
            wrong.append(f"{name}: ends before it begins")
        for place, why in faults(flat(row)):
            wrong.append(f"{name}: {place}: {why}")
    return wrong


def flat(row: dict) -> dict[Place, Decimal]:
    """The figures of a row, each under its place."""
    found = {Place("", 0, what): Decimal(rate) for what, rate in row["rates"].items()}
    tables = [("", row.get("over") or [])]
    for tier, table in (row.get("tiers") or {}).items():
        found.update({Place(tier, 0, what): Decimal(rate) for what, rate in table["rates"].items()})
        tables.append((tier, table.get("over") or []))
    for tier, steps in tables:
        for step in steps:
            found.update({Place(tier, step["tokens"], what): Decimal(rate) for what, rate in step["rates"].items()})
    return found
