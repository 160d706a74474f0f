"""Building the wheels: parameters, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from dormant_wheel import elf, hooks, identity, native

from conftest import NAMES, ROOT, clean_environment, make_environment, wheel_path

Unpacked = Callable[[str, str], Path]


@pytest.fixture
def files(unpacked: Unpacked, tmp_path: Path) -> Path:
    """Native files, as a folder of files that were built before."""
    drop_in = unpacked("torch_memory_saver", "x86_64")
    (program,) = unpacked("dormant", "x86_64").glob("*.data/scripts/dormant")
    for name, path in {
        native.LIBRARY: drop_in / hooks.VENDORED / "_lib" / native.LIBRARY,
        native.SHIM: drop_in / hooks.SHIM_NAMES[0],
        native.PROGRAM: program,
    }.items():
        (tmp_path / name).write_bytes(path.read_bytes())
    return tmp_path


def build(project: str, into: Path, **parameters: str) -> subprocess.CompletedProcess[str]:
    """Builds a wheel with these parameters."""
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    env = clean_environment({f"DORMANT_{name}": value for name, value in parameters.items()})
    return subprocess.run(
        [*command, "--no-index", "-w", str(into), str(ROOT / "python" / project)],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_base_version_is_a_parameter(files: Path, tmp_path: Path) -> None:
    ours = native.claim(native.Settings()).local_version.replace("+", ".")
    for base in ("0.0.9", "0.0.9.post1"):
        into = tmp_path / base
        done = build(
            "torch_memory_saver",
            into,
            WHEEL_NATIVE=str(files),
            TMS_VERSION=base,
            WHEEL_GLIBC="2.17",
        )
        assert done.returncode == 0, done.stderr
        (wheel,) = into.iterdir()
        assert wheel.name.startswith(f"torch_memory_saver-{base}+dormant.{ours}-py3-none-"), wheel
        environment = make_environment(into / "venv", [wheel], sys.executable)
        said = environment.pip("install", f"torch_memory_saver=={base}")
        assert "already satisfied" in said, said
        assert "No broken requirements" in environment.pip("check")


def test_a_base_version_that_is_none_is_refused(files: Path, tmp_path: Path) -> None:
    done = build("torch_memory_saver", tmp_path, WHEEL_NATIVE=str(files), TMS_VERSION="latest")
    assert done.returncode != 0
    assert "DORMANT_TMS_VERSION is 'latest'" in done.stderr


def test_a_wheel_built_again_is_the_same(files: Path, tmp_path: Path) -> None:
    done = build("torch_memory_saver", tmp_path / "again", WHEEL_NATIVE=str(files))
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "again").iterdir()
    assert wheel.read_bytes() == wheel_path("torch_memory_saver", "x86_64").read_bytes()


def test_a_stale_file_is_in_no_wheel(files: Path, tmp_path: Path) -> None:
    # As built from another commit: the library says so, whatever the checkout is.
    library = files / native.LIBRARY
    said = identity.note(library)
    if said.commit is None:
        pytest.skip("this checkout has no git")
    content = library.read_bytes()
    assert content.count(said.commit.encode())
    library.write_bytes(content.replace(said.commit.encode(), b"f" * len(said.commit)))
    for project in NAMES:
        done = build(project, tmp_path / "out", WHEEL_NATIVE=str(files))
        assert done.returncode != 0
        assert "libdormant.so is of " + "f" * 40 in done.stderr
    assert not list((tmp_path / "out").glob("*.whl"))


def test_backends_that_the_files_do_not_have_are_refused(files: Path, tmp_path: Path) -> None:
    done = build("dormant", tmp_path, WHEEL_NATIVE=str(files), WHEEL_FEATURES="cuda")
    assert done.returncode != 0
    assert (
        "has the backends cuda hip sim, and the wheel is to have the backends cuda" in done.stderr
    )


def test_a_claim_of_a_glibc_that_is_too_old_is_refused(files: Path, tmp_path: Path) -> None:
    done = build("dormant", tmp_path, WHEEL_NATIVE=str(files), WHEEL_GLIBC="2.16")
    assert done.returncode != 0
    assert "the wheel claims glibc 2.16, but libdormant.so needs GLIBC_2.17" in done.stderr


def test_missing_files_are_named(tmp_path: Path) -> None:
    settings = native.Settings(prebuilt=tmp_path)
    with pytest.raises(native.NativeError, match=r"no libdormant\.so, dormant"):
        native.native(settings, [native.LIBRARY, native.PROGRAM], tmp_path)


def test_files_of_two_processors_are_refused(
    files: Path, unpacked: Unpacked, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = unpacked("torch_memory_saver", "aarch64") / hooks.SHIM_NAMES[0]
    (files / native.SHIM).write_bytes(other.read_bytes())
    with pytest.raises(native.NativeError, match="different processors: aarch64, x86_64"):
        native.native(
            native.Settings(prebuilt=files),
            [native.LIBRARY, native.SHIM],
            tmp_path_factory.mktemp("scratch"),
        )


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ([], "is not stripped"),
        (["-s"], "calls itself None"),
        (["-s", "-Wl,--no-as-needed", "-lstdc++"], r"needs libstdc\+\+\.so\.6"),
    ],
)
def test_libraries_that_cannot_be_shipped_are_refused(
    tmp_path: Path, tool: Callable[[str], str], flags: list[str], complaint: str
) -> None:
    library = tmp_path / native.LIBRARY
    source = tmp_path / "library.c"
    source.write_text("int answer(void) { return 42; }\n")
    subprocess.run(
        [tool("gcc"), "-shared", "-fPIC", str(source), "-o", str(library), *flags], check=True
    )
    with pytest.raises(native.NativeError, match=complaint):
        native.check({native.LIBRARY: library}, None)


def test_without_a_claim_the_tag_says_what_the_files_need(
    tmp_path: Path, tool: Callable[[str], str]
) -> None:
    system = os.confstr("CS_GNU_LIBC_VERSION") or ""
    if tuple(map(int, system.split()[-1].split("."))) < (2, 34):
        pytest.skip("this system's glibc gives pthread_create the oldest version")
    library = tmp_path / native.LIBRARY
    source = tmp_path / "library.c"
    source.write_text("#include <pthread.h>\nvoid *symbol(void) { return pthread_create; }\n")
    flags = ["-shared", "-fPIC", "-s", f"-Wl,-soname,{native.LIBRARY}"]
    subprocess.run([tool("gcc"), *flags, str(source), "-o", str(library)], check=True)
    assert native.check({native.LIBRARY: library}, None) == "manylinux_2_34_x86_64"


def test_what_is_no_native_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / native.LIBRARY).write_text("#!/bin/sh\n")
    with pytest.raises(elf.ElfError, match="is not a little-endian 64-bit ELF file"):
        elf.read(tmp_path / native.LIBRARY)


def test_only_wheels_are_built() -> None:
    hooks.wheel_only("wheel", "standard")
    for target, version in (("sdist", "standard"), ("wheel", "editable")):
        with pytest.raises(native.NativeError, match="only wheels"):
            hooks.wheel_only(target, version)


@pytest.mark.parametrize("project", NAMES)
def test_pip_is_told_which_tools_the_build_needs(project: str) -> None:
    asking = "from hatchling.build import get_requires_for_build_wheel as r; print(*r())"

    def wanted(**parameters: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", asking],
            cwd=ROOT / "python" / project,
            env=clean_environment(parameters),
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()

    assert wanted() == " ".join(native.ZIG_REQUIREMENTS)
    assert wanted(DORMANT_WHEEL_LINKER="system") == ""
    assert wanted(DORMANT_WHEEL_NATIVE="somewhere") == ""


def test_parameters() -> None:
    assert native.Settings.of({"DORMANT_WHEEL_TARGET": ""}) == native.Settings()
    assert native.Settings().claim == (2, 17)
    assert native.Settings(linker="system").claim is None
    assert native.Settings(prebuilt=Path("x")).requirements == []
    assert native.Settings().requirements == native.ZIG_REQUIREMENTS
    given = native.Settings.of({"DORMANT_WHEEL_GLIBC": "2.28", "DORMANT_WHEEL_LINKER": "system"})
    assert given.claim == (2, 28)
    assert given.requirements == []
    for name, value in (("LINKER", "gold"), ("GLIBC", "new")):
        with pytest.raises(native.NativeError, match=value):
            native.Settings.of({f"DORMANT_WHEEL_{name}": value})
