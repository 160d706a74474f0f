"""`docker/pins.lock.json`: what the tags of `docker/pins.toml` stood for when somebody looked."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from images.errors import ImagesError
from images.pins import DIGEST
from images.reference import Reference

LOCK = "docker/pins.lock.json"
SCHEMA = 1


@dataclass(frozen=True)
class Entry:
    """One tag's digests. Without `resolved` no registry has said so, only `resolved_from` has."""

    digest: str | None
    resolved: str | None
    resolved_from: str | None
    platforms: dict[str, str | None]

    def table(self) -> dict[str, Any]:
        """Return the entry as in the file."""
        table: dict[str, Any] = {"digest": self.digest, "resolved": self.resolved}
        if self.resolved_from is not None:
            table["resolved_from"] = self.resolved_from
        table["platforms"] = dict(sorted(self.platforms.items()))
        return table


class Lock(dict[str, Entry]):
    """All entries by the image's name with its tag."""

    def digest(self, reference: str) -> str | None:
        """Return the digest, or none while it is unresolved."""
        entry = self.get(reference)
        return entry.digest if entry else None

    def pinned(self, reference: str) -> str:
        """Return `name:tag@digest`; an error while it is unresolved."""
        digest = self.digest(reference)
        if digest is None:
            raise ImagesError(
                f"{reference} is unresolved: {LOCK} has no digest for it, docker/lock looks it up"
            )
        return f"{reference}@{digest}"

    def text(self) -> str:
        """Return the file's text."""
        images = {reference: self[reference].table() for reference in sorted(self)}
        return json.dumps({"schema": SCHEMA, "images": images}, indent=2) + "\n"


def load_lock(root: Path) -> Lock:
    """Read the lock below the repository's root."""
    try:
        table = json.loads((root / LOCK).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ImagesError(f"{LOCK}: {error}") from error
    if not isinstance(table, dict) or table.get("schema") != SCHEMA:
        raise ImagesError(f"{LOCK}: not of schema {SCHEMA}")
    if table.keys() != {"schema", "images"} or not isinstance(table["images"], dict):
        raise ImagesError(f"{LOCK}: needs `images` and nothing else beside `schema`")
    return Lock({ref: _entry(ref, value) for ref, value in table["images"].items()})


def _entry(reference: str, value: object) -> Entry:
    Reference.parse(reference)
    where = f"{LOCK}: {reference}"
    needed = {"digest", "resolved", "platforms"}
    if not isinstance(value, dict) or value.keys() - {"resolved_from"} != needed:
        raise ImagesError(f"{where}: needs {', '.join(sorted(needed))}")
    platforms = value["platforms"]
    if not isinstance(platforms, dict):
        raise ImagesError(f"{where}: `platforms` must be a table")
    digest, resolved, source = value["digest"], value["resolved"], value.get("resolved_from")
    for found in (digest, *platforms.values()):
        if found is not None and not (isinstance(found, str) and DIGEST.fullmatch(found)):
            raise ImagesError(f"{where}: {found!r} is no digest")
    if digest is None and (resolved, source) != (None, None):
        raise ImagesError(f"{where}: without a digest, but somebody found it")
    if digest is not None and (resolved is None) == (source is None):
        raise ImagesError(f"{where}: needs one of `resolved` and `resolved_from`")
    if resolved is not None and None in platforms.values():
        raise ImagesError(f"{where}: resolved, but not all platforms")
    return Entry(digest, resolved, source, dict(platforms))
