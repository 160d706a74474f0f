"""What a native file says that it was built from, and what a checkout is.

A native file carries its identity as JSON in an ELF note, so that it can be read without being
loaded. A checkout's identity comes from git and from the sources, and from nowhere else: where git
cannot be asked, or the repository that it finds is not this checkout's own, the commit is unknown.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from . import elf

OWNER, KIND = "dormant", 1
"""Of the note."""
SCHEMA = 1

BACKENDS = ("cuda", "hip", "sim")
"""All that a build can have, in the order in which they are named."""

SOURCES = ("Cargo.toml", "Cargo.lock", "crates", "backends")
"""What the native files are made of, below the root; the source hash is over this."""

_WATCHED = (*SOURCES, ".gitignore")
"""What a build's flag ``dirty`` speaks of: the sources, and what git overlooks."""

_FOREIGN = (
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_WORK_TREE",
)
"""Variables by which a caller, a hook for one, points git at a repository of its own."""


class IdentityError(ValueError):
    """A file says nothing usable of what it is."""


@dataclass(frozen=True)
class Identity:
    """What a native file was built from, and how."""

    version: str
    commit: str | None
    """None: unknown."""
    dirty: bool | None
    """Whether the sources differed from the commit; None where that is unknown."""
    source: str | None
    """The hash of the source tree, as in ``sha256:...``."""
    features: tuple[str, ...]
    """The backends compiled in; a shim has none."""
    target: str
    profile: str
    rustc: str
    guarantees: tuple[str, ...]

    def origin(self) -> str:
        """Commit and source in words."""
        return origin(self.commit, self.dirty, self.source)

    def wheel_version(self) -> str:
        """The version of a wheel that has nothing else in it."""
        return local_version(self.version, self.commit, self.dirty, self.source, self.features)


@dataclass(frozen=True)
class Checkout:
    """What the files below a root are."""

    commit: str | None
    dirty: bool | None
    """Whether what native files are made of differs from the commit."""
    python_dirty: bool | None
    """Whether the Python side does."""
    source: str

    def origin(self) -> str:
        """Commit and source in words."""
        return origin(self.commit, self.dirty, self.source)


def origin(commit: str | None, dirty: bool | None, source: str | None) -> str:
    """A commit and a source hash in words."""
    said = commit or "an unknown commit"
    if dirty:
        said += " with changes"
    return f"{said}, source {short(source) if source else 'unknown'}"


def short(source: str) -> str:
    """The beginning of a source hash."""
    return source.partition(":")[2][:8]


def source_hash(root: Path) -> str:
    """The hash of all that native files are made of: as the build script computes it."""
    return hash_of((path, (root / path).read_bytes()) for path in _sources(root))


def hash_of(sources: Iterable[tuple[str, bytes]]) -> str:
    """The same over paths and contents that come from elsewhere."""
    lines = {}
    for path, content in sources:
        name = os.fsencode(path)
        lines[name] = hashlib.sha256(content).hexdigest().encode() + b"  " + name + b"\n"
    listing = b"".join(lines[name] for name in sorted(lines))
    return "sha256:" + hashlib.sha256(listing).hexdigest()


def _sources(root: Path) -> Iterable[str]:
    for source in SOURCES:
        top = root / source
        if not top.exists():
            raise IdentityError(f"{root} lacks {source}, of which the native files are made")
        if top.is_file() and not top.is_symlink():
            yield source
        elif top.is_dir() and not top.is_symlink():
            for folder, names, files in os.walk(top):
                names[:] = [name for name in names if counts(name)]
                for name in filter(counts, files):
                    path = Path(folder, name)
                    if path.is_file() and not path.is_symlink():
                        yield path.relative_to(root).as_posix()


def counts(name: str) -> bool:
    """Whether files and folders of this name are sources."""
    return not name.startswith(".") and name not in ("target", "__pycache__")


def checkout(root: Path) -> Checkout:
    """What the checkout at ``root`` is."""
    commit, source = _commit(root), source_hash(root)
    if commit is None:
        return Checkout(None, None, None, source)
    dirty, python = _changed(root, _WATCHED, ignored=True), _changed(root, ["python"])
    if dirty is None or python is None:
        return Checkout(None, None, None, source)
    return Checkout(commit, dirty, python, source)


def _commit(root: Path) -> str | None:
    top = _git(root, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() != root.resolve():
        return None
    if _git(root, "ls-files", "--error-unmatch", "--", SOURCES[0]) is None:
        return None
    commit = _git(root, "rev-parse", "--verify", "HEAD^{commit}")
    return commit if commit and re.fullmatch(r"[0-9a-f]{40}([0-9a-f]{24})?", commit) else None


def _changed(root: Path, paths: Sequence[str], ignored: bool = False) -> bool | None:
    """Whether anything there differs from the commit.

    A file that git was told to take for unchanged counts as changed; with ``ignored`` sources
    that it was told to ignore do, too.
    """
    asked = ["status", "--porcelain=v1", "-z", "--untracked-files=all", "--ignore-submodules=none"]
    if ignored:
        asked.append("--ignored=traditional")
    said = _git(root, *asked, "--", *paths)
    flags = _git(root, "ls-files", "-v", "-z", "--", *paths)
    if said is None or flags is None:
        return None
    return any(map(_is_change, _entries(said))) or any(
        not entry.startswith("H ") for entry in _entries(flags)
    )


def _entries(said: str) -> Iterable[str]:
    return filter(None, said.split("\0"))


def _is_change(entry: str) -> bool:
    return not entry.startswith("!! ") or all(map(counts, entry[3:].split("/")))


def _git(root: Path, *arguments: str) -> str | None:
    """What git answers; None where it fails. It takes no lock and starts no helper."""
    env = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    command = ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-C", str(root)]
    try:
        done = subprocess.run(
            [*command, *arguments],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    except OSError:
        return None
    return os.fsdecode(done.stdout).rstrip() if done.returncode == 0 else None


def note(path: Path) -> Identity:
    """The identity in a native file's note."""
    return note_of(path.read_bytes(), path.name)


def note_of(data: bytes, name: str) -> Identity:
    """The same of a file's content; ``name`` is for errors."""
    found = {
        each.content for each in elf.notes(data, name) if (each.owner, each.kind) == (OWNER, KIND)
    }
    if not found:
        raise IdentityError(f"{name} does not say what it was built from: it has no such note")
    if len(found) > 1:
        raise IdentityError(f"{name} says twice what it was built from, and not the same")
    try:
        return parse(json.loads(found.pop()))
    except ValueError as error:
        raise IdentityError(f"{name}: {error}") from error


def parse(said: Any) -> Identity:
    """An identity from its JSON, held to its form."""
    if not isinstance(said, dict) or said.get("schema") != SCHEMA:
        raise IdentityError(f"no identity of schema {SCHEMA}: {said!r}")

    def value(name: str) -> Any:
        if name not in said:
            raise IdentityError(f"the identity has no {name!r}")
        it = said[name]
        if name in ("features", "guarantees"):
            if isinstance(it, list) and all(isinstance(one, str) for one in it):
                return tuple(it)
        elif name == "dirty":
            if it is None or isinstance(it, bool):
                return it
        elif name in ("commit", "source") and it is None:
            return None
        elif isinstance(it, str) and (name not in _FORMS or _FORMS[name].fullmatch(it)):
            return it
        raise IdentityError(f"the identity's {name!r} is {it!r}")

    identity = Identity(**{field.name: value(field.name) for field in fields(Identity)})
    if (identity.commit is None) != (identity.dirty is None):
        raise IdentityError("the identity has a commit and does not know whether it was changed")
    return identity


_FORMS = {
    "commit": re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?"),
    "source": re.compile(r"sha256:[0-9a-f]{64}"),
}


def local_version(
    version: str,
    commit: str | None,
    dirty: bool | None,
    source: str | None,
    features: Iterable[str],
) -> str:
    """A wheel's version: the workspace's, with what it was built from in its local part."""
    if commit is None:
        parts = ["unknown"]
    else:
        parts = ["g" + commit[:12]]
        if dirty:
            parts.append("dirty")
    if source and (commit is None or dirty):
        parts.append("s" + short(source))
    chosen = set(features)
    if chosen != set(BACKENDS):
        parts += [name for name in BACKENDS if name in chosen]
    return f"{version}+{'.'.join(parts)}"
