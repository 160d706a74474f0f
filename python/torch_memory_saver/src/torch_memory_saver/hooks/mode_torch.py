"""Torch's pools alone, with nothing preloaded."""

from __future__ import annotations

from typing import Any

from .._core import dormant, glue
from .base import HookUtilBase


class HookUtilModeTorch(HookUtilBase):
    """Torch's pluggable allocator."""

    def get_path_binary(self) -> str:
        """The library file."""
        from .mode_preload import installed

        return installed("torch_memory_saver_hook_mode_torch")

    def get_allocator(self) -> Any | None:
        """Torch's allocator for memory with the tag ``default`` whose contents are discarded."""
        import torch

        return glue.allocator(torch, dormant.RegionSettings())
