"""Small things that users of torch_memory_saver import from here."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def _torch() -> Any | None:
    """Torch, imported if it is installed."""
    try:
        import torch
    except ImportError:
        return None
    return torch


def is_xpu() -> bool:
    """Whether torch has an XPU of Intel, which this package does not serve."""
    xpu = getattr(_torch(), "xpu", None)
    return xpu is not None and bool(xpu.is_available())


def get_binary_path_from_package(stem: str) -> Path:
    """The library file with this name's beginning; all of them are one library.

    That for the program's CUDA version is preferred where torch says which, as programs expect.
    """
    # Not the real path: in a symlinked installation the files lie beside the link.
    package = Path(__file__).parent
    for folder in (package, package.parent):
        for suffix in _suffixes():
            path = folder / f"{stem}{suffix}.abi3.so"
            if path.exists():
                return path
    raise RuntimeError(
        f"torch_memory_saver: no file {stem}*.abi3.so in {package} or {package.parent}: this is "
        "no installed wheel, or not all of one"
    )


def _suffixes() -> list[str]:
    suffixes = ["", "_cu13", "_cu12"]
    version = getattr(sys.modules.get("torch"), "version", None)
    cuda = getattr(version, "cuda", None)
    if cuda:
        suffixes.insert(0, f"_cu{str(cuda).partition('.')[0]}")
    return suffixes


@contextmanager
def change_env(key: str, value: str) -> Iterator[None]:
    """Sets a variable of the environment, and puts back what was there."""
    before = os.environ.get(key)
    os.environ[key] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(key, None)
        else:
            os.environ[key] = before
