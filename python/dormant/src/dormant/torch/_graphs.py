"""CUDA graphs whose memory can sleep."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ctypes import byref
from typing import Any

from .. import _native, _regions
from .._regions import RegionSettings
from .._reports import Checksum, HostMode, Policy
from ..errors import BusyError
from . import _access, _settings
from ._pools import Level, Pool, allocator, entered

_captured: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
"""The pools of ours that graphs were captured in, by graph."""
_shared: dict[tuple[RegionSettings, int, Any], _SharedPool] = {}


class _SharedPool:
    """A pool of ours in place of one that a program names, for as long as graphs use it."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.graphs = 0


def check_not_capturing() -> None:
    """Raises ``BusyError`` while this thread's current stream is captured."""
    if _access.is_capturing(_access.module()):
        raise BusyError("a graph is captured on the current stream, and a pause would break that")


@contextmanager
def graph(
    graph: Any,
    *,
    tag: str = "default",
    policy: Policy | str = Policy.DISCARD,
    host_mode: HostMode | str | None = None,
    checksum: Checksum | str | None = None,
    pool: Any = None,
    stream: Any = None,
    capture_error_mode: str = "global",
) -> Iterator[None]:
    """Captures a CUDA graph, as ``torch.cuda.graph`` does, with memory that can be paused.

    What the capture allocates gets ``tag``, ``policy``, ``host_mode`` and ``checksum``, as in
    :func:`dormant.region`; with ``discard`` the graph must write it before it reads it, as
    temporaries are. A replay while it is paused is an illegal access.
    ``pool`` is used as it is: give the ``pool()`` of another graph that was captured here, to share
    its memory. The rest is as in ``torch.cuda.graph``.
    """
    torch = _access.module()
    settings = RegionSettings.of(tag, policy, host_mode=host_mode, checksum=checksum)
    _settings.check_settings(settings)
    with ExitStack() as stack:
        region = _native.library().dormant_region_push
        stack.callback(_regions.push(stack, region, byref(settings.raw())))
        if pool is None:
            own = Pool(torch, torch.cuda.current_device(), allocator(torch, settings))
            # The graph holds torch's pool by then, for as long as it lives.
            stack.callback(own.drop)
            pool = own.id
            _captured[graph] = pool
        # Frees are put off during a capture: what torch has to spare goes back before.
        torch.cuda.empty_cache()
        stack.enter_context(entered(torch, Level(settings, is_capture=True)))
        stack.enter_context(_regions.capture())
        stack.enter_context(
            torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode=capture_error_mode)
        )
        yield


def capture_pool(
    graph: Any,
    pool: Any,
    *,
    tag: str,
    policy: Policy | str,
    host_mode: HostMode | str | None = None,
) -> Any:
    """A pool of ours to capture ``graph`` in, in place of ``pool``, if that is torch's.

    All graphs that are captured with the same ``pool`` and settings share it, for as long as
    one of them lives.
    """
    if getattr(pool, "id", pool) in list(_captured.values()):
        return pool
    torch = _access.module()
    settings = RegionSettings.of(tag, policy, host_mode=host_mode)
    device: int = torch.cuda.current_device()
    key = (settings, device, getattr(pool, "id", pool))
    shared = _shared.get(key)
    if shared is None:
        shared = _shared[key] = _SharedPool(Pool(torch, device, allocator(torch, settings)))
    shared.graphs += 1

    def gone() -> None:
        shared.graphs -= 1
        if shared.graphs == 0:
            del _shared[key]
            shared.pool.drop()

    weakref.finalize(graph, gone).atexit = False
    _captured[graph] = shared.pool.id
    return shared.pool.id
