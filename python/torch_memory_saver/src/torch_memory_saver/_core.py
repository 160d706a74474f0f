"""The package ``dormant``: the copy in this distribution, or in development an installed one."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import dormant
else:

    def _load() -> Any:
        vendored = f"{__package__}._dormant"
        there = importlib.util.find_spec(vendored) is not None
        return importlib.import_module(vendored if there else "dormant")

    dormant = _load()

native: Any = importlib.import_module(f"{dormant.__name__}._native")
preload: Any = importlib.import_module(f"{dormant.__name__}._preload")
glue: Any = importlib.import_module(f"{dormant.__name__}.torch")

__all__ = ["dormant", "glue", "native", "preload"]
