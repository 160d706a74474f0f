"""The frameworks that use torch_memory_saver, in both hook modes."""

from __future__ import annotations

import gc
import logging

import pytest
from torch_children import in_child, preloaded

from tms_callers import (
    MIB,
    DeepEP,
    ForeignImpl,
    MegatronContext,
    SGLang,
    foreign_malloc,
    free_bytes,
    patch_as_dynamo,
    policy,
    saver,
    tag,
    tensor,
)

BOTH = pytest.mark.parametrize("mode", ["torch", "preload"])
ENV_A = {"TMS_INIT_ENABLE": "1", "TMS_INIT_ENABLE_CPU_BACKUP": "1"}


def _of(mode: str) -> dict[str, str]:
    return preloaded() if mode == "preload" else {}


@BOTH
def test_sglang_pauses_three_tags_and_one_of_them_has_two_policies(mode: str):
    sglang(environment=_of(mode))


@in_child()
def sglang():
    import torch

    adapter = SGLang()
    at_first = free_bytes()
    with adapter.region("weights", enable_cpu_backup=True):
        weights = tensor(12 * MIB, 3)
    with adapter.region("kv_cache"):
        cache = tensor(14 * MIB, 4)
    # The tag `cuda_graph` holds static inputs, which are kept, and temporaries of captures.
    with adapter.region("cuda_graph", enable_cpu_backup=True):
        static = torch.full((1000,), 5, dtype=torch.int32, device="cuda")
    out = torch.zeros(1000, dtype=torch.int32, device="cuda")
    handle = torch.cuda.graph_pool_handle()
    graphs = []
    for factor in (2, 3):
        graph = torch.cuda.CUDAGraph()
        with adapter.cuda_graph(
            cuda_graph=graph, pool=handle, stream=None, tag="cuda_graph", enable_cpu_backup=False
        ):
            out.copy_(static * factor)
        graphs.append(graph)
    used = at_first - free_bytes()
    adapter.release()
    outside = 4 * MIB  # Torch's own small segment, and what is not ours of the captures.
    assert at_first - free_bytes() <= outside
    weights_again = saver().get_cpu_backup(weights, zero_copy=True)
    assert weights_again[-1].item() == 3
    del weights_again
    adapter.resume()
    assert at_first - free_bytes() == used
    assert weights[-1].item() == 3
    cache.fill_(1)
    for factor, graph in zip((2, 3), graphs):
        graph.replay()
        assert out[0].item() == 5 * factor
    adapter.release()
    adapter.resume(("weights",))
    assert weights[0].item() == 3
    adapter.resume()
    graphs[0].replay()
    assert out[0].item() == 10
    # A tag without blocks, and what is in the wanted state already.
    adapter.release(("nothing", "kv_cache", "kv_cache"))
    adapter.resume(("nothing", "kv_cache", "kv_cache"))
    del weights, cache, static, out, graph, graphs
    gc.collect()
    torch.cuda.empty_cache()
    assert free_bytes() == at_first


def test_megatron_in_a_process_that_is_pausable_as_a_whole():
    env_a(environment={**_of("preload"), **ENV_A})


@in_child()
def env_a():
    import torch

    memory = saver()
    memory.memory_margin_bytes = 3 * MIB
    for last_pause in (True, False):
        default = tensor(12 * MIB, 1)
        with memory.region(tag="grad_buffer", enable_cpu_backup=False):
            grads = tensor(14 * MIB, 2)
        with memory.region(tag="param_buffer", enable_cpu_backup=False):
            params = tensor(16 * MIB, 3)
        # Off means that contents are dropped, whatever the environment says.
        assert [policy(t) for t in (default, grads, params)] == ["host", "discard", "discard"]
        assert [tag(t) for t in (default, grads, params)] == [
            "default",
            "grad_buffer",
            "param_buffer",
        ]
        at_first = free_bytes()
        memory.pause("grad_buffer")
        memory.pause("default")
        torch.cuda.empty_cache()
        with memory.disable():
            assert params[0].item() == 3
            before = free_bytes()
            synced = tensor(40 * MIB, 9)
            assert tag(synced) is None
            del synced
        assert free_bytes() == before
        torch.cuda.empty_cache()
        if last_pause:
            memory.pause("param_buffer")
        memory.resume()
        assert default[-1].item() == 1
        for written in (grads, params):
            written.fill_(7)
        assert free_bytes() == at_first
        del default, grads, params, written
        torch.cuda.empty_cache()


def test_an_actor_reads_what_sleeps_and_copies_it_to_the_device():
    weights_backuper(environment={**_of("preload"), **ENV_A})


@in_child()
def weights_backuper():
    import torch

    memory = saver()
    named = {f"layer {i}": tensor((i + 1) * MIB, i) for i in range(3)}
    memory.pause()
    with memory.disable():
        for i, sleeping in enumerate(named.values()):
            found = memory.get_cpu_backup(sleeping, zero_copy=True)
            source = found if found is not None else sleeping
            there = source.to("cuda", non_blocking=True)
            torch.cuda.synchronize()
            assert there[0].item() == i
            assert tag(there) is None
    memory.resume()
    # None means: read the tensor itself.
    assert all(memory.get_cpu_backup(awake) is None for awake in named.values())


@BOTH
@pytest.mark.parametrize("restore", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_a_library_allocates_between_two_switches(mode: str, restore: bool, fails: bool):
    deep_ep(restore=restore, fails=fails, environment=_of(mode))


@in_child()
def deep_ep(restore: bool, fails: bool):
    import dormant

    memory = saver()

    def bracket() -> None:
        try:
            buffer = DeepEP(restore, fails)
        except ZeroDivisionError:
            assert fails
        else:
            if buffer.memory is not None:
                assert dormant.find(buffer.memory) is None

    bracket()  # Before the first use there is no `_impl`.
    with memory.region("outer", enable_cpu_backup=True):
        before = tensor(2 * MIB)
        with memory.region("x"):
            bracket()
            assert tag(tensor(2 * MIB)) == "x"
            assert memory._impl._binary_wrapper.cdll.tms_get_interesting_region()
        with memory.disable():
            bracket()
        after = tensor(2 * MIB)
        assert (tag(before), policy(before)) == (tag(after), policy(after)) == ("outer", "host")
        raw = foreign_malloc(MIB)
        assert raw is None or dormant.find(raw).tag == "outer" or not dormant_hooks()
    assert not memory._impl._binary_wrapper.cdll.tms_get_interesting_region()
    assert tag(tensor(2 * MIB)) is None


def dormant_hooks() -> bool:
    return saver()._impl._hooked


def test_a_program_opens_the_file_without_suffix_and_switches_by_itself(tmp_path):
    areal(environment=_of("preload"))


@in_child()
def areal():
    import ctypes
    import os

    # The file that is preloaded, as AReaL and Megatron's tests open it: it is the same engine.
    cdll = ctypes.CDLL(os.environ["LD_PRELOAD"])
    with saver().region("a", enable_cpu_backup=True):
        kept = tensor(12 * MIB, 6)
    before = free_bytes()
    assert cdll.tms_pause(b"a") == 0
    assert free_bytes() - before == 12 * MIB
    assert cdll.tms_resume(None) == 0
    assert kept[0].item() == 6
    cdll.tms_set_current_tag(b"raw")
    cdll.tms_set_interesting_region(True)
    raw = tensor(12 * MIB)
    cdll.tms_set_interesting_region(False)
    assert tag(raw) == "raw"
    assert tag(tensor(14 * MIB)) is None


@in_child(quiet=False)
def test_megatron_inference_sets_the_mode_twice_and_once_too_late():
    context = MegatronContext()
    before = free_bytes()
    context.suspend()
    assert free_bytes() - before == 12 * MIB
    context.resume()
    context.memory_buffer.fill_(2)
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append
    logging.getLogger("torch_memory_saver").addHandler(handler)
    saver().hook_mode = "torch"
    assert not records
    saver().hook_mode = "preload"
    assert "comes too late" in records[0].getMessage()
    assert saver().hook_mode == "torch"
    context.suspend()


@in_child()
def test_another_project_puts_its_own_object_in_place():
    import torch_memory_saver

    impl = ForeignImpl()
    modes = patch_as_dynamo(torch_memory_saver, impl)
    memory = torch_memory_saver.torch_memory_saver
    with memory.region(tag="weights", enable_cpu_backup=False), memory.region("kv_cache"):
        pass
    with memory.cuda_graph(cuda_graph=None, tag="cuda_graph"):
        pass
    memory.pause(tag="weights")
    memory.resume("weights")
    assert modes == [None]
    assert impl.calls == [
        ("region", "weights", False),
        ("region", "kv_cache", False),
        ("cuda_graph", "cuda_graph", False),
        ("pause", "weights"),
        ("resume", "weights"),
    ]
    assert memory._impl is impl
    memory.hook_mode = "preload"  # Ours no longer: nothing to say.
    # An explicit mode goes to the original, and a second object is not in its way.
    other = torch_memory_saver.TorchMemorySaver()
    other.hook_mode = "torch"
    with other.region("a"):
        assert tag(tensor(100)) == "a"
    from torch_memory_saver.entrypoint import _TorchMemorySaverImpl

    with _TorchMemorySaverImpl(hook_mode="torch").region(tag="b", enable_cpu_backup=True):
        assert tag(tensor(100)) == "b"
