"""What the hatch hooks of both wheels do."""

from __future__ import annotations

import os
import re
import shutil
from typing import Any

from .native import LIBRARY, PROGRAM, ROOT, SHIM, Native, NativeError, Settings, claim

PACKAGE = ROOT / "python" / "dormant" / "src" / "dormant"
"""The Python package that both wheels have."""

VENDORED = "torch_memory_saver/_dormant"
"""Where the drop-in has it."""

SHIM_NAMES = [
    f"torch_memory_saver_hook_mode_{mode}{suffix}.abi3.so"
    for mode in ("preload", "torch")
    for suffix in ("", "_cu12", "_cu13")
]
"""The files in the root of site-packages that users of torch_memory_saver open by name."""


def requirements() -> list[str]:
    """What the build needs beside hatchling."""
    return Settings.of(os.environ).requirements


def wheel_only(target: str, version: str) -> None:
    """Refuses what cannot work: the native files come from the whole repository."""
    if target != "wheel" or version != "standard":
        raise NativeError(
            "only wheels are built from here, since the native files come from the whole "
            "repository; for development set PYTHONPATH to src and DORMANT_LIBRARY to the library"
        )


def version() -> str:
    """The version of the wheel ``dormant``: the workspace's, and what it is built from."""
    return claim(Settings.of(os.environ)).local_version


def drop_in_version() -> str:
    """The drop-in's version: of what it stands in for, and of who built it."""
    return _drop_in(version())


def _drop_in(ours: str) -> str:
    base = os.environ.get("DORMANT_TMS_VERSION") or "0.0.10"
    if not re.fullmatch(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?", base):
        raise NativeError(f"DORMANT_TMS_VERSION is {base!r}; it is a version as in 0.0.9.post1")
    return f"{base}+dormant.{ours.replace('+', '.')}"


def dormant(native: Native, version: str, build_data: dict[str, Any]) -> None:
    """What the wheel ``dormant``, called ``version``, has beside its package."""
    _called(version, native.version)
    build_data["force_include"][str(native.files[LIBRARY])] = f"dormant/_lib/{LIBRARY}"
    build_data["shared_scripts"][str(native.files[PROGRAM])] = PROGRAM
    _tag(native, build_data)


def drop_in(native: Native, version: str, build_data: dict[str, Any]) -> None:
    """What the wheel ``torch_memory_saver``, called ``version``, has beside its package."""
    _called(version, _drop_in(native.version))
    include = build_data["force_include"]
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix in (".py", ".pyi") or path.name == "py.typed":
            include[str(path)] = f"{VENDORED}/{path.relative_to(PACKAGE).as_posix()}"
    include[str(native.files[LIBRARY])] = f"{VENDORED}/_lib/{LIBRARY}"
    for name in SHIM_NAMES:
        # A file is included once for each path that it has.
        copy = native.scratch / name
        shutil.copy2(native.files[SHIM], copy)
        include[str(copy)] = name
    _tag(native, build_data)


def _called(version: str, truth: str) -> None:
    """The version was settled before the native files were built."""
    if version != truth:
        raise NativeError(f"the wheel was to be {version}, and its files make it {truth}")


def _tag(native: Native, build_data: dict[str, Any]) -> None:
    build_data["tag"] = native.tag
    build_data["pure_python"] = False
