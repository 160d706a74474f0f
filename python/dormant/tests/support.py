"""What several tests use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
REPOSITORY = PACKAGE.parent.parent
SOURCE = PACKAGE / "src"
MIB = 2**20

Child = Callable[..., str]
"""Runs Python in a process of its own; answers what it prints. Keywords are its environment."""
