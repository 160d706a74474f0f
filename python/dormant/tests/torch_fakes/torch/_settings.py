"""Settings of the fake's allocator, read as torch 2.11 reads them."""

from __future__ import annotations

import os

MODE = os.environ.get("FAKE_TORCH_EXPANDABLE", "honoured")
"""What expandable segments do to pools with an allocator of their own, by version of torch:
``honoured`` (the allocator is called), ``refused`` (an error), ``ignored`` (it is not called)."""

_NAMES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
_expandable = False
_last = ""


def apply(text: str) -> None:
    """Takes settings over; what a text does not mention stays."""
    global _expandable, _last
    for part in "".join(text.split()).split(","):
        key, _, value = part.partition(":")
        if key == "expandable_segments":
            if value not in ("True", "False"):
                raise ValueError(f"Expected 'True' or 'False' but got '{value}'")
            _expandable = value == "True"
        elif key == "backend" and value not in ("native", "cudaMallocAsync"):
            raise ValueError("Unknown allocator backend")
    _last = text


def is_expandable() -> bool:
    """Whether expandable segments are on."""
    return _expandable


def last() -> str:
    """The text that was applied last."""
    return _last


def backend() -> str:
    """The allocator's name."""
    return "cudaMallocAsync" if "backend:cudaMallocAsync" in "".join(_last.split()) else "native"


apply(next((os.environ[name] for name in _NAMES if name in os.environ), ""))
