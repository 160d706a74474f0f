"""``LD_PRELOAD``: starting programs with it, and whether it took in this one."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from .._core import dormant, native, preload
from ..utils import change_env, get_binary_path_from_package
from .base import HookUtilBase

_STEM = "torch_memory_saver_hook_mode_preload"
_CUDA, _HIP = 1, 2
_YES = ("1", "true", "TRUE", "True", "yes", "YES", "on", "ON")


class HookUtilModePreload(HookUtilBase):
    """The preloaded library."""

    def get_path_binary(self) -> str:
        """The file that is preloaded; else the one that would be, or dormant's own library."""
        for entry in _named():
            if os.path.exists(entry):
                return entry
        return installed(_STEM)


def installed(stem: str) -> str:
    """The file of this name in the wheel; dormant's own library where there is no wheel."""
    try:
        return str(get_binary_path_from_package(stem))
    except RuntimeError:
        return str(native.library_path())


def _named() -> list[str]:
    """Entries of ``LD_PRELOAD`` that are to be us."""
    entries = re.split(r"[ :]+", os.environ.get("LD_PRELOAD", ""))
    return [entry for entry in entries if os.path.basename(entry).startswith(_STEM)]


@contextmanager
def configure_subprocess() -> Iterator[None]:
    """Programs that are started inside have our hooks, and so have those that they start.

    What else ``LD_PRELOAD`` names is kept. Where it names us already nothing is changed.
    """
    if any(os.path.exists(entry) for entry in _named()):
        yield
        return
    path = str(get_binary_path_from_package(_STEM))
    with change_env("LD_PRELOAD", preload.merged(path, os.environ.get("LD_PRELOAD", ""))):
        yield


def are_hooks_bound() -> bool:
    """Whether this process's ``cudaMalloc``, or ``hipMalloc``, is ours."""
    bound: int = native.library().dormant_hooks_bound()
    version = getattr(sys.modules.get("torch"), "version", None)
    if version is None:
        return bool(bound)
    return bool(bound & (_HIP if getattr(version, "hip", None) else _CUDA))


def is_process_wide() -> bool:
    """Whether the environment makes all of the process's memory pausable."""
    return bool(_enabling())


def _enabling() -> list[str]:
    """The variables that say so, in a spelling that the library takes."""
    names = ("TMS_INIT_ENABLE", "DORMANT_ENABLE")
    return [name for name in names if os.environ.get(name, "") in _YES]


def check_hooks() -> None:
    """Raises where the environment says that we are preloaded, and we are not.

    The loader says no more than one line of that, and a pause would give nothing back.
    """
    named = _named()
    enabling = _enabling()
    if not (named or enabling) or are_hooks_bound():
        return
    missing = [entry for entry in named if not os.path.exists(entry)]
    if not named:
        names, verb = " and ".join(enabling), "are" if len(enabling) > 1 else "is"
        reason = f"{names} {verb} set, and LD_PRELOAD does not name this package's library"
    elif missing:
        reason = "there is no such file on this host"
    else:
        reason = (
            "the loader did not take it, or another library's allocation functions come before it: "
            "it must be in the environment when the program is started"
        )
    raise dormant.NotSupportedError(
        f"on {socket.gethostname()}, process {os.getpid()}: memory would not be pausable. "
        f"LD_PRELOAD is {os.environ.get('LD_PRELOAD', '')!r}: {reason}. Start the program within "
        "configure_subprocess()"
    )
