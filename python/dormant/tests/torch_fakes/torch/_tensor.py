"""Tensors of the fake: on a "device" they lie in memory that the CPU reads and writes as well."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from . import _caching, _device, _streams
from ._types import Device, Dtype, float32, int64, uint8


class Storage:
    """Bytes, and what keeps them."""

    def __init__(self, nbytes: int, device: Device, buffer: Any = None, address: int = 0) -> None:
        self.nbytes, self.device, self._buffer, self._address = nbytes, device, buffer, address

    @classmethod
    def new(cls, nbytes: int, device: Device) -> Storage:
        if device.type == "cpu":
            buffer = (ctypes.c_ubyte * max(nbytes, 1))()
            return cls(nbytes, device, buffer, ctypes.addressof(buffer) if nbytes else 0)
        _device.used.add(device.index or 0)
        block = _caching.of(device.index or 0).malloc(nbytes) if nbytes else None
        return cls(nbytes, device, block, block.address if block else 0)

    def data_ptr(self) -> int:
        return self._address

    def __del__(self) -> None:
        if self.device.type == "cuda" and self._address:
            _caching.of(self.device.index or 0).free(self._address)


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * max(size, 1))
    return tuple(reversed(strides)) if shape else ()


class Tensor:
    """An array of one type; views share the storage."""

    def __init__(
        self,
        storage: Storage,
        dtype: Dtype,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None = None,
        start: int = 0,
    ) -> None:
        self._storage, self.dtype, self.shape = storage, dtype, tuple(shape)
        self._strides = contiguous_strides(self.shape) if strides is None else tuple(strides)
        self._start = start

    # What it is.

    @property
    def device(self) -> Device:
        return self._storage.device

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    @property
    def nbytes(self) -> int:
        return self.numel() * self.dtype.itemsize

    def numel(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count

    def element_size(self) -> int:
        return self.dtype.itemsize

    def stride(self) -> tuple[int, ...]:
        return self._strides

    def dim(self) -> int:
        return len(self.shape)

    def is_contiguous(self) -> bool:
        return self.numel() == 0 or self._strides == contiguous_strides(self.shape)

    def untyped_storage(self) -> Storage:
        return self._storage

    def data_ptr(self) -> int:
        if self.numel() == 0:
            return 0
        return self._storage.data_ptr() + self._start * self.dtype.itemsize

    # Views.

    def as_strided(self, shape: tuple[int, ...], strides: tuple[int, ...]) -> Tensor:
        return Tensor(self._storage, self.dtype, shape, strides, self._start)

    def view(self, *shape: Any) -> Tensor:
        if isinstance(shape[0], Dtype):
            dtype: Dtype = shape[0]
            ratio = self.dtype.itemsize / dtype.itemsize
            sizes = (*self.shape[:-1], int(self.shape[-1] * ratio))
            return Tensor(self._storage, dtype, sizes, None, int(self._start * ratio))
        if len(shape) == 1 and isinstance(shape[0], tuple):
            (shape,) = shape
        if -1 in shape:
            known = -1
            for size in shape:
                known *= size
            shape = tuple(self.numel() // -known if size == -1 else size for size in shape)
        assert self.is_contiguous()
        return Tensor(self._storage, self.dtype, shape, None, self._start)

    reshape = view

    def flatten(self) -> Tensor:
        return self.view(self.numel())

    def t(self) -> Tensor:
        return self.as_strided(self.shape[::-1], self._strides[::-1])

    def detach(self) -> Tensor:
        return self

    def __getitem__(self, key: Any) -> Tensor:
        size, stride = self.shape[0], self._strides[0]
        if isinstance(key, slice):
            start, stop, step = key.indices(size)
            shape = (len(range(start, stop, step)), *self.shape[1:])
            strides = (stride * step, *self._strides[1:])
            return Tensor(self._storage, self.dtype, shape, strides, self._start + start * stride)
        start = self._start + (key % size) * stride
        return Tensor(self._storage, self.dtype, self.shape[1:], self._strides[1:], start)

    def __len__(self) -> int:
        return self.shape[0]

    # Contents.

    def _bytes(self) -> memoryview:
        """The bytes themselves; only of a contiguous tensor."""
        assert self.is_contiguous()
        return memoryview((ctypes.c_ubyte * self.nbytes).from_address(self.data_ptr())).cast("B")

    def _places(self) -> Iterator[int]:
        base = self._storage.data_ptr() + self._start * self.dtype.itemsize
        for index in itertools.product(*(range(size) for size in self.shape)):
            offset = sum(i * stride for i, stride in zip(index, self._strides))
            yield base + offset * self.dtype.itemsize

    def _values(self) -> Any:
        if self.numel() == 0:
            return []
        if self.is_contiguous():
            return self._bytes().cast(self.dtype.code)
        one = self.dtype.itemsize
        return [
            memoryview(ctypes.string_at(place, one)).cast(self.dtype.code)[0]
            for place in self._places()
        ]

    def _change(self, change: Callable[[], None]) -> Tensor:
        _streams.run(change)
        return self

    def copy_(self, other: Tensor, non_blocking: bool = False) -> Tensor:
        assert other.numel() == self.numel()

        def change() -> None:
            if self.numel() == 0:
                return
            if self.dtype == other.dtype and other.is_contiguous():
                self._bytes()[:] = other._bytes()
            else:
                into = self._bytes().cast(self.dtype.code)
                for place, value in enumerate(other._values()):
                    into[place] = self.dtype.kind(value)

        return self._change(change)

    def fill_(self, value: Any) -> Tensor:
        def change() -> None:
            if self.numel() and not self.is_contiguous():
                raw = self.dtype.pack(value)
                for place in self._places():
                    ctypes.memmove(place, raw, len(raw))
            elif self.numel():
                self._bytes()[:] = self.dtype.pack(value) * self.numel()

        return self._change(change)

    def zero_(self) -> Tensor:
        return self.fill_(0)

    def _map(self, into: Tensor, convert: Callable[[Any], Any]) -> Tensor:
        def change() -> None:
            if self.dtype == into.dtype == uint8 and self.is_contiguous():
                table = bytes(uint8.wrap(convert(value)) for value in range(256))
                into._bytes()[:] = bytes(self._bytes()).translate(table)
                return
            target = into._bytes().cast(into.dtype.code)
            for place, value in enumerate(self._values()):
                target[place] = into.dtype.wrap(convert(value))

        into._change(change)
        return into

    def add_(self, value: Any) -> Tensor:
        return self._map(self, lambda old: old + value)

    def mul_(self, value: Any) -> Tensor:
        return self._map(self, lambda old: old * value)

    def __add__(self, value: Any) -> Tensor:
        return self._map(empty_like(self), lambda old: old + value)

    def __mul__(self, value: Any) -> Tensor:
        return self._map(empty_like(self), lambda old: old * value)

    def clone(self) -> Tensor:
        return empty_like(self).copy_(self)

    contiguous = clone

    def to(self, target: Any, non_blocking: bool = False) -> Tensor:
        if isinstance(target, Dtype):
            return Tensor.empty(self.shape, target, self.device).copy_(self)
        return Tensor.empty(self.shape, self.dtype, Device.of(target)).copy_(self)

    def cpu(self) -> Tensor:
        return self.to("cpu")

    def cuda(self) -> Tensor:
        return self.to("cuda")

    def tolist(self) -> Any:
        if not self.shape:
            return self._values()[0]
        if len(self.shape) > 1:
            return [row.tolist() for row in self]
        return list(self._values())

    def __iter__(self) -> Iterator[Tensor]:
        return (self[place] for place in range(self.shape[0]))

    def item(self) -> Any:
        assert self.numel() == 1
        return self._values()[0]

    def sum(self) -> Tensor:
        return Tensor.of_value(sum(self._values()), self.device)

    def record_stream(self, _stream: Any) -> None:
        pass

    @classmethod
    def empty(cls, shape: tuple[int, ...], dtype: Dtype, device: Device) -> Tensor:
        count = 1
        for size in shape:
            count *= size
        return cls(Storage.new(count * dtype.itemsize, device), dtype, shape)

    @classmethod
    def of_value(cls, value: Any, device: Device) -> Tensor:
        dtype = float32 if isinstance(value, float) else int64
        return cls.empty((), dtype, Device("cpu")).fill_(value)


def empty_like(tensor: Tensor) -> Tensor:
    return Tensor.empty(tensor.shape, tensor.dtype, tensor.device)
