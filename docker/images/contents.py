"""What of ours is in an image: native files, packages, wheels; held against each other."""

import base64
import csv
import hashlib
import io
import json
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from email.parser import BytesParser

from dormant_wheel.elf import ElfError
from dormant_wheel.hooks import SHIM_NAMES
from dormant_wheel.identity import Identity, IdentityError, note_of
from dormant_wheel.native import LIBRARY, PROGRAM

from images.layers import Image

SUMS = "SHA256SUMS"
IMAGE_JSON = "etc/dormant/image.json"
PACKAGES = ("dormant", "torch_memory_saver")
"""The Python packages that our wheels bring."""

DROP_IN_FILE = "drop-in file"
"""The role of what the drop-in lays beside Python's packages."""

_SITE = re.compile(r"(?:^|.*/)(?:site|dist)-packages/(.+)")
_WHEEL = re.compile(rf"(?:{'|'.join(PACKAGES)})-[^/]+\.whl")
_DIST_INFO = re.compile(rf"(?:{'|'.join(PACKAGES)})-[^/]+\.dist-info/")


@dataclass
class Contents:
    """What was found in one image."""

    image: Image
    natives: dict[str, dict[str, Identity]] = field(default_factory=dict)
    """By role, then by path."""
    python: dict[str, str] = field(default_factory=dict)
    """The hashes of the packages' Python files, by their path in site-packages."""
    versions: dict[str, str] = field(default_factory=dict)
    """Of the installed distributions."""
    about: dict[str, str | None] | None = None
    """What the image says of itself in a file."""
    problems: list[str] = field(default_factory=list)
    """What is wrong within this image."""

    @property
    def name(self) -> str:
        """The image's."""
        return self.image.name

    def identities(self) -> Iterator[tuple[str, Identity]]:
        """Every native file with what it says."""
        for found in self.natives.values():
            yield from found.items()

    def libraries(self) -> dict[str, str]:
        """The hash of each library, by path."""
        found = self.natives.get("library", {})
        return {path: sha256(self.image.files[path]) for path in found}

    @property
    def identity(self) -> Identity | None:
        """That of its first library."""
        return next(iter(self.natives.get("library", {}).values()), None)


def sha256(data: bytes) -> str:
    """The hash of a content."""
    return hashlib.sha256(data).hexdigest()


def wanted(path: str) -> bool:
    """Whether a file of an image may be ours."""
    name = posixpath.basename(path)
    return bool(
        role(path)
        or name == SUMS
        or _WHEEL.fullmatch(name)
        or path == IMAGE_JSON
        or ((inside := in_site(path)) and _is_ours(inside))
        # A program of ours may have been replaced by a script.
        or path.endswith(f"bin/{PROGRAM}")
    )


def role(path: str) -> str | None:
    """What a native file of ours is for, by its name."""
    name = posixpath.basename(path)
    if name == LIBRARY:
        return "library"
    if name in SHIM_NAMES:
        return DROP_IN_FILE
    return "program" if path.endswith(f"bin/{PROGRAM}") else None


def in_site(path: str) -> str | None:
    """Where a file is in its folder of Python packages."""
    match = _SITE.fullmatch(path)
    return match[1] if match else None


def _is_ours(inside: str) -> bool:
    return inside.partition("/")[0] in PACKAGES or _DIST_INFO.match(inside) is not None


def examine(image: Image) -> Contents:
    """Find what of ours is in an image, and what is wrong with it."""
    found = Contents(image)
    for path, data in sorted(image.files.items()):
        if kind := role(path):
            try:
                said = note_of(data, path)
            except (ElfError, IdentityError) as error:
                found.problems.append(str(error))
            else:
                found.natives.setdefault(kind, {})[path] = said
        inside = in_site(path)
        if inside and inside.endswith((".py", ".pyi", "py.typed")) and _is_ours(inside):
            found.python[inside] = sha256(data)
        if inside and inside.endswith(".dist-info/RECORD"):
            found.problems += _record(image, path)
        if inside and inside.endswith(".dist-info/METADATA"):
            said_of = BytesParser().parsebytes(data)
            found.versions[str(said_of["Name"]).replace("-", "_")] = str(said_of["Version"])
        if posixpath.basename(path) == SUMS:
            found.problems += _sums(image, path)
        if path == IMAGE_JSON:
            try:
                found.about = dict(json.loads(data))
            except (ValueError, TypeError) as error:
                found.problems.append(f"{path}: {error}")
    found.problems += _within(found)
    return found


def _record(image: Image, path: str) -> Iterator[str]:
    """Files that are not as the wheel brought them."""
    site = posixpath.dirname(posixpath.dirname(path))
    for row in csv.reader(io.StringIO(image.files[path].decode(errors="replace"))):
        if len(row) != 3:
            yield f"{path} has a line that is none: {','.join(row)}"
            continue
        name, said, _ = row
        file = posixpath.normpath(posixpath.join(site, name))
        if not said or not wanted(file):
            continue
        if file not in image.files:
            yield f"{file} is missing, which {path} has"
        elif said != "sha256=" + _record_hash(image.files[file]):
            yield f"{file} is not the file that was installed ({path})"


def _record_hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def _sums(image: Image, path: str) -> Iterator[str]:
    """Wheels that are not what the list of sums says, and such that it does not know."""
    folder = posixpath.dirname(path)
    sums: dict[str, str] = {}
    for line in image.files[path].decode(errors="replace").splitlines():
        digest, _, name = line.partition("  ")
        if wanted(name):
            sums[posixpath.normpath(posixpath.join(folder, name))] = digest
    if not sums:
        return  # It is of others.
    beside = {file for file in image.files if posixpath.dirname(file) == folder}
    for file in sorted(sums | dict.fromkeys(beside - {path}, "")):
        if file not in sums:
            yield f"{path} does not have {file}"
        elif file not in image.files:
            yield f"{file} is missing, which {path} has"
        elif sha256(image.files[file]) != sums[file]:
            yield f"{file} is not what {path} says"


def _within(found: Contents) -> Iterator[str]:
    """What does not fit together in one image."""
    if "library" not in found.natives:
        yield "there is no library of dormant"
        return
    for kind in (DROP_IN_FILE, "program"):
        if kind not in found.natives:
            yield f"there is no {kind}"
    path, truth = next(iter(found.natives["library"].items()))
    if truth.commit is None:
        yield f"{path} is of an unknown commit"
    if truth.dirty:
        yield f"{path} is of {truth.commit} with changes"
    for other, said in found.identities():
        for name in differing(truth, said, without=_not_of(role(other))):
            yield (
                f"{name}: {path} has {shown(getattr(truth, name))}, "
                f"{other} has {shown(getattr(said, name))}"
            )
    if len(set(found.libraries().values())) > 1:
        yield f"the libraries are not one file: {', '.join(found.libraries())}"
    version = truth.wheel_version()
    for name, installed in found.versions.items():
        if not installed.endswith((version, version.replace("+", "."))):
            yield f"{name} is installed as {installed}, and {path} is {version}"


def _not_of(kind: str | None) -> tuple[str, ...]:
    """What a file of this kind says nothing of."""
    return ("features", "guarantees") if kind == DROP_IN_FILE else ()


def differing(one: Identity, other: Identity, without: tuple[str, ...]) -> Iterator[str]:
    """The names of what two identities do not have in common."""
    for each in fields(Identity):
        if each.name not in without and getattr(one, each.name) != getattr(other, each.name):
            yield each.name


def shown(value: object) -> str:
    """A value of an identity in words."""
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "none"
    return "unknown" if value is None else str(value)
