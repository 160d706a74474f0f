"""Saved contents of paused memory, lent out."""

from __future__ import annotations

import ctypes
import os
import weakref
from ctypes import byref, c_size_t, c_uint64, c_void_p
from types import TracebackType
from typing import Any

from . import _native
from .errors import ForkedError, InvalidArgumentError, WrongStateError


class _Loan:
    """The library's lease; ends when nothing refers to it any more."""

    def __init__(self, address: int) -> None:
        library = _native.library()
        raw, data, length = c_void_p(), c_void_p(), c_size_t()
        place = _native.address(address)
        _native.check(library.dormant_backup(place, byref(raw), byref(data), byref(length)))
        self.address: int = data.value or 0
        self.nbytes: int = length.value
        self.pid = os.getpid()
        self.raw = raw
        weakref.finalize(self, library.dormant_backup_release, raw).atexit = False


class Lease:
    """The saved contents of a paused block or tensor, readable by the CPU.

    It stays as it is after a resume, as an old copy, and takes host memory until it is closed and
    no view of it is left. ``bytes(lease)`` copies it; with Python 3.12 it is a buffer itself. A
    forked child cannot read it.
    """

    def __init__(self, loan: _Loan, nbytes: int) -> None:
        self._loan: _Loan | None = loan
        self._nbytes = nbytes

    @property
    def nbytes(self) -> int:
        """How many bytes it has."""
        return self._nbytes

    def __len__(self) -> int:
        return self._nbytes

    @property
    def address(self) -> int:
        """Where the bytes lie in host memory, until the lease is closed."""
        return self._open().address

    def view(self) -> memoryview:
        """The bytes, read-only and not copied. It stays valid when the lease is closed."""
        loan = self._open()
        array = (ctypes.c_ubyte * self._nbytes).from_address(loan.address)
        # The view keeps the array, and the array the loan.
        array.__dict__["loan"] = loan
        return memoryview(array).cast("B").toreadonly()

    def register(self) -> bool:
        """Registers the bytes with the driver: copies to a device are then as fast as the link.

        False where the driver or the system refuses; copies are slower then, and nothing else.
        """
        status: int = _native.library().dormant_backup_register(self._open().raw)
        return status == 0

    def __bytes__(self) -> bytes:
        return bytes(self.view())

    def __buffer__(self, _flags: int) -> memoryview:
        return self.view()

    def close(self) -> None:
        """Gives the host memory back, as soon as no view of it is left."""
        self._loan = None

    def __enter__(self) -> Lease:
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _open(self) -> _Loan:
        if self._loan is None:
            raise WrongStateError("this backup has been closed")
        if self._loan.pid != os.getpid():
            raise ForkedError("a backup lent out before a fork cannot be read by the child")
        return self._loan

    def __repr__(self) -> str:
        return f"<dormant.Lease of {self._nbytes} bytes{'' if self._loan else ', closed'}>"


def backup(obj: Any) -> Lease:
    """Lends out what was saved of a paused block or tensor, without a GPU and without copying.

    ``obj`` is an address, at the start of a block or inside, and then the bytes go up to the
    block's end; or anything with ``data_ptr()`` and ``nbytes``, such as a tensor, and then they are
    the tensor's own. Raises ``WrongStateError`` where the block is active or nothing was saved of
    it, and ``NotFoundError`` where it is not ours.
    """
    if isinstance(obj, int):
        loan = _Loan(obj)
        return Lease(loan, loan.nbytes)
    if not hasattr(obj, "data_ptr"):
        raise InvalidArgumentError(f"neither an address nor a tensor: {type(obj).__name__}")
    is_contiguous = getattr(obj, "is_contiguous", None)
    if is_contiguous is not None and not is_contiguous():
        raise InvalidArgumentError("the tensor is not contiguous: its bytes are not one range")
    nbytes = obj.nbytes if hasattr(obj, "nbytes") else obj.numel() * obj.element_size()
    loan = _Loan(obj.data_ptr())
    if nbytes > loan.nbytes:
        raise InvalidArgumentError(
            f"the tensor has {nbytes} bytes, and its block ends after {loan.nbytes}",
            address=obj.data_ptr(),
        )
    return Lease(loan, nbytes)


def drop_backup(*tags: str) -> int:
    """Throws away what was saved of the paused blocks of ``tags``; no tags: of all.

    They wake with undefined contents. Answers how many bytes that were.
    """
    names, count = _native.tag_array(tags)
    dropped = c_uint64()
    _native.check(_native.library().dormant_drop_backup(names, count, byref(dropped)))
    return dropped.value


def trim() -> int:
    """Gives back what is kept for the next pause or resume.

    Retained host memory and disk space that no contents are in, and staging memory. Answers how
    many bytes of retained memory that was.
    """
    trimmed = c_uint64()
    _native.check(_native.library().dormant_trim(byref(trimmed)))
    return trimmed.value
