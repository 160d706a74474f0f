"""Reaching torch, which this package never imports itself."""

from __future__ import annotations

import sys
from typing import Any

from ..errors import NotSupportedError

_usable = False


def usable() -> bool:
    """Whether the program has imported torch, and that can use a GPU of NVIDIA or AMD."""
    global _usable
    if not _usable:
        torch = sys.modules.get("torch")
        cuda = getattr(torch, "cuda", None)
        version = getattr(torch, "version", None)
        # A torch that is being imported has neither yet.
        if cuda is None or version is None:
            return False
        built = getattr(version, "cuda", None) or getattr(version, "hip", None)
        _usable = bool(built) and bool(cuda.is_available())
    return _usable


def module() -> Any:
    """The program's torch."""
    torch = sys.modules.get("torch")
    if torch is None:
        raise NotSupportedError("the program has not imported torch")
    return torch


def devices(torch: Any) -> list[int]:
    """The current device, and those that torch uses already.

    A first touch of the others would cost half a GiB on each.
    """
    current: int = torch.cuda.current_device()
    used = getattr(torch._C, "_cuda_hasPrimaryContext", None)
    if used is None:
        return [current]
    others = [device for device in range(torch.cuda.device_count()) if device != current]
    return [current, *(device for device in others if used(device))]


def is_capturing(torch: Any) -> bool:
    """Whether a graph is captured on this thread's current stream."""
    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())
