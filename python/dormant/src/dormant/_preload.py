"""Starting programs whose GPU allocations can be ours: our library in ``LD_PRELOAD``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from . import _native
from .errors import InvalidArgumentError, LibraryMissingError

_OURS = re.compile(r"libdormant\.so$|torch_memory_saver_hook_mode_preload")
"""File names under which our library is preloaded."""


def preload_env(existing: Mapping[str, str] | str | None = None) -> dict[str, str]:
    """What to add to the environment of a program that is to have our hooks.

    For Ray's ``env_vars``, for Slurm, for ``subprocess``::

        subprocess.run(command, env={**os.environ, **dormant.preload_env()})

    ``existing`` is the environment that the program would have, or its ``LD_PRELOAD`` alone; by
    default this process's. Other libraries in it are kept, in their order, after ours; ours is
    never in it twice, under whatever path. Where this process's ``DORMANT_LIBRARY`` is set, that
    comes along, as an absolute path, so that the program's own dormant uses the same file.
    """
    if existing is None:
        existing = os.environ
    before = existing if isinstance(existing, str) else existing.get("LD_PRELOAD", "")
    path = _native.library_path()
    if not os.path.exists(path):
        raise LibraryMissingError(f"no library to preload: there is no file {path}")
    added = {"LD_PRELOAD": merged(path, before)}
    if os.environ.get("DORMANT_LIBRARY"):
        added["DORMANT_LIBRARY"] = path
    return added


def merged(library: str, before: str) -> str:
    """``library`` first, then what was in ``LD_PRELOAD`` before and is not ours."""
    if re.search(r"[ :]", library):
        raise InvalidArgumentError(
            f"LD_PRELOAD cannot name {library}: the loader splits it at blanks and colons"
        )
    if "$" in library:
        raise InvalidArgumentError(
            f"LD_PRELOAD cannot name {library}: the loader expands what follows a dollar sign"
        )
    entries = re.split(r"[ :]+", before)
    others = [entry for entry in entries if entry and not _is_ours(entry, library)]
    return ":".join([library, *others])


def _is_ours(entry: str, library: str) -> bool:
    if _OURS.match(os.path.basename(entry)):
        return True
    try:
        return os.path.samefile(entry, library)
    except OSError:
        return False
