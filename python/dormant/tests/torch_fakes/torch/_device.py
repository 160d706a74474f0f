"""Device memory of the fake: the runtime's ``cudaMalloc`` where there is one, else mapped pages.

With a stand-in for the runtime library in ``FAKE_TORCH_CUDART`` calls go to whatever the process
has under the name ``cudaMalloc``, which is a preloaded hook if there is one: as torch's own do.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p

_pages: dict[int, mmap.mmap] = {}
_foreign_bytes: dict[int, int] = {}
_where: dict[int, tuple[int, int]] = {}
current = 0
used: set[int] = set()
"""Devices that have been touched."""

_runtime: ctypes.CDLL | None = None
if os.environ.get("FAKE_TORCH_CUDART"):
    _stand_in = ctypes.CDLL(os.environ["FAKE_TORCH_CUDART"], mode=ctypes.RTLD_GLOBAL)
    # A stand-in that has a device of its own has taken it from there already.
    _foreign = getattr(_stand_in, "fake_foreign_bytes", lambda _device: 0)
    if hasattr(_foreign, "restype"):
        _foreign.restype = c_uint64
    _runtime = ctypes.CDLL(None)
    _runtime.cudaMalloc.argtypes = [ctypes.POINTER(c_void_p), c_size_t]
    _runtime.cudaFree.argtypes = [c_void_p]
_dormant = ctypes.CDLL(os.environ.get("FAKE_TORCH_LIBRARY") or os.environ["DORMANT_LIBRARY"])


def memory(device: int) -> tuple[int, int]:
    """Free and total bytes."""
    free, total = c_uint64(), c_uint64()
    status = _dormant.dormant_device_memory(c_int(device), byref(free), byref(total))
    if status:
        raise RuntimeError(f"no simulated device {device}")
    return free.value - foreign_bytes(device), total.value


def foreign_bytes(device: int) -> int:
    """What is taken past the simulated device."""
    if _runtime is not None:
        return int(_foreign(device))
    return _foreign_bytes.get(device, 0)


def set_current(device: int) -> None:
    """As ``cudaSetDevice``."""
    global current
    current = device
    used.add(device)
    if _runtime is not None:
        _runtime.cudaSetDevice(device)


def malloc(nbytes: int, device: int) -> int:
    """The address of new memory, 0 where there is too little."""
    used.add(device)
    if _runtime is not None:
        before, place = current, c_void_p()
        set_current(device)
        code = _runtime.cudaMalloc(byref(place), nbytes)
        set_current(before)
        return 0 if code else place.value or 0
    if memory(device)[0] < nbytes:
        return 0
    return mapped(nbytes, device)


def mapped(nbytes: int, device: int) -> int:
    """Memory that no hook sees, as that of expandable segments is."""
    page = mmap.mmap(-1, nbytes)
    address = ctypes.addressof(ctypes.c_ubyte.from_buffer(page))
    _pages[address] = page
    _where[address] = (device, nbytes)
    _foreign_bytes[device] = _foreign_bytes.get(device, 0) + nbytes
    return address


def free(address: int) -> None:
    """Gives back what :func:`malloc` or :func:`mapped` gave."""
    page = _pages.pop(address, None)
    if page is not None:
        device, nbytes = _where.pop(address)
        _foreign_bytes[device] -= nbytes
        return
    assert _runtime is not None, f"freed by the wrong function: {address:#x}"
    code = _runtime.cudaFree(address)
    assert code == 0, f"cudaFree answered {code}"
