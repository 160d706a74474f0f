"""Regions: which memory is ours, and under which tag and policy."""

from __future__ import annotations

import ctypes
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ContextDecorator, ExitStack, suppress
from ctypes import byref, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from . import _native, _torch_bridge
from . import _structs as structs
from ._reports import Policy
from .errors import ForkedError, InvalidArgumentError, NotFoundError, WrongStateError

logger = logging.getLogger("dormant")


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

    @classmethod
    def of(
        cls,
        tag: str,
        policy: Policy | str,
        peers: Iterable[int] = (),
        disk_directory: str | os.PathLike[str] | None = None,
    ) -> RegionSettings:
        """From what a user gives; raises ``InvalidArgumentError``."""
        if not isinstance(tag, str):
            raise InvalidArgumentError(f"a tag is a str, not {tag!r}")
        directory = None if disk_directory is None else os.fspath(disk_directory)
        return cls(tag, policy_of(policy), tuple(peers), directory)

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
        )


def policy_of(policy: Policy | str) -> Policy:
    """A policy by its name; raises ``InvalidArgumentError``."""
    try:
        return Policy(policy)
    except ValueError:
        names = ", ".join(structs.POLICIES)
        raise InvalidArgumentError(f"no policy {policy!r}; there are {names}") from None


class Scope(ContextDecorator):
    """Something to be in, for the thread that enters it; also a decorator.

    One object may be entered again, also while it is entered, and by several threads.
    """

    def __init__(self, enter: Callable[[ExitStack], Any]) -> None:
        self._enter = enter
        self._entered = threading.local()

    def __enter__(self) -> None:
        with ExitStack() as entering:
            self._enter(entering)
            # Only what was entered in full is left at the end of the body.
            self._stack().append(entering.pop_all())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        stack = self._stack()
        if not stack:
            if error is None:
                raise WrongStateError("this thread is not in this context: another entered it")
            return
        try:
            stack.pop().__exit__(kind, error, trace)
        except Exception as leaving:
            if leaving is error:
                raise
            if error is None:
                raise
            # What ended the body is what the caller is to see.
            logger.warning("leaving a context after %s: %s", type(error).__name__, leaving)

    def _stack(self) -> list[ExitStack]:
        stack: list[ExitStack] = self._entered.__dict__.setdefault("stack", [])
        return stack


def push(call: Callable[..., int], *arguments: Any) -> Callable[[], None]:
    """Enters a region of the library on this thread; answers what leaves it."""
    entered = c_uint64()
    _native.check(call(*arguments, byref(entered)))

    def leave() -> None:
        try:
            _native.check(_native.library().dormant_region_pop(entered))
        except ForkedError:
            pass  # A child forked inside the region has no regions to leave.
        except NotFoundError:
            raise WrongStateError("a region is left on the thread that entered it") from None

    return leave


def region(
    tag: str = "default",
    *,
    policy: Policy | str = Policy.DISCARD,
    peers: Iterable[int] = (),
    disk_directory: str | os.PathLike[str] | None = None,
    backward: bool = False,
    reuse: bool = False,
) -> Scope:
    """Memory that this thread allocates inside is ours, under ``tag``.

    Regions nest, and end with their ``with`` block, also past an exception. With torch (imported
    before the region is entered) tensors made inside are ours; without it, memory that goes
    through the preloaded hooks or :func:`allocate`.

    - ``policy``: what happens to the contents when the tag is paused: ``discard``, ``zero``,
      ``host`` or ``disk``.
    - ``peers``: devices that may use the memory beside its owner.
    - ``disk_directory``: where contents go that are kept on disk.
    - ``backward``: torch: what autograd allocates in ``backward()`` is ours too, at the price of
      running backward on this thread alone.
    - ``reuse``: torch: keep one pool for the tag, not one for every entry. For regions that are
      entered often and allocate little.
    """
    settings = RegionSettings.of(tag, policy, peers, disk_directory)

    def enter(stack: ExitStack) -> None:
        library = _native.library()
        stack.callback(push(library.dormant_region_push, byref(settings.raw())))
        glue = _torch_bridge.glue()
        if glue is not None:
            stack.enter_context(glue.enter_pool(settings, reuse=reuse, backward=backward))

    return Scope(enter)


def disable() -> Scope:
    """Memory that this thread allocates inside is not ours: a pause leaves it alone."""

    def enter(stack: ExitStack) -> None:
        stack.callback(push(_native.library().dormant_region_push_disabled))
        glue = _torch_bridge.glue()
        if glue is not None:
            stack.enter_context(glue.enter_foreign_pool())

    return Scope(enter)


class Carried:
    """What a thread's innermost region said when :func:`carry` was called."""

    def __init__(self) -> None:
        library = _native.library()
        raw = c_void_p()
        _native.check(library.dormant_region_carry(byref(raw)))
        self._raw = raw
        self._free = weakref.finalize(self, library.dormant_carried_free, raw)
        self._free.atexit = False
        glue = _torch_bridge.glue()
        self._pool: Callable[[], AbstractContextManager[Any]] | None = (
            None if glue is None else glue.carry_pool()
        )

    def enter(self) -> Scope:
        """The region for another thread: ``with carried.enter(): ...``, as often as wanted."""

        def enter(stack: ExitStack) -> None:
            library = _native.library()
            stack.callback(push(library.dormant_carried_push, self._raw))
            if self._pool is not None:
                stack.enter_context(self._pool())

        return Scope(enter)


def carry() -> Carried:
    """Takes this thread's region to worker threads, which do not inherit it."""
    return Carried()


def capture() -> Scope:
    """Says that a stream capture runs inside.

    A pause would break it, so it is refused as ``BusyError`` meanwhile, and frees are put off to
    the end. Allocating and resuming break no capture.
    """

    def enter(stack: ExitStack) -> None:
        library = _native.library()
        begun = c_uint64()
        _native.check(library.dormant_capture_begin(ctypes.byref(begun)))

        def end() -> None:
            with suppress(ForkedError):
                _native.check(library.dormant_capture_end(begun))

        stack.callback(end)

    return Scope(enter)
