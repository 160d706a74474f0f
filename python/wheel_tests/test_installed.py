"""The wheels, together and each alone, as pip installs them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from dormant_wheel import hooks, identity, native

from conftest import NAMES, Environment, clean_environment, make_environment, run, wheel_path

PRELOAD = "torch_memory_saver_hook_mode_preload.abi3.so"

A_BLOCKS_LIFE = """
import ctypes
with {module}.region("weights", policy="host"):
    address = {module}.allocate(3 << 20)
ctypes.memset(address, 0xA5, 3 << 20)
paused = {module}.pause("weights")
assert (paused.moved.blocks, paused.copied.blocks) == (1, 1), paused
{module}.resume()
assert {module}.read(address, 3 << 20) == b"\\xa5" * (3 << 20)
{module}.free(address)
assert not list({module}.blocks())
print({module}._native.library_path(), {module}.__version__, {module}.backend())
"""


def a_blocks_life(environment: Environment, module: str) -> tuple[Path, str]:
    code = f"import {module}\n" + A_BLOCKS_LIFE.format(module=module)
    library, version, backend = environment.run(code).split()
    assert backend == "sim"
    return Path(library), version


def test_pip_finds_nothing_wrong(installed: Environment) -> None:
    assert "No broken requirements" in installed.pip("check")


def test_dormant(installed: Environment) -> None:
    if "dormant" not in installed.names:
        installed.run("import importlib.util as u; assert u.find_spec('dormant') is None")
        return
    library, version = a_blocks_life(installed, "dormant")
    assert library == installed.site / "dormant/_lib/libdormant.so"
    assert version == native.workspace_version()
    said = installed.run("from importlib.metadata import version as v; print(v('dormant'))")
    assert said == native.claim(native.Settings()).local_version + "\n"
    assert said.startswith(f"{version}+")


def test_the_drop_in(installed: Environment) -> None:
    if "torch_memory_saver" not in installed.names:
        assert not list(installed.site.glob("torch_memory_saver*"))
        return
    library, _ = a_blocks_life(installed, "torch_memory_saver._dormant")
    assert library == installed.site / hooks.VENDORED / "_lib/libdormant.so"
    installed.run("from torch_memory_saver import torch_memory_saver, configure_subprocess")
    at_the_root = {path.name for path in installed.site.iterdir() if path.is_file()}
    assert {name for name in at_the_root if name.endswith(".so")} == set(hooks.SHIM_NAMES)


def test_requirements_on_torch_memory_saver_are_met(both: Environment) -> None:
    for wanted in (">=0.0.9.post1", ">=0.0.10", "==0.0.10"):
        said = both.pip("install", f"torch_memory_saver{wanted}")
        assert "already satisfied" in said, said


def test_the_program(installed: Environment) -> None:
    program = installed.folder / "bin" / "dormant"
    if "dormant" not in installed.names:
        assert not program.exists()
        return
    assert (
        run([str(program), "demo", "--backend", "sim"]).rstrip().splitlines()[-1].startswith("OK")
    )
    build = json.loads(run([str(program), "info", "--json"]))["build"]
    assert build["version"] == native.workspace_version()
    assert build["target"] == "x86_64-unknown-linux-gnu"
    assert {"cuda", "hip", "sim"} <= set(build["features"])


def test_the_program_finds_the_library_to_preload(both: Environment) -> None:
    printing = "import os; print(os.environ['LD_PRELOAD'])"
    command = [str(both.folder / "bin" / "dormant"), "run", "--", str(both.python), "-c", printing]
    assert run(command) == f"{both.site}/dormant/_lib/libdormant.so\n"


def test_the_program_and_both_libraries_are_of_one_build(both: Environment) -> None:
    claim = native.claim(native.Settings())
    for module in ("dormant", "torch_memory_saver._dormant"):
        said = json.loads(run([str(both.python), "-m", module, "build-info", "--json"]))
        library = both.site / module.replace(".", "/") / "_lib" / native.LIBRARY
        assert said.pop("library") == str(library)
        assert identity.parse(said) == identity.note(library)
        assert (said["commit"], said["source"]) == (claim.commit, claim.source)
    program = both.folder / "bin/dormant"
    build = json.loads(run([str(program), "info", "--json"]))["build"]
    assert build["commit"] == claim.commit
    assert identity.note(program) == identity.note(library)


def test_the_identity_is_held_to_a_commit(both: Environment) -> None:
    command = [str(both.python), "-m", "dormant", "build-info", "--expect-commit"]
    done = subprocess.run(
        [*command, "f" * 40], env=clean_environment(), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "f" * 40 in done.stderr
    claim = native.claim(native.Settings())
    if claim.commit and not claim.dirty:
        assert claim.commit in run([*command, claim.commit])


def test_the_glue_is_checked_against_torch_in_both_wheels(both: Environment) -> None:
    for module in ("dormant", "torch_memory_saver._dormant"):
        command = [str(both.python), "-m", f"{module}.check_torch"]
        done = subprocess.run(
            command, env=clean_environment(), capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 1
        assert "no torch" in done.stderr


def test_pytest_finds_the_fixture(both: Environment) -> None:
    both.run(
        "from importlib.metadata import distribution\n"
        "(entry,) = distribution('dormant').entry_points\n"
        "assert (entry.group, entry.name) == ('pytest11', 'dormant'), entry\n"
        "import importlib.util\n"
        "assert importlib.util.find_spec(entry.value), entry\n"
        "assert not list(distribution('torch_memory_saver').entry_points)"
    )


def programs() -> list[list[str]]:
    found = [["/bin/true"], ["sh", "-c", "exec /bin/true"], [sys.executable, "-c", "pass"]]
    if shutil.which("gcc"):
        found += [["gcc", "-v"], ["sh", "-c", "echo 'int x;' | gcc -x c -c - -o /dev/null"]]
    return found


@pytest.mark.parametrize("command", programs(), ids=" ".join)
@pytest.mark.parametrize("enable", ["", "1"], ids=["", "with TMS_INIT_ENABLE"])
def test_programs_without_a_gpu_run_under_the_preload(
    both: Environment, command: list[str], enable: str
) -> None:
    def answer(env: dict[str, str]) -> tuple[int, str, str]:
        done = subprocess.run(
            command, env=clean_environment(env), capture_output=True, text=True, timeout=60
        )
        return done.returncode, done.stdout, done.stderr

    plain = answer({})
    assert plain[0] == 0
    assert command == ["gcc", "-v"] or plain[2] == ""
    assert len(both.libraries) == 8
    for library in both.libraries:
        with_it = answer({"LD_PRELOAD": str(library), "TMS_INIT_ENABLE": enable})
        assert with_it == plain, library


def test_one_entry_of_the_preload(both: Environment) -> None:
    code = """
import os, re, subprocess, sys
from torch_memory_saver import configure_subprocess
inner = '''
import os
from torch_memory_saver import configure_subprocess
with configure_subprocess():
    print(os.environ["LD_PRELOAD"])
'''
with configure_subprocess():
    print(os.environ["LD_PRELOAD"])
    with configure_subprocess():
        print(os.environ["LD_PRELOAD"])
    print(subprocess.run([sys.executable, "-c", inner], stdout=-1, text=True, check=True).stdout)
print(os.environ.get("LD_PRELOAD"))
"""
    # A library that every system has and that does no harm.
    other = "libdl.so.2"
    *inside, after = both.run(code, {"LD_PRELOAD": other}).split()
    assert after == other
    assert len(inside) == 3
    for value in inside:
        entries = value.replace(":", " ").split()
        ours = [entry for entry in entries if "torch_memory_saver" in entry]
        assert len(ours) == 1, value
        assert Path(ours[0]).parent == both.site, value
        assert other in entries, value


def interpreters() -> list[str]:
    """The Pythons of this machine that we are for, but for the one of the other tests."""
    found: dict[int, str] = {}
    pyenv = Path.home() / ".pyenv" / "versions"
    for minor in range(9, 20):
        candidates = [f"python3.{minor}", *map(str, pyenv.glob(f"3.{minor}.*/bin/python3"))]
        for candidate in filter(shutil.which, candidates):
            said = subprocess.run(
                [candidate, "-c", "import sys; print(sys.version_info[1])"], capture_output=True
            )
            if said.stdout == f"{minor}\n".encode() and minor != sys.version_info[1]:
                found[minor] = candidate
    return list(found.values())


def test_every_python_of_this_machine(
    wheels: None, tmp_path: Path, tool: Callable[[str], str]
) -> None:
    for number, python in enumerate(interpreters()):
        paths = [wheel_path(name, "x86_64") for name in NAMES]
        environment = make_environment(tmp_path / str(number), paths, python)
        a_blocks_life(environment, "dormant")
        a_blocks_life(environment, "torch_memory_saver._dormant")
        environment.run("from torch_memory_saver import torch_memory_saver, configure_subprocess")
        print(environment.run("import sys; print(sys.version)"))
