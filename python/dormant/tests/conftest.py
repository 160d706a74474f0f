"""The simulated device for all tests, and child processes for those that need a fresh one."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import REPOSITORY, SOURCE, Child

sys.path.insert(0, str(SOURCE))
os.environ.update(
    DORMANT_BACKEND="sim",
    DORMANT_SIM_CAPACITY="64MiB",
    DORMANT_SIM_DEVICES="2",
    DORMANT_SIM_HOOKS="1",
)
if not os.environ.get("DORMANT_LIBRARY"):
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    os.environ["DORMANT_LIBRARY"] = str(target / "debug" / "libdormant_capi.so")

import dormant


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    """No test leaves memory or a margin behind."""
    yield
    for block in dormant.blocks():
        dormant.free(block.address)
    dormant.set_memory_margin_bytes(0)


@pytest.fixture
def child() -> Child:
    """Runs Python in a process of its own, which is to end well and say nothing on stderr."""

    def run(code: str, **environment: str | None) -> str:
        merged = {**os.environ, "PYTHONPATH": str(SOURCE)}
        for name, value in environment.items():
            if value is None:
                merged.pop(name, None)
            else:
                merged[name] = value
        # A fork beside threads is what some tests are about.
        command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(code)]
        done = subprocess.run(command, env=merged, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
        return done.stdout

    return run
