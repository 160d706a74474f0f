"""The structs of the C interface, as in the header ``dormant.h``.

A struct whose first field is ``size`` is sized: make it with :func:`sized`, which sets that field.
"""

from __future__ import annotations

import ctypes
from ctypes import c_char, c_char_p, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import TypeVar

OK = 0
NOT_FOUND = 5
NO_DRIVER = 14
FORKED = 15
NONE_U64 = 2**64 - 1
"""How the interface says that a number is not known or not the matter."""

POLICY_OWN = -1
POLICIES = ("discard", "zero", "host", "disk")
"""By number."""

HOST_MODES = ("own", "auto", "retain", "reclaim")
"""By number; the first is for what does not say."""
CHECKSUMS = ("own", "off", "full")
"""By number; the first is for what does not say."""

STATES = ("none", "active", "paused", "moving", "poisoned", "mixed")
"""By number."""


class DormantRegion(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32),
        ("policy", c_int32),
        ("tag", c_char_p),
        ("peers", ctypes.POINTER(c_uint32)),
        ("peer_count", c_size_t),
        ("disk_directory", c_char_p),
        ("host_mode", c_int32),
        ("checksum", c_int32),
    ]


class DormantPauseOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32),
        ("policy", c_int32),
        ("timeout_ms", c_int64),
        ("checksum", c_int32),
        ("host_mode", c_int32),
    ]


class DormantResumeOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32),
        ("reserved", c_uint32),
        ("timeout_ms", c_int64),
        ("wait_for_memory_ms", c_int64),
    ]


class DormantAmount(ctypes.Structure):
    _fields_ = [("blocks", c_uint64), ("bytes", c_uint64)]


class DormantReport(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32),
        ("workers", c_uint32),
        ("moved", DormantAmount),
        ("copied", DormantAmount),
        ("zeroed", DormantAmount),
        ("already", DormantAmount),
        ("poisoned", DormantAmount),
        ("turn_ns", c_uint64),
        ("quiesce_ns", c_uint64),
        ("create_ns", c_uint64),
        ("map_ns", c_uint64),
        ("copy_ns", c_uint64),
        ("total_ns", c_uint64),
        ("host_mode", c_char * 16),
        ("staging_registered", c_uint32),
        ("notices", c_uint32),
        ("host_mode_reason", c_char * 32),
    ]


class DormantTagReport(ctypes.Structure):
    _fields_ = [
        ("tag", c_char_p),
        ("device", c_uint32),
        ("reserved", c_uint32),
        ("moved", DormantAmount),
        ("copied", DormantAmount),
        ("zeroed", DormantAmount),
        ("already", DormantAmount),
        ("poisoned", DormantAmount),
    ]


class DormantDeviceReport(ctypes.Structure):
    _fields_ = [
        ("device", c_uint32),
        ("freed_nothing", c_uint32),
        ("moved_bytes", c_uint64),
        ("free_before", c_uint64),
        ("free_after", c_uint64),
    ]


class DormantTagStats(ctypes.Structure):
    _fields_ = [
        ("tag", c_char_p),
        ("device", c_uint32),
        ("reserved", c_uint32),
        ("active", DormantAmount),
        ("paused", DormantAmount),
        ("moving", DormantAmount),
        ("poisoned", DormantAmount),
        ("saved", DormantAmount),
    ]


class DormantStats(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32),
        ("reserved", c_uint32),
        ("host_backup_bytes", c_uint64),
        ("deferred_frees", c_uint64),
        ("failed_frees", c_uint64),
        ("leaked_ranges", c_uint64),
        ("leaked_handles", c_uint64),
        ("disk_backup_bytes", c_uint64),
        ("host_retained_bytes", c_uint64),
        ("disk_file_bytes", c_uint64),
    ]


class DormantPrepareOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32),
        ("background", c_uint32),
        ("host_mode", c_int32),
        ("reserved", c_uint32),
    ]


class DormantPrepared(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("registered", c_uint32), ("bytes", c_uint64)]


class DormantPlan(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32),
        ("reserved", c_uint32),
        ("freed", DormantAmount),
        ("host", DormantAmount),
        ("disk", DormantAmount),
        ("host_wanted_bytes", c_uint64),
        ("host_allowed_bytes", c_uint64),
        ("host_short_bytes", c_uint64),
    ]


class DormantBlock(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32),
        ("device", c_uint32),
        ("state", c_int32),
        ("policy", c_int32),
        ("id", c_uint64),
        ("address", c_void_p),
        ("bytes", c_uint64),
        ("physical_bytes", c_uint64),
        ("tag", c_char_p),
    ]


class DormantDevice(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("device", c_uint32),
        ("reserved", c_uint32),
        ("total_bytes", c_uint64),
    ]


class DormantError(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32),
        ("status", c_int32),
        ("kind", c_char_p),
        ("text", c_char_p),
        ("driver_code", c_int64),
        ("device", c_int64),
        ("address", c_void_p),
        ("wanted_bytes", c_uint64),
        ("free_bytes", c_uint64),
        ("failures", c_uint64),
        ("has_report", c_uint32),
        ("reserved", c_uint32),
    ]


class DormantFailure(ctypes.Structure):
    _fields_ = [
        ("address", c_void_p),
        ("bytes", c_uint64),
        ("tag", c_char_p),
        ("text", c_char_p),
        ("device", c_uint32),
        ("poisoned", c_uint32),
    ]


class DormantConfig(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32),
        ("workers", c_uint32),
        ("transition_timeout_ms", c_uint64),
        ("free_timeout_ms", c_uint64),
        ("idle_timeout_ms", c_uint64),
        ("ranks_on_node", c_uint32),
        ("reserved", c_uint32),
        ("host_limit_bytes", c_uint64),
        ("disk_directory", c_char_p),
        ("disk_staging_bytes", c_uint64),
        ("host_mode", c_int32),
        ("checksum", c_int32),
        ("host_margin_bytes", c_uint64),
        ("retain_limit_bytes", c_uint64),
        ("disk_keep_bytes", c_uint64),
    ]


def number_of(names: tuple[str, ...], name: str | None) -> int:
    """The number of a choice; ``None`` is the first one."""
    return 0 if name is None else names.index(name)


Kind = TypeVar("Kind", bound=ctypes.Structure)


def sized(kind: type[Kind], **fields: object) -> Kind:
    """A zeroed struct with its ``size`` and ``fields`` set."""
    value = kind(**fields)
    value.size = ctypes.sizeof(kind)
    return value
