"""Settings of the process's engine."""

from __future__ import annotations

import math
import os
from ctypes import byref
from dataclasses import dataclass, fields, replace
from typing import Any

from . import _native
from . import _structs as structs
from ._regions import checksum_of, host_mode_of
from ._reports import Checksum, HostMode
from .errors import InvalidArgumentError


@dataclass(frozen=True)
class Configuration:
    """Settings. See :func:`configure`."""

    workers: int
    """Threads that copy for one device; 0: by the CPUs."""
    transition_timeout_seconds: float
    """How long a pause or resume waits for another one and for work in flight."""
    free_timeout_seconds: float
    """How long the free of an active block waits for its device."""
    idle_timeout_seconds: float
    """How long staging memory is kept after its last use."""
    ranks_on_node: int
    """Processes that share the node with this one."""
    host_limit_bytes: int
    """The most bytes of host memory that backups may take, what is retained between them included;
    0: what the container and the machine leave, less ``host_margin_bytes``, divided by
    ``ranks_on_node``."""
    disk_directory: str | None
    """Where contents go that are kept on disk; ``None``: the system's directory for temporary
    files. Given to :func:`configure`, ``None`` means as before."""
    disk_staging_bytes: int
    """The most bytes of host memory that copies to and from disk are staged in. Given to
    :func:`configure`, 0 means as before."""
    host_mode: HostMode
    """How host memory of backups is held where neither memory nor region says: ``auto``,
    ``retain`` or ``reclaim``."""
    checksum: Checksum
    """Whether saved contents are checked where neither call, memory nor region says: ``off`` or
    ``full``."""
    host_margin_bytes: int
    """Host memory that is left to everybody else where there is no ``host_limit_bytes``."""
    retain_limit_bytes: int
    """The most bytes of host memory that are retained; 0: as much as backups may take, and half of
    that in the mode ``auto``."""
    disk_keep_bytes: int | None
    """The most bytes of disk space that the file of a device and directory keeps for the next
    pause, which writes to it quicker than to new space; ``None``: all that it had. 0: everything
    goes back to the disk when its blocks are resumed or freed."""


def configuration() -> Configuration:
    """The settings that hold, or that the first use would take."""
    raw = structs.sized(structs.DormantConfig)
    _native.check(_native.library().dormant_configuration(byref(raw)))
    directory: bytes | None = raw.disk_directory
    return Configuration(
        workers=raw.workers,
        transition_timeout_seconds=raw.transition_timeout_ms / 1000,
        free_timeout_seconds=raw.free_timeout_ms / 1000,
        idle_timeout_seconds=raw.idle_timeout_ms / 1000,
        ranks_on_node=raw.ranks_on_node,
        host_limit_bytes=raw.host_limit_bytes,
        disk_directory=None if directory is None else os.fsdecode(directory),
        disk_staging_bytes=raw.disk_staging_bytes,
        host_mode=HostMode(structs.HOST_MODES[raw.host_mode]),
        checksum=Checksum(structs.CHECKSUMS[raw.checksum]),
        host_margin_bytes=raw.host_margin_bytes,
        retain_limit_bytes=raw.retain_limit_bytes,
        disk_keep_bytes=_native.known(raw.disk_keep_bytes),
    )


def configure(**changes: Any) -> None:
    """Changes settings: the fields of :class:`Configuration`. What is not given stays.

    Before the first use of memory; afterwards ``WrongStateError`` is raised.
    """
    names = [field.name for field in fields(Configuration)]
    for name in changes:
        if name not in names:
            raise InvalidArgumentError(f"no setting {name!r}; there are {', '.join(names)}")
    chosen = replace(configuration(), **changes)
    directory = chosen.disk_directory
    keep = structs.NONE_U64 if chosen.disk_keep_bytes is None else chosen.disk_keep_bytes
    raw = structs.sized(
        structs.DormantConfig,
        workers=_number("workers", chosen.workers, 2**32),
        transition_timeout_ms=_ms("transition_timeout_seconds", chosen.transition_timeout_seconds),
        free_timeout_ms=_ms("free_timeout_seconds", chosen.free_timeout_seconds),
        idle_timeout_ms=_ms("idle_timeout_seconds", chosen.idle_timeout_seconds),
        ranks_on_node=_number("ranks_on_node", chosen.ranks_on_node, 2**32),
        host_limit_bytes=_number("host_limit_bytes", chosen.host_limit_bytes),
        disk_directory=None if directory is None else _native.c_path(directory),
        disk_staging_bytes=_number("disk_staging_bytes", chosen.disk_staging_bytes),
        host_mode=structs.number_of(structs.HOST_MODES, host_mode_of(chosen.host_mode)),
        checksum=structs.number_of(structs.CHECKSUMS, checksum_of(chosen.checksum)),
        host_margin_bytes=_number("host_margin_bytes", chosen.host_margin_bytes),
        retain_limit_bytes=_number("retain_limit_bytes", chosen.retain_limit_bytes),
        disk_keep_bytes=_number("disk_keep_bytes", keep),
    )
    _native.check(_native.library().dormant_configure(byref(raw)))


def memory_margin_bytes() -> int:
    """What :func:`set_memory_margin_bytes` was given; 0: no margin."""
    margin: int = _native.library().dormant_margin_bytes()
    return margin


def set_memory_margin_bytes(nbytes: int) -> None:
    """Refuses allocations that would leave less than ``nbytes`` free on their device.

    They are refused as out of memory. It holds for allocations through torch and the preloaded
    hooks, never for a resume.
    """
    _native.library().dormant_set_margin_bytes(_number("a margin", nbytes))


def _number(name: str, value: int, limit: int = 2**64) -> int:
    # ctypes would cut a number that does not fit.
    if not isinstance(value, int) or not 0 <= value < limit:
        raise InvalidArgumentError(f"{name} is a number from 0 to {limit - 1}, not {value!r}")
    return value


def _ms(name: str, seconds: float) -> int:
    if not 0 <= seconds < math.inf:
        raise InvalidArgumentError(f"{name} is a number of seconds, not {seconds!r}")
    return math.ceil(min(seconds * 1000, 2**62))
