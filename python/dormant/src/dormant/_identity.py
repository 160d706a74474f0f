"""What build the library is."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from . import _native
from ._native import text
from .errors import InternalError

_SHORTEST = 7
"""How much of a commit must be named: as much as git shows of one."""


@dataclass(frozen=True)
class BuildInfo:
    """What the library was built from, and how. ``str`` of it is one line."""

    version: str
    commit: str | None
    """The full commit; ``None`` where it was built without git."""
    dirty: bool | None
    """Whether the sources differed from the commit; ``None`` where that is unknown."""
    source: str | None
    """The hash of the source tree, as in ``sha256:...``."""
    features: tuple[str, ...]
    """The backends compiled in: ``cuda``, ``hip``, ``sim``."""
    target: str
    profile: str
    rustc: str
    guarantees: tuple[str, ...]
    """Stable names of what it promises, each tied to conformance tests."""
    library: str
    """The file that this package opened."""
    line: str = field(repr=False, compare=False)

    def __str__(self) -> str:
        return self.line

    def as_dict(self) -> dict[str, Any]:
        """As ``dormant inspect --json`` prints it, and ``library``."""
        said = asdict(self)
        del said["line"]
        return {"schema": 1, **said}

    def mismatch(self, commit: str) -> str | None:
        """Why this is no build of exactly ``commit``, in words; ``None`` if it is one."""
        if not _is_commit(commit):
            return f"{commit!r} is no commit: that is {_SHORTEST} or more hexadecimal digits"
        if self.commit is None:
            return f"{self.library} is of an unknown commit, not known to be {commit}"
        if not self.commit.startswith(commit.lower()):
            return f"{self.library} is of {self.commit}, not {commit}"
        if self.dirty:
            return f"{self.library} is of {self.commit} with changes, source {self.source}"
        return None


def _is_commit(text: str) -> bool:
    return len(text) >= _SHORTEST and all(letter in "0123456789abcdefABCDEF" for letter in text)


def build_info() -> BuildInfo:
    """The library's version, commit, sources, backends and guarantees. Touches no device."""
    library = _native.library()
    try:
        said = json.loads(text(library.dormant_build_info()) or "")
        return BuildInfo(
            version=said["version"],
            commit=said["commit"],
            dirty=said["dirty"],
            source=said["source"],
            features=tuple(said["features"]),
            target=said["target"],
            profile=said["profile"],
            rustc=said["rustc"],
            guarantees=tuple(said["guarantees"]),
            library=text(library.dormant_library_path()) or library._name,
            line=text(library.dormant_build()) or "",
        )
    except (ValueError, KeyError) as error:
        raise InternalError(f"{library._name} does not say what it is: {error!r}") from error
