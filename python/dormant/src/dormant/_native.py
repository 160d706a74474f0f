"""The one place that talks to ``libdormant.so``.

The library is opened at first use: importing the package loads nothing and touches no device.
ctypes gives the GIL back for the time of every call.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from ctypes import (
    POINTER,
    c_bool,
    c_char_p,
    c_int,
    c_int32,
    c_size_t,
    c_ssize_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from . import _structs as structs
from .errors import BY_STATUS, Error, Failure, InvalidArgumentError, LibraryMissingError

if TYPE_CHECKING:
    from ._reports import Report

EACH = ctypes.CFUNCTYPE(None, c_void_p, c_void_p)
"""A callback for one item: its address, and nothing."""

_STATUS = c_int32
_TAGS = POINTER(c_char_p)

_PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "dormant_version": (c_char_p, []),
    "dormant_build": (c_char_p, []),
    "dormant_build_info": (c_char_p, []),
    "dormant_library_path": (c_char_p, []),
    "dormant_last_error": (_STATUS, [POINTER(structs.DormantError)]),
    "dormant_last_failures": (None, [EACH, c_void_p]),
    "dormant_configuration": (_STATUS, [POINTER(structs.DormantConfig)]),
    "dormant_configure": (_STATUS, [POINTER(structs.DormantConfig)]),
    "dormant_backend": (c_char_p, []),
    "dormant_devices": (_STATUS, [EACH, c_void_p]),
    "dormant_device_memory": (_STATUS, [c_uint32, POINTER(c_uint64), POINTER(c_uint64)]),
    "dormant_set_margin_bytes": (None, [c_uint64]),
    "dormant_margin_bytes": (c_uint64, []),
    "dormant_region_push": (_STATUS, [POINTER(structs.DormantRegion), POINTER(c_uint64)]),
    "dormant_region_push_disabled": (_STATUS, [POINTER(c_uint64)]),
    "dormant_region_pop": (_STATUS, [c_uint64]),
    "dormant_region_current": (_STATUS, [POINTER(structs.DormantRegion), POINTER(c_uint32)]),
    "dormant_region_carry": (_STATUS, [POINTER(c_void_p)]),
    "dormant_carried_push": (_STATUS, [c_void_p, POINTER(c_uint64)]),
    "dormant_carried_free": (None, [c_void_p]),
    "dormant_allocate": (
        _STATUS,
        [c_size_t, c_uint32, POINTER(structs.DormantRegion), POINTER(c_void_p)],
    ),
    "dormant_free": (_STATUS, [c_void_p]),
    "dormant_find": (_STATUS, [c_void_p, POINTER(structs.DormantBlock)]),
    "dormant_blocks": (_STATUS, [EACH, c_void_p]),
    "dormant_read": (_STATUS, [c_void_p, c_void_p, c_size_t]),
    "dormant_write": (_STATUS, [c_void_p, c_void_p, c_size_t]),
    "dormant_pause": (
        _STATUS,
        [_TAGS, c_size_t, POINTER(structs.DormantPauseOptions), POINTER(structs.DormantReport)],
    ),
    "dormant_resume": (
        _STATUS,
        [_TAGS, c_size_t, POINTER(structs.DormantResumeOptions), POINTER(structs.DormantReport)],
    ),
    "dormant_report_tags": (None, [EACH, c_void_p]),
    "dormant_report_devices": (None, [EACH, c_void_p]),
    "dormant_stats": (_STATUS, [POINTER(structs.DormantStats)]),
    "dormant_tag_stats": (_STATUS, [EACH, c_void_p]),
    "dormant_tag_state": (_STATUS, [c_char_p, POINTER(c_int32)]),
    "dormant_backup": (
        _STATUS,
        [c_void_p, POINTER(c_void_p), POINTER(c_void_p), POINTER(c_size_t)],
    ),
    "dormant_backup_register": (_STATUS, [c_void_p]),
    "dormant_backup_release": (None, [c_void_p]),
    "dormant_drop_backup": (_STATUS, [_TAGS, c_size_t, POINTER(c_uint64)]),
    "dormant_trim": (_STATUS, [POINTER(c_uint64)]),
    "dormant_prepare": (
        _STATUS,
        [
            _TAGS,
            c_size_t,
            POINTER(structs.DormantPrepareOptions),
            POINTER(structs.DormantPrepared),
        ],
    ),
    "dormant_plan": (
        _STATUS,
        [_TAGS, c_size_t, POINTER(structs.DormantPauseOptions), POINTER(structs.DormantPlan)],
    ),
    "dormant_notice_name": (c_char_p, [c_uint32]),
    "dormant_notice_text": (c_char_p, [c_uint32]),
    "dormant_enable_peer_access": (_STATUS, [c_uint32, c_uint32]),
    "dormant_disable_peer_access": (_STATUS, [c_uint32, c_uint32]),
    "dormant_capture_begin": (_STATUS, [POINTER(c_uint64)]),
    "dormant_capture_end": (_STATUS, [c_uint64]),
    "dormant_torch_slot": (_STATUS, [POINTER(structs.DormantRegion), POINTER(c_uint32)]),
    "dormant_torch_free": (None, [c_void_p, c_ssize_t, c_int, c_void_p]),
    "dormant_hooks_bound": (c_uint32, []),
    # The switches of torch_memory_saver.
    "set_memory_margin_bytes": (None, [c_uint64]),
    "tms_set_interesting_region": (None, [c_bool]),
    "tms_get_interesting_region": (c_bool, []),
    "tms_set_current_tag": (None, [c_char_p]),
    "tms_get_current_tag": (c_char_p, []),
    "tms_set_enable_cpu_backup": (None, [c_bool]),
    "tms_get_enable_cpu_backup": (c_bool, []),
    "tms_set_cpu_backup_backend": (None, [c_char_p]),
    "tms_get_cpu_backup_backend": (c_char_p, []),
    "tms_set_enable_disk_backup": (None, [c_bool]),
    "tms_get_enable_disk_backup": (c_bool, []),
    "tms_set_disk_backup_dir": (None, [c_char_p]),
    "tms_set_retain_cpu_backup": (None, [c_bool]),
    "tms_get_retain_cpu_backup": (c_bool, []),
    "tms_pause": (_STATUS, [c_char_p]),
    "tms_resume": (_STATUS, [c_char_p]),
    "tms_get_cpu_backup_pointer": (c_void_p, [c_void_p, c_uint64]),
}

_library: ctypes.CDLL | None = None


def library_path() -> str:
    """The file that is used: ``DORMANT_LIBRARY``, else the one in this package."""
    named = os.environ.get("DORMANT_LIBRARY")
    # Without a folder in it the loader would look for the name elsewhere.
    path = named or Path(__file__).resolve().parent / "_lib" / "libdormant.so"
    return os.path.abspath(path)


def library() -> ctypes.CDLL:
    """The library, with all prototypes set. Opened at the first call."""
    # No lock: two threads that open it at once get the same library twice, and a lock that is held
    # while the process forks would be held for good in the child.
    global _library
    if _library is None:
        _library = _open(library_path())
    return _library


def is_open() -> bool:
    """Whether the library has been opened."""
    return _library is not None


def _open(path: str) -> ctypes.CDLL:
    if not os.path.exists(path):
        by = "DORMANT_LIBRARY names" if os.environ.get("DORMANT_LIBRARY") else "this package needs"
        raise LibraryMissingError(f"{by} {path}, and there is no such file")
    try:
        library = ctypes.CDLL(path)
        for name, (result, arguments) in _PROTOTYPES.items():
            function = getattr(library, name)
            function.restype = result
            function.argtypes = arguments
    except (OSError, AttributeError) as error:
        raise LibraryMissingError(f"{path} cannot be used as dormant's library: {error}") from None
    return library


def check(status: int) -> None:
    """Raises what a call failed for, unless ``status`` is 0."""
    if status != structs.OK:
        raise failure(status)


def failure(status: int, report: Callable[[], Report] | None = None) -> Error:
    """What a call failed for, as an exception.

    ``status`` is what the call answered; ``report`` makes the report of a pause that failed after
    it had begun to give memory back. The words and numbers are the thread's last error, unless
    that is another call's by now: a finalizer or signal handler may have made one that failed.
    """
    return _last_error(report, lambda last: last == status) or _without_words(status)


def last_error(status: int) -> Error:
    """The thread's last error, whatever that is: of a call that answers with no status.

    ``status`` is for where there is none.
    """
    return _last_error(None, lambda _last: True) or _without_words(status)


def _without_words(status: int) -> Error:
    kind = BY_STATUS.get(status, Error)
    return kind(f"{kind.__doc__ or kind.kind} (status {status}; nothing more is known)")


def _last_error(report: Callable[[], Report] | None, fits: Callable[[int], bool]) -> Error | None:
    raw = structs.sized(structs.DormantError)
    if library().dormant_last_error(ctypes.byref(raw)) != structs.OK:
        return None
    # At once: the next call that fails, a finalizer's too, ends the texts' life.
    said, name = raw.text, raw.kind
    if not fits(raw.status):
        return None
    kind = BY_STATUS.get(raw.status, Error)
    error = kind(
        text(said) or kind.__doc__ or "",
        kind=text(name) or kind.kind,
        driver_code=raw.driver_code or None,
        device=raw.device if raw.device >= 0 else None,
        address=raw.address,
        wanted_bytes=known(raw.wanted_bytes),
        free_bytes=known(raw.free_bytes),
    )
    if raw.failures:
        error.failures = tuple(
            each(library().dormant_last_failures, structs.DormantFailure, _failed_block)
        )
    if raw.has_report and report is not None:
        error.report = report()
    return error


def _failed_block(raw: Any) -> Failure:
    return Failure(
        address=raw.address or 0,
        bytes=raw.bytes,
        tag=text(raw.tag) or "",
        device=raw.device,
        poisoned=bool(raw.poisoned),
        text=text(raw.text) or "",
    )


Item = TypeVar("Item")


def each(
    function: Callable[..., Any],
    kind: type[ctypes.Structure],
    convert: Callable[[Any], Item],
) -> list[Item]:
    """Everything that ``function`` calls back with, converted while it is valid."""
    items: list[Item] = []
    raised: list[BaseException] = []

    def visit(address: int, _user: Any) -> None:
        # ctypes would print what leaves a callback, and go on.
        try:
            items.append(convert(kind.from_address(address)))
        except BaseException as error:
            raised.append(error)

    status = function(EACH(visit), None)
    if raised:
        raise raised[0]
    if status is not None:
        check(status)
    return items


def text(raw: bytes | None) -> str | None:
    """A text of the library."""
    return None if raw is None else raw.decode("utf-8", "replace")


def c_text(value: str, what: str) -> bytes:
    """A text for the library; ``what`` names it in an error."""
    try:
        raw = value.encode()
    except (AttributeError, UnicodeEncodeError):
        raise InvalidArgumentError(f"{what} is a str of valid Unicode, not {value!r}") from None
    return _without_zero(raw, value, what)


def address(value: int) -> int:
    """An address for the library. ctypes would cut what does not fit, and take a text's place."""
    if not isinstance(value, int) or not 0 <= value < 2**64:
        raise InvalidArgumentError(f"an address is a number from 0 to {2**64 - 1}, not {value!r}")
    return value


def ordinal(device: int) -> int:
    """A device for the library. ctypes would cut what does not fit, and mean another one."""
    if not isinstance(device, int) or not 0 <= device < 2**32:
        number = device if isinstance(device, int) else None
        raise InvalidArgumentError(f"a device is an ordinal, not {device!r}", device=number)
    return device


def c_path(value: str | os.PathLike[str], what: str = "a directory") -> bytes:
    """A path for the library; ``what`` names it in an error."""
    return _without_zero(os.fsencode(value), value, what)


def _without_zero(raw: bytes, value: object, what: str) -> bytes:
    if b"\0" in raw:
        raise InvalidArgumentError(f"{what} has a zero byte in it: {value!r}")
    return raw


def known(number: int) -> int | None:
    """``None`` for the number that says that there is none."""
    return None if number == structs.NONE_U64 else number


def tag_array(tags: tuple[str, ...]) -> tuple[Any, int]:
    """Tags as the library takes them; none given means all."""
    if not tags:
        return None, 0
    return (c_char_p * len(tags))(*(c_text(tag, "a tag") for tag in tags)), len(tags)
