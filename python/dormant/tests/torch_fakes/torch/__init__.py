"""A small stand-in for torch, for tests without a GPU and without torch.

It has tensors, a caching allocator with pools, pluggable allocators, and graphs, over the memory of
the simulated device; as much as this project's own glue and its callers use, and as torch 2.11 does
it. No code of torch is in it.
"""

from __future__ import annotations

from typing import Any

from . import _C, autograd, cuda, version
from ._caching import OutOfMemoryError
from ._tensor import Storage, Tensor, empty_like
from ._types import Device, Dtype, bfloat16, float16, float32, int32, int64, uint8

__version__ = "2.11.0+fake"
device = Device
dtype = Dtype

__all__ = [
    "_C",
    "OutOfMemoryError",
    "Tensor",
    "autograd",
    "bfloat16",
    "cuda",
    "device",
    "dtype",
    "empty_like",
    "float16",
    "float32",
    "int32",
    "int64",
    "uint8",
    "version",
]


def _shape(shape: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape


def empty(*shape: Any, dtype: Dtype = float32, device: Any = None) -> Tensor:
    return Tensor.empty(_shape(shape), dtype, Device.of(device))


def empty_strided(
    shape: tuple[int, ...], strides: tuple[int, ...], *, dtype: Dtype = float32, device: Any = None
) -> Tensor:
    count = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides))
    storage = Storage.new(0 if 0 in shape else count * dtype.itemsize, Device.of(device))
    return Tensor(storage, dtype, shape, strides)


def full(shape: Any, value: Any, *, dtype: Dtype = float32, device: Any = None) -> Tensor:
    return empty(shape, dtype=dtype, device=device).fill_(value)


def zeros(*shape: Any, dtype: Dtype = float32, device: Any = None) -> Tensor:
    return empty(*shape, dtype=dtype, device=device).fill_(0)


def ones(*shape: Any, dtype: Dtype = float32, device: Any = None) -> Tensor:
    return empty(*shape, dtype=dtype, device=device).fill_(1)


def tensor(values: list[Any], *, dtype: Dtype = float32, device: Any = None) -> Tensor:
    made = Tensor.empty((len(values),), dtype, Device("cpu"))
    if values:
        made._bytes()[:] = b"".join(dtype.pack(value) for value in values)
    return made.to(device) if device is not None else made


def arange(count: int, *, dtype: Dtype = int64, device: Any = None) -> Tensor:
    return tensor(list(range(count)), dtype=dtype, device=device)


def frombuffer(buffer: Any, *, dtype: Dtype, count: int = -1, offset: int = 0) -> Tensor:
    import ctypes

    view = memoryview(buffer).cast("B")
    if count < 0:
        count = (view.nbytes - offset) // dtype.itemsize
    if count == 0 or view.nbytes == 0:
        raise ValueError("both buffer length and count must not be 0")
    address = ctypes.addressof(ctypes.c_ubyte.from_buffer(view)) + offset
    storage = Storage(count * dtype.itemsize, Device("cpu"), buffer, address)
    return Tensor(storage, dtype, (count,))


def equal(one: Tensor, other: Tensor) -> bool:
    if one.device.type != other.device.type:
        raise RuntimeError("Expected all tensors to be on the same device")
    if one.shape != other.shape:
        return False
    if one.is_contiguous() and other.is_contiguous() and one.dtype == other.dtype and one.numel():
        return bytes(one._bytes()) == bytes(other._bytes())
    return list(one._values()) == list(other._values())
