"""Captured graphs whose memory sleeps."""

from __future__ import annotations

import gc

import pytest
from torch_children import MIB, in_child


def _tags() -> dict[str, int]:
    import dormant

    return {block.tag: block.bytes for block in dormant.blocks()}


def _captured(**settings):
    """A graph with a temporary: out = 3 * x."""
    import dormant.torch

    import torch

    x = torch.full((1000,), 5, dtype=torch.int32, device="cuda")
    out = torch.zeros(1000, dtype=torch.int32, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with dormant.torch.graph(graph, **settings):
        temporary = x * 3
        out.copy_(temporary)
    return graph, x, out, temporary


@in_child()
def test_a_replay_after_a_pause_gives_the_right_output_at_the_same_address():
    import dormant

    import torch

    graph, x, out, temporary = _captured(tag="graph")
    address = temporary.data_ptr()
    del temporary
    graph.replay()
    assert out[0].item() == 15
    report = dormant.pause("graph")
    assert report.moved.bytes == 2 * MIB
    assert torch.cuda.mem_get_info()[0] == torch.cuda.mem_get_info()[1] - 2 * MIB
    dormant.resume("graph")
    assert dormant.find(address).tag == "graph"
    x.fill_(6)
    graph.replay()
    assert out[0].item() == 18


@in_child()
def test_the_graphs_memory_lives_as_long_as_the_graph():
    import torch

    graph, _x, _out, temporary = _captured(tag="graph", policy="host")
    del temporary
    torch.cuda.empty_cache()
    assert _tags() == {"graph": 2 * MIB}
    del graph
    gc.collect()
    torch.cuda.empty_cache()
    assert _tags() == {}


@in_child()
def test_graphs_share_the_pool_of_another_graph():
    import dormant.torch

    import torch

    first, x, out, temporary = _captured(tag="graph")
    del temporary
    second = torch.cuda.CUDAGraph()
    with dormant.torch.graph(second, tag="graph", pool=first.pool()):
        out.copy_(x * 4)
    assert _tags() == {"graph": 2 * MIB}
    del first
    gc.collect()
    torch.cuda.empty_cache()
    second.replay()
    assert out[0].item() == 20


@in_child()
def test_a_pool_of_the_programs_own_is_used_as_it_is():
    import torch

    handle = torch.cuda.graph_pool_handle()
    _graph, _x, _out, temporary = _captured(tag="graph", pool=handle)
    assert _tags() == {}
    assert _graph.pool() == handle
    assert temporary.is_cuda


@in_child()
def test_a_pool_of_ours_stands_for_one_of_the_programs():
    import dormant.torch

    import torch

    handle = torch.cuda.graph_pool_handle()
    graphs = []
    for _ in range(2):
        graph = torch.cuda.CUDAGraph()
        pool = dormant.torch.capture_pool(graph, handle, tag="graph", policy="host")
        with dormant.torch.graph(graph, tag="graph", policy="host", pool=pool):
            torch.zeros(1000, device="cuda")
        graphs.append(graph)
    assert _tags() == {"graph": 2 * MIB}
    ours = graphs[0].pool()
    assert dormant.torch.capture_pool(graph, ours, tag="graph", policy="host") == ours
    graphs.clear()
    del graph
    gc.collect()
    torch.cuda.empty_cache()
    assert _tags() == {}
    # The handle may be used again after all of its graphs are gone.
    graph = torch.cuda.CUDAGraph()
    pool = dormant.torch.capture_pool(graph, handle, tag="graph", policy="host")
    with dormant.torch.graph(graph, tag="graph", policy="host", pool=pool):
        torch.zeros(1000, device="cuda")
    assert _tags() == {"graph": 2 * MIB}


@in_child()
def test_a_pause_during_a_capture_is_refused_and_breaks_nothing():
    import dormant.torch

    import torch

    out = torch.zeros(10, dtype=torch.int32, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with dormant.torch.graph(graph, tag="graph"):
        with pytest.raises(dormant.BusyError):
            dormant.pause()
        out.fill_(3)
    graph.replay()
    assert out[0].item() == 3
    dormant.pause()


@in_child()
def test_a_capture_inside_a_region_and_a_region_inside_a_capture():
    import dormant.torch

    import torch

    graph = torch.cuda.CUDAGraph()
    with dormant.region("outer"):
        before = torch.zeros(10, device="cuda")
        with dormant.torch.graph(graph, tag="graph"):
            inside = torch.zeros(10, device="cuda")
            with dormant.region("graph"):
                same = torch.zeros(10, device="cuda")
            with dormant.region("inner"):
                dead = torch.zeros(10, device="cuda")
                del dead
        after = torch.zeros(10, device="cuda")
    tags = [dormant.find(t.data_ptr()).tag for t in (before, inside, same, after)]
    assert tags == ["outer", "graph", "graph", "outer"]
    # What the capture wrote to is there for as long as it may be replayed.
    torch.cuda.empty_cache()
    assert "inner" in _tags()
    graph.replay()


@in_child()
def test_a_graph_dies_inside_a_region():
    import dormant

    import torch

    graph, _x, _out, _temporary = _captured(tag="graph")
    with dormant.region("a"):
        del graph, _temporary
        gc.collect()
        kept = torch.zeros(10, device="cuda")
    torch.cuda.empty_cache()
    assert set(_tags()) == {"a"}
    assert kept.is_cuda


@in_child()
def test_an_exception_inside_a_capture_leaves_everything():
    import dormant.torch

    import torch

    with pytest.raises(ZeroDivisionError), dormant.torch.graph(torch.cuda.CUDAGraph(), tag="graph"):
        _ = 1 // 0
    assert not torch.cuda.is_current_stream_capturing()
    assert dormant.find(torch.zeros(1, device="cuda").data_ptr()) is None
    dormant.pause()
