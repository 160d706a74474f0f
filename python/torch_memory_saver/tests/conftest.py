"""The tests run in processes of their own; what starts those lies beside the fake torch."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "dormant" / "tests" / "torch_fakes" / "tests"))

from torch_children import PYTHON, library, shim


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a wheel puts into site-packages."""
    if not library().exists():
        pytest.skip(f"{library()} has not been built")
    site = tmp_path_factory.mktemp("site")
    package = site / "torch_memory_saver"
    shutil.copytree(PYTHON / "torch_memory_saver" / "src" / "torch_memory_saver", package)
    shutil.copytree(PYTHON / "dormant" / "src" / "dormant", package / "_dormant")
    (package / "_dormant" / "_lib").mkdir(exist_ok=True)
    (package / "_dormant" / "_lib" / "libdormant.so").symlink_to(library().resolve())
    for mode in ("preload", "torch"):
        for suffix in ("", "_cu12", "_cu13"):
            shutil.copy2(shim(), site / f"torch_memory_saver_hook_mode_{mode}{suffix}.abi3.so")
    return site
