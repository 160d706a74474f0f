"""GPU memory that can sleep.

A block keeps its address for life. :func:`pause` gives its physical memory back to the device,
:func:`resume` puts physical memory under the same address again::

    import torch, dormant

    with dormant.region("weights", policy="host"):
        model = Model().cuda()

    dormant.pause("weights")   # the memory is the device's again
    dormant.resume("weights")  # same pointers, same contents

Importing loads no library and touches no device. Bytes are bytes, times are seconds.
"""

from __future__ import annotations

from ._backup import Lease, backup, drop_backup, trim
from ._config import (
    Configuration,
    configuration,
    configure,
    memory_margin_bytes,
    set_memory_margin_bytes,
)
from ._identity import BuildInfo, build_info
from ._memory import (
    Device,
    DeviceMemory,
    allocate,
    backend,
    blocks,
    device_memory,
    devices,
    disable_peer_access,
    enable_peer_access,
    find,
    free,
    read,
    read_into,
    state,
    stats,
    write,
)
from ._plan import DevicePlan, Plan, Prepared, plan, prepare
from ._preload import preload_env
from ._regions import Carried, RegionSettings, capture, carry, disable, region
from ._reports import (
    Amount,
    BlockInfo,
    Checksum,
    DeviceReport,
    HostMode,
    Phases,
    Policy,
    Report,
    Stats,
    TagReport,
    TagStats,
)
from ._transitions import pause, resume
from .errors import (
    AddressLostError,
    BusyError,
    ChecksumMismatchError,
    DeviceLostError,
    EarlierWorkFailedError,
    Error,
    Failure,
    ForkedError,
    HostMemoryError,
    InternalError,
    InvalidArgumentError,
    IOFailedError,
    LibraryMissingError,
    NoDriverError,
    NotFoundError,
    NotSupportedError,
    OutOfMemoryError,
    PoisonedError,
    TooLargeError,
    TwoBuildsError,
    UnknownDriverError,
    WrongStateError,
)

__version__ = "0.1.0"

__all__ = [
    "AddressLostError",
    "Amount",
    "BlockInfo",
    "BuildInfo",
    "BusyError",
    "Carried",
    "Checksum",
    "ChecksumMismatchError",
    "Configuration",
    "Device",
    "DeviceLostError",
    "DeviceMemory",
    "DevicePlan",
    "DeviceReport",
    "EarlierWorkFailedError",
    "Error",
    "Failure",
    "ForkedError",
    "HostMemoryError",
    "HostMode",
    "IOFailedError",
    "InternalError",
    "InvalidArgumentError",
    "Lease",
    "LibraryMissingError",
    "NoDriverError",
    "NotFoundError",
    "NotSupportedError",
    "OutOfMemoryError",
    "Phases",
    "Plan",
    "PoisonedError",
    "Policy",
    "Prepared",
    "RegionSettings",
    "Report",
    "Stats",
    "TagReport",
    "TagStats",
    "TooLargeError",
    "TwoBuildsError",
    "UnknownDriverError",
    "WrongStateError",
    "__version__",
    "allocate",
    "backend",
    "backup",
    "blocks",
    "build_info",
    "capture",
    "carry",
    "configuration",
    "configure",
    "device_memory",
    "devices",
    "disable",
    "disable_peer_access",
    "drop_backup",
    "enable_peer_access",
    "find",
    "free",
    "memory_margin_bytes",
    "pause",
    "plan",
    "preload_env",
    "prepare",
    "read",
    "read_into",
    "region",
    "resume",
    "set_memory_margin_bytes",
    "state",
    "stats",
    "trim",
    "write",
]
