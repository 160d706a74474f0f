"""Host memory that is retained, checked contents, and plans."""

from __future__ import annotations

import ctypes
import tempfile
import time
from contextlib import AbstractContextManager
from typing import Any

from torch_case_tools import GIB, case, holds, size, tensor, torch


def several(region: AbstractContextManager[Any]) -> list[Any]:
    """Tensors of several sizes, each filled with another value."""
    with region:
        return [tensor(size(GIB) // (i + 1) + 4099 * i, i + 1) for i in range(3)]


def changed(tensors: list[Any], by: int) -> None:
    """Gives each tensor another value than in the cycle before."""
    for i, one in enumerate(tensors):
        one.fill_(by + i)
    torch().cuda.synchronize()


def all_hold(tensors: list[Any], by: int) -> bool:
    """Whether they are as ``changed`` has made them."""
    return all(holds(one, by + i) for i, one in enumerate(tensors))


def no_backups_soon(api: Any) -> None:
    """Host memory and disk space go back in the background."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        stats = api.module.stats()
        if stats.host_backup_bytes == stats.disk_backup_bytes == 0:
            return
        time.sleep(0.001)
    raise AssertionError(stats)


def flip(api: Any, tensor: Any) -> None:
    """Changes a bit of what was saved of a tensor."""
    with api.module.backup(tensor.data_ptr()) as lease:
        ctypes.c_ubyte.from_address(lease.address + tensor.nbytes // 2).value ^= 4


@case("host memory is retained until it is trimmed", apis=("dormant",))
def retained_until_trimmed(api: Any) -> None:
    tensors = several(api.region("w", keep=True, host_mode="retain"))
    nbytes = sum(one.nbytes for one in tensors)
    prepared = api.module.prepare("w")
    assert prepared.bytes >= nbytes, prepared
    assert prepared.registered, "host memory could not be registered"
    retained = api.module.stats().host_retained_bytes
    assert retained >= nbytes
    assert api.module.plan("w").host_wanted_bytes == 0
    for by in (10, 20, 30):
        changed(tensors, by)
        report = api.module.pause("w")
        assert (report.host_mode, report.host_mode_reason) == ("retain", "asked"), report
        assert report.staging_registered, report
        assert report.copied.bytes >= nbytes, report
        assert api.module.trim() == 0, "the contents are in it"
        api.resume("w")
        assert all_hold(tensors, by)
        no_backups_soon(api)
        assert api.module.stats().host_retained_bytes == retained
    assert api.module.trim() == retained
    assert api.module.stats().host_retained_bytes == 0
    assert api.module.pause("w", host_mode="reclaim").host_mode == "reclaim"
    assert api.module.stats().host_retained_bytes == 0
    api.resume("w")
    assert all_hold(tensors, 30)


@case("every saved byte is checked", apis=("dormant",))
def every_byte_is_checked(api: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        kinds: list[dict[str, str]] = [
            {"policy": "host", "host_mode": "retain"},
            {"policy": "host", "host_mode": "reclaim"},
            {"policy": "disk", "disk_directory": folder},
        ]
        for number, more in enumerate(kinds):
            tag = f"kind {number}"
            tensors = several(api.module.region(tag, checksum="full", **more))
            for by in (40, 50):
                changed(tensors, by)
                api.pause(tag)
                api.resume(tag)
                assert all_hold(tensors, by), more
            if more["policy"] == "disk":
                continue
            api.pause(tag)
            flip(api, tensors[1])
            try:
                api.resume(tag)
            except api.module.ChecksumMismatchError as error:
                assert error.address is not None
            else:
                raise AssertionError("contents that have changed came back")
            assert api.module.state(tag) == "paused"
            flip(api, tensors[1])
            api.resume(tag)
            assert all_hold(tensors, 50), more


@case("a plan is what the pause does", apis=("dormant",))
def a_plan_is_what_the_pause_does(api: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        kept = several(api.module.region("a", policy="host", host_mode="reclaim"))
        retained = several(api.module.region("b", policy="host", host_mode="retain"))
        on_disk = several(api.module.region("c", policy="disk", disk_directory=folder))
        dropped = several(api.region("d"))
        assert len({one.data_ptr() for one in kept + retained + on_disk + dropped}) == 12
        for tags in (("a",), ("b",), ("c", "d"), ()):
            plan = api.module.plan(*tags)
            assert plan.host_short_bytes == 0, plan
            (device,) = plan.devices
            before = api.module.stats()
            report = api.module.pause(*tags)
            after = api.module.stats()
            assert report.moved == device.pause_frees, (plan, report)
            assert report.copied == device.pause_saves_host + device.pause_saves_disk
            held = before.host_retained_bytes
            if tags == ("b",):
                assert after.host_retained_bytes - held >= plan.host_wanted_bytes
            elif held == 0:
                taken = after.host_backup_bytes - before.host_backup_bytes
                assert taken == plan.host_wanted_bytes, (plan, taken)
            assert api.module.plan(*tags).devices[0].pause_frees.bytes == 0
            wanted = api.module.plan(*tags).devices[0].resume_wants
            assert api.module.resume(*tags).moved == wanted == device.pause_frees
            no_backups_soon(api)
        assert [int(one[-1].item()) for one in kept + retained + on_disk] == [1, 2, 3] * 3


@case("the drop-in's switch retains host memory", apis=("drop-in",))
def switch_retains(api: Any) -> None:
    with api.region("before", keep=True):
        before = [tensor(size(GIB), 1)]
    api.pause()
    assert api.module.stats().host_retained_bytes == 0, "it is off"
    api.resume()
    assert holds(before[0], 1)
    api.saver.retain_cpu_backup = True
    tensors = before + several(api.region("w", keep=True))
    nbytes = sum(one.nbytes for one in tensors)
    for by in (60, 70):
        changed(tensors, by)
        api.pause()
        assert api.module.stats().host_retained_bytes >= nbytes
        api.resume()
        assert all_hold(tensors, by)
        no_backups_soon(api)
        assert api.module.stats().host_retained_bytes >= nbytes, "it stays for the next pause"
    api.saver.retain_cpu_backup = False
    api.resume()
    assert api.module.stats().host_retained_bytes == 0, "it is given back"
    changed(tensors, 80)
    api.pause()
    assert api.module.stats().host_retained_bytes == 0
    api.resume()
    assert all_hold(tensors, 80)
    no_backups_soon(api)
