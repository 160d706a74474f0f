"""Holds records of `dormant verify` against each other: one build, each with one backend."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from images import evidence
from images.contents import shown
from images.errors import ImagesError

SAME = ("version", "source", "rustc", "profile")
"""What the libraries of all records have in common; and their guarantees."""


@dataclass(frozen=True)
class Tested:
    """What a record says that it tested."""

    record: evidence.Record
    identity: dict[str, Any]

    @property
    def name(self) -> str:
        """The record's file."""
        return self.record.file

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of the library's identity."""
        return tuple(map(str, self.identity.get(key) or ()))


def read(file: str) -> Tested:
    """Read one record; anything else is an error."""
    said = evidence.read(Path(file), file)
    record = evidence.record(file, said) if said is not None else None
    if said is None or record is None:
        raise ImagesError(f"{file} is no record of dormant verify")
    return Tested(record, (said["library"] or {}).get("identity") or {})


def differences(records: Sequence[Tested]) -> list[str]:
    """Where the records are not of one build, or one of them is of none that may be released."""
    found = [f"{one.name}: {problem}" for one in records for problem in _alone(one)]
    # The others follow from that.
    with_library = [one for one in records if one.identity]
    for other in with_library[1:]:
        found += _between(with_library[0], other)
    return found


def _alone(one: Tested) -> Iterator[str]:
    if not one.identity:
        yield "tested no library that says what it is"
        return
    commit = one.record.commit
    if commit is None:
        yield "tested a library of an unknown commit"
    elif one.record.dirty is not False:
        yield f"tested {commit} with changes"
    if not one.record.source:
        yield "tested a library of unknown sources"
    backends = one.texts("features")
    if len(backends) != 1:
        yield f"the library has the backends {shown(backends)}, and is to have exactly one"
    elif one.record.backend != backends[0]:
        yield f"tested the backend {one.record.backend}, and the library has {backends[0]}"
    if not one.record.passed:
        yield "did not pass"


def _between(one: Tested, other: Tested) -> Iterator[str]:
    for key in SAME:
        mine, theirs = one.identity.get(key), other.identity.get(key)
        if mine != theirs:
            yield f"{key}: {one.name} has {shown(mine)}, {other.name} has {shown(theirs)}"
    for has, lacks in ((one, other), (other, one)):
        for guarantee in sorted(set(has.texts("guarantees")) - set(lacks.texts("guarantees"))):
            yield f"guarantee {guarantee}: {has.name} has it, {lacks.name} does not"
