"""Types of elements, and devices."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from . import _device


@dataclass(frozen=True)
class Dtype:
    """A type of elements. Two bytes wide floats are kept as their bits."""

    name: str
    code: str

    @property
    def itemsize(self) -> int:
        return struct.calcsize(self.code)

    @property
    def kind(self) -> Any:
        return float if self.code in "fd" else int

    def wrap(self, value: Any) -> Any:
        """The value, cut as integers are."""
        if self.kind is float:
            return float(value)
        bits = 8 * self.itemsize
        value = int(value) % (1 << bits)
        signed = self.code.islower() and value >= 1 << (bits - 1)
        return value - (1 << bits) if signed else value

    def pack(self, value: Any) -> bytes:
        return struct.pack(self.code, self.wrap(value))

    def __repr__(self) -> str:
        return f"torch.{self.name}"


uint8 = Dtype("uint8", "B")
int32 = Dtype("int32", "i")
int64 = Dtype("int64", "q")
float32 = Dtype("float32", "f")
float16 = Dtype("float16", "H")
bfloat16 = Dtype("bfloat16", "H")


@dataclass(frozen=True)
class Device:
    """A device, as in ``cuda:0``."""

    type: str
    index: int | None = None

    @classmethod
    def of(cls, device: Any) -> Device:
        if device is None:
            return cls("cpu")
        if isinstance(device, cls):
            return device
        if isinstance(device, int):
            return cls("cuda", device)
        kind, _, index = str(device).partition(":")
        if kind == "cpu":
            return cls("cpu")
        return cls("cuda", int(index) if index else _device.current)

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"
