"""What both ways have in common."""

from __future__ import annotations

from typing import Any, Literal

HookMode = Literal["preload", "torch"]
"""``preload``: a library in ``LD_PRELOAD``, which also sees what others than torch allocate in a
region. ``torch``: torch's own pools alone. Regions use torch's pools in both."""


class HookUtilBase:
    """Where the library of a mode is."""

    @staticmethod
    def create(hook_mode: HookMode) -> HookUtilBase:
        """The one for a mode."""
        if hook_mode == "preload":
            from .mode_preload import HookUtilModePreload

            return HookUtilModePreload()
        if hook_mode == "torch":
            from .mode_torch import HookUtilModeTorch

            return HookUtilModeTorch()
        raise ValueError(f"no hook_mode {hook_mode!r}; there are 'preload' and 'torch'")

    def get_path_binary(self) -> str:
        """The library file."""
        raise NotImplementedError

    def get_allocator(self) -> Any | None:
        """Torch's allocator for the mode, if it has one."""
        return None
