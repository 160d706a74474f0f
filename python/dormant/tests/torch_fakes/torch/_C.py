"""The functions of torch's extension module that are used."""

from __future__ import annotations

import os
import threading
from typing import Any

from . import _caching, _device, _settings


def _cuda_beginAllocateCurrentThreadToPool(device: int, pool_id: tuple[int, int]) -> None:
    thread = threading.get_ident()
    _caching.of(device).begin(pool_id, lambda: threading.get_ident() == thread)


def _cuda_endAllocateToPool(device: int, pool_id: tuple[int, int]) -> None:
    _caching.of(device).end(pool_id)


def _cuda_releasePool(device: int, pool_id: tuple[int, int]) -> None:
    _caching.of(device).release(pool_id)


def _cuda_hasPrimaryContext(device: int) -> bool:
    return device in _device.used


def _cuda_memorySnapshot(_pool: Any = None) -> dict[str, Any]:
    settings = {
        "PYTORCH_CUDA_ALLOC_CONF": _settings.last(),
        "expandable_segments": _settings.is_expandable(),
    }
    return {"segments": [], "device_traces": [], "allocator_settings": settings}


def _accelerator_setAllocatorSettings(text: str) -> None:
    _settings.apply(text)


if os.environ.get("FAKE_TORCH_OLD") != "1":

    def _accelerator_getAllocatorSettings() -> str:
        return _settings.last()
