"""Blocks, tags and pools."""

from __future__ import annotations

import threading
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
    slack,
    tensor,
    torch,
    warm,
)

ENV_A = {"TMS_INIT_ENABLE": "1", "TMS_INIT_ENABLE_CPU_BACKUP": "1"}


@case("F1 freed while asleep")
def freed_while_asleep(api: Any) -> None:
    warm(api)
    at_first = free_bytes()
    with api.region("default", keep=True):
        a, b = tensor(size(GIB), 1), tensor(size(GIB), 2)
    api.pause()
    del a
    torch().cuda.empty_cache()
    api.resume()
    assert holds(b, 2)
    b.fill_(3)
    assert holds(b, 3)
    assert near(at_first - free_bytes(), size(GIB)), "A's bytes came back"
    del b
    torch().cuda.empty_cache()
    assert near(free_bytes(), at_first)


@case("F2 the nightly failure", modes=("preload",), apis=("drop-in",), **ENV_A)
def nightly(api: Any) -> None:
    warm(api)
    kept = [tensor(size(96 * MIB) + 4096 * i, i) for i in range(6)]
    dropped = [tensor(size(32 * MIB), 9) for _ in range(8)]
    dropped.clear()
    for _round in range(3):
        before, taken = free_bytes(), torch().cuda.memory_reserved()
        api.pause()
        assert free_bytes() - before >= taken - slack(), f"{taken}, and {free_bytes() - before}"
        torch().cuda.empty_cache()
        with api.disable():
            tensor(size(5 * GIB))
        assert free_bytes() - before >= taken - slack(), f"{taken}, and {free_bytes() - before}"
        api.resume()
        assert all(holds(one, i) for i, one in enumerate(kept))


@case("F3 odd sizes")
def odd_sizes(api: Any) -> None:
    sizes = [0, 1, 128, 6912, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 3 * MIB]
    with api.region("w", keep=True):
        tensors = [tensor(nbytes, 0) for nbytes in sizes]
    for i, one in enumerate(tensors):
        if sizes[i]:
            one[0:1].fill_(i + 1)
            one[-1:].fill_(100 + i)
    api.pause()
    api.resume()
    for i, one in enumerate(tensors):
        if sizes[i]:
            assert int(one[0].item()) in (i + 1, 100 + i)
            assert one[-1].item() == 100 + i
    tensors.clear()
    torch().cuda.empty_cache()
    addresses = [api.module.allocate(nbytes or 1, tag="raw", policy="host") for nbytes in sizes]
    for address in addresses:
        api.module.free(address)
    api.module.free(0)


@case("F5 twice, and unknown tags")
def twice(api: Any) -> None:
    with api.region("a", keep=True):
        a = tensor(size(GIB), 1)
    with api.region("b", keep=True):
        b = tensor(size(GIB), 2)
    for step in ("a", "a", None):
        api.pause(step)
    for step in ("a", "a", "unknown", None):
        api.resume(step)
    assert holds(a, 1)
    assert holds(b, 2)


@case("F6 levels and an exception")
def levels(api: Any) -> None:
    def fails() -> None:
        with api.region("b", keep=True):
            made.append(tensor(MIB))
            raise ZeroDivisionError

    made: list[Any] = []
    with api.region("a"):
        try:
            fails()
        except ZeroDivisionError:
            pass
        made.append(tensor(MIB))
        with api.region("b", keep=True), api.region("a"):
            made.append(tensor(MIB))
    made.append(tensor(MIB))
    assert [api.tag(one) for one in made] == ["b", "a", "a", None]


@case("F7 freed on another thread")
def other_thread(api: Any) -> None:
    tensor(MIB)
    at_first = free_bytes()
    with api.region("a"):
        held = [tensor(size(GIB))]
    thread = threading.Thread(target=lambda: (held.clear(), torch().cuda.empty_cache()))
    thread.start()
    thread.join()
    assert near(free_bytes(), at_first)


@case("F9 work in flight")
def in_flight(api: Any) -> None:
    with api.region("a", keep=True):
        a = tensor(size(GIB), 0)
    stream = torch().cuda.Stream()
    torch().cuda.synchronize()
    with torch().cuda.stream(stream):
        torch().cuda._sleep(1_500_000_000)
        a.fill_(7)
    api.pause()
    api.resume()
    assert holds(a, 7)


@case("F18 too little memory")
def too_little(api: Any) -> None:
    total = torch().cuda.mem_get_info()[1]
    with api.region("a", keep=True):
        try:
            tensor(2 * total)
        except torch().cuda.OutOfMemoryError:
            pass
        else:
            raise AssertionError("no error")
        small = tensor(size(GIB), 5)
    api.pause()
    api.resume()
    assert holds(small, 5)


@case("pools end in the middle of others")
def pools_end(api: Any) -> None:
    outer = torch().cuda.MemPool()
    kept = []
    with torch().cuda.use_mem_pool(outer):
        with api.region("a"):
            kept.append(tensor(3 * MIB))
            with api.region("b"), api.disable():
                kept.append(tensor(3 * MIB))
            tensor(3 * MIB)
        kept.append(tensor(3 * MIB))
        torch().cuda.empty_cache()
    with api.region("a"), torch().cuda.use_mem_pool(outer), api.region("b"):
        kept.append(tensor(3 * MIB))
    assert [api.tag(one) for one in kept] == ["a", None, None, "b"]


@case("pools end while another thread allocates")
def pools_end_beside_others(api: Any) -> None:
    stop = threading.Event()
    wrong: list[Any] = []

    def work(tag: str) -> None:
        while not stop.is_set():
            with api.region(tag):
                if api.tag(tensor(3 * MIB)) != tag:
                    wrong.append(tag)

    threads = [threading.Thread(target=work, args=(f"tag {i}",)) for i in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(100):
        with api.region("main"), api.disable():
            if api.tag(tensor(3 * MIB)) is not None:
                wrong.append("main")
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


@case("what died in a region goes back when it is left")
def given_back(api: Any) -> None:
    tensor(MIB)
    at_first = free_bytes()
    with api.region("a"):
        tensor(size(4 * GIB))
    assert near(free_bytes(), at_first)
    with api.disable():
        tensor(size(4 * GIB))
    assert near(free_bytes(), at_first)


@case("a carried region, and a backward in one", apis=("dormant",))
def carried_and_backward(api: Any) -> None:
    tags: list[Any] = []
    with api.region("a"):
        carried = api.module.carry()

    def work() -> None:
        tags.append(api.tag(tensor(MIB)))
        with carried.enter():
            tags.append(api.tag(tensor(MIB)))

    with api.region("a"):
        carried = api.module.carry()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert tags == [None, "a"]
    if not hasattr(torch(), "nn"):
        raise Skipped("this torch has no autograd")
    with api.region("grads", backward=True):
        weight = torch().zeros(4 * MIB, device="cuda", requires_grad=True)
        (weight * 2).sum().backward()
    assert api.tag(weight.grad) == "grads"


@case("a pool that is kept", apis=("dormant",))
def kept_pool(api: Any) -> None:
    kept = []
    for _ in range(200):
        with api.region("a", reuse=True):
            kept.append(tensor(1000))
    assert {api.tag(one) for one in kept} == {"a"}
    assert api.tagged_bytes("a") <= 4 * MIB


@case("F10 two devices")
def two_devices(api: Any) -> None:
    if torch().cuda.device_count() < 2:
        raise Skipped("one device")
    made = []
    for device in range(2):
        with torch().cuda.device(device):
            tensor(MIB)
    with api.region("a", keep=True):
        for device in range(2):
            made.append(
                torch().full((size(GIB),), 3 + device, dtype=torch().uint8, device=f"cuda:{device}")
            )
    before = [torch().cuda.mem_get_info(device)[0] for device in range(2)]
    with torch().cuda.device(1):
        api.pause("a")
        assert torch().cuda.current_device() == 1
    for device in range(2):
        assert near(torch().cuda.mem_get_info(device)[0] - before[device], size(GIB))
    api.resume("a")
    assert torch().cuda.current_device() == 0
    assert [checksum(one) // one.nbytes for one in made] == [3, 4]
