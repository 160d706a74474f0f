"""The interface of ``torch_memory_saver``, served by dormant.

It is for programs that import that name; new ones use ``dormant`` itself, whose regions, pauses and
errors these are. See the migration notes for what differs on purpose.
"""

from __future__ import annotations

from importlib import metadata as _metadata

from .entrypoint import TorchMemorySaver
from .hooks.mode_preload import configure_subprocess

try:
    __version__ = _metadata.version("torch_memory_saver")
except _metadata.PackageNotFoundError:  # From a source tree.
    __version__ = "0.0.10+dormant"

torch_memory_saver = TorchMemorySaver()
"""The one object that programs use."""

__all__ = ["TorchMemorySaver", "configure_subprocess", "torch_memory_saver"]
