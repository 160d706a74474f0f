"""A caching allocator with pools, as torch's: enough of it to catch a wrong use.

Segments of 2 MiB for small blocks and of 20 MiB for those under 10 MiB, best fit, splitting and
merging. Recording into pools, their counts of use, what ``empty_cache()`` gives back and when, and
the end of a pool in the middle of a recording, which ends the process, are as in torch 2.11.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import _device, _settings

MIB = 2**20
Filter = Callable[[], bool]


class OutOfMemoryError(RuntimeError):
    """As ``torch.OutOfMemoryError``."""


@dataclass(eq=False)
class Block:
    """A part of a segment."""

    address: int
    nbytes: int
    segment: Segment
    is_free: bool = False
    before: Block | None = None
    after: Block | None = None


@dataclass(eq=False)
class Segment:
    """What one call of an allocator gave."""

    address: int
    nbytes: int
    pool: PrivatePool
    small: bool
    expandable: bool = False


@dataclass(eq=False)
class PrivatePool:
    """Free blocks, and who made the segments; the default pool has no id."""

    id: tuple[int, int]
    allocator: Any = None
    use_count: int = 1
    free: list[Block] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)


class DeviceAllocator:
    """Of one device."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.lock = threading.RLock()
        self.default = PrivatePool((0, 0))
        self.pools: dict[tuple[int, int], PrivatePool] = {}
        self.freeable: dict[tuple[int, int], PrivatePool] = {}
        self.recording: list[tuple[tuple[int, int], Filter]] = []
        self.blocks: dict[int, Block] = {}

    def hold(self, pool_id: tuple[int, int], allocator: Any = None) -> None:
        """Makes a pool, or counts one more user."""
        with self.lock:
            pool = self.pools.get(pool_id)
            if pool is None:
                self.pools[pool_id] = PrivatePool(pool_id, allocator)
                return
            assert pool.use_count > 0, "it->second->use_count > 0 INTERNAL ASSERT FAILED"
            pool.use_count += 1

    def begin(self, pool_id: tuple[int, int], applies: Filter) -> None:
        """Records into a pool what passes the filter."""
        with self.lock:
            self.hold(pool_id)
            if any(known == pool_id for known, _ in self.recording):
                self.release(pool_id)
                raise RuntimeError("beginAllocateToPool: already recording to mempool_id")
            self.recording.append((pool_id, applies))

    def end(self, pool_id: tuple[int, int]) -> None:
        """The opposite; lets go of nothing."""
        with self.lock:
            for place, (known, _) in enumerate(self.recording):
                if known == pool_id:
                    del self.recording[place]
                    return
            raise RuntimeError("endAllocatePool: not currently recording to mempool_id")

    def release(self, pool_id: tuple[int, int]) -> None:
        """One user less."""
        with self.lock:
            pool = self.pools[pool_id]
            pool.use_count -= 1
            assert pool.use_count >= 0, "uc >= 0 INTERNAL ASSERT FAILED"
            if pool.use_count == 0:
                self.freeable[pool_id] = pool

    def empty(self, pool_id: tuple[int, int] = (0, 0)) -> None:
        """Gives unused segments back: of one pool that nobody uses any more, or of all such."""
        with self.lock:
            if pool_id == (0, 0) and not self.recording:
                self._give_back(self.default)
            for known, pool in list(self.freeable.items()):
                if pool_id not in ((0, 0), known):
                    continue
                if pool_id != (0, 0) and self.recording:
                    # An exception that leaves a destructor.
                    print("captures_underway.empty() INTERNAL ASSERT FAILED", file=sys.stderr)
                    sys.stderr.flush()
                    os.abort()
                self._give_back(pool)
                if not pool.segments:
                    del self.freeable[known], self.pools[known]

    def _give_back(self, pool: PrivatePool) -> None:
        for block in list(pool.free):
            if block.before is None and block.after is None:
                pool.free.remove(block)
                self._free_segment(block.segment)

    def _free_segment(self, segment: Segment) -> None:
        segment.pool.segments.remove(segment)
        if segment.pool.allocator is not None and not segment.expandable:
            segment.pool.allocator.free(segment.address, segment.nbytes, self.device)
        else:
            _device.free(segment.address)

    def malloc(self, nbytes: int) -> Block:
        """A block of at least so many bytes."""
        nbytes = max(512, -(-nbytes // 512) * 512)
        with self.lock:
            pool = self._pool()
            small = nbytes <= MIB
            block = self._fitting(pool, nbytes, small) or self._new(pool, nbytes, small)
            if block is None and not self.recording:
                self.empty()
                block = self._new(pool, nbytes, small)
            if block is None:
                raise OutOfMemoryError(f"CUDA out of memory. Tried to allocate {nbytes} bytes.")
            self._split(block, nbytes, small)
            block.is_free = False
            self.blocks[block.address] = block
            return block

    def _pool(self) -> PrivatePool:
        for pool_id, applies in reversed(self.recording):
            if applies():
                return self.pools[pool_id]
        return self.default

    def _fitting(self, pool: PrivatePool, nbytes: int, small: bool) -> Block | None:
        fits = [b for b in pool.free if b.nbytes >= nbytes and b.segment.small == small]
        if not fits:
            return None
        block = min(fits, key=lambda block: (block.nbytes, block.address))
        pool.free.remove(block)
        return block

    def _new(self, pool: PrivatePool, nbytes: int, small: bool) -> Block | None:
        size = (
            2 * MIB
            if small
            else 20 * MIB
            if nbytes < 10 * MIB
            else -(-nbytes // (2 * MIB)) * 2 * MIB
        )
        foreign = pool.allocator is None
        expandable = _settings.is_expandable() and (foreign or _settings.MODE == "ignored")
        if _settings.is_expandable() and not foreign and _settings.MODE == "refused":
            raise RuntimeError("MemPool doesn't currently support expandable_segments.")
        if expandable:
            address = _device.mapped(size, self.device)
        elif foreign:
            address = _device.malloc(size, self.device)
        else:
            address = pool.allocator.malloc(size, self.device)
        if not address:
            return None
        segment = Segment(address, size, pool, small, expandable)
        pool.segments.append(segment)
        return Block(address, size, segment)

    def _split(self, block: Block, nbytes: int, small: bool) -> None:
        rest = block.nbytes - nbytes
        if rest < (512 if small else MIB + 1):
            return
        block.nbytes = nbytes
        new = Block(block.address + nbytes, rest, block.segment, True, block, block.after)
        if new.after is not None:
            new.after.before = new
        block.after = new
        block.segment.pool.free.append(new)

    def free(self, address: int) -> None:
        """Puts a block back into its pool."""
        with self.lock:
            block = self.blocks.pop(address)
            pool = block.segment.pool
            block.is_free = True
            for other in (block.before, block.after):
                if other is None or not other.is_free:
                    continue
                pool.free.remove(other)
                first, second = (other, block) if other is block.before else (block, other)
                first.nbytes += second.nbytes
                first.after = second.after
                if first.after is not None:
                    first.after.before = first
                block = first
            pool.free.append(block)

    def stats(self) -> dict[str, Any]:
        """Bytes that it has, and bytes in use."""
        with self.lock:
            pools = [self.default, *self.pools.values()]
            reserved = sum(segment.nbytes for pool in pools for segment in pool.segments)
            unused = sum(block.nbytes for pool in pools for block in pool.free)
        amounts = {"reserved_bytes": reserved, "active_bytes": reserved - unused}
        return {name: {"all": {"current": amount}} for name, amount in amounts.items()}


_devices: dict[int, DeviceAllocator] = {}
_numbers = itertools.count(1)


def of(device: int) -> DeviceAllocator:
    """The allocator of a device."""
    return _devices.setdefault(device, DeviceAllocator(device))


def all_devices() -> list[DeviceAllocator]:
    """Those that were asked for."""
    return list(_devices.values())


def new_number() -> int:
    """Never given before."""
    return next(_numbers)
