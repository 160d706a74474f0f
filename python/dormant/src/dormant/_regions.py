"""Regions: which memory is ours, and under which tag and policy."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from ctypes import byref, c_uint32, c_void_p
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from . import _native, _torch_bridge
from . import _structs as structs
from ._reports import Checksum, HostMode, Policy
from ._scopes import Leave, Scope, held
from .errors import InvalidArgumentError, NotFoundError, WrongStateError

Choice = TypeVar("Choice", bound=Enum)


@dataclass(frozen=True)
class RegionSettings:
    """What memory gets that is allocated in a region."""

    tag: str = "default"
    """The tag under which it is paused."""
    policy: Policy = Policy.DISCARD
    """What happens to its contents when it is paused."""
    peers: tuple[int, ...] = ()
    """Devices that may use it beside its owner."""
    disk_directory: str | None = None
    """Where contents go that are kept on disk. ``None``: where the configuration says."""
    host_mode: HostMode | None = None
    """How host memory of its backups is held. ``None``: as the configuration says."""
    checksum: Checksum | None = None
    """Whether its saved contents are checked. ``None``: as the configuration says."""

    @classmethod
    def of(
        cls,
        tag: str,
        policy: Policy | str,
        peers: Iterable[int] = (),
        disk_directory: str | os.PathLike[str] | None = None,
        host_mode: HostMode | str | None = None,
        checksum: Checksum | str | None = None,
    ) -> RegionSettings:
        """From what a user gives; raises ``InvalidArgumentError``."""
        if not isinstance(tag, str):
            raise InvalidArgumentError(f"a tag is a str, not {tag!r}")
        directory = None if disk_directory is None else os.fspath(disk_directory)
        if directory == "":
            raise InvalidArgumentError("a disk_directory is not empty")
        return cls(
            tag,
            policy_of(policy),
            cls.peers_of(peers),
            directory,
            None if host_mode is None else host_mode_of(host_mode),
            None if checksum is None else checksum_of(checksum),
        )

    @staticmethod
    def peers_of(peers: Iterable[int]) -> tuple[int, ...]:
        """Devices, checked."""
        try:
            given = tuple(peers)
        except TypeError:
            raise InvalidArgumentError(f"peers are ordinals of devices, not {peers!r}") from None
        return tuple(_native.ordinal(peer) for peer in given)

    def raw(self) -> structs.DormantRegion:
        """As the library takes it."""
        peers = (c_uint32 * len(self.peers))(*self.peers)
        directory = self.disk_directory
        return structs.sized(
            structs.DormantRegion,
            policy=structs.POLICIES.index(self.policy.value),
            tag=_native.c_text(self.tag, "a tag"),
            peers=peers,
            peer_count=len(self.peers),
            disk_directory=None if directory is None else _native.c_path(directory),
            host_mode=structs.number_of(structs.HOST_MODES, self.host_mode),
            checksum=structs.number_of(structs.CHECKSUMS, self.checksum),
        )


def policy_of(policy: Policy | str) -> Policy:
    """A policy by its name; raises ``InvalidArgumentError``."""
    return _named(Policy, policy, "policy")


def host_mode_of(mode: HostMode | str) -> HostMode:
    """A host mode by its name; raises ``InvalidArgumentError``."""
    return _named(HostMode, mode, "host mode")


def checksum_of(checksum: Checksum | str) -> Checksum:
    """A checksum by its name; raises ``InvalidArgumentError``."""
    return _named(Checksum, checksum, "checksum")


def _named(kind: type[Choice], name: object, what: str) -> Choice:
    try:
        return kind(name)
    except ValueError:
        names = ", ".join(one.value for one in kind)
        raise InvalidArgumentError(f"no {what} {name!r}; there are {names}") from None


def current() -> RegionSettings | None:
    """What this thread's innermost region says; ``None`` where new memory is not ours."""
    raw, on = structs.sized(structs.DormantRegion), c_uint32()
    _native.check(_native.library().dormant_region_current(byref(raw), byref(on)))
    if not on.value:
        return None
    directory: bytes | None = raw.disk_directory
    return RegionSettings(
        _native.text(raw.tag) or "",
        Policy(structs.POLICIES[raw.policy]),
        tuple(raw.peers[: raw.peer_count]) if raw.peer_count else (),
        None if directory is None else os.fsdecode(directory),
        HostMode(structs.HOST_MODES[raw.host_mode]) if raw.host_mode else None,
        Checksum(structs.CHECKSUMS[raw.checksum]) if raw.checksum else None,
    )


def push(stack: ExitStack, call: Callable[..., int], *arguments: Any) -> Leave:
    """Enters a region of the library on this thread; answers what leaves it."""
    leave = held(stack, call, _native.library().dormant_region_pop, *arguments)

    def checked() -> None:
        try:
            leave()
        except NotFoundError:
            raise WrongStateError("a region is left on the thread that entered it") from None

    return checked


def region(
    tag: str = "default",
    *,
    policy: Policy | str = Policy.DISCARD,
    peers: Iterable[int] = (),
    disk_directory: str | os.PathLike[str] | None = None,
    host_mode: HostMode | str | None = None,
    checksum: Checksum | str | None = None,
    backward: bool = False,
    reuse: bool = False,
) -> Scope:
    """Memory that this thread allocates inside is ours, under ``tag``.

    Regions nest, and end with their ``with`` block, also past an exception. With torch (imported
    before the region is entered) tensors made inside are ours; without it, memory that goes
    through the preloaded hooks or :func:`allocate`.

    Regions belong to a thread, not to a task of asyncio: do not hold one across an ``await``. Where
    another task has entered one meanwhile, leaving raises ``WrongStateError``.

    - ``policy``: what happens to the contents when the tag is paused: ``discard``, ``zero``,
      ``host`` or ``disk``.
    - ``peers``: devices that may use the memory beside its owner.
    - ``disk_directory``: where contents go that are kept on disk.
    - ``host_mode``: how host memory of backups is held: ``retain`` keeps it for the next pause,
      ``reclaim`` gives it back after the resume, ``auto`` retains as far as there is room. Without
      it the configuration says.
    - ``checksum``: ``full`` checks every saved byte when it comes back, ``off`` does not. Without
      it the configuration says.
    - ``backward``: torch: what autograd allocates in ``backward()`` is ours too, at the price of
      running backward on this thread alone.
    - ``reuse``: torch: keep one pool for the tag, not one for every entry. For regions that are
      entered often and allocate little.
    """
    settings = RegionSettings.of(tag, policy, peers, disk_directory, host_mode, checksum)

    def enter(stack: ExitStack) -> Leave:
        library = _native.library()
        leave = push(stack, library.dormant_region_push, byref(settings.raw()))
        glue = _torch_bridge.glue()
        if glue is not None:
            stack.enter_context(glue.enter_pool(settings, reuse=reuse, backward=backward))
        return leave

    return Scope(enter)


def disable() -> Scope:
    """Memory that this thread allocates inside is not ours: a pause leaves it alone."""

    def enter(stack: ExitStack) -> Leave:
        leave = push(stack, _native.library().dormant_region_push_disabled)
        glue = _torch_bridge.glue()
        if glue is not None:
            stack.enter_context(glue.enter_foreign_pool())
        return leave

    return Scope(enter)


class _Taken:
    """The library's copy of a region; ends when nothing refers to it any more."""

    def __init__(self) -> None:
        library = _native.library()
        raw = c_void_p()
        _native.check(library.dormant_region_carry(byref(raw)))
        self.raw = raw
        weakref.finalize(self, library.dormant_carried_free, raw).atexit = False


class Carried:
    """What a thread's innermost region said when :func:`carry` was called."""

    def __init__(self) -> None:
        # Its own object: a copy of this one refers to it too.
        self._taken = _Taken()
        glue = _torch_bridge.glue()
        self._pool: Callable[[], AbstractContextManager[Any]] | None = (
            None if glue is None else glue.carry_pool()
        )

    def enter(self) -> Scope:
        """The region for another thread: ``with carried.enter(): ...``, as often as wanted."""

        def enter(stack: ExitStack) -> Leave:
            library = _native.library()
            leave = push(stack, library.dormant_carried_push, self._taken.raw)
            if self._pool is not None:
                stack.enter_context(self._pool())
            return leave

        return Scope(enter)


def carry() -> Carried:
    """Takes this thread's region to worker threads, which do not inherit it."""
    return Carried()


def capture() -> Scope:
    """Says that a stream capture runs inside.

    A pause would break it, so it is refused as ``BusyError`` meanwhile, and frees are put off to
    the end. Allocating and resuming break no capture.
    """

    def enter(stack: ExitStack) -> Leave:
        library = _native.library()
        return held(stack, library.dormant_capture_begin, library.dormant_capture_end)

    return Scope(enter, nests=False)
