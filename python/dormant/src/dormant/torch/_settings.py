"""Settings of torch's allocator under which its memory may not be ours.

With ``expandable_segments`` torch maps its memory itself, where no hook sees it: a pause would
give back nothing. Pools with an allocator of their own are exempt from that in newer versions of
torch, are refused in some, and are silently served all the same in old ones. So where such a
setting is on, one allocation is tried, and looked up.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any

from .. import _memory
from ..errors import NotSupportedError
from . import _access

if TYPE_CHECKING:
    from .._regions import RegionSettings

_NAMES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
_UNCACHED = "PYTORCH_NO_CUDA_MEMORY_CACHING"
_MENTION = re.compile(r"(?:^|,)expandable_segments:([^,]*)")
_NOT_MENTIONED = None

_proved: dict[str, bool] = {}
"""Whether memory in pools is ours all the same, by setting."""


def check_settings(settings: RegionSettings | None = None) -> None:
    """Raises ``NotSupportedError`` where memory that torch allocates would not be ours.

    ``settings`` are those of the region that is entered, whose memory comes from a pool. ``None``
    is about memory outside of pools, which is ours only through the preloaded hooks.
    """
    torch = _access.module()
    backend = torch.cuda.get_allocator_backend()
    if backend != "native":
        raise NotSupportedError(
            f"torch's allocator is {backend!r}, which has no pools for memory that can be paused: "
            f"take `backend:{backend}` out of {' or '.join(_NAMES)}"
        )
    setting = odd_setting(torch)
    if setting is None:
        return
    if settings is not None and (
        _access.is_capturing(torch) or _is_proved(torch, setting, settings)
    ):
        return
    raise NotSupportedError(
        f"{setting} makes torch allocate where nothing can be paused, and a pause would give back "
        "nothing: set expandable_segments:False"
        if "expandable_segments" in setting
        else f"{setting} makes torch allocate past its pools, and a pause would give back nothing: "
        "unset it"
    )


def odd_setting(torch: Any) -> str | None:
    """The setting under which memory may not be ours, in words; ``None`` where there is none."""
    if os.environ.get(_UNCACHED):
        return _UNCACHED
    if not _is_expandable(torch):
        return None
    for name in _NAMES:
        if _said(os.environ.get(name, "")):
            return f"expandable_segments in {name}"
    return "expandable_segments, set at run time,"


def _is_expandable(torch: Any) -> bool:
    current = getattr(torch._C, "_accelerator_getAllocatorSettings", None)
    if current is not None:
        text = current()
        said = _said(text)
        if said is not _NOT_MENTIONED:
            return said
        # A setting that a later text does not mention stays as it was.
        if not text or text in (os.environ.get(name) for name in _NAMES):
            return False
    elif any(_said(os.environ.get(name, "")) for name in _NAMES):
        return True
    return _snapshot_says(torch)


def _said(text: str) -> bool | None:
    """What a text of settings says last about expandable segments."""
    values = _MENTION.findall("".join(text.split()))
    return values[-1].lower() in ("true", "1", "yes", "on") if values else _NOT_MENTIONED


def _snapshot_says(torch: Any) -> bool:
    """Asks the allocator itself."""
    take = torch._C._cuda_memorySnapshot
    try:
        # Of a pool that there cannot be: without the blocks of a big model. Older Pythons would
        # lose the numbers' references to a defect of torch.
        shot = take((1, 1) if sys.version_info >= (3, 12) else None)
    except TypeError:
        shot = take()
    return bool(shot["allocator_settings"].get("expandable_segments"))


def _is_proved(torch: Any, setting: str, settings: RegionSettings) -> bool:
    if setting not in _proved:
        _proved[setting] = _is_ours(torch, settings)
    return _proved[setting]


def _is_ours(torch: Any, settings: RegionSettings) -> bool:
    """Allocates in a pool, and looks whether that is ours."""
    from ._pools import Pool, allocator

    device = torch.cuda.current_device()
    pool = Pool(torch, device, allocator(torch, settings))
    pool.begin()
    try:
        probe = torch.empty(1, dtype=torch.uint8, device=f"cuda:{device}")
        return _memory.find(probe.data_ptr()) is not None
    except torch.cuda.OutOfMemoryError:
        raise
    except RuntimeError:
        return False
    finally:
        probe = None
        pool.end()
        pool.drop()
