"""What a pause or resume would do."""

from __future__ import annotations

from dataclasses import dataclass, replace

from . import _native
from ._memory import DeviceMemory, blocks, device_memory
from ._reports import Amount, BlockInfo, Policy

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

    def _with(self, block: BlockInfo) -> DevicePlan:
        physical = Amount(1, block.physical_bytes)
        saved = Amount(1, block.bytes)
        if block.state == "paused":
            return replace(self, resume_wants=self.resume_wants + physical)
        if block.state != "active":
            return self
        plan = replace(self, pause_frees=self.pause_frees + physical)
        if block.policy is Policy.HOST:
            plan = replace(plan, pause_saves_host=plan.pause_saves_host + saved)
        elif block.policy is Policy.DISK:
            plan = replace(plan, pause_saves_disk=plan.pause_saves_disk + saved)
        return plan


@dataclass(frozen=True)
class Plan:
    """What a pause or resume of some tags would do now. Changes nothing."""

    tags: tuple[str, ...]
    """The tags asked about; none means all."""
    devices: tuple[DevicePlan, ...]
    """Devices on which they have blocks, by ordinal."""

    @property
    def resume_fits(self) -> bool:
        """Whether each device has enough free memory for the resume now."""
        return all(device.resume_fits for device in self.devices)


def plan(*tags: str) -> Plan:
    """What a pause of ``tags`` would give back and save, and what a resume would want; no tags: of
    all."""
    _native.tag_array(tags)  # Refuses what is no tag.
    devices: dict[int, DevicePlan] = {}
    for block in blocks():
        if not tags or block.tag in tags:
            device = devices.get(block.device, DevicePlan(block.device))
            devices[block.device] = device._with(block)
    return Plan(
        tags,
        tuple(replace(devices[index], memory=device_memory(index)) for index in sorted(devices)),
    )
