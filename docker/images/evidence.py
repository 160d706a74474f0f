"""What has been shown of each variant: from the records that `dormant verify --json` made."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from images.errors import ImagesError
from images.locked import Lock
from images.pins import Pins, Variant
from images.reference import Reference

PLACES = ("docker/evidence", "benches/results")
"""Where records are kept."""

KIND, SCHEMA = "dormant-verify", 1
BUILT, OVERLAID, STAND_IN, NONE = "built", "overlaid", "stand-in only", "none"
STRENGTHS = (BUILT, OVERLAID, STAND_IN, NONE)
"""The strongest first."""

MACHINES = {"x86_64": "linux/amd64", "aarch64": "linux/arm64"}
"""Platforms by what the kernel calls the machine."""


@dataclass(frozen=True)
class Record:
    """One record, as far as it matters here."""

    file: str
    commit: str | None
    dirty: bool | None
    source: str | None
    passed: bool
    backend: str | None
    stand_in_driver: bool
    variant: str | None
    base: str | None
    overlaid: bool
    platform: str


@dataclass
class Row:
    """A variant on a platform, with what there is for it."""

    variant: Variant
    platform: str
    evidence: str = NONE
    records: list[Record] = field(default_factory=list)
    """What the evidence is."""
    others: list[str] = field(default_factory=list)
    """Records that do not count, each with the reason."""

    def as_dict(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "variant": self.variant.name,
            "platform": self.platform,
            "base": self.variant.base,
            "evidence": self.evidence,
            "records": [{"file": r.file, "commit": r.commit} for r in self.records],
            "not_counted": self.others,
        }


def load(root: Path) -> list[Record]:
    """Read all records below the repository's root."""
    found = []
    for place in PLACES:
        for path in sorted((root / place).rglob("*.json")):
            file = path.relative_to(root).as_posix()
            said = read(path, file)
            if said is not None:
                found.append(record(file, said))
    return found


def read(path: Path, file: str) -> dict[str, Any] | None:
    """Read a JSON file that errors call `file`; none if it is no record."""
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ImagesError(f"{file}: {error}") from error
    return said if isinstance(said, dict) and said.get("record") == KIND else None


def record(file: str, said: dict[str, Any]) -> Record:
    """Return what matters here of a record."""
    if said.get("schema") != SCHEMA:
        raise ImagesError(f"{file} is a record of schema {said.get('schema')!r}, not {SCHEMA}")
    try:
        # What failed early has no library, no identity or no driver.
        identity = (said["library"] or {}).get("identity") or {}
        image, driver = said["image"] or {}, said["driver"]
        machine = said["host"]["machine"]
        return Record(
            file=file,
            commit=identity.get("commit"),
            dirty=identity.get("dirty"),
            source=identity.get("source"),
            passed=said["passed"] is True and not said["failures"] and _ran(said["suite"]["cases"]),
            backend=said["backend"],
            stand_in_driver=driver is None or driver["stand_in"] is not False,
            variant=image.get("variant"),
            base=image.get("base"),
            overlaid=said["overlay"] is not None,
            platform=MACHINES.get(machine, machine),
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise ImagesError(f"{file} is no whole record: {error!r}") from error


def _ran(cases: list[dict[str, Any]]) -> bool:
    outcomes = {case["outcome"] for case in cases}
    return "passed" in outcomes and "failed" not in outcomes


def table(pins: Pins, lock: Lock, records: list[Record]) -> list[Row]:
    """What there is for each variant and platform."""
    rows = [Row(variant, p) for variant in pins.variants for p in variant.platforms]
    for row in rows:
        for one in records:
            if (one.variant, one.platform) != (row.variant.name, row.platform):
                continue
            if reason := _not_counted(one, row, pins):
                row.others.append(f"{one.file}: {reason}")
                continue
            strength = _strength(one, row, lock)
            if STRENGTHS.index(strength) < STRENGTHS.index(row.evidence):
                row.evidence, row.records = strength, []
            if strength == row.evidence:
                row.records.append(one)
    return rows


def _not_counted(record: Record, row: Row, pins: Pins) -> str | None:
    if record.commit is None:
        return f"tested an unknown commit, not {pins.commit}"
    if record.dirty is not False:
        return f"tested {record.commit} with changes"
    # The commit that carries a pin is later than the pinned one, and has the same sources.
    if record.source != pins.source:
        other = (
            f"{record.commit} with the sources" if record.commit != pins.commit else "the sources"
        )
        return f"tested {other} {record.source}, not {pins.source}"
    if record.backend != row.variant.backend:
        return f"tested the backend {record.backend}, not {row.variant.backend}"
    return None if record.passed else "did not pass"


def _strength(record: Record, row: Row, lock: Lock) -> str:
    if record.stand_in_driver or not is_base(record.base, row.variant.base, row.platform, lock):
        return STAND_IN
    return OVERLAID if record.overlaid else BUILT


def is_base(said: str | None, pinned: str, platform: str, lock: Lock) -> bool:
    """Whether what an image was built on is the base that pins and lock name.

    A stand-in may have the base's name, so the digest decides: the tag's, or the platform's.
    """
    entry = lock.get(pinned)
    if said is None or entry is None:
        return False
    try:
        base, wanted = Reference.parse(said), Reference.parse(pinned)
    except ImagesError:
        return False
    digests = {entry.digest, entry.platforms.get(platform)} - {None}
    return (base.name, base.tag) == (wanted.name, wanted.tag) and base.digest in digests


def of_no_row(pins: Pins, records: list[Record]) -> Iterator[str]:
    """Records that say nothing of any variant, each with the reason."""
    rows = {(variant.name, p) for variant in pins.variants for p in variant.platforms}
    for one in records:
        if one.variant is None:
            yield f"{one.file}: was not made in an image"
        elif (one.variant, one.platform) not in rows:
            yield f"{one.file}: {one.variant} on {one.platform} is no variant"


def lines(pins: Pins, rows: list[Row], others: list[str]) -> Iterator[str]:
    """The table in words."""
    width = max((len(row.variant.name) for row in rows), default=0)
    for row in rows:
        said = f"{row.variant.name:{width}}  {row.platform:11}  {row.evidence}"
        shown = ", ".join(
            one.file
            if one.commit == pins.commit
            else f"{one.file} (of {one.commit}, the same sources)"
            for one in row.records
        )
        yield f"{said}: {shown}" if shown else said
        yield from (f"{'':{width}}  not counted: {other}" for other in row.others)
    yield from (f"of no variant: {other}" for other in others)
