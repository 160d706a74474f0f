"""Saved contents of paused tensors, as tensors."""

from __future__ import annotations

import ctypes
from typing import Any

from .. import _memory
from .._backup import backup
from ..errors import InvalidArgumentError, WrongStateError
from . import _access


def tensor_backup(tensor: Any, zero_copy: bool = False) -> Any | None:
    """What was saved of a paused tensor, as a CPU tensor of the same type, shape and strides.

    ``None`` where the tensor's memory is active, or not ours: then the tensor itself can be read.
    ``WrongStateError`` where it is paused and nothing was saved; the text names tag and policy.

    With ``zero_copy`` the tensor lies over the saved bytes themselves, registered for copies to a
    device: it stays as it is after a resume, takes host memory for as long as it lives, is not
    inherited by a forked child, and must not be written.
    """
    torch = _access.module()
    if not tensor.is_cuda:
        return None
    empty = tensor.numel() == 0
    # A tensor without elements has no address of its own.
    address = tensor.untyped_storage().data_ptr() if empty else tensor.data_ptr()
    block = _memory.find(address) if address else None
    if block is None or block.state == "active":
        return None
    for bit in ("is_conj", "is_neg"):
        if getattr(tensor, bit, bool)():
            raise InvalidArgumentError(
                f"{bit}() is true of this tensor: its bytes are not its values; give the tensor "
                "that it is a view of"
            )
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    if empty:
        return torch.empty_strided(shape, strides, dtype=tensor.dtype)
    count = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides))
    flat = _elements(torch, tensor, address, count, zero_copy)
    if flat is None:
        return None
    if not zero_copy:
        flat = flat.clone()
    return flat.as_strided(shape, strides)


def _elements(torch: Any, tensor: Any, address: int, count: int, register: bool) -> Any | None:
    """``count`` saved elements, over the lease; ``None`` if the block has just been resumed."""
    try:
        lease = backup(address)
    except WrongStateError:
        block = _memory.find(address)
        if block is None or block.state == "active":
            return None
        raise
    nbytes = count * tensor.element_size()
    if nbytes > lease.nbytes:
        raise InvalidArgumentError(
            f"the tensor takes {nbytes} bytes, and its block ends after {lease.nbytes}",
            address=address,
        )
    if register:
        lease.register()  # A refusal makes copies slower, and nothing else.
    array = (ctypes.c_ubyte * nbytes).from_address(lease.address)
    # The tensor keeps the array, and the array the lease.
    array.__dict__["lease"] = lease
    return torch.frombuffer(array, dtype=tensor.dtype, count=count)
