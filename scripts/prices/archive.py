"""Opens the packages that the lock file names: their hash must be the pinned one, and only single files are read out
of them. Nothing in a package is imported or run.
"""

import hashlib
import json
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass
class Source:
    """A package of the lock file, and where it lies."""

    name: str
    version: str
    date: str
    licence: str
    reads: str
    path: Path

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}"

    def read(self, member: str | None = None) -> bytes:
        with zipfile.ZipFile(self.path) as archive:
            return archive.read(member or self.reads)


def load(name: str):
    """A table that lies beside this file."""
    return json.loads((HERE / name).read_text(encoding="utf-8"))


def sources(folder: Path) -> dict[str, Source]:
    """All packages of the lock file, checked; ends the run where one is missing or another than the pinned one."""
    found, wanted = {}, []
    for row in load("lock.json"):
        path = folder / row["file"]
        if not path.is_file():
            wanted.append(f"{row['name']}=={row['version']}")
            continue
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != row["sha256"]:
            sys.exit(f"{path} is not the pinned file: its SHA-256 is {digest}, the lock file says {row['sha256']}")
        found[row["name"]] = Source(row["name"], row["version"], row["date"], row["licence"], row["reads"], path)
    if wanted:
        sys.exit(f"missing in {folder}: fetch them with\n  pip download --no-deps -d {folder} {' '.join(wanted)}")
    return found
