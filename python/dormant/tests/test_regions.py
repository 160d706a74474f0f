from __future__ import annotations

import logging
import threading
from contextlib import suppress

import pytest

import dormant
from dormant import _native


def allocated() -> tuple[str, str]:
    """The tag and policy that new memory gets."""
    block = dormant.find(dormant.allocate(4096))
    assert block is not None
    return block.tag, block.policy.value


def test_memory_gets_the_tag_and_policy_of_the_innermost_region() -> None:
    assert allocated() == ("default", "discard")
    with dormant.region():
        assert allocated() == ("default", "discard")
        with dormant.region("a", policy="host"):
            assert allocated() == ("a", "host")
            with dormant.region("a", policy=dormant.Policy.ZERO):
                assert allocated() == ("a", "zero")
            assert allocated() == ("a", "host")
    assert allocated() == ("default", "discard")


def test_an_exception_restores_tag_and_policy_at_each_level() -> None:
    with dormant.region("a", policy="zero"):
        with suppress(KeyError), dormant.region("b", policy="host"):
            assert allocated() == ("b", "host")
            raise KeyError
        assert allocated() == ("a", "zero")
    assert allocated() == ("default", "discard")


def test_what_ends_the_body_is_not_hidden_by_trouble_with_leaving(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @dormant.region("a")
    def body(error: type[Exception]) -> None:
        leave_all()
        raise error

    with caplog.at_level(logging.WARNING, "dormant"), pytest.raises(KeyError):
        body(KeyError)
    assert "leaving a context after KeyError" in caplog.text

    @dormant.region("a")
    def fine() -> None:
        leave_all()

    with pytest.raises(dormant.WrongStateError, match="on the thread that entered it"):
        fine()


def leave_all() -> None:
    """Leaves all regions of this thread behind their backs; their numbers only grow."""
    from ctypes import byref, c_uint64

    last = c_uint64()
    library = _native.library()
    library.dormant_region_push_disabled(byref(last))
    for number in range(last.value, 0, -1):
        library.dormant_region_pop(number)


def test_a_region_is_its_threads_alone_until_it_is_carried() -> None:
    found: list[object] = []
    with dormant.region("a", policy="host"):
        carried = dormant.carry()

        def work() -> None:
            found.append(allocated())
            for _ in range(2):
                with carried.enter():
                    found.append(allocated())
            found.append(allocated())

        run(work)
    plain, inside = ("default", "discard"), ("a", "host")
    assert found == [plain, inside, inside, plain]


def test_what_is_carried_outlives_the_region_it_came_from() -> None:
    with dormant.region("a"):
        carried = dormant.carry()
    with carried.enter():
        assert allocated() == ("a", "discard")


def test_one_region_object_serves_again_nested_and_several_threads() -> None:
    region = dormant.region("a")
    inside = threading.Barrier(2)
    found: list[tuple[str, str]] = []

    def work() -> None:
        with region:
            inside.wait(10)
            found.append(allocated())
            inside.wait(10)
            with region:
                found.append(allocated())
        found.append(allocated())

    other = threading.Thread(target=work)
    other.start()
    work()
    other.join()
    assert sorted(found) == 4 * [("a", "discard")] + 2 * [("default", "discard")]


def test_a_region_left_on_another_thread_is_an_error_there_and_stays_here() -> None:
    region = dormant.region("a")
    with region:
        raised: list[BaseException] = []

        def leave() -> None:
            try:
                region.__exit__(None, None, None)
            except dormant.WrongStateError as error:
                raised.append(error)

        run(leave)
        assert len(raised) == 1
        assert allocated() == ("a", "discard")


def test_regions_and_disable_are_decorators_too() -> None:
    @dormant.region("a", policy="zero")
    def inside() -> tuple[str, str]:
        return allocated()

    assert inside() == ("a", "zero")
    assert inside() == ("a", "zero")
    assert allocated() == ("default", "discard")


def test_disable_says_that_new_memory_is_not_ours() -> None:
    library = _native.library()
    with dormant.region("a"):
        assert library.tms_get_interesting_region()
        with dormant.disable():
            assert not library.tms_get_interesting_region()
        assert library.tms_get_interesting_region()
    assert not library.tms_get_interesting_region()


def test_raw_switches_inside_a_region_are_undone_when_it_ends() -> None:
    library = _native.library()
    with dormant.region("x", policy="host"):
        library.tms_set_interesting_region(False)
        with dormant.disable():
            library.tms_set_interesting_region(True)
        assert not library.tms_get_interesting_region()
        library.tms_set_interesting_region(True)
        assert allocated() == ("x", "host")
    assert not library.tms_get_interesting_region()


def test_wrong_settings_are_refused_where_the_region_is_made() -> None:
    with pytest.raises(dormant.InvalidArgumentError, match="discard, zero, host, disk"):
        dormant.region(policy="keep")
    with pytest.raises(dormant.InvalidArgumentError, match="a tag is a str"):
        dormant.region(3)  # type: ignore[arg-type]
    for tag in ("", "a\0b", "\ud800"):
        with pytest.raises(dormant.InvalidArgumentError), dormant.region(tag):
            pass
    assert allocated() == ("default", "discard")


def test_settings_reach_the_library_whole() -> None:
    from ctypes import byref, c_uint32

    from dormant import _structs

    settings = dormant.RegionSettings.of("ä", "disk", [1, 0], "/some/where")
    assert settings == dormant.RegionSettings("ä", dormant.Policy.DISK, (1, 0), "/some/where")
    assert len({settings, dormant.RegionSettings("ä")}) == 2
    with dormant.region("ä", policy="zero", peers=[1]):
        raw, on = _structs.sized(_structs.DormantRegion), c_uint32()
        _native.check(_native.library().dormant_region_current(byref(raw), byref(on)))
        assert (raw.tag.decode(), raw.policy, on.value) == ("ä", 1, 1)
        assert raw.peers[: raw.peer_count] == [1]


def test_a_capture_refuses_pauses_until_it_ends() -> None:
    dormant.allocate(4096)
    with dormant.capture():
        with pytest.raises(dormant.BusyError):
            dormant.pause()
        assert dormant.state("default") == "active"
    dormant.pause()


def run(work: object) -> None:
    thread = threading.Thread(target=work)  # type: ignore[arg-type]
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
