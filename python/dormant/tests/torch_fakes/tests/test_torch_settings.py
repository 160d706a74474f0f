"""Settings of torch's allocator under which nothing could be paused."""

from __future__ import annotations

import itertools

import pytest
from torch_children import MIB, in_child

NAMES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
SPELLINGS = (
    "expandable_segments:True",
    "expandable_segments: True ",
    " max_split_size_mb:128 , expandable_segments :True",
    "expandable_segments:False,expandable_segments:True",
)


def _check(setting: str, mode: str) -> None:
    """Free memory rises by all that was paused, or an error names the setting."""
    import dormant

    import torch

    if mode != "honoured":
        with pytest.raises(dormant.NotSupportedError) as raised, dormant.region("a"):
            pass
        assert "expandable_segments" in str(raised.value)
        assert setting in str(raised.value)
        return
    with dormant.region("a"):
        kept = torch.full((64 * MIB,), 1, dtype=torch.uint8, device="cuda")
    before = torch.cuda.mem_get_info()[0]
    dormant.pause("a")
    assert torch.cuda.mem_get_info()[0] - before >= 64 * MIB
    dormant.resume("a")
    kept.fill_(2)


@pytest.mark.parametrize(
    ("name", "text", "mode"),
    [
        *itertools.product(NAMES, SPELLINGS, ["honoured"]),
        *itertools.product(NAMES[:1], SPELLINGS, ["ignored", "refused"]),
    ],
)
def test_expandable_segments_in_the_environment(name: str, text: str, mode: str):
    in_environment(name=name, mode=mode, environment={name: text, "FAKE_TORCH_EXPANDABLE": mode})


@in_child()
def in_environment(name: str, mode: str):
    _check(name, mode)


@pytest.mark.parametrize("old", ["0", "1"])
@pytest.mark.parametrize("mode", ["honoured", "ignored", "refused"])
@pytest.mark.parametrize("then", ["", "max_split_size_mb:128"])
def test_expandable_segments_set_at_run_time(mode: str, then: str, old: str):
    at_run_time(
        mode=mode,
        then=then,
        environment={"FAKE_TORCH_EXPANDABLE": mode, "FAKE_TORCH_OLD": old},
    )


@in_child()
def at_run_time(mode: str, then: str):
    import torch

    torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    if then:
        torch.cuda.memory._set_allocator_settings(then)
    _check("run time", mode)


@in_child(FAKE_TORCH_EXPANDABLE="ignored", PYTORCH_ALLOC_CONF="expandable_segments:False")
def test_it_is_on_and_off_again():
    import dormant

    import torch

    with dormant.region("a"):
        pass
    torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    with pytest.raises(dormant.NotSupportedError, match="expandable_segments"), dormant.region("a"):
        pass
    torch.cuda.memory._set_allocator_settings("expandable_segments:False")
    with dormant.region("a"):
        tensor = torch.zeros(10, device="cuda")
    assert dormant.find(tensor.data_ptr()).tag == "a"


@in_child(PYTORCH_CUDA_ALLOC_CONF="backend: cudaMallocAsync")
def test_another_allocator_is_an_error_that_names_it():
    import dormant

    import torch

    assert torch.version.cuda
    with (
        pytest.raises(dormant.NotSupportedError, match="backend:cudaMallocAsync"),
        dormant.region(),
    ):
        pass


@in_child(PYTORCH_ALLOC_CONF="expandable_segments:True")
def test_memory_outside_of_pools_is_never_ours_then():
    import dormant.torch

    import torch

    assert torch.version.cuda
    with pytest.raises(
        dormant.NotSupportedError, match="expandable_segments in PYTORCH_ALLOC_CONF"
    ):
        dormant.torch.check_settings()


@in_child()
def test_without_such_a_setting_there_is_nothing_to_say():
    import dormant.torch

    import torch

    assert torch.version.cuda
    dormant.torch.check_settings()
    dormant.torch.check_settings(dormant.RegionSettings("a"))
