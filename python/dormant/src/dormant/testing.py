"""Test your own pausing without a GPU, on a simulated device.

Its memory is real memory of the process: NumPy reads and writes it in place while it is active, and
touching it while it is paused ends the process with SIGSEGV, as a GPU's illegal access would end
your job. :class:`SimArray` looks first and raises instead::

    import numpy, pytest, dormant

    def test_weights_survive_a_nap(dormant_sim):
        weights = dormant_sim.array((1024, 1024), numpy.float32, tag="weights", policy="host")
        weights.array[:] = 1
        dormant.pause("weights")
        with pytest.raises(dormant.WrongStateError):
            weights.array
        dormant.resume("weights")
        assert (weights.array == 1).all()

The fixture ``dormant_sim`` comes with the package: it opens the simulated device, gives this
module, and frees at the end what the test allocated. A process has one device for good, so tests
that want a small one call :func:`use_simulated_device` first, for all tests, in ``conftest.py``.

This module needs NumPy.
"""

from __future__ import annotations

import ctypes
import os
import re
import weakref
from contextlib import suppress
from typing import Any

try:
    import numpy as np
    import numpy.typing as npt
except ModuleNotFoundError as error:
    text = "dormant.testing needs NumPy: pip install numpy"
    raise ModuleNotFoundError(text, name="numpy") from error

from ._memory import allocate, backend, devices, find, free
from ._reports import BlockInfo, Policy
from .errors import Error, InvalidArgumentError, NotFoundError, WrongStateError

_UNITS = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def use_simulated_device(capacity: int | str | None = None, devices: int | None = None) -> None:
    """Makes the simulated device the one of this process. Call it before the first use.

    ``capacity`` is the memory of each device, in bytes or as in ``64MiB``, which is the default;
    ``devices`` is how many there are, 1 by default. What ``DORMANT_SIM_CAPACITY`` and
    ``DORMANT_SIM_DEVICES`` say in the environment holds where you say nothing.

    Raises ``WrongStateError`` if the process uses another device already, or a simulated one that
    is not what you ask for. The environment is changed, so that child processes do the same.
    """
    wanted_bytes = None if capacity is None else _bytes(capacity)
    before = dict(os.environ)
    os.environ["DORMANT_BACKEND"] = "sim"
    if wanted_bytes is not None:
        os.environ["DORMANT_SIM_CAPACITY"] = str(wanted_bytes)
    if devices is not None:
        os.environ["DORMANT_SIM_DEVICES"] = str(devices)
    os.environ.setdefault("DORMANT_SIM_CAPACITY", "64MiB")
    os.environ.setdefault("DORMANT_SIM_DEVICES", "1")
    try:
        _check_simulated(wanted_bytes, devices)
    except BaseException:
        for name in ("DORMANT_BACKEND", "DORMANT_SIM_CAPACITY", "DORMANT_SIM_DEVICES"):
            if name in before:
                os.environ[name] = before[name]
            else:
                os.environ.pop(name, None)
        raise


def _check_simulated(wanted_bytes: int | None, wanted_devices: int | None) -> None:
    if backend() != "sim":
        raise WrongStateError(f"this process uses {backend()} already: call this before first use")
    there = devices()
    if wanted_devices not in (None, len(there)):
        raise WrongStateError(f"there are {len(there)} simulated devices already")
    if wanted_bytes not in (None, there[0].total_bytes):
        raise WrongStateError(f"the simulated device has {there[0].total_bytes} bytes already")


def _bytes(capacity: int | str) -> int:
    if isinstance(capacity, int):
        return capacity
    parts = re.fullmatch(r"(\d+) *(B|KiB|MiB|GiB)?", capacity)
    if parts is None:
        raise InvalidArgumentError(f"no size: {capacity!r}; write it as in 64MiB")
    return int(parts[1]) * _UNITS[parts[2] or ""]


class SimArray:
    """A NumPy array in pausable memory of the simulated device.

    The memory is freed by :meth:`free`, or when neither this nor any array of it is left.
    """

    def __init__(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike, address: int) -> None:
        self._shape = shape
        self._dtype = np.dtype(dtype)
        self._nbytes = int(np.prod(shape, dtype=np.int64)) * self._dtype.itemsize
        self._block = _Block(address)

    @property
    def address(self) -> int:
        """Where it lies, for life."""
        return self._block.address

    @property
    def block(self) -> BlockInfo:
        """Its block: size, tag, policy, state. Raises ``NotFoundError`` once it is freed."""
        return self._block.info()

    @property
    def array(self) -> npt.NDArray[Any]:
        """The array itself. Raises ``WrongStateError`` while the memory is not active.

        Ask for it again after a pause: one that you keep faults when it is touched meanwhile.
        """
        block = self._block.info()
        if block.state != "active":
            raise WrongStateError(
                f"the memory of this array, tag {block.tag!r}, is {block.state}: resume it first",
                address=block.address,
                device=block.device,
            )
        memory = (ctypes.c_ubyte * self._nbytes).from_address(block.address)
        # The array keeps the memory, and the memory the block.
        memory.__dict__["block"] = self._block
        whole: npt.NDArray[Any] = np.ndarray(self._shape, self._dtype, memoryview(memory))
        return whole

    @property
    def nbytes(self) -> int:
        """The array's size in bytes."""
        return self._nbytes

    def data_ptr(self) -> int:
        """The address, under torch's name: so :func:`dormant.backup` takes this object."""
        return self._block.address

    def free(self) -> None:
        """Frees the memory now; arrays that you still have must not be touched."""
        self._block.free()


class _Block:
    """A block of memory that is freed with this object."""

    def __init__(self, address: int) -> None:
        self.address = address
        block = find(address)
        self._id = block.id if block else None
        self._free = weakref.finalize(self, _free, address, self._id, os.getpid())
        self._free.atexit = False

    def info(self) -> BlockInfo:
        block = find(self.address)
        if block is None or block.id != self._id:
            raise NotFoundError("the array's memory has been freed", address=self.address)
        return block

    def free(self) -> None:
        self.info()
        self._free()


def _free(address: int, block_id: int | None, process: int) -> None:
    # A garbage collector's call has nobody to tell, and the address may be another block's by now.
    # It must not fail either: that would be this thread's last error, amid another call's.
    if process != os.getpid():
        return
    with suppress(Error):
        block = find(address)
        if block is not None and block.id == block_id:
            free(address)


def array(
    shape: int | tuple[int, ...],
    dtype: npt.DTypeLike = np.float32,
    *,
    tag: str | None = None,
    policy: Policy | str | None = None,
    device: int = 0,
) -> SimArray:
    """A new array on the simulated device, under ``tag`` and ``policy``.

    Without them it gets what this thread's region says. The contents are undefined at first, or
    zero with the policy ``zero``.
    """
    if backend() != "sim":
        raise WrongStateError("arrays are for the simulated device: call use_simulated_device()")
    nbytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    return SimArray(shape, dtype, allocate(max(nbytes, 1), device, tag=tag, policy=policy))
