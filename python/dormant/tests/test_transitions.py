from __future__ import annotations

import logging
import threading
import time
from typing import Any

import pytest
from support import MIB, Child

import dormant


def test_pointers_and_contents_stay_over_a_pause() -> None:
    address = dormant.allocate(3 * MIB, tag="w", policy="host")
    dormant.write(address, b"first")
    dormant.write(address + 3 * MIB - 4, b"last")
    free_bytes = dormant.device_memory().free_bytes
    report = dormant.pause("w")
    assert report.moved == dormant.Amount(1, 4 * MIB)
    assert report.copied == dormant.Amount(1, 3 * MIB)
    assert dormant.device_memory().free_bytes == free_bytes + 4 * MIB
    assert dormant.state("w") == "paused"
    report = dormant.resume("w")
    assert (report.moved.bytes, report.copied.bytes) == (4 * MIB, 3 * MIB)
    assert dormant.read(address, 5) == b"first"
    assert dormant.read(address + 3 * MIB - 4, 4) == b"last"


def test_a_report_has_parts_by_tag_and_device_and_times() -> None:
    dormant.allocate(2 * MIB, tag="a", policy="host")
    dormant.allocate(2 * MIB, device=1, tag="b", policy="zero")
    report = dormant.pause("a", "b")
    parts = {part.tag: part for part in report.tags}
    assert (parts["a"].device, parts["b"].device) == (0, 1)
    assert parts["a"].copied.bytes == 2 * MIB
    assert parts["b"].copied == dormant.Amount(0, 0)
    for device in report.devices:
        assert device.free_before_bytes is not None
        assert device.free_after_bytes == device.free_before_bytes + 2 * MIB
        assert (device.moved_bytes, device.freed_nothing) == (2 * MIB, False)
    assert 0 < report.phases.total_seconds < 60
    assert report.workers > 0
    assert report.host_mode
    report = dormant.resume("a", "b")
    assert report.zeroed == dormant.Amount(1, 2 * MIB)
    assert not any(device.freed_nothing for device in report.devices)


def test_nothing_to_do_is_no_error_and_is_counted() -> None:
    dormant.allocate(MIB, tag="a", policy="host")
    dormant.allocate(MIB, tag="b")
    dormant.pause("a")
    again = dormant.pause("a")
    assert (again.moved.blocks, again.already.blocks) == (0, 1)
    everything = dormant.pause()
    assert (everything.moved.blocks, everything.already.blocks) == (1, 1)
    dormant.resume("a")
    again = dormant.resume("a")
    assert (again.moved.blocks, again.already.blocks) == (0, 1)
    assert dormant.resume("unknown").moved.blocks == 0
    assert dormant.state("unknown") == "none"
    assert dormant.state("b") == "paused"
    assert dormant.resume().moved.blocks == 1


def test_an_override_holds_for_the_blocks_that_the_call_pauses() -> None:
    kept = dormant.allocate(4096, tag="w")
    dormant.write(kept, b"kept")
    assert dormant.pause("w", policy="host").copied.blocks == 1
    dormant.resume("w")
    assert dormant.read(kept, 4) == b"kept"
    assert dormant.pause("w").copied.blocks == 0
    with pytest.raises(dormant.InvalidArgumentError):
        dormant.pause("w", policy="keep")


def test_a_resume_without_room_changes_nothing_and_can_be_tried_again() -> None:
    weights = dormant.allocate(26 * MIB, tag="w", policy="host")
    dormant.write(weights + 25 * MIB, b"contents")
    dormant.pause("w")
    other = dormant.allocate(60 * MIB, tag="other")
    free_bytes = dormant.device_memory().free_bytes
    with pytest.raises(dormant.OutOfMemoryError) as caught:
        dormant.resume("w")
    error = caught.value
    assert error.kind == "out_of_memory"
    assert (error.wanted_bytes, error.free_bytes) == (26 * MIB, free_bytes)
    assert error.device == 0
    assert "other" in str(error), "it says who holds the memory"
    assert dormant.state("w") == "paused"
    assert dormant.device_memory().free_bytes == free_bytes
    dormant.free(other)
    dormant.resume("w")
    assert dormant.read(weights + 25 * MIB, 8) == b"contents"


def test_a_resume_waits_for_memory_up_to_its_timeout() -> None:
    dormant.allocate(26 * MIB, tag="w")
    dormant.pause("w")
    other = dormant.allocate(60 * MIB, tag="other")
    began = time.monotonic()
    with pytest.raises(dormant.OutOfMemoryError):
        dormant.resume("w", timeout=0.2)
    assert 0.15 < time.monotonic() - began < 10
    later = threading.Timer(0.3, dormant.free, [other])
    later.start()
    dormant.resume("w", timeout=30)
    later.join()
    assert dormant.state("w") == "active"


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), "3"])
def test_a_timeout_is_a_number_of_seconds(timeout: Any) -> None:
    for call in (dormant.pause, dormant.resume):
        with pytest.raises(dormant.InvalidArgumentError, match="number of seconds"):
            call(timeout=timeout)


def test_each_pause_and_resume_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    dormant.allocate(16 * MIB, tag="w", policy="host")
    dormant.pause("w")  # What this machine lacks is said once.
    dormant.resume()
    caplog.clear()
    with caplog.at_level(logging.INFO, "dormant"):
        dormant.pause("w", "kv")
        dormant.resume()
    paused, resumed = [record.getMessage() for record in caplog.records]
    assert paused.startswith("paused w, kv: 0.016 GiB given back, 0.016 GiB saved, 0.")
    assert paused.endswith(" s; device 0 has 0.062 GiB free")
    assert resumed.startswith("resumed all tags: 0.016 GiB taken, 0.016 GiB brought back, 0.")
    assert {record.levelname for record in caplog.records} == {"INFO"}


def test_a_pause_that_freed_nothing_is_a_warning(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dormant import _reports

    honest = _reports._device_report
    monkeypatch.setattr(
        _reports,
        "_device_report",
        lambda raw, pausing: type(honest(raw, pausing))(raw.device, raw.moved_bytes, 5, 5, True),
    )
    dormant.allocate(2 * MIB)
    with caplog.at_level(logging.WARNING, "dormant"):
        dormant.pause()
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "device 0 has no more free memory than before, though 0.002 GiB" in record.getMessage()


def test_other_threads_run_on_during_a_long_pause(child: Child) -> None:
    out = child(
        """
        import threading, time, dormant
        dormant.allocate(16 << 20, tag="w", policy="host")
        counted, paused = 0, threading.Event()
        def count():
            global counted
            while not paused.is_set():
                counted += 1
                time.sleep(0.001)
        counter = threading.Thread(target=count)
        counter.start()
        began = time.monotonic()
        dormant.pause("w")
        seconds = time.monotonic() - began
        paused.set()
        counter.join()
        print(counted, seconds)
        """,
        DORMANT_SIM_LINK="16MiB",
    )
    counted, seconds = out.split()
    assert float(seconds) > 0.5, "the pause was long enough to say something"
    assert int(counted) > 100 * float(seconds)


def test_a_second_pause_waits_and_then_is_busy(child: Child) -> None:
    child(
        """
        import threading, time, dormant
        dormant.allocate(16 << 20, tag="w", policy="host")
        pausing = threading.Thread(target=dormant.pause, args=["w"])
        pausing.start()
        while dormant.state("w") == "active":
            time.sleep(0.001)
        assert dormant.state("w") == "moving"
        try:
            dormant.resume("w", timeout=0.1)
        except dormant.BusyError as error:
            assert error.kind == "busy", error.kind
        else:
            raise AssertionError("it did not wait")
        dormant.resume("w", timeout=60)
        pausing.join()
        assert dormant.state("w") == "active"
        """,
        DORMANT_SIM_LINK="16MiB",
    )


def test_a_pause_that_fails_late_says_what_it_did_and_names_the_blocks(child: Child) -> None:
    child(
        """
        import pickle, dormant
        lost = dormant.allocate(4 << 20, tag="w", policy="host")
        dormant.write(lost, b"saved")
        try:
            dormant.pause("w")
        except dormant.Error as error:
            for error in (error, pickle.loads(pickle.dumps(error))):
                assert type(error) is dormant.AddressLostError, error
                assert error.kind == "address_lost"
                (failure,) = error.failures
                assert (failure.address, failure.tag, failure.device) == (lost, "w", 0)
                assert failure.poisoned and failure.bytes == 4 << 20 and failure.text
                assert error.report.poisoned.blocks == 1
        else:
            raise AssertionError("the fault was not acted out")
        assert dormant.state("w") == "poisoned"
        assert bytes(dormant.backup(lost))[:5] == b"saved"
        """,
        DORMANT_SIM_FAULTS="keep_until_unreserved,address_lost",
    )


def test_a_report_is_not_lost_for_a_filter_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    from dormant import _reports

    honest = _reports._device_report
    monkeypatch.setattr(
        _reports,
        "_device_report",
        lambda raw, pausing: type(honest(raw, pausing))(raw.device, raw.moved_bytes, 5, 5, True),
    )

    def broken(record: logging.LogRecord) -> bool:
        seen.append(record.levelname)
        raise RuntimeError("from a filter")

    seen: list[str] = []
    logger = logging.getLogger("dormant")
    monkeypatch.setattr(logger, "filters", [broken])
    monkeypatch.setattr(logger, "level", logging.INFO)
    logger.manager._clear_cache()  # type: ignore[attr-defined]
    dormant.allocate(2 * MIB, tag="w")
    assert dormant.pause("w").moved.blocks == 1
    assert dormant.resume("w").moved.blocks == 1
    assert seen == ["INFO", "WARNING", "INFO"]
