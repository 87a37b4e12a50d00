"""One model as one source lists it, in the form that all sources are brought into.

A rate is a Decimal in picodollars per unit (10^-12 USD), under a `Place`: which tier served, above how many prompt
tokens, and what is counted. What a source does not say is absent; nothing here is guessed.
"""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

PICO = Decimal(10) ** 12
#: A dollar for a million tokens.
PER_MILLION = Decimal(10) ** 6

TEXT = ["input", "output", "reasoning", "cache_read", "cache_write", "cache_write_1h", "cache_write_12h"]
OTHER_TOKENS = ["audio_in", "audio_out", "audio_cache_read", "image_in", "image_out", "image_cache_read", "video_in"]
COUNTED = [
    "second_in", "second_out", "character", "page", "page_annotated", "search_unit", "request", "web_search",
    "file_search", "code_session", "maps", "file_gb_day", "megapixel", "tile", "step",
]
TRAINING = ["train_token", "train_hour"]
CLASSES = TEXT + OTHER_TOKENS + COUNTED + TRAINING
#: Classes that are billed by token, and so halved in a batch where a provider says "half".
TOKENS = TEXT + OTHER_TOKENS
TIERS = ["", "batch", "flex", "priority", "fast", "ultrafast"]
KINDS = [
    "chat", "completion", "embedding", "image", "transcription", "speech", "realtime", "rerank", "moderation", "ocr",
    "video",
]


class Place(NamedTuple):
    """Where a rate stands. `what` is a class, or `image:QUALITY:SIZE` for a picture."""

    tier: str
    over: int
    what: str


class Name(NamedTuple):
    """Whose model, by our name of the provider, and in which region where the price is of one region only."""

    provider: str
    model: str
    region: str = ""


@dataclass
class Window:
    """Hours at which other rates hold: ISO weekdays, minutes of the day in UTC."""

    days: list[int]
    utc: list[str]
    rates: dict[str, Decimal]


@dataclass
class Period:
    """Rates that held until the next period began."""

    start: str | None
    rates: dict[Place, Decimal]
    url: str


@dataclass
class Listing:
    """A model in one source."""

    name: Name
    source: str
    date: str
    url: str
    rates: dict[Place, Decimal] = field(default_factory=dict)
    kind: str | None = None
    context: int | None = None
    output_limit: int | None = None
    also: list[str] = field(default_factory=list)
    shutdown: str | None = None
    title: str | None = None
    #: What goes in and comes out: text, image, audio, video, pdf.
    reads: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    can: list[str] = field(default_factory=list)
    #: From this many prompt tokens on, instead of above.
    inclusive: bool = False
    windows: list[Window] = field(default_factory=list)
    #: Oldest first; the last one holds now.
    history: list[Period] = field(default_factory=list)

    def put(self, place: Place, dollars, per=1) -> None:
        """Takes a rate in dollars for so many units; nothing where there is none."""
        if dollars is None:
            return
        if place.what.split(":")[0] not in (*CLASSES, "image") or place.tier not in TIERS:
            raise ValueError(f"{self.name}: no such place: {place}")
        self.rates[place] = whole(Decimal(dollars) * PICO / per)


def whole(pico: Decimal) -> Decimal:
    """Rates are whole picodollars: what falls below is noise of binary fractions."""
    return pico.quantize(Decimal(1))
