"""The script of cases for a GPU: its own logic, with the fake torch."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from torch_children import PYTHON, run, runtime

SCRIPT = PYTHON.parent / ".ci" / "gpu" / "torch_cases.py"


ONLY = ["F6", "F17", "F22", "retain", "checked", "a plan", "honoured nowhere"]


@pytest.mark.parametrize("only", ONLY)
def test_it_reports_each_case_and_a_total(site: Path, only: str):
    vendored = site / "torch_memory_saver" / "_dormant"
    (site / "dormant").exists() or (site / "dormant").symlink_to(PYTHON / "dormant/src/dormant")
    env = {
        "FAKE_TORCH_CUDART": str(runtime()),
        "FAKE_TORCH_LIBRARY": str(vendored / "_lib" / "libdormant.so"),
        "DORMANT_LIBRARY": str(vendored / "_lib" / "libdormant.so"),
        "PYTHONPATH": os.pathsep.join([str(site), str(PYTHON / "dormant/tests/torch_fakes")]),
    }
    command = [sys.executable, str(SCRIPT), "--scale", "0.001", "--only", only]
    if only == "honoured nowhere":
        with pytest.raises(AssertionError, match="0 passed, 0 failed, 0 skipped"):
            run(command, env)
        return
    *lines, total = run(command, env).stdout.splitlines()
    assert lines
    assert all(line.startswith("PASS ") for line in lines)
    assert total.startswith(f"{len(lines)} passed, 0 failed, 0 skipped")
