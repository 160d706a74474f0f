"""Tests that run in a process of their own, with the fake torch and a simulated device.

The engine and torch's allocator are process-wide, a preloaded library is there from the start, and
other tests must not see the fake.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
PYTHON = _HERE.parents[3]
"""The folder with the two packages."""
MIB = 2**20

Test = Callable[..., None]


def library() -> Path:
    """The library under test."""
    named = os.environ.get("DORMANT_LIBRARY")
    target = Path(os.environ.get("CARGO_TARGET_DIR", PYTHON.parent / "target"))
    return Path(named) if named else target / "debug" / "libdormant_capi.so"


@functools.cache
def _scratch() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="dormant-fakes-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.cache
def runtime() -> Path:
    """A stand-in for the CUDA runtime library, of which hooks are told by its name."""
    import pytest

    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler for the stand-in of the runtime library")
    made = _scratch() / "libcudart.so.13"
    source = _HERE.parent / "fake_cudart.c"
    name = ["-Wl,-soname,libcudart.so.13"]
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", *name, "-o", str(made), str(source)], check=True
    )
    return made


@functools.cache
def shim() -> Path:
    """The drop-in's library under the name that it has in a wheel, beside no package."""
    import pytest

    built = library().with_name("libdormant_shim.so")
    if not built.exists():
        pytest.skip(f"{built} has not been built")
    copy = _scratch() / "torch_memory_saver_hook_mode_preload.abi3.so"
    shutil.copy2(built, copy)
    return copy


def preloaded() -> dict[str, str]:
    """The environment of a program that has our hooks."""
    return {"LD_PRELOAD": str(shim()), "FAKE_TORCH_CUDART": str(runtime())}


def environment(more: dict[str, str], paths: tuple[str, ...] = ()) -> dict[str, str]:
    """For a child: nothing of this process's own settings."""
    ours = ("DORMANT_", "TMS_", "PYTORCH_", "FAKE_TORCH_", "LD_PRELOAD")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    default = [
        _HERE.parent,
        PYTHON / "dormant" / "src",
        PYTHON / "torch_memory_saver" / "src",
        _HERE,
    ]
    return {
        **kept,
        "DORMANT_LIBRARY": str(library()),
        "DORMANT_BACKEND": "sim",
        "DORMANT_SIM_HOOKS": "1",
        "DORMANT_SIM_CAPACITY": "256MiB",
        "PYTHONPATH": os.pathsep.join([*paths, *map(str, default)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        **more,
    }


def run(
    command: list[str], more: dict[str, str] | None = None, paths: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Runs a program; fails where it fails."""
    import pytest

    if not library().exists():
        pytest.skip(f"{library()} has not been built")
    done = subprocess.run(
        command,
        env=environment(more or {}, paths),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def in_child(quiet: bool = True, **more: str) -> Callable[[Test], Test]:
    """Runs a test in a process of its own, with ``more`` in its environment.

    ``quiet``: nothing may come out on standard error.
    """

    def decorate(function: Test) -> Test:
        @functools.wraps(function)
        def test(**arguments: Any) -> None:
            file = sys.modules[function.__module__].__file__
            extra = arguments.pop("environment", {})
            given = json.dumps(arguments)
            command = [sys.executable, __file__, str(file), function.__name__, given]
            done = run(command, {**more, **extra})
            assert not quiet or done.stderr == "", done.stderr

        test.body = function  # type: ignore[attr-defined]
        return test

    return decorate


def _main(file: str, name: str, arguments: str) -> None:
    sys.path.insert(0, os.path.dirname(file))
    importlib.import_module("torch")  # Before any region is entered.
    spec = importlib.util.spec_from_file_location("test_in_child", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["test_in_child"] = module
    spec.loader.exec_module(module)
    getattr(module, name).body(**json.loads(arguments))


if __name__ == "__main__":
    _main(*sys.argv[1:])
