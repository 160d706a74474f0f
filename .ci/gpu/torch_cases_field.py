"""How the frameworks call it, and settings of torch."""

from __future__ import annotations

import ctypes
import time
from typing import Any

from torch_case_tools import (
    GIB,
    MIB,
    Skipped,
    case,
    free_bytes,
    holds,
    near,
    size,
    tensor,
    torch,
    warm,
)

ENV_A = {"TMS_INIT_ENABLE": "1", "TMS_INIT_ENABLE_CPU_BACKUP": "1"}


def paused_or_named(api: Any) -> None:
    """Free memory rises by all that is paused, or an error names the setting."""
    try:
        with api.region("a"):
            kept = tensor(size(GIB))
    except api.error as error:
        assert "expandable_segments" in str(error), error
        print(f"note: {type(error).__name__}")
        return
    before = free_bytes()
    api.pause("a")
    assert near(free_bytes() - before, size(GIB)), "the pause gave nothing back"
    api.resume("a")
    kept.fill_(2)
    assert holds(kept, 2)
    print("note: it is honoured")


@case("F14 PYTORCH_ALLOC_CONF", fresh=True, PYTORCH_ALLOC_CONF="expandable_segments:True")
def by_alloc_conf(api: Any) -> None:
    paused_or_named(api)


@case(
    "F14 PYTORCH_CUDA_ALLOC_CONF, with blanks",
    modes=("torch",),
    apis=("dormant",),
    fresh=True,
    PYTORCH_CUDA_ALLOC_CONF=" expandable_segments : True , max_split_size_mb:128",
)
def by_cuda_alloc_conf(api: Any) -> None:
    paused_or_named(api)


@case("F14 at run time")
def at_run_time(api: Any) -> None:
    tensor(MIB)
    put = getattr(torch()._C, "_accelerator_setAllocatorSettings", None)
    (put or torch().cuda.memory._set_allocator_settings)("expandable_segments:True")
    paused_or_named(api)


@case(
    "F14 in a process that is pausable as a whole",
    modes=("preload",),
    apis=("drop-in",),
    fresh=True,
    PYTORCH_ALLOC_CONF="expandable_segments:True",
    **ENV_A,
)
def as_a_whole(api: Any) -> None:
    try:
        api.pause()
    except api.error as error:
        assert "expandable_segments" in str(error), error
    else:
        raise AssertionError("a pause of nothing")


@case("F19 miles' actor", modes=("preload",), apis=("drop-in",), **ENV_A)
def actor(api: Any) -> None:
    api.saver.memory_margin_bytes = size(GIB)
    for last_pause in (True, False):
        default = tensor(size(GIB), 1)
        with api.region("grad_buffer"):
            grads = tensor(size(GIB), 2)
        with api.region("param_buffer"):
            params = tensor(size(GIB), 3)
        assert [api.tag(t) for t in (default, grads)] == ["default", "grad_buffer"]
        api.pause("grad_buffer")
        api.pause("default")
        torch().cuda.empty_cache()
        with api.disable():
            assert params[0].item() == 3
            before = free_bytes()
            tensor(size(2 * GIB), 9)
        assert near(free_bytes(), before, 32 * MIB)
        if last_pause:
            api.pause("param_buffer")
        api.resume()
        assert holds(default, 1)
        for written in (grads, params):
            written.fill_(7)
            assert holds(written, 7)
        del default, grads, params, written
        torch().cuda.empty_cache()


@case("F21 SGLang's three tags")
def three_tags(api: Any) -> None:
    warm(api)
    at_first = free_bytes()
    with api.region("weights", keep=True):
        weights = tensor(size(GIB), 3)
    with api.region("kv_cache"):
        cache = tensor(size(2 * GIB), 4)
    with api.region("cuda_graph", keep=True):
        static = tensor(size(256 * MIB), 5)
    with api.region("cuda_graph"):
        scratch = tensor(size(256 * MIB), 6)
    used = at_first - free_bytes()
    for _cycle in range(2):
        for tag in ("kv_cache", "weights", "cuda_graph"):
            api.pause(tag)
        assert near(free_bytes(), at_first)
        for tag in ("cuda_graph", "weights", "kv_cache"):
            api.resume(tag)
        assert near(at_first - free_bytes(), used)
        assert holds(weights, 3)
        assert holds(static, 5)
        for lost in (cache, scratch):
            lost.fill_(1)
    api.pause()
    api.resume("weights")
    assert holds(weights, 3)
    api.resume()
    assert holds(static, 5)


def foreign(nbytes: int) -> int | None:
    """The runtime's own allocation function, as a library calls it."""
    place = ctypes.c_void_p()
    try:
        code = ctypes.CDLL(None).cudaMalloc(ctypes.byref(place), ctypes.c_size_t(nbytes))
    except AttributeError:
        return None
    assert code == 0, f"cudaMalloc answered {code}"
    return place.value


@case("F22 a library between two switches", apis=("drop-in",))
def switches(api: Any) -> None:
    tensor(MIB)

    def library(unconditional: bool, fails: bool) -> None:
        cdll = api.saver._impl._binary_wrapper.cdll
        before = cdll.tms_get_interesting_region()
        cdll.tms_set_interesting_region(False)
        try:
            address = foreign(2 * MIB)
            assert address is None or api.module.find(address) is None
            if fails:
                raise ZeroDivisionError
        finally:
            cdll.tms_set_interesting_region(True if unconditional else before)

    for unconditional in (True, False):
        for fails in (True, False):
            with api.region("outer", keep=True):
                for inner in (api.region("x"), api.disable()):
                    try:
                        with inner:
                            library(unconditional, fails)
                    except ZeroDivisionError:
                        assert fails
                made = tensor(3 * MIB)
                cdll = api.saver._impl._binary_wrapper.cdll
                assert cdll.tms_get_current_tag() == b"outer"
                assert cdll.tms_get_enable_cpu_backup()
            block = api.module.find(made.data_ptr())
            assert (block.tag, block.policy.value) == ("outer", "host")
            assert not cdll.tms_get_interesting_region()


@case("a zero-copy backup moves at the link's speed")
def backup_speed(api: Any) -> None:
    nbytes = size(4 * GIB)
    with api.region("w", keep=True):
        weights = tensor(nbytes, 3)
    target = tensor(nbytes, 0)
    api.pause("w")
    saved = api.backup(weights, zero_copy=True)
    rates = []
    for _ in range(3):
        begun = time.monotonic()
        target.copy_(saved)
        torch().cuda.synchronize()
        rates.append(nbytes / GIB / (time.monotonic() - begun))
    assert holds(target, 3)
    del saved
    api.resume("w")
    assert holds(weights, 3)
    print(f"note: {max(rates):.1f} GiB/s, first {rates[0]:.1f}")


@case("one engine behind every file", modes=("preload",), apis=("dormant",))
def one_engine(api: Any) -> None:
    try:
        from torch_memory_saver import torch_memory_saver as saver
        from torch_memory_saver.utils import get_binary_path_from_package
    except ImportError:
        raise Skipped("the drop-in is not installed") from None
    warm(api)
    with saver.region("a", enable_cpu_backup=True):
        kept = tensor(size(GIB), 4)
    before = free_bytes()
    api.pause("a")
    assert near(free_bytes() - before, size(GIB))
    for mode in ("preload", "torch"):
        path = get_binary_path_from_package(f"torch_memory_saver_hook_mode_{mode}")
        assert ctypes.CDLL(str(path)).tms_resume(b"a") == 0
    assert holds(kept, 4)
