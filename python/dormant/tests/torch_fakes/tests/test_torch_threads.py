"""Regions on several threads, and in forked children."""

from __future__ import annotations

import os
import threading

from torch_children import in_child


def _bytes(size: int, value: int = 1):
    import torch

    return torch.full((size,), value, dtype=torch.uint8, device="cuda")


def _tag(tensor) -> str | None:
    import dormant

    block = dormant.find(tensor.data_ptr())
    return None if block is None else block.tag


@in_child()
def test_a_thread_inherits_no_region_but_a_carried_one():
    import dormant

    tags: list[str | None] = []

    def plain() -> None:
        tags.append(_tag(_bytes(100)))

    def carried() -> None:
        with carrying.enter():
            tags.append(_tag(_bytes(100)))
        tags.append(_tag(_bytes(100)))

    with dormant.region("a", policy="host"):
        carrying = dormant.carry()
        for work in (plain, carried, carried):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
    assert tags == [None, "a", None, "a", None]


@in_child()
def test_threads_are_in_regions_at_the_same_time():
    import dormant

    both = threading.Barrier(4)
    tags: list[tuple[str, str | None]] = []

    def work(tag: str, reuse: bool) -> None:
        with dormant.region(tag, reuse=reuse):
            both.wait()
            tags.append((tag, _tag(_bytes(100))))
            both.wait()
        both.wait()

    arguments = [("a", True), ("a", True), ("b", False), ("a", False)]
    threads = [threading.Thread(target=work, args=given) for given in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tags) == 4
    assert all(wanted == got for wanted, got in tags)


@in_child()
def test_a_forked_child_leaves_the_region_in_peace():
    import dormant

    with dormant.region("a"):
        kept = _bytes(100, 5)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                region = dormant.region
                status = 0 if region is not None else 1
            finally:
                os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    with dormant.region("b"):
        child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert kept[0].item() == 5
