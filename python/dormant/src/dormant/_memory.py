"""Blocks, devices and settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from ctypes import byref, c_char, c_int32, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

from . import _native, _reports
from . import _structs as structs
from ._native import text
from ._regions import RegionSettings, current
from ._reports import BlockInfo, Checksum, HostMode, Policy, Stats
from .errors import InvalidArgumentError


@dataclass(frozen=True)
class Device:
    """A device."""

    device: int
    """Its ordinal."""
    name: str
    total_bytes: int


@dataclass(frozen=True)
class DeviceMemory:
    """A device's own reading of its memory."""

    free_bytes: int
    total_bytes: int


def allocate(
    nbytes: int,
    device: int = 0,
    *,
    tag: str | None = None,
    policy: Policy | str | None = None,
    peers: Iterable[int] = (),
    disk_directory: str | os.PathLike[str] | None = None,
    host_mode: HostMode | str | None = None,
    checksum: Checksum | str | None = None,
) -> int:
    """Allocates ``nbytes`` of pausable memory on ``device``; answers its address.

    What is not given of ``tag``, ``policy``, ``peers``, ``disk_directory``, ``host_mode`` and
    ``checksum`` is as this thread's region says. :func:`free` frees it.
    """
    address = c_void_p()
    settings = None
    given = RegionSettings.peers_of(peers)
    if given or not tag is policy is disk_directory is host_mode is checksum is None:
        here = current() or RegionSettings()
        chosen = RegionSettings.of(
            here.tag if tag is None else tag,
            here.policy if policy is None else policy,
            given or here.peers,
            here.disk_directory if disk_directory is None else disk_directory,
            here.host_mode if host_mode is None else host_mode,
            here.checksum if checksum is None else checksum,
        )
        settings = byref(chosen.raw())
    size = _size(nbytes)
    _native.check(
        _native.library().dormant_allocate(size, _native.ordinal(device), settings, byref(address))
    )
    return address.value or 0


def free(address: int) -> None:
    """Frees the block that starts at ``address``, in whatever state, on any thread."""
    _native.check(_native.library().dormant_free(_native.address(address)))


def find(address: int) -> BlockInfo | None:
    """The block that ``address`` is in; ``None`` where that is not ours."""
    raw = structs.sized(structs.DormantBlock)
    status = _native.library().dormant_find(_native.address(address), byref(raw))
    # Without an exception: a garbage collector's call comes here too.
    if status == structs.NOT_FOUND:
        return None
    _native.check(status)
    return _reports.block(raw)


def blocks() -> tuple[BlockInfo, ...]:
    """All blocks."""
    listed = _native.each(_native.library().dormant_blocks, structs.DormantBlock, _reports.block)
    return tuple(listed)


def read(address: int, nbytes: int) -> bytes:
    """Copies ``nbytes`` from active memory of ours at ``address``.

    Not ordered with your streams: synchronise them before.
    """
    into = bytearray(_size(nbytes))
    read_into(address, into)
    return bytes(into)


def read_into(address: int, into: Any) -> None:
    """As :func:`read`, into a writable buffer of the wanted size."""
    address = _native.address(address)
    with memoryview(into).cast("B") as view:
        if view.nbytes:
            target = (c_char * view.nbytes).from_buffer(view)
            try:
                _native.check(_native.library().dormant_read(address, target, view.nbytes))
            finally:
                del target


def write(address: int, data: Any) -> None:
    """Copies a buffer (``bytes``, an array, ...) to active memory of ours at ``address``.

    Not ordered with your streams: synchronise them before.
    """
    address = _native.address(address)
    with memoryview(data).cast("B") as view:
        if not view.nbytes:
            return
        source: Any
        if isinstance(data, bytes):
            source = data
        elif view.readonly:
            source = bytes(view)
        else:
            source = (c_char * view.nbytes).from_buffer(view)
        try:
            _native.check(_native.library().dormant_write(address, source, view.nbytes))
        finally:
            del source


def state(tag: str) -> str:
    """What the blocks of a tag are: ``active``, ``paused``, ``moving``, ``poisoned``; ``mixed`` if
    not all are the same; ``none`` if there are none."""
    number = c_int32()
    raw = _native.c_text(tag, "a tag")
    _native.check(_native.library().dormant_tag_state(raw, byref(number)))
    return structs.STATES[number.value]


def stats() -> Stats:
    """Counts of everything, and what each tag has on each device."""
    library = _native.library()
    raw = structs.sized(structs.DormantStats)
    _native.check(library.dormant_stats(byref(raw)))
    return Stats(
        host_backup_bytes=raw.host_backup_bytes,
        disk_backup_bytes=raw.disk_backup_bytes,
        deferred_frees=raw.deferred_frees,
        failed_frees=raw.failed_frees,
        leaked_ranges=raw.leaked_ranges,
        leaked_handles=raw.leaked_handles,
        host_retained_bytes=raw.host_retained_bytes,
        disk_file_bytes=raw.disk_file_bytes,
        tags=tuple(
            _native.each(library.dormant_tag_stats, structs.DormantTagStats, _reports.tag_stats)
        ),
    )


def backend() -> str:
    """The driver in use: ``cuda``, ``hip`` or ``sim``. Opens it; ``NoDriverError`` if there is
    none."""
    name: bytes | None = _native.library().dormant_backend()
    if name is None:
        raise _native.last_error(structs.NO_DRIVER)
    return name.decode()


def devices() -> tuple[Device, ...]:
    """The devices that the driver shows."""

    def one(raw: Any) -> Device:
        return Device(raw.device, text(raw.name) or "", raw.total_bytes)

    return tuple(_native.each(_native.library().dormant_devices, structs.DormantDevice, one))


def device_memory(device: int = 0) -> DeviceMemory:
    """A device's own reading of its memory."""
    free_bytes, total_bytes = c_uint64(), c_uint64()
    library = _native.library()
    _native.check(
        library.dormant_device_memory(
            _native.ordinal(device), byref(free_bytes), byref(total_bytes)
        )
    )
    return DeviceMemory(free_bytes.value, total_bytes.value)


def enable_peer_access(peer: int, owner: int) -> None:
    """Lets device ``peer`` use our memory on device ``owner``, now and after every resume."""
    _peer_access(_native.library().dormant_enable_peer_access, peer, owner)


def disable_peer_access(peer: int, owner: int) -> None:
    """Undoes :func:`enable_peer_access`."""
    _peer_access(_native.library().dormant_disable_peer_access, peer, owner)


def _peer_access(call: Callable[[int, int], int], peer: int, owner: int) -> None:
    _native.check(call(_native.ordinal(peer), _native.ordinal(owner)))


def _size(nbytes: int) -> int:
    if not isinstance(nbytes, int) or not 0 <= nbytes < 2**63:
        raise InvalidArgumentError(f"a size is a number of bytes, not {nbytes!r}")
    return nbytes
