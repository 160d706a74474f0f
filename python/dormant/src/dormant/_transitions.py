"""Pausing and resuming."""

from __future__ import annotations

import logging
import math
from ctypes import byref
from typing import Any

from . import _native, _reports, _torch_bridge
from . import _structs as structs
from ._log import log, logger
from ._regions import checksum_of, host_mode_of, policy_of
from ._reports import Checksum, HostMode, Policy, Report
from .errors import InvalidArgumentError


def pause(
    *tags: str,
    timeout: float | None = None,
    policy: Policy | str | None = None,
    host_mode: HostMode | str | None = None,
    checksum: Checksum | str | None = None,
) -> Report:
    """Gives the physical memory of all blocks under ``tags`` back to the device; no tags: of all.

    Pointers stay; what happens to the contents is each block's policy, or ``policy`` for the blocks
    that this call pauses; ``host_mode`` and ``checksum`` override each block's own likewise. A tag
    that has no blocks or is paused already is no error.

    ``timeout`` is in seconds, for work in flight and for another pause or resume to end (300 s
    unless configured otherwise); then ``BusyError`` is raised, and nothing has changed. An error
    after the first byte was given back has ``failures`` and ``report``.
    """
    glue = _torch_bridge.glue()
    if glue is not None:
        glue.check_not_capturing()
    options = pause_options(timeout, policy, host_mode, checksum)
    report = _transition(tags, options, pausing=True)
    _log("paused", "given back", "saved", tags, report)
    for device in report.devices:
        if device.freed_nothing:
            log(
                logging.WARNING,
                "device %d has no more free memory than before, though %s were given back: another"
                " process took as much meanwhile, or something else in this process holds it",
                device.device,
                gib(device.moved_bytes),
            )
    return report


def pause_options(
    timeout: float | None = None,
    policy: Policy | str | None = None,
    host_mode: HostMode | str | None = None,
    checksum: Checksum | str | None = None,
) -> structs.DormantPauseOptions:
    """What a user gives, as the library takes it; raises ``InvalidArgumentError``."""
    mode = None if host_mode is None else host_mode_of(host_mode)
    checked = None if checksum is None else checksum_of(checksum)
    return structs.sized(
        structs.DormantPauseOptions,
        policy=structs.POLICY_OWN if policy is None else _number(policy),
        timeout_ms=_milliseconds(timeout),
        checksum=structs.number_of(structs.CHECKSUMS, checked),
        host_mode=structs.number_of(structs.HOST_MODES, mode),
    )


def resume(*tags: str, timeout: float | None = None) -> Report:
    """Puts physical memory under all blocks of ``tags`` again; no tags: of all.

    All or nothing: after an error everything sleeps on, with what was saved, and the same call may
    be made again. ``OutOfMemoryError`` says how much was wanted and how much is free.

    With ``timeout``, in seconds, it tries again up to then while memory is short, and waits that
    long for another pause or resume. Without, it does not wait for memory. Contents that were saved
    with a checksum and have changed since are a ``ChecksumMismatchError``.
    """
    milliseconds = _milliseconds(timeout)
    options = structs.sized(
        structs.DormantResumeOptions,
        timeout_ms=milliseconds,
        wait_for_memory_ms=max(milliseconds, 0),
    )
    report = _transition(tags, options, pausing=False)
    _log("resumed", "taken", "brought back", tags, report)
    return report


def _transition(tags: tuple[str, ...], options: Any, *, pausing: bool) -> Report:
    library = _native.library()
    call = library.dormant_pause if pausing else library.dormant_resume
    names, count = _native.tag_array(tags)
    raw = structs.sized(structs.DormantReport)
    status = call(names, count, byref(options), byref(raw))
    # Also of a pause that failed late: no other report will say it.
    for said in _reports.notice_texts(raw.notices):
        log(logging.WARNING, "%s", said)
    if status != structs.OK:
        raise _native.failure(status, lambda: _reports.report(raw, pausing=pausing))
    return _reports.report(raw, pausing=pausing)


def _number(policy: Policy | str) -> int:
    return structs.POLICIES.index(policy_of(policy).value)


def _milliseconds(timeout: float | None) -> int:
    if timeout is None:
        return -1
    if not isinstance(timeout, (int, float)) or not 0 <= timeout < math.inf:
        raise InvalidArgumentError(f"a timeout is a number of seconds, not {timeout!r}")
    return math.ceil(min(timeout * 1000, 2**62))


def _log(done: str, moved: str, copied: str, tags: tuple[str, ...], report: Report) -> None:
    if not logger.isEnabledFor(logging.INFO):
        return
    free = ", ".join(
        f"device {device.device} has {gib(device.free_after_bytes)} free"
        for device in report.devices
        if device.free_after_bytes is not None
    )
    log(
        logging.INFO,
        "%s %s: %s %s, %s %s, %.3f s%s",
        done,
        ", ".join(tags) or "all tags",
        gib(report.moved.bytes),
        moved,
        gib(report.copied.bytes),
        copied,
        report.phases.total_seconds,
        f"; {free}" if free else "",
    )


def gib(amount_bytes: int) -> str:
    """For a person to read."""
    return f"{amount_bytes / 2**30:.3f} GiB"
