"""Builds the wheel ``torch_memory_saver``: the drop-in, with dormant and its library inside."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "build"))

from dormant_wheel import hooks, native


class Metadata(MetadataHookInterface):
    """The version of what it stands in for, and of the wheel ``dormant``."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Sets it."""
        metadata["version"] = hooks.drop_in_version()


class Build(BuildHookInterface[Any]):
    """The native files and the vendored package."""

    def dependencies(self) -> list[str]:
        """What the build needs beside hatchling."""
        return hooks.requirements()

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds them."""
        hooks.wheel_only(self.target_name, version)
        self.scratch = TemporaryDirectory(prefix="dormant-wheel-")
        settings = native.Settings.of(os.environ)
        files = native.native(
            settings, [native.LIBRARY, native.SHIM], Path(self.scratch.name).resolve()
        )
        hooks.drop_in(files, self.metadata.version, build_data)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Leaves nothing behind."""
        self.scratch.cleanup()
