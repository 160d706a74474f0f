"""The wheels for the other processor, in an emulator; and the same without Python on this one."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from dormant_wheel import hooks, native

from conftest import ROOT, run

SYSROOT = Path("/usr/aarch64-linux-gnu")
SOURCE = Path(__file__).with_name("smoke.c")
C = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I", f"{ROOT}/crates/dormant-capi/include"]

Unpacked = Callable[[str, str], Path]
Tool = Callable[[str], str]


class Machine:
    """A processor to run programs on."""

    def __init__(self, name: str, emulator: list[str], compiler: list[str], folder: Path) -> None:
        self.name = name
        self.emulator = emulator
        self.smoke = folder / "smoke"
        run([*compiler, *C, str(SOURCE), "-o", str(self.smoke), "-ldl"], dict(os.environ))

    def run(self, *command: str | Path, preload: Path | None = None) -> str:
        """Runs a program for it, to its good end."""
        if not self.emulator:
            env = {"LD_PRELOAD": str(preload)} if preload else {}
            return run([str(part) for part in command], env)
        loader = ["-E", f"LD_PRELOAD={preload}"] if preload else []
        return run([*self.emulator, *loader, *(str(part) for part in command)])


@pytest.fixture(scope="module", params=["x86_64", "aarch64"])
def machine(
    request: pytest.FixtureRequest, tool: Tool, tmp_path_factory: pytest.TempPathFactory
) -> Machine:
    """Each processor in turn."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "x86_64":
        return Machine("x86_64", [], [tool("gcc")], folder)
    emulator = [tool("qemu-aarch64-static"), "-L", str(SYSROOT)]
    compiler = [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-gnu.2.17"]
    return Machine("aarch64", emulator, compiler, folder)


@pytest.fixture
def drop_in(machine: Machine, unpacked: Unpacked) -> Path:
    """The drop-in's files."""
    return unpacked("torch_memory_saver", machine.name)


@pytest.fixture
def program(machine: Machine, unpacked: Unpacked) -> Path:
    """The program, as pip would install it."""
    (path,) = unpacked("dormant", machine.name).glob("*.data/scripts/dormant")
    path.chmod(0o755)
    return path


def test_the_program_shows_the_demo(machine: Machine, program: Path) -> None:
    said = machine.run(program, "demo", "--backend", "sim")
    assert said.rstrip().splitlines()[-1].startswith("OK"), said


def test_the_program_says_what_it_is(machine: Machine, program: Path) -> None:
    build = json.loads(machine.run(program, "info", "--json"))["build"]
    assert build["version"] == native.workspace_version()
    assert build["target"] == f"{machine.name}-unknown-linux-gnu"


def test_the_library_from_c(machine: Machine, unpacked: Unpacked) -> None:
    library = unpacked("dormant", machine.name) / "dormant/_lib/libdormant.so"
    said = machine.run(machine.smoke, library)
    assert said == f"dormant {native.workspace_version()} on sim: well\n"
    assert machine.run(machine.smoke, library, "tms") == "tms: well\n"


def test_every_drop_in_file_from_c(machine: Machine, drop_in: Path) -> None:
    for name in hooks.SHIM_NAMES:
        assert machine.run(machine.smoke, drop_in / name, "tms") == "tms: well\n"


def test_the_preload(machine: Machine, drop_in: Path) -> None:
    for path in (
        drop_in / "torch_memory_saver_hook_mode_preload.abi3.so",
        drop_in / hooks.VENDORED / "_lib/libdormant.so",
    ):
        assert machine.run(machine.smoke, "-", "tms", preload=path) == "tms: well\n"
