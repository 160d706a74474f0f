"""Pools and pluggable allocators."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from ctypes import c_int, c_ssize_t, c_void_p
from typing import Any

from .. import _C, _caching, _device, _settings


class _Functions:
    """An allocator's two functions, in a library that is really opened."""

    def __init__(self, path: str, malloc: str, free: str) -> None:
        library = ctypes.CDLL(path)
        self._malloc = getattr(library, malloc)
        self._malloc.argtypes, self._malloc.restype = [c_ssize_t, c_int, c_void_p], c_void_p
        self._free = getattr(library, free)
        self._free.argtypes, self._free.restype = [c_void_p, c_ssize_t, c_int, c_void_p], None

    def malloc(self, nbytes: int, device: int) -> int:
        return self._malloc(nbytes, device, None) or 0

    def free(self, address: int, nbytes: int, device: int) -> None:
        self._free(address, nbytes, device, None)


class CUDAPluggableAllocator:
    def __init__(self, path_to_so_file: str, alloc_fn_name: str, free_fn_name: str) -> None:
        self._allocator = _Functions(path_to_so_file, alloc_fn_name, free_fn_name)

    def allocator(self) -> _Functions:
        return self._allocator


class MemPool:
    """A hold on a pool of the current device."""

    def __init__(self, allocator: _Functions | None = None) -> None:
        self._device = _device.current
        self._id = (0, _caching.new_number())
        _caching.of(self._device).hold(self.id, allocator)

    @property
    def id(self) -> tuple[int, int]:
        return self._id

    def use_count(self) -> int:
        return _caching.of(self._device).pools[self.id].use_count

    def __del__(self) -> None:
        _caching.of(self._device).release(self.id)
        _caching.of(self._device).empty(self.id)


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: int | None = None) -> Iterator[None]:
    index = _device.current if device is None else device
    _C._cuda_beginAllocateCurrentThreadToPool(index, pool.id)
    try:
        yield
    finally:
        _C._cuda_endAllocateToPool(index, pool.id)
        _C._cuda_releasePool(index, pool.id)


def get_allocator_backend() -> str:
    return _settings.backend()


def _set_allocator_settings(text: str) -> None:
    _C._accelerator_setAllocatorSettings(text)


def _snapshot(device: Any = None) -> dict[str, Any]:
    return _C._cuda_memorySnapshot(None)
