"""Where the drop-in differs from torch_memory_saver on purpose.

There each of these ends the process; ours is a no-op, ``None`` or an exception, with everything as
it was.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from torch_children import in_child, preloaded

from tms_callers import MIB, free_bytes, policy, saver, tag, tensor

BOTH = pytest.mark.parametrize("mode", ["torch", "preload"])


def _of(mode: str) -> dict[str, str]:
    return preloaded() if mode == "preload" else {}


@BOTH
def test_what_is_freed_while_it_sleeps_never_comes_back(mode: str):
    seed(environment=_of(mode))


@in_child()
def seed():
    import dormant
    import torch

    at_first = free_bytes()
    with saver().region(enable_cpu_backup=True):
        first, second = tensor(12 * MIB, 1), tensor(12 * MIB, 2)
    saver().pause()
    del first
    torch.cuda.empty_cache()
    assert len(dormant.blocks()) == 1
    saver().resume()
    assert second[0].item() == 2
    second.fill_(3)
    assert second[-1].item() == 3
    assert at_first - free_bytes() == 12 * MIB
    del second
    torch.cuda.empty_cache()
    assert free_bytes() == at_first


def test_cached_memory_sleeps_and_is_given_back_by_empty_cache():
    nightly(environment={**preloaded(), "TMS_INIT_ENABLE": "1", "TMS_INIT_ENABLE_CPU_BACKUP": "1"})


@in_child()
def nightly():
    import torch

    memory = saver()
    kept = [tensor(2 * MIB + i, i) for i in range(6)]
    dropped = [tensor(3 * MIB, 9) for _ in range(8)]
    dropped.clear()
    for _round in range(3):
        before, taken = free_bytes(), torch.cuda.memory_reserved()
        memory.pause()
        assert free_bytes() - before == taken
        torch.cuda.empty_cache()
        assert free_bytes() - before == taken
        with memory.disable():
            tensor(64 * MIB)
        assert free_bytes() - before == taken
        memory.resume()
        assert [t[-1].item() for t in kept] == list(range(6))


@BOTH
def test_pausing_what_sleeps_and_resuming_what_is_awake(mode: str):
    twice(environment=_of(mode))


@in_child()
def twice():
    memory = saver()
    with memory.region("a", enable_cpu_backup=True):
        a = tensor(12 * MIB, 1)
    with memory.region("b"):
        tensor(12 * MIB, 2)
    memory.resume()
    memory.pause("a")
    memory.pause("a")
    with memory.region("a", enable_cpu_backup=True):
        while_paused = tensor(12 * MIB, 3)
    assert while_paused[0].item() == 3  # Under a tag that sleeps: simply active.
    memory.pause()
    memory.resume("a")
    memory.resume("a")
    memory.resume("nothing")
    memory.resume()
    assert (a[0].item(), while_paused[0].item()) == (1, 3)


@BOTH
def test_levels_survive_an_exception(mode: str):
    levels(environment=_of(mode))


@in_child()
def levels():
    memory = saver()
    with memory.region("a"):
        cdll = memory._impl._binary_wrapper.cdll

        def fails() -> None:
            with memory.region("b", enable_cpu_backup=True):
                assert cdll.tms_get_current_tag() == b"b"
                assert cdll.tms_get_enable_cpu_backup()
                _ = 1 // 0

        with pytest.raises(ZeroDivisionError):
            fails()
        assert (cdll.tms_get_current_tag(), cdll.tms_get_enable_cpu_backup()) == (b"a", False)
        assert (tag(tensor(100)), policy(tensor(100))) == ("a", "discard")
    assert not cdll.tms_get_interesting_region()
    assert tag(tensor(100)) is None


@BOTH
def test_switches_do_not_outlive_the_region_that_they_are_set_in(mode: str):
    raw_switches(environment=_of(mode))


@in_child()
def raw_switches():
    memory = saver()
    with memory.region("a", enable_cpu_backup=True):
        wrapper = memory._impl._binary_wrapper
        with memory.region("b"):
            wrapper.set_config(
                tag="other",
                interesting_region=False,
                enable_cpu_backup=True,
                cpu_backup_backend="mmap",
                enable_disk_backup=False,
            )
            assert wrapper.cdll.tms_get_current_tag() == b"other"
        assert wrapper.cdll.tms_get_current_tag() == b"a"
        assert wrapper.cdll.tms_get_interesting_region()
        assert wrapper.cdll.tms_get_enable_cpu_backup()
        with memory.disable():
            wrapper.cdll.tms_set_interesting_region(True)
        assert wrapper.cdll.tms_get_interesting_region()
    assert not wrapper.cdll.tms_get_interesting_region()
    with memory._impl._with_region_config(tag="c", enable_cpu_backup=False):
        assert tag(tensor(100)) == "c"
    memory._impl._mem_pools.pop(("c", False), None)


@in_child()
def test_disable_is_allowed_when_nothing_is_active_and_what_it_gave_stays():
    import torch

    memory = saver()
    with memory.disable():
        kept = tensor(3 * MIB, 5)
    with memory.region("a"), memory.disable(), memory.disable():
        also = tensor(3 * MIB, 6)
    memory.pause()
    torch.cuda.empty_cache()
    assert (kept[0].item(), also[0].item()) == (5, 6)
    assert (tag(kept), tag(also)) == (None, None)


@BOTH
def test_a_backup_is_none_only_for_what_can_be_read(mode: str):
    backups(environment=_of(mode))


@in_child()
def backups():
    import dormant
    import torch

    memory = saver()
    foreign = tensor(100)
    with memory.region("kept", enable_cpu_backup=True):
        kept = torch.arange(10, dtype=torch.int32, device="cuda")
    with memory.region("lost"):
        lost = tensor(100)
    assert memory.get_cpu_backup(kept) is None
    memory.pause()
    assert memory.get_cpu_backup(kept).tolist() == list(range(10))
    assert memory.get_cpu_backup(kept[2:4], zero_copy=True).tolist() == [2, 3]
    assert memory.get_cpu_backup(foreign) is None
    with pytest.raises(dormant.WrongStateError, match="lost") as raised:
        memory.get_cpu_backup(lost)
    assert "discard" in str(raised.value)
    memory.resume()
    assert memory.get_cpu_backup(kept) is None


@BOTH
def test_host_memory_goes_back_after_each_resume_unless_it_is_retained(mode: str):
    retained(environment=_of(mode))
    retained(environment={**_of(mode), "TMS_RETAIN_CPU_BACKUP": "1"})


@in_child()
def retained():
    import time

    import dormant
    import torch

    def kept_bytes() -> int:
        """Once the last resume's memory has gone back."""
        until = time.monotonic() + 10
        while dormant.stats().host_backup_bytes and time.monotonic() < until:
            time.sleep(0.001)
        return dormant.stats().host_retained_bytes

    memory = saver()
    if memory.retain_cpu_backup:
        assert os.environ["TMS_RETAIN_CPU_BACKUP"] == "1"
    else:
        with memory.region("goes", enable_cpu_backup=True):
            goes = tensor(12 * MIB, 1)
        memory.pause()
        assert dormant.stats().host_retained_bytes == 0
        memory.resume()
        assert goes[-1].item() == 1
        memory.retain_cpu_backup = True
        memory.pause()
        assert dormant.stats().host_retained_bytes >= 12 * MIB, "also what was there before"
        memory.resume()
    with memory.region("stays", enable_cpu_backup=True):
        stays = tensor(12 * MIB, 2)
        with memory.disable():
            assert memory.retain_cpu_backup
    for value in (2, 3):
        stays.fill_(value)
        memory.pause("stays")
        memory.resume("stays")
        assert stays[-1].item() == value
        assert kept_bytes() >= 12 * MIB
        assert memory.get_cpu_backup(stays) is None
    graph = torch.cuda.CUDAGraph()
    with memory.cuda_graph(graph, tag="graph", enable_cpu_backup=True):
        tensor(2 * MIB)
    assert dormant.pause("graph").host_mode == "retain"
    memory.resume("graph")
    memory.retain_cpu_backup = False
    assert kept_bytes() >= 12 * MIB, "it is not given back at once"
    memory.resume()
    assert dormant.stats().host_retained_bytes == 0
    memory.pause()
    assert dormant.stats().host_retained_bytes == 0, "also what was allocated while it was on"
    memory.resume()
    assert stays[-1].item() == 3


@BOTH
def test_too_little_memory_and_a_margin_are_torchs_own_error(mode: str):
    margin(environment=_of(mode))


@in_child(quiet=False)
def margin():
    import torch

    memory = saver()
    with memory.region("a"), pytest.raises(torch.cuda.OutOfMemoryError):
        tensor(400 * MIB)
    with memory.region("a", enable_cpu_backup=True):
        kept = tensor(32 * MIB, 4)
    memory.memory_margin_bytes = 192 * MIB
    assert memory.memory_margin_bytes == 192 * MIB
    with memory.region("a"):
        with pytest.raises(torch.cuda.OutOfMemoryError):
            tensor(64 * MIB)
        fits = tensor(20 * MIB)
    assert tag(fits) == "a"
    memory.pause()
    with memory.disable():
        beside = tensor(40 * MIB)
    memory.resume()  # The margin is for allocations only.
    assert kept[0].item() == 4
    assert beside is not None


@BOTH
def test_contents_go_to_disk_and_to_each_regions_own_folder(mode: str, tmp_path: Path):
    disk(folders=[str(tmp_path / "one"), str(tmp_path / "two")], environment=_of(mode))


@in_child()
def disk(folders: list[str]):
    import dormant

    memory = saver()
    tensors = []
    for value, folder in enumerate(folders):
        os.mkdir(folder)
        memory.set_disk_backup_dir(folder)
        with memory.region("a", enable_disk_backup=True):
            tensors.append(tensor(12 * MIB, value))
    assert {policy(t) for t in tensors} == {"disk"}
    for _ in range(2):
        memory.pause("a")
        files = dormant.stats().disk_file_bytes
        assert files >= 24 * MIB
        assert [os.listdir(folder) for folder in folders] == [[], []], "they have no names"
        memory.resume("a")
        assert [t[-1].item() for t in tensors] == [0, 1]
        assert dormant.stats().disk_file_bytes == files, "it stays for the next pause"
    dormant.trim()
    assert dormant.stats().disk_file_bytes == 0


@in_child(DORMANT_DISK_KEEP="0")
def test_disk_space_goes_back_after_each_resume_where_the_environment_says_so():
    import time

    import dormant

    memory = saver()
    with memory.region("a", enable_disk_backup=True):
        kept = tensor(12 * MIB, 3)
    memory.pause("a")
    assert dormant.stats().disk_file_bytes >= 12 * MIB
    memory.resume("a")
    until = time.monotonic() + 10
    while dormant.stats().disk_file_bytes and time.monotonic() < until:
        time.sleep(0.001)
    assert dormant.stats().disk_file_bytes == 0
    assert kept[-1].item() == 3


@in_child()
def test_a_full_or_forbidden_disk_is_an_error_and_everything_stays_awake():
    import dormant

    memory = saver()
    memory.set_disk_backup_dir("/proc/nowhere")
    with memory.region("a", enable_disk_backup=True):
        kept = tensor(2 * MIB, 8)
    with pytest.raises(dormant.IOFailedError):
        memory.pause()
    assert kept[0].item() == 8


@in_child()
def test_a_graph_whose_pool_the_program_names_sleeps_without_a_preloaded_library():
    import torch

    memory = saver()
    memory.hook_mode = "torch"
    out = torch.zeros(10, dtype=torch.int32, device="cuda")
    handle = torch.cuda.graph_pool_handle()
    graph = torch.cuda.CUDAGraph()
    with memory.cuda_graph(graph, pool=handle, tag="cuda_graph", enable_cpu_backup=True):
        out.copy_(torch.full((10,), 3, dtype=torch.int32, device="cuda") * 2)
    before = free_bytes()
    memory.pause("cuda_graph")
    assert free_bytes() - before == 2 * MIB
    memory.resume("cuda_graph")
    graph.replay()
    assert out[0].item() == 6
    del graph
    gc.collect()
    torch.cuda.empty_cache()
    assert free_bytes() - before == 2 * MIB
