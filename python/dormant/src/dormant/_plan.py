"""What a pause or resume would do, and what can be done ahead of a pause."""

from __future__ import annotations

from ctypes import byref
from dataclasses import dataclass, replace

from . import _native
from . import _structs as structs
from ._memory import DeviceMemory, blocks, device_memory
from ._native import known
from ._regions import host_mode_of
from ._reports import Amount, BlockInfo, HostMode, Policy
from ._transitions import pause_options

_NOTHING = Amount()
_UNKNOWN = DeviceMemory(0, 0)


@dataclass(frozen=True)
class DevicePlan:
    """What a pause would give back on one device, and what a resume would take.

    Blocks that a pause or resume is at are left out.
    """

    device: int
    pause_frees: Amount = _NOTHING
    """Physical memory of the active blocks."""
    pause_saves_host: Amount = _NOTHING
    """Contents that would go to host memory."""
    pause_saves_disk: Amount = _NOTHING
    """Contents that would go to disk."""
    resume_wants: Amount = _NOTHING
    """Physical memory of the paused blocks."""
    memory: DeviceMemory = _UNKNOWN
    """The device's own reading now."""

    @property
    def free_bytes(self) -> int:
        """What the device has free now."""
        return self.memory.free_bytes

    @property
    def resume_fits(self) -> bool:
        """Whether the device has enough free memory for the resume now."""
        return self.resume_wants.bytes <= self.memory.free_bytes

    def _with(self, block: BlockInfo, overriding: Policy | None) -> DevicePlan:
        physical = Amount(1, block.physical_bytes)
        saved = Amount(1, block.bytes)
        if block.state == "paused":
            return replace(self, resume_wants=self.resume_wants + physical)
        if block.state != "active":
            return self
        plan = replace(self, pause_frees=self.pause_frees + physical)
        policy = overriding or block.policy
        if policy is Policy.HOST:
            plan = replace(plan, pause_saves_host=plan.pause_saves_host + saved)
        elif policy is Policy.DISK:
            plan = replace(plan, pause_saves_disk=plan.pause_saves_disk + saved)
        return plan


@dataclass(frozen=True)
class Plan:
    """What a pause or resume of some tags would do now. Changes nothing."""

    tags: tuple[str, ...]
    """The tags asked about; none means all."""
    devices: tuple[DevicePlan, ...]
    """Devices on which they have blocks, by ordinal."""
    host_wanted_bytes: int = 0
    """Host memory that a pause would have to take, in whole pages: what is not retained already."""
    host_allowed_bytes: int | None = None
    """Host memory that this process may take; ``None`` where nothing limits it."""
    host_short_bytes: int = 0
    """What of ``host_wanted_bytes`` is not allowed; 0: there is enough.

    Ranks that pause together all-reduce this number with MAX first, and pause where that is 0: then
    no rank sleeps while another was refused."""

    @property
    def resume_fits(self) -> bool:
        """Whether each device has enough free memory for the resume now."""
        return all(device.resume_fits for device in self.devices)


def plan(
    *tags: str, policy: Policy | str | None = None, host_mode: HostMode | str | None = None
) -> Plan:
    """What a pause of ``tags`` would give back and save, and what a resume would want; no tags: of
    all. ``policy`` and ``host_mode`` are as for :func:`pause`.

    Others take host memory too, so a pause may be refused all the same; it then changes nothing.
    """
    names, count = _native.tag_array(tags)
    raw = structs.sized(structs.DormantPlan)
    options = pause_options(policy=policy, host_mode=host_mode)
    _native.check(_native.library().dormant_plan(names, count, byref(options), byref(raw)))
    overriding = None if policy is None else Policy(policy)
    devices: dict[int, DevicePlan] = {}
    for block in blocks():
        if not tags or block.tag in tags:
            device = devices.get(block.device, DevicePlan(block.device))
            devices[block.device] = device._with(block, overriding)
    return Plan(
        tags,
        tuple(replace(devices[index], memory=device_memory(index)) for index in sorted(devices)),
        raw.host_wanted_bytes,
        known(raw.host_allowed_bytes),
        raw.host_short_bytes,
    )


@dataclass(frozen=True)
class Prepared:
    """What :func:`prepare` has done."""

    bytes: int
    """Bytes of backups for which host memory is retained now, in whole pages."""
    registered: bool
    """Whether all memory that is retained is registered; in the background it is not known yet."""


def prepare(
    *tags: str, background: bool = False, host_mode: HostMode | str | None = None
) -> Prepared:
    """Makes the next pause of ``tags`` quick; no tags: of all.

    Takes and registers the host memory that their backups will be retained in, and opens what will
    copy. With ``background`` memory is registered when the call has returned. ``host_mode`` is for
    a :func:`pause` that is given the same. Breaks no capture and holds up no pause or resume.
    Memory that is not retained needs nothing; :func:`trim` gives back what is. ``HostMemoryError``
    where there is not enough.
    """
    mode = None if host_mode is None else host_mode_of(host_mode)
    options = structs.sized(
        structs.DormantPrepareOptions,
        background=bool(background),
        host_mode=structs.number_of(structs.HOST_MODES, mode),
    )
    names, count = _native.tag_array(tags)
    raw = structs.sized(structs.DormantPrepared)
    library = _native.library()
    _native.check(library.dormant_prepare(names, count, byref(options), byref(raw)))
    return Prepared(raw.bytes, bool(raw.registered))
