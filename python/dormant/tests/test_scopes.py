"""Entering and leaving where that is not in order: signals, tasks of asyncio, copies."""

from __future__ import annotations

import asyncio
import copy
import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import pytest

import dormant
from dormant import _native, _scopes


def tag() -> str:
    """Under which new memory is paused."""
    block = dormant.find(dormant.allocate(4096))
    assert block is not None
    return block.tag


class SignalError(Exception):
    """What a handler raises."""


class Library:
    """The library, in which a signal arrives during a call."""

    def __init__(self, name: str, before: bool) -> None:
        self._library = _native.library()
        self._name, self._before, self._due = name, before, True

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._library, name)
        if name != self._name:
            return function

        def call(*arguments: Any) -> Any:
            due, self._due = self._due, False
            if due and self._before:
                raise SignalError
            answer = function(*arguments)
            if due:
                raise SignalError
            return answer

        return call


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("name", ["region_push", "region_push_disabled", "region_pop"])
def test_no_region_stays_behind_when_a_signal_raises(
    name: str, before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for scope in (dormant.region("inner"), dormant.disable()):
        with dormant.region("outer"):
            monkeypatch.setattr(_native, "_library", Library(f"dormant_{name}", before))
            with suppress(SignalError), scope:
                pass
            assert (tag(), _native.library().tms_get_interesting_region()) == ("outer", True)
            monkeypatch.undo()
        assert tag() == "default"
    assert _scopes._nested.entries == []


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("name", ["begin", "end"])
def test_no_capture_stays_behind_when_a_signal_raises(
    name: str, before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    dormant.allocate(4096)
    monkeypatch.setattr(_native, "_library", Library(f"dormant_capture_{name}", before))
    with pytest.raises(SignalError), dormant.capture():
        pass
    dormant.pause()


def test_a_region_decorates_plain_functions_only() -> None:
    async def coroutine() -> None: ...

    def generator() -> Iterator[int]:
        yield 1

    async def both() -> AsyncIterator[int]:
        yield 1

    for function in (coroutine, generator, both):
        with pytest.raises(dormant.InvalidArgumentError, match="coroutine or generator"):
            dormant.region("a")(function)


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_region_held_across_an_await_cuts_off_no_other_tasks(is_shared: bool) -> None:
    shared = dormant.region("A")
    found: list[str] = []

    async def first(entered: asyncio.Event, inside: asyncio.Event, left: asyncio.Event) -> None:
        shared.__enter__()
        entered.set()
        await inside.wait()
        with pytest.raises(dormant.WrongStateError, match="span an await"):
            shared.__exit__(None, None, None)
        left.set()

    async def second(entered: asyncio.Event, inside: asyncio.Event, left: asyncio.Event) -> None:
        await entered.wait()
        with shared if is_shared else dormant.region("B"):
            inside.set()
            await left.wait()
            found.append(tag())
        found.append(tag())

    async def main() -> None:
        events = asyncio.Event(), asyncio.Event(), asyncio.Event()
        await asyncio.gather(first(*events), second(*events))

    with dormant.region("outer"):
        asyncio.run(main())
        assert found == ["A" if is_shared else "B", "outer"]
    assert tag() == "default"


def test_tasks_one_after_the_other_and_regions_around_a_loop_are_fine() -> None:
    async def task(name: str) -> str:
        with dormant.region(name), dormant.region(f"{name}2"):
            return tag()

    async def main() -> list[str]:
        with dormant.region("main"):
            return list(await asyncio.gather(task("a"), task("b")))

    with dormant.region("outer"):
        assert asyncio.run(main()) == ["a2", "b2"]
        assert tag() == "outer"
    assert _scopes._nested.entries == []


def test_a_task_that_ended_within_its_region_is_no_hindrance() -> None:
    region = dormant.region("left open")

    async def main() -> None:
        region.__enter__()

    with dormant.region("outer"):
        asyncio.run(main())
    assert tag() == "default"
    assert _scopes._nested.entries == []


def test_a_copy_of_what_is_carried_outlives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    freed: list[object] = []
    library = Library("none", False)
    monkeypatch.setattr(library, "dormant_carried_free", freed.append, raising=False)
    monkeypatch.setattr(_native, "_library", library)
    with dormant.region("a"):
        carried = dormant.carry()
    again = copy.copy(carried)
    del carried
    gc.collect()
    assert freed == []
    with again.enter():
        assert tag() == "a"
    del again
    gc.collect()
    assert len(freed) == 1


@pytest.mark.parametrize("wrong", [[2**32], [-1], ["a"], [1.5], 5])
def test_peers_are_ordinals(wrong: Any) -> None:
    for call in (lambda: dormant.region(peers=wrong), lambda: dormant.allocate(1, peers=wrong)):
        with pytest.raises(dormant.InvalidArgumentError, match="ordinal"):
            call()


def test_an_empty_directory_is_refused() -> None:
    with pytest.raises(dormant.InvalidArgumentError, match="not empty"):
        dormant.region(policy="disk", disk_directory="")
