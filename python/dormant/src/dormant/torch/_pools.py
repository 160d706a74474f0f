"""Memory pools of torch whose memory is ours, and pools whose memory is not.

A pool belongs to one entry of a region and is dropped when that is left: its memory is then never
handed out under another tag, and goes back once its last tensor is gone and torch's cache is
emptied. A thread has a stack of such entries; only the innermost one's pools are recording, so that
regions nest in every version of torch.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from ctypes import byref, c_uint32
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .. import _native
from ..errors import NotSupportedError
from . import _access, _settings

if TYPE_CHECKING:
    from .._regions import RegionSettings

_GIVE_BACK_BYTES = 32 * 2**20
"""How much must have died in pools for torch's cache to be emptied when one is dropped."""

_OUT_OF_MEMORY = 1
"""The status where nothing more is known."""

_allocators: dict[RegionSettings, Any] = {}
_idle: dict[tuple[RegionSettings, int], list[Pool]] = {}
_GIVE_BACK_POOLS = 1000
"""After how many pools torch is to forget those that have nothing: each is some hundred bytes."""

_left_pools: list[tuple[int, int]] = []
"""Pools that were dropped and may not be forgotten yet."""
_left_bytes: dict[int, int] = {}
"""What may have died in pools and not been given back, by device."""
_captures: list[Level] = []
"""Captures that go on, on whatever thread: memory of the device must not be freed meanwhile."""
_kept: list[Pool] = []
"""Pools that a captured graph may use for ever."""


def allocator(torch: Any, settings: RegionSettings) -> Any:
    """Torch's handle for the functions that allocate with these settings."""
    known = _allocators.get(settings)
    if known is None:
        slot = c_uint32()
        _native.check(_native.library().dormant_torch_slot(byref(settings.raw()), byref(slot)))
        made = torch.cuda.memory.CUDAPluggableAllocator(
            _native.library_path(), f"dormant_torch_malloc_{slot.value}", "dormant_torch_free"
        )
        known = _allocators[settings] = made.allocator()
        # Torch's pools have a bare pointer to it, and may use that when Python is gone.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(known))
    return known


class Pool:
    """A ``MemPool`` on one device, which can be dropped at any time.

    The end of a ``MemPool`` ends the process where any pool is recording on that device, ours or
    not, if it is the last to hold torch's pool. So a hold of our own is let go after it; that makes
    torch free the memory with its next ``empty_cache()``, also the one before it gives up.
    """

    def __init__(self, torch: Any, device: int, allocator: Any | None) -> None:
        if not hasattr(torch._C, "_cuda_beginAllocateCurrentThreadToPool"):
            raise NotSupportedError(
                f"torch {torch.__version__} has no pools for one thread: 2.8 or newer is needed"
            )
        self._begin = torch._C._cuda_beginAllocateCurrentThreadToPool
        self._end = torch._C._cuda_endAllocateToPool
        self._release = torch._C._cuda_releasePool
        self.device = device
        with torch.cuda.device(device):
            made = torch.cuda.MemPool
            self._mem_pool = made() if allocator is None else made(allocator)
        self.id: tuple[int, int] = self._mem_pool.id
        # Recording takes a hold, and ending it does not let go.
        self.begin()
        self._end(device, self.id)

    def begin(self) -> None:
        """What this thread allocates on the device comes from this pool."""
        self._begin(self.device, self.id)

    def end(self) -> None:
        """The opposite."""
        self._end(self.device, self.id)
        self._release(self.device, self.id)

    def drop(self) -> None:
        """Once: nothing is allocated in it any more. Tensors that live in it stay valid."""
        del self._mem_pool
        self._release(self.device, self.id)


@dataclass(eq=False)
class Level:
    """One entry on a thread's stack."""

    settings: RegionSettings | None
    """``None``: torch's own memory."""
    pools: dict[int, Pool] = field(default_factory=dict)
    """By device; recording while this is the innermost level."""
    own: list[Pool] = field(default_factory=list)
    """Those that came with it."""
    is_capture: bool = False
    """A capture on this thread has a pool of its own."""
    reuse: bool = False
    keep: bool = False
    cached_bytes: dict[int, int] = field(default_factory=dict)
    """What torch's cache held, by device, when it was entered."""
    process: int = field(default_factory=os.getpid)


class _Stacks(threading.local):
    def __init__(self) -> None:
        self.levels: list[Level] = []


_stacks = _Stacks()


@contextmanager
def enter_pool(
    settings: RegionSettings, *, reuse: bool = False, backward: bool = False
) -> Iterator[None]:
    """Tensors that this thread makes inside are ours, with ``settings``.

    With ``reuse`` one pool is kept for the settings instead of one for each entry. With
    ``backward`` autograd's backward runs on this thread, so that what it allocates is ours too.
    """
    torch = _access.module()
    if not _stacks.levels:
        _settings.check_settings(settings)
    with ExitStack() as stack:
        if backward:
            stack.enter_context(torch.autograd.set_multithreading_enabled(False))
        stack.enter_context(entered(torch, Level(settings, reuse=reuse)))
        yield


@contextmanager
def enter_foreign_pool() -> Iterator[None]:
    """Tensors that this thread makes inside are torch's own, in memory that is not ours.

    From torch's cache they could get memory of ours, which may sleep.
    """
    with entered(_access.module(), Level(None)):
        yield


def carry_pool() -> Callable[[], AbstractContextManager[Any]]:
    """This thread's innermost level, for other threads: they enter what this gives."""
    levels = _stacks.levels
    if not levels:
        return nullcontext
    settings, reuse = levels[-1].settings, levels[-1].reuse
    if settings is None:
        return enter_foreign_pool
    return lambda: enter_pool(settings, reuse=reuse)


@contextmanager
def entered(torch: Any, level: Level) -> Iterator[None]:
    """Makes ``level`` this thread's innermost one."""
    levels = _stacks.levels
    try:
        if not level.is_capture:
            _find_pools(torch, level, levels)
        _switch(levels[-1].pools if levels else {}, level.pools)
    except BaseException:
        _put_away(torch, [level])
        raise
    levels.append(level)
    if level.is_capture:
        _captures.append(level)
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        _explain(error)
        raise
    finally:
        if level.is_capture:
            _captures.remove(level)
        # In a forked child and at the end of the interpreter there is nothing to do for us.
        if level in levels and level.process == os.getpid() and not sys.is_finalizing():
            _leave(torch, level, levels)


def _find_pools(torch: Any, level: Level, levels: list[Level]) -> None:
    """Gives a level a pool on each device: an outer level's with its settings, or a new one."""
    outer = levels[-1] if levels else None
    if outer is not None and outer.is_capture and outer.settings == level.settings:
        return  # The capture's own pool will do.
    level.keep = _access.is_capturing(torch)
    made = None if level.settings is None else allocator(torch, level.settings)
    for device in _access.devices(torch):
        pool = _outer_pool(level, levels, device)
        if pool is None:
            if not level.reuse and not level.keep:
                level.cached_bytes[device] = _cached_bytes(torch, device)
            pool = _idle_pool(level, device) or Pool(torch, device, made)
            level.own.append(pool)
        level.pools[device] = pool


def _outer_pool(level: Level, levels: list[Level], device: int) -> Pool | None:
    if level.settings is None:
        # What died in the outer one may be wanted again, but it is not given back before that ends.
        return levels[-1].pools.get(device) if levels and levels[-1].settings is None else None
    for outer in reversed(levels):
        if outer.settings == level.settings and device in outer.pools:
            return outer.pools[device]
    return None


def _idle_pool(level: Level, device: int) -> Pool | None:
    if not level.reuse or level.settings is None:
        return None
    try:
        return _idle.setdefault((level.settings, device), []).pop()
    except IndexError:
        return None


def _switch(before: dict[int, Pool], after: dict[int, Pool]) -> None:
    """Ends the recording of one level's pools and begins that of another's, or changes nothing."""
    with ExitStack() as undo:
        for device, pool in before.items():
            if after.get(device) is not pool:
                pool.end()
                undo.callback(pool.begin)
        for device, pool in after.items():
            if before.get(device) is not pool:
                pool.begin()
                undo.callback(pool.end)
        undo.pop_all()


def _leave(torch: Any, level: Level, levels: list[Level]) -> None:
    """Leaves a level, and those inside that somebody has not left."""
    place = levels.index(level)
    before = levels[-1].pools
    left = levels[place:]
    del levels[place:]
    try:
        _switch(before, levels[-1].pools if levels else {})
    finally:
        _put_away(torch, left)


def _put_away(torch: Any, levels: list[Level]) -> None:
    for level in levels:
        for pool in level.own:
            if level.keep:
                _kept.append(pool)
            elif level.reuse and level.settings is not None:
                _idle.setdefault((level.settings, pool.device), []).append(pool)
            else:
                pool.drop()
                _left_pools.append(pool.id)
        level.own = []
        for device, before in level.cached_bytes.items():
            died = max(_cached_bytes(torch, device) - before, 0)
            _left_bytes[device] = _left_bytes.get(device, 0) + died
    left = max(_left_bytes.values(), default=0)
    much = left >= _GIVE_BACK_BYTES or len(_left_pools) >= _GIVE_BACK_POOLS
    if much and not _captures and not _access.is_capturing(torch):
        torch.cuda.empty_cache()
        _left_bytes.clear()
        _left_pools.clear()


def _explain(error: BaseException) -> None:
    """Torch is told no more than that there is no memory; the reason may be another."""
    if sys.version_info >= (3, 11):
        said = _native.last_error(_OUT_OF_MEMORY)
        error.add_note(f"The last error of dormant on this thread: {said}")


def _cached_bytes(torch: Any, device: int) -> int:
    """What torch has of a device and no tensor uses."""
    stats = torch.cuda.memory_stats_as_nested_dict(device)
    if not stats:
        return 0
    reserved: int = stats["reserved_bytes"]["all"]["current"]
    active: int = stats["active_bytes"]["all"]["current"]
    return reserved - active
