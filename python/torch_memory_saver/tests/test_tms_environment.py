"""Settings of the environment: torch's, torch_memory_saver's, and empty ones."""

from __future__ import annotations

import os

import pytest
from torch_children import in_child, preloaded

from tms_callers import MIB, policy, saver, tag, tensor


@in_child(PYTORCH_CUDA_ALLOC_CONF=" expandable_segments : True", FAKE_TORCH_EXPANDABLE="ignored")
def test_expandable_segments_are_an_error_that_names_the_setting():
    import dormant

    with (
        pytest.raises(dormant.NotSupportedError, match="expandable_segments") as raised,
        saver().region(),
    ):
        pass
    assert "PYTORCH_CUDA_ALLOC_CONF" in str(raised.value)


@pytest.mark.parametrize("when", ["environment", "run time"])
def test_expandable_segments_in_a_process_that_is_pausable_as_a_whole(when: str):
    more = {"PYTORCH_ALLOC_CONF": "expandable_segments:True"} if when == "environment" else {}
    process_wide(environment={**preloaded(), "TMS_INIT_ENABLE": "1", **more})


@in_child()
def process_wide():
    import dormant
    import torch

    if not os.environ.get("PYTORCH_ALLOC_CONF"):
        saver().resume()
        torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    kept = tensor(2 * MIB)
    with pytest.raises(dormant.NotSupportedError, match="expandable_segments"):
        saver().pause()
    assert kept[0].item() == 1


@in_child(TMS_INIT_ENABLE="", TMS_INIT_ENABLE_CPU_BACKUP="", TMS_DISK_BACKUP_DIR="", LD_PRELOAD="")
def test_an_empty_value_in_the_environment_means_unset():
    with saver().region("a"):
        assert policy(tensor(100)) == "discard"
    assert tag(tensor(100)) is None
    saver().pause()


@in_child()
def test_settings_can_be_read_back():
    memory = saver()
    assert memory.enabled is True
    assert memory.hook_mode == "preload"
    assert memory.retain_cpu_backup is False
    memory.retain_cpu_backup = True
    assert memory.retain_cpu_backup is True
    assert memory._impl._binary_wrapper.cdll.tms_get_retain_cpu_backup() is True
    with memory.region("a", enable_cpu_backup=True, cpu_backup_backend="mmap"):
        assert memory._impl._binary_wrapper.cdll.tms_get_cpu_backup_backend() == b"mmap"
    with (
        pytest.raises(RuntimeError, match="pinned and mmap"),
        memory.region(cpu_backup_backend="x"),
    ):
        pass
    import dormant

    memory.memory_margin_bytes = 3 * MIB
    for wrong in (-1, 1.5):
        with pytest.raises(dormant.InvalidArgumentError, match="a margin"):
            memory.memory_margin_bytes = wrong
    assert memory.memory_margin_bytes == 3 * MIB
    other = type(memory)()
    other.hook_mode = "none"
    with pytest.raises(ValueError, match="hook_mode"):
        other.pause()
