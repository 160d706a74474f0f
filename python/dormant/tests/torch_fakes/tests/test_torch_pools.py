"""Regions and torch's pools."""

from __future__ import annotations

import threading

import pytest
from torch_children import MIB, in_child


def _torch():
    import torch

    return torch


def _bytes(size: int, value: int = 1, device: str = "cuda"):
    torch = _torch()
    return torch.full((size,), value, dtype=torch.uint8, device=device)


def _tag(tensor) -> str | None:
    import dormant

    block = dormant.find(tensor.data_ptr())
    return None if block is None else block.tag


def _free() -> int:
    return _torch().cuda.mem_get_info()[0]


@in_child()
def test_a_tensor_of_a_region_is_ours_and_one_outside_is_not():
    torch = _torch()
    import dormant

    at_first = _free()
    with dormant.region("a", policy="host"):
        inside = _bytes(12 * MIB)
    outside = _bytes(12 * MIB)
    assert (_tag(inside), _tag(outside)) == ("a", None)
    before = _free()
    dormant.pause("a")
    assert _free() - before == 12 * MIB
    dormant.resume("a")
    assert inside[-1].item() == 1
    del inside, outside
    torch.cuda.empty_cache()
    assert _free() == at_first
    assert dormant.blocks() == ()


@in_child()
def test_each_level_of_nested_regions_gets_its_own_tag():
    import dormant

    with dormant.region("a"):
        first = _bytes(100)
        with dormant.region("b", policy="host"):
            second = _bytes(100)
            with dormant.region("a"):
                third = _bytes(100)
            fourth = _bytes(100)
        with dormant.region("a"):
            fifth = _bytes(100)
        sixth = _bytes(100)
    tags = [_tag(tensor) for tensor in (first, second, third, fourth, fifth, sixth)]
    assert tags == ["a", "b", "a", "b", "a", "a"]
    # Levels with the same settings share one pool, and so one segment.
    assert len(dormant.blocks()) == 2


@in_child()
def test_the_same_tag_with_another_policy_is_another_pool():
    import dormant

    with dormant.region("a"):
        first = _bytes(100)
        with dormant.region("a", policy="host"):
            second = _bytes(100)
    policies = [dormant.find(tensor.data_ptr()).policy.value for tensor in (first, second)]
    assert policies == ["discard", "host"]


@in_child()
def test_a_region_inside_and_around_a_pool_of_the_program():
    torch = _torch()
    import dormant

    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        with dormant.region("a"):
            ours = _bytes(100)
            with dormant.region("b"):
                also = _bytes(100)
        with dormant.disable():
            torchs = _bytes(100)
        theirs = _bytes(100)
    with dormant.region("a"), torch.cuda.use_mem_pool(pool):
        theirs_too = _bytes(100)
    tags = [_tag(tensor) for tensor in (ours, also, torchs, theirs, theirs_too)]
    assert tags == ["a", "b", None, None, None]


@in_child()
def test_an_exception_leaves_each_level():
    import dormant

    with dormant.region("a"):
        with pytest.raises(ZeroDivisionError), dormant.region("b"):
            _ = 1 // 0
        in_a = _bytes(100)
    assert (_tag(in_a), _tag(_bytes(100))) == ("a", None)


@in_child()
def test_memory_of_one_tag_is_never_handed_out_under_another():
    import dormant

    with dormant.region("a"):
        kept = _bytes(100)
        dead = _bytes(100)
    where = dead.data_ptr()
    del dead
    with dormant.region("b"):
        others = [_bytes(100) for _ in range(50)]
    assert where not in [tensor.data_ptr() for tensor in others]
    assert {_tag(tensor) for tensor in others} == {"b"}
    assert _tag(kept) == "a"
    assert _tag(_bytes(100)) is None


@in_child()
def test_memory_that_died_in_a_region_goes_back_when_it_is_left():
    import dormant

    at_first = _free()
    with dormant.region("a"):
        _bytes(40 * MIB)
        with dormant.region("b"):
            _bytes(40 * MIB)
        assert at_first - _free() == 40 * MIB
    assert _free() == at_first
    with dormant.disable():
        _bytes(40 * MIB)
    assert _free() == at_first


@in_child()
def test_a_kept_pool_is_taken_again():
    import dormant

    with dormant.region("a", reuse=True):
        first = _bytes(100)
    with dormant.region("a", reuse=True):
        second = _bytes(100)
        with dormant.region("a", reuse=True):
            third = _bytes(100)
    assert {_tag(tensor) for tensor in (first, second, third)} == {"a"}
    assert len(dormant.blocks()) == 1


@in_child()
def test_tensors_are_freed_while_they_sleep_and_on_another_thread():
    torch = _torch()
    import dormant

    at_first = _free()
    with dormant.region("a", policy="host"):
        doomed = [_bytes(12 * MIB)]
        kept = _bytes(12 * MIB, 7)
    dormant.pause()
    freeing = threading.Thread(target=lambda: (doomed.clear(), torch.cuda.empty_cache()))
    freeing.start()
    freeing.join()
    assert len(dormant.blocks()) == 1
    dormant.resume()
    assert kept[0].item() == 7
    del kept
    torch.cuda.empty_cache()
    assert _free() == at_first


@in_child()
def test_disable_gives_memory_that_does_not_sleep_and_that_stays_valid():
    import dormant

    with dormant.region("a", policy="host"):
        sleeping = _bytes(3 * MIB)
        dead = _bytes(3 * MIB)
        del dead  # Torch may hand it out again, inside the segment that is about to sleep.
    dormant.pause("a")
    with dormant.region("a", policy="host"), dormant.disable():
        awake = _bytes(3 * MIB, 9)
        with dormant.disable():
            nested = _bytes(3 * MIB, 8)
    assert (_tag(awake), _tag(nested)) == (None, None)
    dormant.resume("a")
    assert [t[0].item() for t in (sleeping, awake, nested)] == [1, 9, 8]


@in_child(DORMANT_SIM_DEVICES="2")
def test_both_devices_of_a_program_are_covered():
    torch = _torch()
    import dormant

    _bytes(100, device="cuda:1")
    with dormant.region("a", policy="host"):
        first, second = _bytes(2 * MIB, 3), _bytes(2 * MIB, 4, "cuda:1")
    assert [dormant.find(t.data_ptr()).device for t in (first, second)] == [0, 1]
    with torch.cuda.device(1):
        dormant.pause()
    dormant.resume()
    assert [t[0].item() for t in (first, second)] == [3, 4]
    assert torch.cuda.current_device() == 0


@in_child()
def test_too_little_memory_is_torchs_own_error():
    torch = _torch()
    import dormant

    with dormant.region("a"):
        with pytest.raises(torch.cuda.OutOfMemoryError):
            _bytes(400 * MIB)
        assert _tag(_bytes(100)) == "a"


@in_child()
def test_backward_runs_on_this_thread_where_asked_for():
    torch = _torch()
    import dormant

    with dormant.region("a", backward=True):
        assert not torch.autograd.is_multithreaded
    assert torch.autograd.is_multithreaded
    with dormant.region("a"):
        assert torch.autograd.is_multithreaded


@in_child()
def test_more_settings_than_torch_can_be_given_is_an_error_that_changes_nothing():
    import dormant

    for number in range(128):
        with dormant.region(f"tag {number}"):
            pass
    with pytest.raises(dormant.NotSupportedError), dormant.region("one more"):
        pass
    with dormant.region("tag 5"):
        assert _tag(_bytes(100)) == "tag 5"
    assert _tag(_bytes(100)) is None


@in_child()
def test_regions_that_are_left_in_the_wrong_order_leave_a_sound_state():
    import dormant

    outer, inner = dormant.region("a"), dormant.region("b")
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    assert _tag(_bytes(100)) is None
    with pytest.raises(dormant.WrongStateError):
        inner.__exit__(None, None, None)
    with dormant.region("c"):
        assert _tag(_bytes(100)) == "c"
    assert _tag(_bytes(100)) is None


@in_child()
def test_little_that_dies_in_many_regions_does_not_add_up():
    import dormant

    at_first = _free()
    for _ in range(20):
        with dormant.region("a"):
            _bytes(4 * MIB)
        with dormant.disable():
            _bytes(4 * MIB)
    assert at_first - _free() < 64 * MIB


@in_child()
def test_pools_that_were_left_are_forgotten_in_time():
    import dormant

    from torch import _caching

    for _ in range(2500):
        with dormant.region("a"):
            pass
    assert len(_caching.of(0).pools) <= 1000
