"""Wheels that were built before, and environments that they are installed into.

DORMANT_WHEELS names the folder with the wheels of both processors; `.ci/wheels` makes it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python" / "build"))

WHEELS = os.environ.get("DORMANT_WHEELS", "")
NAMES = ("dormant", "torch_memory_saver")
MACHINES = ("x86_64", "aarch64")


def wheel_path(name: str, machine: str) -> Path:
    """The one wheel of this name for this processor."""
    found = sorted(Path(WHEELS).glob(f"{name}-*_{machine}.whl"))
    assert len(found) == 1, f"{WHEELS} should have one wheel {name} for {machine}: {found}"
    return found[0].resolve()


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment without what steers us, Python or the loader."""
    ours = ("DORMANT_", "TMS_", "LD_", "PYTHON", "PYTEST_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**env, "DORMANT_BACKEND": "sim", "DORMANT_SIM_CAPACITY": "64MiB", **(extra or {})}


@dataclass(frozen=True)
class Environment:
    """A virtual environment with wheels in it."""

    folder: Path
    names: tuple[str, ...]

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def site(self) -> Path:
        """Its folder site-packages."""
        (found,) = self.folder.glob("lib/python3*/site-packages")
        return found

    @property
    def libraries(self) -> list[Path]:
        """Every library that our wheels put there."""
        return sorted(self.site.rglob("*.so"))

    def pip(self, *arguments: str) -> str:
        """Runs pip for it, with no index."""
        command = [sys.executable, "-m", "pip", "--python", str(self.python), *arguments]
        return run(command, {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"})

    def run(self, code: str, env: Mapping[str, str] | None = None) -> str:
        """Runs Python code there; nothing may go to standard error."""
        return run([str(self.python), "-W", "error", "-c", code], env)


def run(command: list[str], env: Mapping[str, str] | None = None) -> str:
    """Runs a program to its good end, with nothing on standard error."""
    done = subprocess.run(
        command, env=clean_environment(env), capture_output=True, text=True, timeout=120, cwd="/"
    )
    said = f"{command}\n{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, f"exit code {done.returncode}: {said}"
    assert done.stderr == "", said
    return done.stdout


def make_environment(folder: Path, wheels: list[Path], python: str) -> Environment:
    """A new environment with these wheels and nothing else."""
    run([python, "-m", "venv", "--without-pip", str(folder)])
    made = Environment(folder, tuple(wheel.name.split("-")[0] for wheel in wheels))
    made.pip("install", "-q", *map(str, wheels))
    return made


@pytest.fixture(scope="session")
def wheels() -> None:
    """Says where the wheels are wanted from."""
    if not WHEELS:
        pytest.skip("DORMANT_WHEELS names no folder; .ci/wheels builds one and runs these tests")


@pytest.fixture(scope="session")
def environments(
    wheels: None, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[tuple[str, ...]], Environment]:
    """Environments by the wheels that are in them; each is made once."""
    made: dict[tuple[str, ...], Environment] = {}

    def environment(names: tuple[str, ...]) -> Environment:
        if names not in made:
            folder = tmp_path_factory.mktemp("environment") / "venv"
            paths = [wheel_path(name, "x86_64") for name in names]
            made[names] = make_environment(folder, paths, sys.executable)
        return made[names]

    return environment


@pytest.fixture(
    params=[NAMES, NAMES[:1], NAMES[1:]], ids=["both", "dormant alone", "the drop-in alone"]
)
def installed(
    request: pytest.FixtureRequest, environments: Callable[[tuple[str, ...]], Environment]
) -> Environment:
    """Each of the three environments in turn."""
    return environments(request.param)


@pytest.fixture
def both(environments: Callable[[tuple[str, ...]], Environment]) -> Environment:
    """The environment with both wheels."""
    return environments(NAMES)


@pytest.fixture(scope="session")
def unpacked(wheels: None, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """A wheel's files in a folder, by its name and processor."""

    def unpack(name: str, machine: str) -> Path:
        folder = tmp_path_factory.getbasetemp() / f"{name}-{machine}"
        if not folder.exists():
            with zipfile.ZipFile(wheel_path(name, machine)) as archive:
                archive.extractall(folder)
        return folder

    return unpack


@pytest.fixture(scope="session")
def tool() -> Callable[[str], str]:
    """The path of a program; without it a test is skipped, or fails where CI is to have it."""

    def find(name: str) -> str:
        path = shutil.which(name)
        if path is None and os.environ.get("DORMANT_WHEEL_TOOLS"):
            pytest.fail(f"{name} is not here")
        return path or pytest.skip(f"{name} is not here")

    return find


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The sizes of the wheels, and of what is in them."""
    for path in sorted(Path(WHEELS).glob("*.whl")) if WHEELS else ():
        terminalreporter.write_line(f"{path.stat().st_size / 1e6:6.2f} MB  {path.name}")
