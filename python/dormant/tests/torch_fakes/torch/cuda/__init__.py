"""Devices, pools and graphs of the fake."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from .. import _caching, _device, _streams
from .._caching import OutOfMemoryError
from .._streams import Stream
from .._types import Device
from . import memory
from ._graphs import CUDAGraph, graph, graph_pool_handle
from .memory import MemPool, get_allocator_backend, use_mem_pool

__all__ = [
    "CUDAGraph",
    "MemPool",
    "OutOfMemoryError",
    "Stream",
    "get_allocator_backend",
    "graph",
    "graph_pool_handle",
    "memory",
    "use_mem_pool",
]


def is_available() -> bool:
    return True


def is_initialized() -> bool:
    return True


def device_count() -> int:
    return int(os.environ.get("DORMANT_SIM_DEVICES", "1"))


def current_device() -> int:
    return _device.current


def set_device(index: Any) -> None:
    _device.set_current(Device.of(index).index or 0)


class device:
    """As ``torch.cuda.device``."""

    def __init__(self, index: Any) -> None:
        self._index = Device.of(index).index or 0

    def __enter__(self) -> None:
        self._before = _device.current
        if self._before != self._index:
            _device.set_current(self._index)

    def __exit__(self, *_error: Any) -> None:
        if self._before != self._index:
            _device.set_current(self._before)


def synchronize(device: Any = None) -> None:
    if is_current_stream_capturing():
        raise RuntimeError("operation not permitted when stream is capturing")


def empty_cache() -> None:
    for allocator in _caching.all_devices():
        allocator.empty()


def mem_get_info(index: Any = None) -> tuple[int, int]:
    return _device.memory(current_device() if index is None else Device.of(index).index or 0)


def memory_stats_as_nested_dict(index: int | None = None) -> dict[str, Any]:
    return _caching.of(current_device() if index is None else index).stats()


def memory_reserved(index: int | None = None) -> int:
    return int(memory_stats_as_nested_dict(index)["reserved_bytes"]["all"]["current"])


def is_current_stream_capturing() -> bool:
    return _streams.current().capture is not None


def current_stream(device: Any = None) -> Stream:
    return _streams.current()


@contextlib.contextmanager
def stream(stream: Stream) -> Iterator[None]:
    before = _streams.set_current(stream)
    try:
        yield
    finally:
        _streams.set_current(before)


def _sleep(_cycles: int) -> None:
    pass
