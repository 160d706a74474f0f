"""What can go wrong: one exception class for each kind of error.

Every error is an :class:`Error`, which is a ``RuntimeError``. Nothing in this package ends the
process. All of them can be pickled, so that they travel between processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._reports import Report


@dataclass(frozen=True)
class Failure:
    """A block that a pause or resume could not bring where it was to go."""

    address: int
    """Where the block starts."""
    bytes: int
    """Its size in bytes."""
    tag: str
    device: int
    poisoned: bool
    """True if the driver left it in an unknown state; False if it is as it was before."""
    text: str
    """Why."""


class Error(RuntimeError):
    """An error of dormant. What does not apply to an error is ``None``."""

    kind: str = "unknown"
    """The kind's stable name, such as ``out_of_memory``."""
    driver_code: int | None = None
    """The driver's own error code, where it answered with one."""
    device: int | None = None
    """The device that it is about."""
    address: int | None = None
    """The address that it is about."""
    wanted_bytes: int | None = None
    """Bytes that the whole call wanted."""
    free_bytes: int | None = None
    """Bytes that the device had free."""
    failures: tuple[Failure, ...] = ()
    """The blocks that a pause or resume could not bring where they were to go."""
    report: Report | None = None
    """What a pause did all the same that failed after it had begun to give memory back."""

    def __init__(self, text: str = "", **details: Any) -> None:
        super().__init__(text)
        unknown = set(details) - set(_DETAILS)
        if unknown:
            raise TypeError(f"{type(self).__name__} has no detail {min(unknown)!r}")
        self.__dict__.update(details)

    def __reduce__(self) -> tuple[Any, ...]:
        # The details are in __dict__, which is the state.
        return (type(self), self.args, self.__dict__)


_DETAILS = (
    "kind",
    "driver_code",
    "device",
    "address",
    "wanted_bytes",
    "free_bytes",
    "failures",
    "report",
)


class OutOfMemoryError(Error):
    """The device has not enough free memory now; the same call may work later."""

    kind = "out_of_memory"


class TooLargeError(Error):
    """The request can never be met."""

    kind = "too_large"


class NotSupportedError(Error):
    """The driver, the device or this build does not offer it."""

    kind = "not_supported"


class InvalidArgumentError(Error):
    """An argument is wrong; the same call will never work."""

    kind = "invalid_argument"


class NotFoundError(Error):
    """No memory of ours is at that address, or there is no such device or region."""

    kind = "not_found"


class WrongStateError(Error):
    """The block exists, but not in the state that the call needs."""

    kind = "wrong_state"


class BusyError(Error):
    """Somebody else is at it: work in flight, a pause or resume, a capture. Nothing changed."""

    kind = "busy"


class DeviceLostError(Error):
    """The device is gone for this process."""

    kind = "device_lost"


class EarlierWorkFailedError(Error):
    """An earlier piece of work on the device failed, and the driver says so only now."""

    kind = "earlier_work_failed"


class AddressLostError(Error):
    """The driver did not give the same address back."""

    kind = "address_lost"


class PoisonedError(Error):
    """The driver left the block in an unknown state."""

    kind = "poisoned"


class HostMemoryError(Error):
    """The host has not enough memory, or the limit for backups does not allow it."""

    kind = "host_memory"


class IOFailedError(Error):
    """A file or directory could not be made, written or read."""

    kind = "io"


class NoDriverError(Error):
    """There is no driver library, or it is not one that can be used."""

    kind = "no_driver"


class LibraryMissingError(NoDriverError):
    """This package's own library is missing or cannot be loaded; the text names the file."""


class ForkedError(Error):
    """The process is a forked child; the memory belongs to its parent."""

    kind = "forked"


class UnknownDriverError(Error):
    """The driver answered with something that has no name here."""

    kind = "unknown"


class InternalError(Error):
    """A defect of dormant, caught at its edge."""

    kind = "internal"


class TwoBuildsError(Error):
    """Two different builds of dormant's library are in the process."""

    kind = "two_builds"


class ChecksumMismatchError(Error):
    """Saved contents are not what they were when they were saved. They are kept as they are."""

    kind = "checksum_mismatch"


BY_STATUS: dict[int, type[Error]] = {
    1: OutOfMemoryError,
    2: TooLargeError,
    3: NotSupportedError,
    4: InvalidArgumentError,
    5: NotFoundError,
    6: WrongStateError,
    7: BusyError,
    8: DeviceLostError,
    9: EarlierWorkFailedError,
    10: AddressLostError,
    11: PoisonedError,
    12: HostMemoryError,
    13: IOFailedError,
    14: NoDriverError,
    15: ForkedError,
    16: UnknownDriverError,
    17: InternalError,
    18: TwoBuildsError,
    19: ChecksumMismatchError,
}
"""The class for each status of the C interface."""
