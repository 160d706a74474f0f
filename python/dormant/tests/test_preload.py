from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support import Child

import dormant
from dormant import _native, _preload

TABLE = json.loads((Path(__file__).parent / "preload_cases.json").read_text())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for file in TABLE["files"]:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    for link, file in TABLE["symbolic_links"].items():
        (tmp_path / link).symlink_to(tmp_path / file)
    for link, file in TABLE["hard_links"].items():
        os.link(tmp_path / file, tmp_path / link)
    return tmp_path


@pytest.mark.parametrize("case", TABLE["cases"], ids=lambda case: str(case["name"]))
def test_a_case_of_the_table_shared_with_the_program(
    case: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def filled(text: str) -> str:
        return text.replace("{dir}", str(folder))

    library = filled(case.get("library", TABLE["library"]))
    monkeypatch.setenv("DORMANT_LIBRARY", library)
    before = filled(case["before"])
    if case["after"] is None:
        with pytest.raises(dormant.InvalidArgumentError, match="LD_PRELOAD cannot name"):
            dormant.preload_env(before)
        return
    after = {"LD_PRELOAD": filled(case["after"]), "DORMANT_LIBRARY": library}
    assert dormant.preload_env(before) == after
    assert dormant.preload_env({"LD_PRELOAD": before, "OTHER": "x"}) == after
    monkeypatch.setenv("LD_PRELOAD", before)
    assert dormant.preload_env() == after
    assert dormant.preload_env(after) == after, "once is enough"


def test_a_path_is_made_absolute(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("DORMANT_LIBRARY", "ours/libdormant.so")
    path = f"{folder}/ours/libdormant.so"
    assert dormant.preload_env({}) == {"LD_PRELOAD": path, "DORMANT_LIBRARY": path}


def test_a_library_in_the_package_needs_no_variable(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(folder / "ours" / "libdormant.so")
    monkeypatch.delenv("DORMANT_LIBRARY")
    monkeypatch.setattr(_native, "library_path", lambda: path)
    assert dormant.preload_env({}) == {"LD_PRELOAD": path}


def test_a_path_that_the_loader_would_expand_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "$LIB" / "libdormant.so"
    path.parent.mkdir()
    path.touch()
    monkeypatch.setenv("DORMANT_LIBRARY", str(path))
    with pytest.raises(dormant.InvalidArgumentError, match="dollar sign"):
        dormant.preload_env({})


def test_a_missing_library_is_an_error_and_not_a_line_of_the_loader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DORMANT_LIBRARY", "/nowhere/libdormant.so")
    with pytest.raises(dormant.LibraryMissingError, match=r"/nowhere/libdormant\.so"):
        dormant.preload_env()


def test_programs_run_with_it() -> None:
    environment = {**os.environ, **dormant.preload_env()}
    for command in (["/bin/true"], ["sh", "-c", "sh -c true"], ["/usr/bin/env", "true"]):
        done = subprocess.run(command, env=environment, capture_output=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_merging_needs_no_environment() -> None:
    assert _preload.merged("/x/libdormant.so", "/a.so /b.so") == "/x/libdormant.so:/a.so:/b.so"


RUNTIME = """
int cudaMalloc(void **address, unsigned long bytes) { (void)address; (void)bytes; return 2; }
int cudaFree(void *address) { (void)address; return 0; }
int cudaGetDevice(int *device) { *device = 1; return 0; }
"""


def test_in_a_program_started_with_it_cudamalloc_is_ours(child: Child, tmp_path: Path) -> None:
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    runtime = tmp_path / "libcudart.so.13"
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(runtime)]
    subprocess.run(command, input=RUNTIME, text=True, check=True)
    child(
        f"""
        import ctypes, os, dormant
        ctypes.CDLL({str(runtime)!r})
        cuda_malloc = ctypes.CDLL(None).cudaMalloc
        cuda_malloc.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t]
        def allocated():
            address = ctypes.c_void_p()
            assert cuda_malloc(ctypes.byref(address), 4096) == 0
            return dormant.find(address.value)
        block = allocated()
        assert (block.tag, block.policy, block.device) == ("all", "host", 1), block
        with dormant.region("inner"):
            assert allocated().tag == "inner"
        with dormant.disable():
            address = ctypes.c_void_p()
            assert cuda_malloc(ctypes.byref(address), 4096) == 2, "the runtime's own answer"
        assert dormant.pause("all").moved.blocks == 1
        dormant.resume()
        added = dormant.preload_env()
        assert added == {{name: os.environ[name] for name in ("LD_PRELOAD", "DORMANT_LIBRARY")}}
        """,
        **dormant.preload_env({}),
        DORMANT_ENABLE="1",
        DORMANT_TAG="all",
        DORMANT_POLICY="host",
    )
