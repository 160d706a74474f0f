"""Streams of the fake: work runs at once, or is noted by a capture."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Stream:
    """A stream."""

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        self.capture: list[Callable[[], None]] | None = None
        """What a capture has noted; ``None`` while there is none."""

    def synchronize(self) -> None:
        if self.capture is not None:
            raise RuntimeError("operation not permitted when stream is capturing")

    def wait_stream(self, _other: Stream) -> None:
        pass


class _Current(threading.local):
    def __init__(self) -> None:
        self.stream = _default


_default = Stream()
_current = _Current()


def current() -> Stream:
    """This thread's stream."""
    return _current.stream


def set_current(stream: Stream) -> Stream:
    """Answers which one it was before."""
    before, _current.stream = _current.stream, stream
    return before


def run(work: Callable[[], None]) -> None:
    """Does something on this thread's stream."""
    capture = _current.stream.capture
    if capture is None:
        work()
    else:
        capture.append(work)
