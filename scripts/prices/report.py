"""What the run has to say: the disagreements, what was taken out, whose lists these are."""

from card import Place
from merge import Verdict


def unsettled(verdicts: list[Verdict], overrides: list[dict]) -> list[str]:
    """Two lists that are ten times apart: somebody's point slipped, and only a look at the provider's page tells whose."""
    settled = {(row["provider"], row["model"]) for row in overrides}
    return [
        f"{verdict.name.provider}/{verdict.name.model}: {where(verdict.place)}: {said(verdict)}: ten times apart; "
        "settle it in overrides.json"
        for verdict in verdicts
        if verdict.why == "ten times apart" and verdict.name[:2] not in settled
    ]


def own_faults(mended: list) -> list[str]:
    """What cannot be is taken out of the lists of others; of our own it ends the run."""
    own = [(model, place, why) for model, place, why in mended if "own" in model.sources]
    return [f"overrides.json: {model.name.provider}/{model.name.model}: {where(place)}: {why}" for model, place, why in own]


def where(place: Place) -> str:
    return " ".join(part for part in (place.tier, place.what, f"above {place.over:,}" if place.over else "") if part)


def said(verdict: Verdict) -> str:
    return ", ".join(f"{source} {amount(rate)}" for source, rate in verdict.said.items())


def amount(rate) -> str:
    """Dollars for a million, which is how pages put it."""
    return f"{rate / 1_000_000:f}".rstrip("0").rstrip(".") if rate % 1_000_000 or rate < 1_000_000 else f"{rate // 1_000_000}"


def conflicts(verdicts: list[Verdict], mended: list, overrides: list[dict]) -> str:
    lines = [
        "# Where the sources disagree",
        "",
        "Written by `scripts/prices`; dollars for a million units. What nobody could settle is left out of the catalogue and",
        "costs *unknown*; a line in `overrides.json`, with the provider's page and the day, settles it.",
        "",
        "| provider | model | what | said | taken | why |",
        "|---|---|---|---|---|---|",
    ]
    own = {(row["provider"], row["model"]) for row in overrides}
    for verdict in sorted(verdicts, key=lambda v: (v.taken is not None, v.name, v.place)):
        taken = amount(verdict.taken) if verdict.taken is not None else "—"
        why = "our own figure" if verdict.taken is None and verdict.name[:2] in own else verdict.why
        lines.append(f"| {verdict.name.provider} | {verdict.name.model} | {where(verdict.place)} | {said(verdict)} | {taken} | {why} |")
    lines += ["", "## Taken out", "", "| provider | model | what | why |", "|---|---|---|---|"]
    lines += [f"| {model.name.provider} | {model.name.model} | {where(place)} | {why} |" for model, place, why in mended]
    return "\n".join(lines) + "\n"


def notice(sources) -> str:
    lines = [
        "prices.json was made by scripts/prices out of facts that these packages list, and of figures of our own from",
        "providers' pages (scripts/prices/overrides.json). Each row names where it is from, and of what day.",
        "",
    ]
    lines += [f"{source.title}, as of {source.date}: {source.licence}" for source in sources]
    lines += ["", "The two last carry data of models.dev (MIT)."]
    return "\n".join(lines) + "\n"
