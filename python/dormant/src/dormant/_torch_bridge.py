"""Where this package meets torch, which it does not need and never imports itself."""

from __future__ import annotations

import sys
from typing import Any


def glue() -> Any | None:
    """Our torch glue, if the program has imported torch and torch can use a GPU."""
    if "torch" not in sys.modules:
        return None
    from . import torch

    return torch if torch.usable() else None
