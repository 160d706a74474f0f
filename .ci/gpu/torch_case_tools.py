"""What the cases are written with."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

MIB = 2**20
GIB = 2**30
MODES = ("torch", "preload")
SCALE = 1.0

Results = Iterator[tuple[str, str]]


class Skipped(Exception):
    """Why a case cannot run here."""


@dataclass(frozen=True)
class Case:
    """A case, and where it applies."""

    name: str
    function: Callable[..., None]
    modes: tuple[str, ...]
    apis: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    fresh: bool = False
    """Its environment must be there before torch is imported."""


@dataclass(frozen=True)
class Run:
    """A case in one mode, through one package."""

    case: Case
    mode: str
    package: str

    @property
    def name(self) -> str:
        """What is printed."""
        return f"{self.case.name} [{self.mode}, {self.package}]"

    def api(self) -> Any:
        """The package, opened."""
        return Dormant() if self.package == "dormant" else DropIn()


_cases: list[Case] = []


def case(
    name: str,
    *,
    modes: tuple[str, ...] = MODES,
    apis: tuple[str, ...] = ("dormant", "drop-in"),
    fresh: bool = False,
    **env: str,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Says that a function is a case. ``env`` is its environment."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        _cases.append(Case(name, function, modes, apis, env, fresh))
        return function

    return decorate


def runs() -> list[Run]:
    """All cases, in the order of the modes."""
    return [
        Run(case, mode, package)
        for mode in MODES
        for case in _cases
        if mode in case.modes
        for package in case.apis
    ]


def environment(mode: str) -> dict[str, str]:
    """Of a process in this mode."""
    if mode == "torch":
        return dict(os.environ)
    from torch_memory_saver import configure_subprocess

    with configure_subprocess():
        return dict(os.environ)


class Dormant:
    """The package itself."""

    name = "dormant"

    def __init__(self) -> None:
        import dormant
        import dormant.torch

        self.module = dormant
        self.error: Any = dormant.Error

    def region(self, tag: str, keep: bool = False, **more: Any) -> AbstractContextManager[Any]:
        """Memory under a tag, whose contents are kept or not."""
        return self.module.region(tag, policy="host" if keep else "discard", **more)

    def disable(self) -> AbstractContextManager[Any]:
        """Memory that is not ours."""
        return self.module.disable()

    def graph(
        self, graph: Any, tag: str, keep: bool = False, **more: Any
    ) -> AbstractContextManager[Any]:
        """A capture."""
        policy = "host" if keep else "discard"
        return self.module.torch.graph(graph, tag=tag, policy=policy, **more)

    def pause(self, tag: str | None = None) -> None:
        """Of one tag, or all."""
        self.module.pause(*([tag] if tag else []))

    def resume(self, tag: str | None = None) -> None:
        """Of one tag, or all."""
        self.module.resume(*([tag] if tag else []))

    def backup(self, tensor: Any, zero_copy: bool = False) -> Any:
        """What was saved."""
        return self.module.torch.tensor_backup(tensor, zero_copy)

    def tag(self, tensor: Any) -> str | None:
        """Of a tensor's memory."""
        block = self.module.find(tensor.data_ptr())
        return None if block is None else block.tag

    def tagged_bytes(self, tag: str) -> int:
        """What a tag has, awake or not."""
        stats = self.module.stats().tags
        return sum(t.active.bytes + t.paused.bytes for t in stats if t.tag == tag)


class DropIn(Dormant):
    """The drop-in, under the names that its users know."""

    name = "drop-in"

    def __init__(self) -> None:
        import torch_memory_saver
        from torch_memory_saver import _core

        # Its own copy of the package: it must see the same engine.
        self.module = _core.dormant
        self.error = self.module.Error
        self.saver = torch_memory_saver.torch_memory_saver

    def region(self, tag: str, keep: bool = False, **more: Any) -> AbstractContextManager[Any]:
        """Memory under a tag, whose contents are kept or not."""
        if more:
            raise Skipped(f"the drop-in has no {', '.join(more)}")
        return self.saver.region(tag=tag, enable_cpu_backup=keep)

    def disable(self) -> AbstractContextManager[Any]:
        """Memory that is not ours."""
        return self.saver.disable()

    def graph(
        self, graph: Any, tag: str, keep: bool = False, **more: Any
    ) -> AbstractContextManager[Any]:
        """A capture."""
        return self.saver.cuda_graph(cuda_graph=graph, tag=tag, enable_cpu_backup=keep, **more)

    def pause(self, tag: str | None = None) -> None:
        """Of one tag, or all."""
        self.saver.pause(tag)

    def resume(self, tag: str | None = None) -> None:
        """Of one tag, or all."""
        self.saver.resume(tag=tag)

    def backup(self, tensor: Any, zero_copy: bool = False) -> Any:
        """What was saved."""
        return self.saver.get_cpu_backup(tensor, zero_copy=zero_copy)


def torch() -> Any:
    """The module, imported already."""
    return sys.modules["torch"]


def size(nbytes: int) -> int:
    """So many bytes, scaled, in whole granules; enough for a segment of torch's own."""
    return max(12 * MIB, int(nbytes * SCALE) // (2 * MIB) * 2 * MIB)


def tensor(nbytes: int, value: int = 1) -> Any:
    """On the GPU, filled."""
    return torch().full((nbytes,), value, dtype=torch().uint8, device="cuda")


def free_bytes() -> int:
    """The device's own reading, when all work is done."""
    torch().cuda.synchronize()
    return int(torch().cuda.mem_get_info()[0])


def checksum(tensor: Any) -> int:
    """Of all bytes. In parts: a sum takes eight times its bytes, which torch then caches."""
    flat = tensor.flatten().view(torch().uint8)
    starts = range(0, int(tensor.nbytes), 4 * MIB)
    return sum(int(flat[start : start + 4 * MIB].sum().item()) for start in starts)


def holds(tensor: Any, value: int) -> bool:
    """Whether every byte is this."""
    return checksum(tensor) == value * tensor.nbytes


def warm(api: Any) -> None:
    """Lets torch load its kernels, and us open our streams: they take memory of the device."""
    with api.region("warm", keep=True):
        one = tensor(size(GIB))
    assert holds(one, 1)
    api.pause("warm")
    api.resume("warm")
    del one
    torch().cuda.empty_cache()


def slack() -> int:
    """Kernels that are loaded at their first use, streams and the like take a GPU's memory too."""
    return 64 * MIB if SCALE >= 0.5 else 8 * MIB


def near(one: int, other: int, within: int | None = None) -> bool:
    """Whether two readings of a device are the same; says by how much they are not."""
    within = slack() if within is None else within
    if abs(one - other) > within:
        print(f"{one} and {other} differ by {(one - other) / MIB:.1f} MiB")
    return abs(one - other) <= within
