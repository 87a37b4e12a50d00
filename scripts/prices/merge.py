"""Makes one listing out of what the sources say of a model, figure by figure.

Our own overrides win; else what two independent sources agree on; else what a single source says that cites a page of
the provider. What is left over is left out: a wrong price is worse than none. All that sources disagree about goes to
the report, with what became of it.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal

from card import TOKENS, Listing, Name, Place

#: A list that is so much older than another is no voice against it.
STALE_DAYS = 120


@dataclass
class Verdict:
    """One disagreement, for the report."""

    name: Name
    place: Place
    said: dict[str, Decimal]
    taken: Decimal | None
    why: str


@dataclass
class Merged:
    """A model as it goes into the file."""

    name: Name
    rates: dict[Place, Decimal] = field(default_factory=dict)
    #: Which sources a figure was taken from, and of what day they are.
    sources: set[str] = field(default_factory=set)
    dates: set[str] = field(default_factory=set)
    urls: list[str] = field(default_factory=list)
    single: bool = True
    facts: list[Listing] = field(default_factory=list)
    note: str | None = None


def merge(lists: list[list[Listing]], overrides: list[dict]) -> tuple[dict[Name, Merged], list[Verdict]]:
    """`lists`: each of an independent base, the best first; within one base the first that knows a model speaks."""
    said: dict[Name, list[Listing]] = defaultdict(list)
    for listings in lists:
        for listing in listings:
            said[listing.name].append(listing)
    verdicts: list[Verdict] = []
    merged = {}
    for name, listings in said.items():
        agree_on_pictures(listings)
        model = Merged(name, facts=listings)
        for place in sorted({place for listing in listings for place in listing.rates}):
            settle(model, place, listings, verdicts)
        merged[name] = model
    apply(overrides, merged)
    return merged, verdicts


def agree_on_pictures(listings: list[Listing]) -> None:
    """Where one list knows the rate of a picture's tokens and others call that rate `output`, it is the picture's."""
    if not any(Place("", 0, "image_out") in listing.rates and listing.kind == "image" for listing in listings):
        return
    for listing in listings:
        if Place("", 0, "image_out") not in listing.rates:
            for tier in {place.tier for place in listing.rates}:
                rate = listing.rates.pop(Place(tier, 0, "output"), None)
                if rate is not None:
                    listing.rates[Place(tier, 0, "image_out")] = rate


def settle(model: Merged, place: Place, listings: list[Listing], verdicts: list[Verdict]) -> None:
    voices = spoken(place, listings)
    figures = {listing.rates[place] for listing in voices}
    if not voices:
        return
    if len(figures) == 1:
        if len(voices) > 1 or voices[0].url:
            take(model, place, voices)
        return
    said = {listing.source: listing.rates[place] for listing in voices}
    chosen, why = choose(place, voices)
    verdicts.append(Verdict(model.name, place, said, chosen[0].rates[place] if chosen else None, why))
    if chosen:
        take(model, place, chosen)


def spoken(place: Place, listings: list[Listing]) -> list[Listing]:
    """Who says something. A nought is believed where nobody says more, and two say so or the name does."""
    voices = [listing for listing in listings if place in listing.rates]
    some = [listing for listing in voices if listing.rates[place]]
    free = len(voices) > 1 or any(listing.name.model.endswith(":free") for listing in voices)
    return some or (voices if free else [])


def choose(place: Place, voices: list[Listing]) -> tuple[list[Listing], str]:
    """Who is believed where sources disagree, and why; nobody where that cannot be told."""
    for voice in voices:
        same = [other for other in voices if other.rates[place] == voice.rates[place]]
        if len(same) > 1:
            return same, "two agree"
    past = [voice for voice in voices if superseded(place, voice.rates[place], voices)]
    left = [voice for voice in voices if voice not in past]
    if past and len(left) == 1 and left[0].url:
        return left, "the other has what held before"
    newest = max(voice.date for voice in left or voices)
    fresh = [voice for voice in left or voices if days(voice.date, newest) <= STALE_DAYS]
    if len(fresh) == 1 and fresh[0].url:
        if ten_times(voice.rates[place] for voice in voices):
            return [], "ten times apart"
        return fresh, "the other list is months older"
    return [], "nobody can tell"


def superseded(place: Place, rate: Decimal, voices: list[Listing]) -> bool:
    """Whether some dated history has this very rate in an earlier period, and another one now."""
    for voice in voices:
        if len(voice.history) > 1 and voice.rates[place] != rate:
            if any(period.rates.get(place) == rate for period in voice.history[:-1]):
                return True
    return False


def ten_times(rates) -> bool:
    """So far apart, two figures differ by a slip of the point."""
    known = sorted(rate for rate in rates if rate)
    return len(known) > 1 and 8 <= known[-1] / known[0] <= 12


def days(earlier: str, later: str) -> int:
    return (date.fromisoformat(later) - date.fromisoformat(earlier)).days


def take(model: Merged, place: Place, voices: list[Listing]) -> None:
    model.rates[place] = voices[0].rates[place]
    model.single = model.single and len(voices) == 1
    model.sources.update(voice.source for voice in voices)
    model.dates.add(max(voice.date for voice in voices))
    model.urls += [voice.url for voice in voices if voice.url and voice.url not in model.urls]


def apply(overrides: list[dict], merged: dict[Name, Merged]) -> None:
    """Our own figures: `rates` are dollars for a million tokens or for one unit, null takes a figure out."""
    for row in overrides:
        name = Name(row["provider"], row["model"], row.get("region", ""))
        model = merged.setdefault(name, Merged(name))
        for key, dollars in row["rates"].items():
            tier, over, what = (key.split("|") + ["", ""])[:3] if "|" in key else ("", "0", key)
            place = Place(tier, int(over or 0), what)
            if dollars is None:
                model.rates.pop(place, None)
                continue
            listing = Listing(name, "", "", "")
            token = what in TOKENS
            listing.put(place, Decimal(str(dollars)), 1_000_000 if token else 1)
            model.rates.update(listing.rates)
        model.single = False
        model.sources.add("own")
        model.dates.add(row["date"])
        model.urls.insert(0, row["url"])
        model.note = row.get("note")
        fact = Listing(name, "own", row["date"], row["url"])
        fact.kind, fact.also, fact.context = row.get("kind"), row.get("also") or [], row.get("context")
        model.facts.insert(0, fact)
