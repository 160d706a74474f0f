"""What build the library is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from support import SOURCE, Child

import dormant

COMMIT = "45c0a3705a1b2c3d4e5f60718293a4b5c6d7e8f9"


def known(**changed: object) -> dormant.BuildInfo:
    said = replace(dormant.build_info(), commit=COMMIT, dirty=False)
    return replace(said, **changed)  # type: ignore[arg-type]


def test_it_says_what_it_is() -> None:
    info = dormant.build_info()
    assert info.version == dormant.__version__
    assert info.library == os.path.realpath(os.environ["DORMANT_LIBRARY"])
    assert "sim" in info.features
    assert "free-while-paused" in info.guarantees
    assert info.rustc.startswith("rustc ")
    assert (info.commit is None) == (info.dirty is None)
    assert info.source is None or len(info.source) == len("sha256:") + 64
    assert info == dormant.build_info()


def test_as_text_it_is_one_line() -> None:
    info = dormant.build_info()
    said = str(info)
    assert said.startswith(f"dormant {dormant.__version__}, commit {info.commit or 'unknown'}")
    assert "\n" not in said
    assert said not in repr(info)


def test_it_needs_no_device(child: Child) -> None:
    said = child("import dormant; print(dormant.build_info().version)", DORMANT_BACKEND="cuda")
    assert said == f"{dormant.__version__}\n"


@pytest.mark.parametrize("commit", [COMMIT, COMMIT[:7], COMMIT.upper()])
def test_a_build_of_the_commit(commit: str) -> None:
    assert known().mismatch(commit) is None


@pytest.mark.parametrize(
    ("info", "commit", "reason"),
    [
        ({}, "f" * 40, f"is of {COMMIT}, not ffff"),
        ({"dirty": True}, COMMIT, f"is of {COMMIT} with changes, source "),
        ({"commit": None, "dirty": None}, COMMIT, f"an unknown commit, not known to be {COMMIT}"),
        ({}, COMMIT[:6], "is no commit"),
        ({}, "", "is no commit"),
        ({}, COMMIT + "00", f"is of {COMMIT}, not {COMMIT}00"),
        ({}, "main", "is no commit"),
    ],
)
def test_another_build(info: dict[str, object], commit: str, reason: str) -> None:
    said = known(**info).mismatch(commit)
    assert said is not None
    assert reason in said


def module(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "dormant", *arguments],
        env={**os.environ, "PYTHONPATH": str(SOURCE), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_module_says_it() -> None:
    info = dormant.build_info()
    done = module("build-info")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{info}\n", "")
    said = json.loads(module("build-info", "--json").stdout)
    assert said.pop("schema") == 1
    said["features"], said["guarantees"] = tuple(said["features"]), tuple(said["guarantees"])
    assert dormant.BuildInfo(**said, line="") == info


def test_the_module_holds_it_to_a_commit() -> None:
    info = dormant.build_info()
    done = module("build-info", "--expect-commit", "f" * 40)
    assert done.returncode == 1
    assert "f" * 40 in done.stderr
    if info.commit is not None:
        done = module("build-info", "--expect-commit", info.commit)
        assert done.returncode == (1 if info.dirty else 0), done.stderr


def test_the_module_says_why_there_is_no_library() -> None:
    done = module("build-info", DORMANT_LIBRARY="/nowhere/libdormant.so")
    assert (done.returncode, done.stdout) == (1, "")
    assert "DORMANT_LIBRARY names /nowhere/libdormant.so" in done.stderr
    assert module().returncode == 2
