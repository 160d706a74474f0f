from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import Any

import pytest
from support import MIB, Child

import dormant


def test_blocks_are_found_by_any_address_inside() -> None:
    address = dormant.allocate(3 * MIB, device=1, tag="w", policy="zero")
    for place in (address, address + 3 * MIB - 1):
        block = dormant.find(place)
        assert block is not None
        assert (block.address, block.bytes, block.physical_bytes) == (address, 3 * MIB, 4 * MIB)
        assert (block.device, block.tag, block.policy, block.state) == (1, "w", "zero", "active")
    assert dormant.find(address - 1) is None
    assert dormant.find(0) is None
    assert dormant.blocks() == (dormant.find(address),)
    dormant.free(address)
    assert dormant.find(address) is None


def test_sizes_of_all_kinds_survive_a_pause() -> None:
    sizes = [1, 128, 6912, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 3 * MIB]
    addresses = [dormant.allocate(size, tag="w", policy="host") for size in sizes]
    for size, address in zip(sizes, addresses):
        dormant.write(address, b"a")
        dormant.write(address + size - 1, b"z")
    dormant.pause("w")
    for size, address in zip(sizes, addresses):
        assert dormant.backup(address).nbytes == size
    dormant.resume("w")
    for size, address in zip(sizes, addresses):
        ends = dormant.read(address, 1) + dormant.read(address + size - 1, 1)
        assert ends == (b"az" if size > 1 else b"zz")
        dormant.free(address)
    assert dormant.blocks() == ()


def test_reading_and_writing_takes_buffers_of_all_kinds() -> None:
    import numpy as np

    address = dormant.allocate(64)
    for data in (
        b"bytes...",
        bytearray(b"bytearra"),
        memoryview(b"readonly"),
        memoryview(bytearray(b"writable")),
        np.arange(8, dtype=np.uint8),
    ):
        dormant.write(address, data)
        assert dormant.read(address, 8) == bytes(data)
        into = bytearray(8)
        dormant.read_into(address, into)
        assert into == bytes(data)
        into.append(0)  # nothing holds on to it
    numbers = np.zeros(4, dtype=np.float32)
    dormant.write(address, np.ones(4, dtype=np.float32))
    dormant.read_into(address, numbers)
    assert (numbers == 1).all()
    dormant.write(address, b"")
    assert dormant.read(address, 0) == b""
    with pytest.raises(TypeError):
        dormant.write(address, np.zeros((4, 4))[:, 1])
    with pytest.raises(TypeError):
        dormant.read_into(address, b"readonly")


def test_memory_that_sleeps_cannot_be_read_and_is_freed_all_the_same() -> None:
    address = dormant.allocate(4096)
    dormant.pause()
    with pytest.raises(dormant.WrongStateError):
        dormant.read(address, 1)
    with pytest.raises(dormant.WrongStateError):
        dormant.write(address, b"x")
    dormant.free(address)
    with pytest.raises(dormant.NotFoundError):
        dormant.free(address)


def test_memory_is_freed_from_any_thread() -> None:
    free_bytes = dormant.device_memory().free_bytes
    with dormant.region("a"):
        address = dormant.allocate(4 * MIB)
    thread = threading.Thread(target=dormant.free, args=[address])
    thread.start()
    thread.join()
    assert dormant.device_memory().free_bytes == free_bytes


def test_what_cannot_be_is_refused_with_the_right_kind() -> None:
    with pytest.raises(dormant.TooLargeError):
        dormant.allocate(2**50)
    dormant.allocate(40 * MIB)
    with pytest.raises(dormant.OutOfMemoryError) as caught:
        dormant.allocate(40 * MIB)
    assert caught.value.wanted_bytes == 40 * MIB
    for size in (-1, 0, 2**63):
        with pytest.raises(dormant.InvalidArgumentError):
            dormant.allocate(size)
    for device in (-1, 2**32):
        with pytest.raises(dormant.InvalidArgumentError, match="ordinal"):
            dormant.allocate(1, device)
    with pytest.raises(dormant.Error) as none:
        dormant.allocate(1, 7)
    assert none.value.kind in ("not_found", "invalid_argument")
    with pytest.raises(dormant.InvalidArgumentError):
        dormant.state("a\0b")


def test_states_of_a_tag() -> None:
    first = dormant.allocate(4096, tag="w")
    assert dormant.state("w") == "active"
    dormant.pause("w")
    assert dormant.state("w") == "paused"
    dormant.allocate(4096, tag="w")
    assert dormant.state("w") == "mixed"
    dormant.free(first)
    assert dormant.state("w") == "active"


def test_stats_count_by_tag_and_device() -> None:
    dormant.allocate(2 * MIB, tag="a", policy="host")
    dormant.allocate(4 * MIB, device=1, tag="b")
    dormant.pause("a")
    stats = dormant.stats()
    tags = {part.tag: part for part in stats.tags}
    assert tags["a"].paused == dormant.Amount(1, 2 * MIB)
    assert tags["a"].saved == dormant.Amount(1, 2 * MIB)
    assert tags["b"].active == dormant.Amount(1, 4 * MIB)
    assert (tags["a"].device, tags["b"].device) == (0, 1)
    assert stats.host_backup_bytes >= 2 * MIB
    assert (stats.failed_frees, stats.leaked_ranges, stats.leaked_handles) == (0, 0, 0)


def test_a_plan_says_what_would_be_freed_saved_and_wanted() -> None:
    dormant.allocate(3 * MIB, tag="w", policy="host")
    dormant.allocate(2 * MIB, tag="kv")
    dormant.allocate(2 * MIB, device=1, tag="kv", policy="zero")
    before = dormant.plan("w")
    (device,) = before.devices
    assert device.pause_frees == dormant.Amount(1, 4 * MIB)
    assert device.pause_saves_host == dormant.Amount(1, 3 * MIB)
    assert device.pause_saves_disk == dormant.Amount(0, 0)
    assert device.resume_wants == dormant.Amount(0, 0)
    assert device.free_bytes == 58 * MIB
    everything = dormant.plan()
    assert [part.device for part in everything.devices] == [0, 1]
    assert [part.pause_frees.bytes for part in everything.devices] == [6 * MIB, 2 * MIB]
    report = dormant.pause("w")
    assert report.moved == device.pause_frees
    assert report.copied == device.pause_saves_host
    assert dormant.plan("w").devices[0].resume_wants == report.moved
    assert dormant.plan("w").resume_fits
    dormant.allocate(60 * MIB, tag="other")
    assert not dormant.plan("w").resume_fits
    assert dormant.plan("other").resume_fits
    assert dormant.plan("unknown").devices == ()


def test_devices_and_backend() -> None:
    assert dormant.backend() == "sim"
    assert [device.device for device in dormant.devices()] == [0, 1]
    assert all(device.total_bytes == 64 * MIB and device.name for device in dormant.devices())
    assert dormant.device_memory(1) == dormant.DeviceMemory(64 * MIB, 64 * MIB)


def test_access_between_devices() -> None:
    dormant.allocate(4096)
    dormant.enable_peer_access(1, 0)
    dormant.disable_peer_access(1, 0)
    with pytest.raises(dormant.InvalidArgumentError):
        dormant.enable_peer_access(-1, 0)
    address = dormant.allocate(4096, tag="w", policy="host", peers=[1])
    dormant.pause("w")
    dormant.resume("w")
    assert dormant.find(address)


def test_a_margin_holds_for_torch_and_never_for_a_resume() -> None:
    from ctypes import byref, c_int, c_ssize_t, c_uint32, c_void_p

    from dormant import _native

    library = _native.library()
    slot = c_uint32()
    settings = dormant.RegionSettings("torch").raw()
    _native.check(library.dormant_torch_slot(byref(settings), byref(slot)))
    malloc = library[f"dormant_torch_malloc_{slot.value}"]
    malloc.restype, malloc.argtypes = c_void_p, [c_ssize_t, c_int, c_void_p]

    assert dormant.memory_margin_bytes() == 0
    address = malloc(8 * MIB, 0, None)
    block = dormant.find(address)
    assert block is not None
    assert block.tag == "torch"
    dormant.pause("torch")
    dormant.set_memory_margin_bytes(60 * MIB)
    assert dormant.memory_margin_bytes() == 60 * MIB
    assert malloc(8 * MIB, 0, None) is None
    assert isinstance(_native.last_error(0), dormant.OutOfMemoryError)
    dormant.resume("torch")
    assert dormant.device_memory().free_bytes == 56 * MIB
    with pytest.raises(dormant.InvalidArgumentError):
        dormant.set_memory_margin_bytes(-1)


def test_settings_are_chosen_before_the_first_use_and_hold(child: Child) -> None:
    child(
        """
        import dormant
        before = dormant.configuration()
        assert before.transition_timeout_seconds == 300, before
        dormant.configure(workers=3, transition_timeout_seconds=1.5, host_limit_bytes=2 << 20)
        for wrong in ({"workers": -1}, {"colour": 3}, {"free_timeout_seconds": -1}):
            try:
                dormant.configure(**wrong)
            except dormant.InvalidArgumentError:
                continue
            raise AssertionError(wrong)
        dormant.allocate(4 << 20, tag="w", policy="host")
        chosen = dormant.configuration()
        assert (chosen.workers, chosen.transition_timeout_seconds) == (3, 1.5), chosen
        assert chosen.free_timeout_seconds == before.free_timeout_seconds
        try:
            dormant.pause("w")
        except dormant.HostMemoryError as error:
            assert error.kind == "host_memory"
        else:
            raise AssertionError("the limit does not hold")
        assert dormant.state("w") == "active"
        try:
            dormant.configure(workers=4)
        except dormant.WrongStateError:
            pass
        else:
            raise AssertionError("changed after the first use")
        """
    )


def test_looking_for_memory_that_is_not_ours_asks_for_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from dormant import _native

    def asked(*_arguments: object) -> None:
        raise AssertionError("the last error is another call's")

    monkeypatch.setattr(_native, "_last_error", asked)
    assert dormant.find(0x1000) is None


@pytest.mark.parametrize("wrong", [None, "abc", b"abc", -1, 2**64, 1.5])
def test_what_is_no_address_is_refused(wrong: Any) -> None:
    for call in (
        dormant.free,
        dormant.find,
        lambda address: dormant.read(address, 4),
        lambda address: dormant.write(address, b"data"),
    ):
        with pytest.raises(dormant.InvalidArgumentError, match="an address is a number"):
            call(wrong)
    with pytest.raises(dormant.InvalidArgumentError):
        dormant.backup(wrong)


def test_what_is_not_given_is_as_the_region_says() -> None:
    def allocated(**given: Any) -> tuple[str, str]:
        block = dormant.find(dormant.allocate(4096, **given))
        assert block is not None
        return block.tag, block.policy.value

    for ours in (True, False):
        region = dormant.region("a", policy="host") if ours else nullcontext()
        tag, policy = ("a", "host") if ours else ("default", "discard")
        with region:
            assert allocated(peers=[1]) == (tag, policy)
            assert allocated(peers=iter(())) == (tag, policy)
            assert allocated(tag="x") == ("x", policy)
            assert allocated(policy="zero") == (tag, "zero")


def test_the_current_region_can_be_asked_for_whole() -> None:
    from dormant import _regions

    assert _regions.current() is None
    with dormant.region("ä", policy="disk", peers=[1], disk_directory="/tmp"):
        assert _regions.current() == dormant.RegionSettings.of("ä", "disk", [1], "/tmp")


def test_a_plan_refuses_what_a_pause_refuses() -> None:
    for wrong in (["a"], None):
        for call in (dormant.plan, dormant.pause):
            with pytest.raises(dormant.InvalidArgumentError, match="a tag is a str"):
                call(wrong)  # type: ignore[arg-type]
