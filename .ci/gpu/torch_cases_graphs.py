"""Captured graphs, the end of the interpreter, and the loop of an RL job."""

from __future__ import annotations

import gc
from typing import Any

from torch_case_tools import (
    GIB,
    MIB,
    Skipped,
    case,
    checksum,
    free_bytes,
    holds,
    near,
    size,
    tensor,
    torch,
)


def captured(api: Any, x: Any, out: Any, **more: Any) -> Any:
    """A graph with a big temporary: out = 3 * x."""
    graph = torch().cuda.CUDAGraph()
    with api.graph(graph, tag="cuda_graph", **more):
        temporary = x * 3
        out.copy_(temporary)
    return graph


@case("F15 a captured graph sleeps")
def graph_sleeps(api: Any) -> None:
    x, out = tensor(size(GIB), 5), tensor(size(GIB), 0)
    x * 3  # Torch's own first-use work is not to be captured.
    torch().cuda.synchronize()
    graph = captured(api, x, out)
    address, taken = out.data_ptr(), api.tagged_bytes("cuda_graph")
    assert taken >= size(GIB), f"the tag has {taken} bytes"
    graph.replay()
    assert holds(out, 15)
    before = free_bytes()
    api.pause("cuda_graph")
    assert near(free_bytes() - before, taken)
    with api.disable():
        tensor(size(GIB), 9)
    api.resume("cuda_graph")
    x.fill_(6)
    graph.replay()
    assert holds(out, 18)
    assert out.data_ptr() == address
    del graph
    gc.collect()
    torch().cuda.empty_cache()
    assert api.tagged_bytes("cuda_graph") == 0


@case("F15 graphs share the pool that the program names")
def graphs_share(api: Any) -> None:
    x, out = tensor(size(256 * MIB), 5), tensor(size(256 * MIB), 0)
    x * 3
    torch().cuda.synchronize()
    handle = torch().cuda.graph_pool_handle()
    if api.name == "dormant":
        first = captured(api, x, out)
        handle = first.pool()
    graphs = [captured(api, x, out, pool=handle) for _ in range(3)]
    taken = api.tagged_bytes("cuda_graph")
    assert size(256 * MIB) <= taken < 2 * size(256 * MIB) + 64 * MIB, f"{taken} bytes"
    api.pause("cuda_graph")
    api.resume("cuda_graph")
    for graph in graphs:
        out.zero_()
        graph.replay()
        assert holds(out, 15)


@case("F15 a captured backward", apis=("dormant",))
def captured_backward(api: Any) -> None:
    if not hasattr(torch(), "nn"):
        raise Skipped("this torch has no autograd")
    layer = torch().nn.Linear(1024, 1024, device="cuda")
    x = torch().ones(4096, 1024, device="cuda")
    side = torch().cuda.Stream()
    with torch().cuda.stream(side):
        for _ in range(3):
            layer.zero_grad(set_to_none=True)
            layer(x).square().sum().backward()
    torch().cuda.current_stream().wait_stream(side)
    expected = layer.weight.grad.clone()
    layer.zero_grad(set_to_none=True)
    graph = torch().cuda.CUDAGraph()
    with api.graph(graph, tag="cuda_graph"):
        layer(x).square().sum().backward()
    # The gradient was made on autograd's own thread, in the capture's pool.
    assert api.tag(layer.weight.grad) == "cuda_graph"
    api.pause("cuda_graph")
    api.resume("cuda_graph")
    graph.replay()
    torch().cuda.synchronize()
    assert torch().allclose(layer.weight.grad, expected, rtol=1e-3)


@case("a pause during a capture is refused")
def pause_in_capture(api: Any) -> None:
    out = tensor(MIB, 0)
    out.fill_(1)
    graph = torch().cuda.CUDAGraph()
    refused = False
    with api.graph(graph, tag="cuda_graph"):
        try:
            api.pause()
        except api.module.BusyError:
            refused = True
        out.fill_(3)
    graph.replay()
    assert refused
    assert holds(out, 3)


_until_the_end: list[Any] = []


@case("F17 the interpreter ends in the middle of it")
def interpreter_ends(api: Any) -> None:
    x, out = tensor(size(GIB), 5), tensor(size(GIB), 0)
    x * 3
    torch().cuda.synchronize()
    graph = captured(api, x, out)
    with api.region("asleep", keep=True):
        asleep = tensor(size(GIB))
    with api.region("awake", keep=True):
        awake = tensor(size(GIB))
    api.pause("asleep")
    _until_the_end.extend([graph, x, out, asleep, awake, api.backup(asleep, zero_copy=True)])
    entered = api.region("left open")
    entered.__enter__()
    _until_the_end.append(entered)


class Rollout:
    """Weights that are synced in, a cache, and a captured step."""

    def __init__(self, api: Any, nbytes: int) -> None:
        self.api = api
        with api.region("weights"):
            self.weights = tensor(nbytes, 0)
        with api.region("kv_cache"):
            self.cache = tensor(4 * nbytes, 0)
        self.out = tensor(nbytes, 0)
        self.weights * 3
        torch().cuda.synchronize()
        self.graph = captured(api, self.weights, self.out)

    def sleep(self) -> None:
        for tag in ("kv_cache", "weights", "cuda_graph"):
            self.api.pause(tag)

    def wake(self) -> None:
        for tag in ("cuda_graph", "weights", "kv_cache"):
            self.api.resume(tag)


def turns(api: Any, count: int) -> None:
    """A trainer and a rollout engine share the GPU and take turns."""
    nbytes = size(GIB)
    with api.region("trainer", keep=True):
        weights = tensor(nbytes, 1)
        optimizer = [tensor(nbytes, 10), tensor(nbytes, 20)]
    rollout = Rollout(api, nbytes)
    rollout.sleep()
    readings = []
    for turn in range(count):
        # Training.
        weights.add_(1)
        for state in optimizer:
            state.add_(2)
        value = turn + 2
        assert holds(weights, value), f"turn {turn}: weights"
        api.pause("trainer")
        torch().cuda.empty_cache()
        # Weights go over while the trainer sleeps.
        api.resume("weights")
        with api.disable():
            saved = api.backup(weights, zero_copy=turn % 2 == 0)
            rollout.weights.copy_(saved)
            torch().cuda.synchronize()
            del saved
        rollout.wake()
        rollout.cache.fill_(turn)
        rollout.graph.replay()
        assert holds(rollout.out, 3 * value), f"turn {turn}: output"
        assert checksum(rollout.weights) == value * nbytes, f"turn {turn}: synced weights"
        readings.append(free_bytes())
        rollout.sleep()
        api.resume("trainer")
        assert [holds(s, f + 2 * (turn + 1)) for s, f in zip(optimizer, (10, 20))] == [True, True]
    assert max(readings[2:]) - min(readings[2:]) <= 64 * MIB, f"free bytes: {readings}"
    first, last = readings[2], readings[-1]
    assert near(first, last, 16 * MIB), f"free bytes: {readings}"
    stats = api.module.stats()
    assert (stats.failed_frees, stats.leaked_handles, stats.leaked_ranges) == (0, 0, 0), stats


@case("RL: twenty turns, nothing preloaded", modes=("torch",), apis=("dormant",))
def turns_torch(api: Any) -> None:
    turns(api, 20)


@case("RL: twenty turns, preloaded", modes=("preload",), apis=("drop-in",))
def turns_preload(api: Any) -> None:
    turns(api, 20)
