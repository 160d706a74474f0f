"""Being in something: what a thread has entered, and leaving it whatever happens."""

from __future__ import annotations

import inspect
import logging
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import ContextDecorator, ExitStack
from ctypes import byref, c_uint64
from types import TracebackType
from typing import Any, TypeVar

from . import _native
from . import _structs as structs
from ._log import log
from .errors import InvalidArgumentError, WrongStateError

Leave = Callable[[], None]
Function = TypeVar("Function", bound=Callable[..., Any])

_SUSPENDED = (
    inspect.iscoroutinefunction,
    inspect.isgeneratorfunction,
    inspect.isasyncgenfunction,
)


def held(
    stack: ExitStack, take: Callable[..., int], give: Callable[..., int], *arguments: Any
) -> Leave:
    """Takes something of the library that has a number; answers what gives it back.

    ``stack`` gives it back too, and says nothing. It knows that before there is anything to give:
    a signal's exception may come at any point.
    """
    number = c_uint64()

    def leave(quietly: bool = False) -> None:
        if number.value == 0:
            return
        status = give(number)
        number.value = 0
        # A child forked meanwhile has nothing to give back.
        if status != structs.FORKED and not quietly:
            _native.check(status)

    stack.callback(leave, True)
    _native.check(take(*arguments, byref(number)))
    return leave


class _Entry:
    """One entry of a scope."""

    def __init__(self) -> None:
        self.exits = ExitStack()
        self.leave: Leave | None = None
        self.task = _current_task()
        self.is_over = False
        """Its body has ended, and it is left as soon as what another task entered inside is."""

    def is_held_against(self, task: weakref.ref[Any] | None) -> bool:
        """Whether another task than this is in it."""
        if self.is_over or self.task is None or self.task == task:
            return False
        other = self.task()
        return other is not None and not other.done()


def _current_task() -> weakref.ref[Any] | None:
    """The task of asyncio that this thread runs, if it does."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return None
    try:
        task = asyncio.current_task()
    except (RuntimeError, AttributeError):  # No loop runs here, or it is being imported.
        return None
    return None if task is None else weakref.ref(task)


class _Entered(threading.local):
    def __init__(self) -> None:
        self.entries: list[_Entry] = []


_nested = _Entered()
"""What this thread is in of all scopes that nest, innermost last."""


class Scope(ContextDecorator):
    """Something to be in, for the thread that enters it; also a decorator of plain functions.

    One object may be entered again, also while it is entered, and by several threads. Leaving one
    that ``nests`` leaves those inside. So it must not be held across an ``await`` in which another
    task enters one: leaving it then raises ``WrongStateError``, and it ends with the other's.
    """

    def __init__(self, enter: Callable[[ExitStack], Leave], *, nests: bool = True) -> None:
        self._enter = enter
        self._nests = nests
        self._own = _Entered()

    def __call__(self, function: Function) -> Function:
        """As a decorator: the function's body is inside."""
        if any(is_suspended(function) for is_suspended in _SUSPENDED):
            name = getattr(function, "__qualname__", function)
            raise InvalidArgumentError(
                f"{name} is a coroutine or generator function, whose body runs after the call: "
                "use a `with` block in it, around what allocates and around no await or yield"
            )
        return super().__call__(function)

    def __enter__(self) -> None:
        entry = _Entry()
        try:
            self._own.entries.append(entry)
            if self._nests:
                _nested.entries.append(entry)
            entry.leave = self._enter(entry.exits)
        except BaseException:
            # What was entered in part is left again; a signal's exception may have come anywhere.
            entry.exits.close()
            _forget(self._own.entries, entry)
            _forget(_nested.entries, entry)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        own = self._own.entries
        if not own:
            if error is None:
                raise WrongStateError("this thread is not in this context: another entered it")
            return
        entry = own[-1]
        try:
            try:
                task = _current_task()
                entry = next((each for each in reversed(own) if each.task == task), entry)
                _refuse_to_cut_off(entry)
                if entry.leave is not None:
                    entry.leave()
            finally:
                # Also where a signal's exception came before.
                self._end(entry, kind, error, trace)
        except Exception as leaving:
            if leaving is error:
                raise
            if error is None:
                raise
            # What ended the body is what the caller is to see.
            name = type(error).__name__
            log(logging.WARNING, "leaving a context after %s: %s", name, leaving)

    def _end(self, entry: _Entry, *raised: Any) -> None:
        nested = _nested.entries
        try:
            if not entry.is_over:
                entry.exits.__exit__(*raised)
        finally:
            _forget(self._own.entries, entry)
            if entry in nested and not entry.is_over:
                del nested[nested.index(entry) :]
            while nested and nested[-1].is_over:
                nested.pop().exits.close()


def _refuse_to_cut_off(entry: _Entry) -> None:
    """Puts leaving off, and raises, where that would leave what another task is in."""
    nested = _nested.entries
    inside = nested[nested.index(entry) + 1 :] if entry in nested else []
    if any(each.is_held_against(entry.task) for each in inside):
        entry.is_over = True
        raise WrongStateError(
            "another task entered a region inside this one and is still in it, so memory may have "
            "got the wrong tag: a region belongs to a thread, and must not span an await in which "
            "another task enters one"
        )


def _forget(entries: list[_Entry], entry: _Entry) -> None:
    if entry in entries:
        entries.remove(entry)
