"""What was saved of a tensor, as a tensor."""

from __future__ import annotations

import gc

import pytest
from torch_children import MIB, in_child


def _region(policy: str = "host"):
    import dormant

    return dormant.region("weights", policy=policy)


@pytest.mark.parametrize("zero_copy", [False, True])
def test_a_copy_and_the_saved_bytes_themselves(zero_copy: bool):
    contents(zero_copy=zero_copy)


@in_child()
def contents(zero_copy: bool):
    import dormant.torch

    import torch

    def backup(tensor):
        return dormant.torch.tensor_backup(tensor, zero_copy)

    with _region():
        numbers = torch.arange(24, dtype=torch.int32, device="cuda").view(2, 3, 4)
        halves = torch.full((10,), 7, dtype=torch.bfloat16, device="cuda")
        big = torch.full((3 * MIB,), 9, dtype=torch.uint8, device="cuda")
    before = numbers.cpu()
    assert backup(numbers) is None
    dormant.pause()
    saved = backup(numbers)
    assert (saved.dtype, saved.shape, saved.device.type) == (torch.int32, (2, 3, 4), "cpu")
    assert torch.equal(saved, before)
    assert torch.equal(backup(numbers[1]), before[1])
    assert torch.equal(backup(numbers[:2]), before[:2])
    turned = numbers[0].t()
    assert backup(turned).stride() == turned.stride()
    assert torch.equal(backup(turned), before[0].t())
    assert backup(numbers[1][2][3]).item() == 23
    assert backup(halves).dtype == torch.bfloat16
    assert backup(big)[-1].item() == 9
    empty = backup(numbers[0][0][4:])
    assert (empty.shape, empty.device.type) == ((0,), "cpu")
    dormant.resume()
    assert backup(numbers) is None
    assert torch.equal(saved, before)


@pytest.mark.parametrize("bit", ["is_conj", "is_neg"])
def test_a_view_whose_bytes_are_not_its_values_is_refused(bit: str):
    lazy_view(bit=bit)


@in_child()
def lazy_view(bit: str):
    import dormant.torch

    import torch

    with _region():
        numbers = torch.arange(24, dtype=torch.int32, device="cuda")
    setattr(type(numbers), bit, lambda _tensor: True)
    assert dormant.torch.tensor_backup(numbers) is None, "it can be read"
    dormant.pause()
    with pytest.raises(dormant.InvalidArgumentError, match=bit):
        dormant.torch.tensor_backup(numbers)


@in_child()
def test_zero_copy_lies_over_the_lease_and_holds_it():
    import dormant.torch

    import torch

    with _region():
        tensor = torch.full((2 * MIB,), 3, dtype=torch.uint8, device="cuda")
    dormant.pause()
    one, other = (dormant.torch.tensor_backup(tensor, zero_copy=True) for _ in range(2))
    assert one.data_ptr() == other.data_ptr()
    assert one.data_ptr() != dormant.torch.tensor_backup(tensor).data_ptr()
    view = one[5:]
    del one, other
    dormant.resume()
    tensor.fill_(4)
    del tensor
    torch.cuda.empty_cache()
    gc.collect()
    assert view[0].item() == 3
    assert dormant.stats().host_backup_bytes > 0
    del view
    gc.collect()
    assert dormant.stats().host_backup_bytes == 0


@in_child()
def test_only_active_and_foreign_memory_has_none():
    import dormant.torch

    import torch

    foreign = torch.zeros(10, device="cuda")
    assert dormant.torch.tensor_backup(foreign) is None
    assert dormant.torch.tensor_backup(torch.zeros(10)) is None
    assert dormant.torch.tensor_backup(torch.empty(0, device="cuda")) is None
    with _region("discard"):
        lost = torch.zeros(10, device="cuda")
    assert dormant.torch.tensor_backup(lost) is None
    dormant.pause()
    assert dormant.torch.tensor_backup(foreign) is None
    with pytest.raises(dormant.WrongStateError) as raised:
        dormant.torch.tensor_backup(lost)
    assert "weights" in str(raised.value)
    assert "discard" in str(raised.value)
