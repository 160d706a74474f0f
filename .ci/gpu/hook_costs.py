#!/usr/bin/env python3
"""What the hooks cost on a GPU, with them: `dormant run -- python3 .ci/gpu/hook_costs.py`."""

from __future__ import annotations

import ctypes
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import dormant
import torch

CALLS = 200_000
BYTES = 2 << 20


def runtime(path: str | None) -> Any:
    """A library's functions; of `None` the program's, which the hooks stand in front of."""
    library = ctypes.CDLL(path)
    library.cudaFree.argtypes = [ctypes.c_void_p]
    return library


def malloc(library: Any) -> float:
    """Allocates; how long that took, in ms."""
    address = ctypes.c_void_p()
    begun = time.perf_counter()
    code = library.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(BYTES))
    took = (time.perf_counter() - begun) * 1e3
    assert code == 0, code
    return took


def busy(library: Any) -> None:
    """Whether an allocation waits for the device."""
    for name, scope in (("real", nullcontext()), ("in a region", dormant.region("costs"))):
        with scope:
            malloc(library)
            torch.cuda._sleep(2_000_000_000)
            took = malloc(library)
            begun = time.perf_counter()
            torch.cuda.synchronize()
            rest = (time.perf_counter() - begun) * 1e3
        print(f"cudaMalloc {name}, on a device busy for {rest:.0f} ms more: {took:.3f} ms")


def per_call(library: Any) -> float:
    """A `cudaFree(NULL)`, in ns."""
    begun = time.perf_counter()
    for _ in range(CALLS):
        library.cudaFree(None)
    return (time.perf_counter() - begun) / CALLS * 1e9


def main() -> None:
    """Prints what it measured."""
    torch.ones(1, device="cuda")
    assert dormant._native.library().dormant_hooks_bound() & 1, "the hooks are not preloaded"
    maps = Path("/proc/self/maps").read_text().split()
    real = runtime(next(path for path in maps if "libcudart" in path))
    hooked = runtime(None)
    busy(hooked)
    for _ in range(3):
        print(f"cudaFree(NULL): {per_call(hooked):.0f} ns hooked, {per_call(real):.0f} ns real")


if __name__ == "__main__":
    main()
