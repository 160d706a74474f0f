"""What the calls answer with. Bytes are bytes, times are seconds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from . import _native
from . import _structs as structs
from ._native import known, text


class Policy(str, Enum):
    """What happens to the contents of memory when it is paused."""

    DISCARD = "discard"
    """Nothing is kept; undefined after a resume."""
    ZERO = "zero"
    """Nothing is kept; zero at first use and after every resume."""
    HOST = "host"
    """Kept in host memory."""
    DISK = "disk"
    """Kept in a file."""

    def __str__(self) -> str:
        return self.value


class HostMode(str, Enum):
    """How host memory of backups is held."""

    AUTO = "auto"
    """``RETAIN`` while this process's share of the host's memory allows it, else ``RECLAIM``."""
    RETAIN = "retain"
    """Registered memory that is kept for the next pause, until :func:`trim`: copies run at the
    link's full speed."""
    RECLAIM = "reclaim"
    """Goes back to the system after the resume."""

    def __str__(self) -> str:
        return self.value


class Checksum(str, Enum):
    """Whether saved contents are checked when they come back."""

    OFF = "off"
    """They are not."""
    FULL = "full"
    """Every byte: ``ChecksumMismatchError`` where one has changed."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Amount:
    """Blocks and bytes."""

    blocks: int = 0
    bytes: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.blocks + other.blocks, self.bytes + other.bytes)


@dataclass(frozen=True)
class TagReport:
    """What a pause or resume did to one tag on one device."""

    tag: str
    device: int
    moved: Amount
    """Physical memory given back by a pause, or taken by a resume."""
    copied: Amount
    """Contents saved by a pause, or brought back by a resume."""
    zeroed: Amount
    """Set to zero."""
    already: Amount
    """In the wanted state already."""
    poisoned: Amount
    """Left by the driver in an unknown state: takes part in nothing any more."""


@dataclass(frozen=True)
class DeviceReport:
    """A device's own reading of its free memory around a call. Other processes move it too."""

    device: int
    moved_bytes: int
    """Physical bytes given back or taken, by our own count."""
    free_before_bytes: int | None
    free_after_bytes: int | None
    freed_nothing: bool
    """After a pause: memory was given back by our count, and the device has no more free than
    before."""


@dataclass(frozen=True)
class Phases:
    """How long the parts of a pause or resume took, in seconds."""

    turn_seconds: float
    """Waiting for another pause or resume."""
    quiesce_seconds: float
    """Pause: waiting for work in flight."""
    create_seconds: float
    """Pause: taking host memory and disk space. Resume: creating physical memory."""
    map_seconds: float
    """Pause: giving memory back. Resume: mapping it."""
    copy_seconds: float
    """Copying and filling."""
    total_seconds: float
    """The whole call."""


@dataclass(frozen=True)
class Report:
    """What one pause or resume did, in all and for each tag and device."""

    moved: Amount
    """Physical memory given back by a pause, or taken by a resume."""
    copied: Amount
    """Contents saved by a pause, or brought back by a resume."""
    zeroed: Amount
    """Set to zero."""
    already: Amount
    """In the wanted state already."""
    poisoned: Amount
    """Left by the driver in an unknown state: takes part in nothing any more."""
    phases: Phases
    workers: int
    """Threads that copied."""
    host_mode: str
    """How host memory of these backups is held: ``retain``, ``reclaim``, ``mixed``, or ``none``
    where there are none."""
    staging_registered: bool
    """False if some staging memory could not be registered, which makes copies slower."""
    tags: tuple[TagReport, ...]
    devices: tuple[DeviceReport, ...]
    host_mode_reason: str = ""
    """Pause: why it is held so. ``asked``; in the mode ``auto`` ``share_allows`` or
    ``share_too_small``; ``retain_limit`` where the limit on retained memory was met."""
    notices: tuple[str, ...] = ()
    """What works less well than it could and no report has said before: ``huge_pages_off``,
    ``registration_refused``, ``disk_in_memory``, ``disk_buffered``."""


@dataclass(frozen=True)
class TagStats:
    """What one tag has on one device, in physical bytes."""

    tag: str
    device: int
    active: Amount
    """In use."""
    paused: Amount
    """Asleep: the bytes that a resume will want."""
    moving: Amount
    """A pause or resume is at it."""
    poisoned: Amount
    """Left by the driver in an unknown state."""
    saved: Amount
    """Saved contents of blocks that sleep."""


@dataclass(frozen=True)
class Stats:
    """Everything, counted up."""

    host_backup_bytes: int
    """Host memory that backups take, in bytes of whole pages."""
    disk_backup_bytes: int
    """Bytes that backups take on disk."""
    deferred_frees: int
    """Blocks whose free waits for a capture to end, or for the device."""
    failed_frees: int
    """Frees that failed where nobody could be told."""
    leaked_ranges: int
    """Address ranges dropped without being given back."""
    leaked_handles: int
    """Physical memory dropped without being released."""
    tags: tuple[TagStats, ...]
    host_retained_bytes: int = 0
    """Host memory that is retained between pauses, whether a backup is in it or not."""
    disk_file_bytes: int = 0
    """Disk space that the files of backups take, with what they keep for the next pause."""


@dataclass(frozen=True)
class BlockInfo:
    """One block."""

    id: int
    """One of a kind in this process, also where an address is handed out again."""
    address: int
    bytes: int
    """The size that was asked for."""
    physical_bytes: int
    """The size on the device."""
    device: int
    tag: str
    policy: Policy
    state: str
    """``active``, ``paused``, ``moving`` or ``poisoned``."""


def _amount(raw: Any) -> Amount:
    return Amount(raw.blocks, raw.bytes)


def _tag_report(raw: Any) -> TagReport:
    return TagReport(
        tag=text(raw.tag) or "",
        device=raw.device,
        moved=_amount(raw.moved),
        copied=_amount(raw.copied),
        zeroed=_amount(raw.zeroed),
        already=_amount(raw.already),
        poisoned=_amount(raw.poisoned),
    )


def _device_report(raw: Any, pausing: bool) -> DeviceReport:
    return DeviceReport(
        device=raw.device,
        moved_bytes=raw.moved_bytes,
        free_before_bytes=known(raw.free_before),
        free_after_bytes=known(raw.free_after),
        freed_nothing=pausing and bool(raw.freed_nothing),
    )


def _notices(bits: int) -> tuple[str, ...]:
    library = _native.library()
    names = (text(library.dormant_notice_name(1 << bit)) for bit in range(32) if bits >> bit & 1)
    return tuple(name for name in names if name)


def notice_texts(bits: int) -> list[str]:
    """A sentence for each notice."""
    library = _native.library()
    texts = (text(library.dormant_notice_text(1 << bit)) for bit in range(32) if bits >> bit & 1)
    return [said for said in texts if said]


def report(raw: Any, *, pausing: bool) -> Report:
    """The report of this thread's last pause or resume, which has filled ``raw``."""
    library = _native.library()
    return Report(
        moved=_amount(raw.moved),
        copied=_amount(raw.copied),
        zeroed=_amount(raw.zeroed),
        already=_amount(raw.already),
        poisoned=_amount(raw.poisoned),
        phases=Phases(
            turn_seconds=raw.turn_ns / 1e9,
            quiesce_seconds=raw.quiesce_ns / 1e9,
            create_seconds=raw.create_ns / 1e9,
            map_seconds=raw.map_ns / 1e9,
            copy_seconds=raw.copy_ns / 1e9,
            total_seconds=raw.total_ns / 1e9,
        ),
        workers=raw.workers,
        host_mode=text(raw.host_mode) or "",
        staging_registered=bool(raw.staging_registered),
        tags=tuple(
            _native.each(library.dormant_report_tags, structs.DormantTagReport, _tag_report)
        ),
        devices=tuple(
            _native.each(
                library.dormant_report_devices,
                structs.DormantDeviceReport,
                lambda raw: _device_report(raw, pausing),
            )
        ),
        host_mode_reason=text(raw.host_mode_reason) or "",
        notices=_notices(raw.notices),
    )


def tag_stats(raw: Any) -> TagStats:
    """From the library's struct."""
    return TagStats(
        tag=text(raw.tag) or "",
        device=raw.device,
        active=_amount(raw.active),
        paused=_amount(raw.paused),
        moving=_amount(raw.moving),
        poisoned=_amount(raw.poisoned),
        saved=_amount(raw.saved),
    )


def block(raw: Any) -> BlockInfo:
    """From the library's struct."""
    return BlockInfo(
        id=raw.id,
        address=raw.address or 0,
        bytes=raw.bytes,
        physical_bytes=raw.physical_bytes,
        device=raw.device,
        tag=text(raw.tag) or "",
        policy=Policy(structs.POLICIES[raw.policy]),
        state=structs.STATES[raw.state],
    )
