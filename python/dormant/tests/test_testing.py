from __future__ import annotations

import gc

import numpy as np
import pytest
from support import MIB, PACKAGE, SOURCE, Child

import dormant
from dormant import testing

pytest_plugins = ["pytester"]


def test_an_array_is_in_pausable_memory() -> None:
    array = testing.array((1024, 1024), tag="w", policy="host")
    assert array.array.shape == (1024, 1024)
    assert array.array.dtype == np.float32
    assert array.nbytes == 4 * MIB
    assert array.array.ctypes.data == array.address == array.data_ptr()
    array.array[:] = np.arange(1024)
    assert (array.block.tag, array.block.policy) == ("w", "host")
    dormant.pause("w")
    with pytest.raises(dormant.WrongStateError, match=r"tag 'w', is paused: resume it first"):
        _ = array.array
    assert bytes(dormant.backup(array)) == np.tile(np.arange(1024, dtype="f4"), 1024).tobytes()
    dormant.resume("w")
    assert (array.array == np.arange(1024)).all()


def test_an_array_gets_what_the_region_says_and_any_shape() -> None:
    with dormant.region("a", policy="zero"):
        array = testing.array(5, np.int16)
    assert (array.block.tag, array.block.policy) == ("a", "zero")
    assert array.array.tolist() == [0] * 5
    assert testing.array((), "f8", policy="zero").array.item() == 0
    assert testing.array(3, device=1).block.device == 1
    assert testing.array((0, 4)).array.size == 0


def test_memory_goes_back_when_the_array_and_all_views_are_gone() -> None:
    array = testing.array(4)
    part = array.array[1:]
    del array
    gc.collect()
    assert len(dormant.blocks()) == 1
    part[:] = 1
    del part
    gc.collect()
    assert dormant.blocks() == ()


def test_a_freed_array_is_found_out_also_where_its_address_is_anothers() -> None:
    array = testing.array(4)
    array.free()
    others = [dormant.allocate(16) for _ in range(4)]
    with pytest.raises(dormant.NotFoundError, match="has been freed"):
        _ = array.array
    with pytest.raises(dormant.NotFoundError, match="has been freed"):
        _ = array.block
    with pytest.raises(dormant.NotFoundError, match="has been freed"):
        array.free()
    del array
    gc.collect()
    assert len(dormant.blocks()) == len(others)


def test_asking_for_another_device_than_there_is_fails() -> None:
    testing.use_simulated_device()
    testing.use_simulated_device("64MiB", devices=2)
    testing.use_simulated_device(64 * MIB)
    with pytest.raises(dormant.WrongStateError, match="67108864 bytes already"):
        testing.use_simulated_device("65MiB")
    with pytest.raises(dormant.WrongStateError, match="2 simulated devices already"):
        testing.use_simulated_device(devices=1)
    with pytest.raises(dormant.InvalidArgumentError, match="64MiB"):
        testing.use_simulated_device("lots")
    testing.use_simulated_device("64MiB", devices=2)


def test_the_simulated_device_is_made_as_asked(child: Child) -> None:
    child(
        """
        import dormant
        from dormant import testing
        testing.use_simulated_device("32MiB")
        assert [device.total_bytes for device in dormant.devices()] == [32 << 20]
        """,
        DORMANT_BACKEND=None,
        DORMANT_SIM_CAPACITY=None,
        DORMANT_SIM_DEVICES=None,
    )


def test_another_backend_that_is_open_is_an_error(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testing, "backend", lambda: "cuda")
    with pytest.raises(dormant.WrongStateError, match="uses cuda already"):
        testing.use_simulated_device()
    with pytest.raises(dormant.WrongStateError, match="simulated device"):
        testing.array(3)


def test_the_fixture_frees_what_a_test_leaves(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    pytester.makepyfile(
        """
        import dormant

        kept = []

        def test_one_leaves_memory(dormant_sim):
            kept.append(dormant_sim.array(4))
            dormant.allocate(4096, tag="paused")
            dormant.pause("paused")

        def test_the_next_begins_without_it(dormant_sim):
            assert dormant.blocks() == ()
            dormant_sim.array(4)
            kept.clear()

        def test_one_without_the_fixture_costs_nothing():
            pass
        """
    )
    plugin = ("-p", "no:dormant", "-p", "dormant._pytest_plugin", "-p", "no:cacheprovider")
    pytester.runpytest_subprocess(*plugin).assert_outcomes(passed=3)
    help_text = pytester.runpytest_subprocess("--fixtures", *plugin)
    help_text.stdout.fnmatch_lines(["*dormant_sim*"])


def test_the_example_of_the_readme_runs(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    blocks = (PACKAGE / "README.md").read_text().split("```python\n")[1:]
    examples = [block.split("```")[0] for block in blocks]
    (example,) = [text for text in examples if "dormant_sim" in text]
    pytester.makepyfile(example)
    plugin = ("-p", "no:dormant", "-p", "dormant._pytest_plugin", "-p", "no:cacheprovider")
    pytester.runpytest_subprocess(*plugin).assert_outcomes(passed=2)


def test_the_plugin_needs_nothing_where_it_is_not_used(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    monkeypatch.setenv("DORMANT_LIBRARY", "/nowhere/libdormant.so")
    pytester.makepyfile(
        """
        import sys

        def test_nothing_is_loaded():
            assert "numpy" not in sys.modules
            assert not sys.modules["dormant"]._native.is_open()
        """
    )
    plugin = ("-p", "no:dormant", "-p", "dormant._pytest_plugin", "-p", "no:cacheprovider")
    pytester.runpytest_subprocess(*plugin).assert_outcomes(passed=1)
