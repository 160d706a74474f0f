"""Graphs: a capture notes work, a replay does it."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from .. import _caching, _device, _streams


class CUDAGraph:
    """Holds its pool from the beginning of the capture to its own end."""

    def __init__(self) -> None:
        self._work: list[Callable[[], None]] = []
        self._pool: tuple[int, int] | None = None
        self._device = 0

    def capture_begin(self, pool: tuple[int, int] | None, stream: _streams.Stream) -> None:
        self.reset()
        self._device = _device.current
        self._pool = pool or (_caching.new_number(), 0)
        allocator = _caching.of(self._device)
        allocator.begin(self._pool, lambda: _streams.current() is stream)
        stream.capture = []

    def capture_end(self, stream: _streams.Stream) -> None:
        assert self._pool is not None
        self._work, stream.capture = stream.capture or [], None
        _caching.of(self._device).end(self._pool)

    def replay(self) -> None:
        for work in self._work:
            work()

    def pool(self) -> tuple[int, int] | None:
        return self._pool

    def reset(self) -> None:
        self._work = []
        if self._pool is not None:
            _caching.of(self._device).release(self._pool)
            self._pool = None

    def __del__(self) -> None:
        self.reset()


class graph:
    """As ``torch.cuda.graph``."""

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: Any = None,
        stream: Any = None,
        capture_error_mode: str = "global",
    ) -> None:
        self._graph, self._pool = cuda_graph, getattr(pool, "id", pool)
        self._stream = stream or _streams.Stream()

    def __enter__(self) -> None:
        gc.collect()
        for allocator in _caching.all_devices():
            allocator.empty()
        self._before = _streams.set_current(self._stream)
        self._graph.capture_begin(self._pool, self._stream)

    def __exit__(self, *_error: Any) -> None:
        self._graph.capture_end(self._stream)
        _streams.set_current(self._before)


def graph_pool_handle() -> tuple[int, int]:
    return (0, _caching.new_number())
