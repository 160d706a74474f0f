"""What a wheel says that it is, and holding the native files that go in to that.

A wheel's version names the commit and the backends, so it must be true of every file inside. What
was built just now and what was built before are held to the same: a file of another commit, of
other sources or with other backends is refused. Where the checkout has no git, its sources are all
that there is to compare: their hash must be that of the native files, whose commit the wheel then
names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from .identity import Checkout, Identity, IdentityError, local_version, note, origin


class NativeError(RuntimeError):
    """The native files cannot be built or shipped; the text says why."""


@dataclass(frozen=True)
class Claim:
    """What a wheel says that it is."""

    version: str
    """The workspace's."""
    commit: str | None
    dirty: bool | None
    """Whether what native files are made of differs from the commit."""
    source: str
    features: tuple[str, ...]
    python_dirty: bool | None
    """Whether the Python side differs from the commit."""

    @property
    def local_version(self) -> str:
        """The wheel's version."""
        changed = self.commit and (self.dirty or self.python_dirty)
        return local_version(self.version, self.commit, bool(changed), self.source, self.features)


def claim(
    here: Checkout, version: str, features: tuple[str, ...], library: Identity | None
) -> Claim:
    """The claim of a wheel that is built from the checkout ``here``.

    ``library`` is one that was built before. Its commit is the wheel's where the checkout knows
    none; then it must be of the same sources.
    """
    made = Claim(version, here.commit, here.dirty, here.source, features, here.python_dirty)
    if library is None or here.commit is not None:
        return made
    if library.source != here.source:
        raise NativeError(
            f"the library is of {library.origin()}; these files, without git, of {here.origin()}"
        )
    return replace(made, commit=library.commit, dirty=library.dirty)


def hold(claim: Claim, files: Mapping[str, Identity], with_backends: frozenset[str]) -> None:
    """Raises where a native file is not what the wheel says.

    ``with_backends`` are the names of the files that have backends; the others have none.
    """
    here = origin(claim.commit, claim.dirty, claim.source)
    for name, said in files.items():
        if said.version != claim.version:
            raise NativeError(
                f"{name} is of version {said.version}, and the wheel of {claim.version}"
            )
        made = (said.commit, said.dirty, said.source)
        if made != (claim.commit, claim.dirty, claim.source):
            raise NativeError(f"{name} is of {said.origin()}; these files of {here}")
        wanted = claim.features if name in with_backends else ()
        if set(said.features) != set(wanted):
            raise NativeError(
                f"{name} has {_words(said.features)}, and the wheel is to have {_words(wanted)}"
            )


def _words(features: tuple[str, ...]) -> str:
    return f"the backends {' '.join(features)}" if features else "no backends"


def read(path: Path) -> Identity:
    """The identity of a native file."""
    try:
        return note(path)
    except IdentityError as error:
        raise NativeError(str(error)) from error
