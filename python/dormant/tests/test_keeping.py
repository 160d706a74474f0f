"""Host memory that is retained or goes back, what is known ahead of a pause, and checksums."""

from __future__ import annotations

import ctypes
import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest
from support import MIB, Child

import dormant


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    """No test leaves retained memory behind."""
    dormant.trim()
    yield
    for block in dormant.blocks():
        dormant.free(block.address)
    dormant.trim()
    stats = dormant.stats()
    assert (stats.host_retained_bytes, stats.disk_file_bytes) == (0, 0)


def test_modes_and_checksums_go_by_name_and_wrong_names_are_refused() -> None:
    for name in ("auto", "retain", "reclaim"):
        for mode in (name, dormant.HostMode(name)):
            with dormant.region("w", host_mode=mode, checksum="full"):
                here = dormant._regions.current()
                assert here is not None
                assert here.host_mode is dormant.HostMode(name)
                assert here.checksum is dormant.Checksum.FULL
    with dormant.region("w"):
        here = dormant._regions.current()
        assert here is not None
        assert (here.host_mode, here.checksum) == (None, None)
    wrong: list[dict[str, Any]] = [
        {"host_mode": "keep"},
        {"host_mode": 1},
        {"checksum": "yes"},
        {"checksum": True},
    ]
    for names in wrong:
        with pytest.raises(dormant.InvalidArgumentError, match=r"there are (auto|off)"):
            dormant.region("w", **names)
        with pytest.raises(dormant.InvalidArgumentError):
            dormant.allocate(4096, **names)
    with pytest.raises(dormant.InvalidArgumentError, match="there are off, full"):
        dormant.pause(checksum="half")
    assert str(dormant.HostMode.RETAIN) == "retain"
    assert str(dormant.Checksum.OFF) == "off"


def test_what_is_not_given_is_as_the_region_says() -> None:
    with dormant.region("w", policy="host", host_mode="retain"):
        dormant.allocate(MIB)
        dormant.allocate(MIB, host_mode="reclaim")
        dormant.allocate(MIB, tag="x")
    assert dormant.pause("w").host_mode == "mixed"
    assert dormant.pause("x").host_mode == "retain"
    dormant.resume()
    assert dormant.pause(host_mode="reclaim").host_mode == "reclaim"


def test_retained_memory_stays_until_it_is_trimmed() -> None:
    kept = dormant.allocate(3 * MIB, tag="w", policy="host", host_mode="retain")
    dormant.write(kept, b"contents")
    report = dormant.pause("w")
    assert (report.host_mode, report.host_mode_reason) == ("retain", "asked")
    retained = dormant.stats().host_retained_bytes
    assert retained >= 3 * MIB
    assert dormant.trim() == 0, "a backup is in it"
    report = dormant.resume("w")
    assert (report.host_mode, report.host_mode_reason) == ("retain", "")
    assert dormant.read(kept, 8) == b"contents"
    _no_backups_soon()
    assert dormant.stats().host_retained_bytes == retained
    assert dormant.trim() == retained
    assert dormant.trim() == 0
    dormant.allocate(MIB, tag="r", policy="host", host_mode="reclaim")
    report = dormant.pause("r")
    assert (report.host_mode, report.host_mode_reason) == ("reclaim", "asked")
    assert dormant.pause("nothing").host_mode == "none"


def _no_backups_soon() -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        stats = dormant.stats()
        if stats.host_backup_bytes == stats.disk_backup_bytes == 0:
            return
        time.sleep(0.001)
    raise AssertionError(stats)


def test_disk_space_stays_for_the_next_pause_until_it_is_trimmed() -> None:
    kept = dormant.allocate(3 * MIB, tag="d", policy="disk")
    dormant.write(kept, b"contents")
    for _ in range(2):
        dormant.pause("d")
        stats = dormant.stats()
        assert (stats.disk_backup_bytes, stats.disk_file_bytes) == (3 * MIB, 3 * MIB)
        dormant.resume("d")
        _no_backups_soon()
        assert dormant.stats().disk_file_bytes == 3 * MIB
    assert dormant.trim() == 0, "no host memory"
    assert dormant.stats().disk_file_bytes == 0
    assert dormant.read(kept, 8) == b"contents"


@pytest.mark.parametrize("how", ["setting", "environment"])
def test_disk_space_goes_back_where_nothing_is_to_be_kept(how: str, child: Child) -> None:
    child(
        """
        import time, dormant
        asked = dormant.configuration().disk_keep_bytes
        if asked is None:
            dormant.configure(disk_keep_bytes=1 << 20)
            assert dormant.configuration().disk_keep_bytes == 1 << 20
            dormant.configure(disk_keep_bytes=None)
            assert dormant.configuration().disk_keep_bytes is None
            dormant.configure(disk_keep_bytes=0)
        assert dormant.configuration().disk_keep_bytes == 0
        dormant.allocate(3 << 20, tag="d", policy="disk")
        dormant.pause("d")
        assert dormant.stats().disk_file_bytes == 3 << 20
        dormant.resume("d")
        until = time.monotonic() + 10
        while dormant.stats().disk_file_bytes and time.monotonic() < until:
            time.sleep(0.001)
        assert dormant.stats().disk_file_bytes == 0
        """,
        DORMANT_DISK_KEEP="0" if how == "environment" else None,
    )


def test_a_pause_uses_what_was_prepared() -> None:
    dormant.allocate(3 * MIB, tag="w", policy="host", host_mode="retain")
    dormant.allocate(MIB, tag="r", policy="host", host_mode="reclaim")
    assert dormant.prepare("w", "r") == dormant.Prepared(3 * MIB, True)
    retained = dormant.stats().host_retained_bytes
    assert retained >= 3 * MIB
    assert dormant.plan("w").host_wanted_bytes == 0
    assert dormant.pause("w").host_mode == "retain"
    assert dormant.stats().host_retained_bytes == retained
    dormant.resume()
    assert dormant.trim() == retained
    assert dormant.prepare(background=True) == dormant.Prepared(3 * MIB, False)
    assert dormant.prepare("nothing").bytes == 0


def test_a_pause_that_says_its_mode_uses_what_was_prepared_for_it() -> None:
    dormant.allocate(3 * MIB, tag="w", policy="host", host_mode="reclaim")
    assert dormant.prepare("w") == dormant.Prepared(0, True)
    assert dormant.prepare("w", host_mode="retain") == dormant.Prepared(3 * MIB, True)
    retained = dormant.stats().host_retained_bytes
    assert dormant.plan("w", host_mode=dormant.HostMode.RETAIN).host_wanted_bytes == 0
    assert dormant.pause("w", host_mode="retain").host_mode == "retain"
    assert dormant.stats().host_retained_bytes == retained
    for call in (dormant.prepare, dormant.plan, dormant.pause):
        with pytest.raises(dormant.InvalidArgumentError, match="there are auto"):
            call("w", host_mode="keep")


def test_a_plan_says_what_a_pause_would_want_of_the_host() -> None:
    dormant.allocate(2 * MIB + 1, tag="w", policy="host", host_mode="reclaim")
    dormant.allocate(3 * MIB, tag="x")
    plan = dormant.plan("w", "x")
    assert 2 * MIB < plan.host_wanted_bytes < 3 * MIB
    assert plan.host_allowed_bytes is None or plan.host_allowed_bytes > plan.host_wanted_bytes
    assert plan.host_short_bytes == 0
    (device,) = plan.devices
    assert (device.pause_frees.blocks, device.pause_saves_host.bytes) == (2, 2 * MIB + 1)
    kept = dormant.plan("w", "x", policy="host")
    assert kept.host_wanted_bytes == plan.host_wanted_bytes + 3 * MIB
    assert kept.devices[0].pause_saves_host == dormant.Amount(2, 5 * MIB + 1)
    with pytest.raises(dormant.InvalidArgumentError):
        dormant.plan("w", policy="keep")


def test_settings_hold_and_a_plan_says_what_is_short(child: Child) -> None:
    child(
        """
        import dormant
        assert dormant.configuration().host_mode is dormant.HostMode.AUTO
        assert dormant.configuration().host_margin_bytes == 512 << 20
        assert dormant.plan().host_short_bytes == 0
        dormant.configure(host_mode="retain", checksum="full", host_margin_bytes=1 << 20)
        dormant.configure(host_limit_bytes=4 << 20, retain_limit_bytes=3 << 20)
        for wrong in ({"host_mode": "keep"}, {"checksum": None}, {"retain_limit_bytes": -1},
                      {"disk_keep_bytes": "all"}):
            try:
                dormant.configure(**wrong)
            except dormant.InvalidArgumentError:
                pass
            else:
                raise AssertionError(wrong)
        now = dormant.configuration()
        assert (now.host_mode, now.checksum) == ("retain", "full")
        assert (now.host_margin_bytes, now.retain_limit_bytes) == (1 << 20, 3 << 20)
        for _ in range(2):
            dormant.allocate(3 << 20, tag="w", policy="host")
        plan = dormant.plan("w")
        assert plan.host_allowed_bytes == 4 << 20, plan
        assert plan.host_short_bytes == plan.host_wanted_bytes - (4 << 20) == 2 << 20, plan
        try:
            dormant.pause("w")
        except dormant.HostMemoryError:
            pass
        else:
            raise AssertionError("there was room")
        dormant.free(dormant.blocks()[0].address)
        report = dormant.pause("w")
        assert (report.host_mode, report.host_mode_reason) == ("retain", "asked")
        """
    )


def _flip(address: int) -> None:
    """Changes a bit of what was saved."""
    with dormant.backup(address) as lease:
        byte = ctypes.c_ubyte.from_address(lease.address + lease.nbytes // 2)
        byte.value ^= 4


@pytest.mark.parametrize("mode", ["retain", "reclaim"])
def test_saved_contents_that_have_changed_are_an_error_until_they_are_right(mode: str) -> None:
    kept = dormant.allocate(3 * MIB, tag="w", policy="host", host_mode=mode, checksum="full")
    dormant.write(kept, b"\7" * (3 * MIB))
    dormant.pause("w")
    _flip(kept)
    with pytest.raises(dormant.ChecksumMismatchError) as caught:
        dormant.resume("w")
    assert caught.value.kind == "checksum_mismatch"
    assert caught.value.address == kept
    assert dormant.state("w") == "paused"
    _flip(kept)
    dormant.resume("w")
    assert dormant.read(kept, 3 * MIB) == b"\7" * (3 * MIB)
    dormant.pause("w", checksum="off")
    _flip(kept)
    dormant.resume("w")
    plain = dormant.allocate(MIB, tag="x", policy="host", host_mode=mode)
    dormant.pause("x", checksum=dormant.Checksum.FULL)
    _flip(plain)
    with pytest.raises(dormant.ChecksumMismatchError):
        dormant.resume("x")


def test_a_notice_is_a_warning_once(child: Child) -> None:
    out = child(
        """
        import logging, sys, dormant
        logging.basicConfig(stream=sys.stdout, level=logging.WARNING, format="%(name)s %(message)s")
        dormant.allocate(1 << 20, tag="w", policy="disk", disk_directory="/dev/shm")
        said = dormant.pause("w").notices
        assert said == ("disk_in_memory",), said
        dormant.resume("w")
        assert dormant.pause("w").notices == ()
        """
    )
    (line,) = out.splitlines()
    assert line.startswith("dormant ")
    assert "tmpfs" in line


def test_nothing_is_said_where_all_is_well(caplog: pytest.LogCaptureFixture) -> None:
    dormant.allocate(MIB, tag="w")
    with caplog.at_level(logging.WARNING, "dormant"):
        assert dormant.pause("w").notices == ()
        assert dormant.resume("w").notices == ()
    assert not caplog.records
