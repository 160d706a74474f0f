"""The last step of an image's build: is what was installed here what was wanted, and does it work?

Runs in the image, with the parts of the builder's image beside it, as root and as an ordinary user.
Whatever does not hold ends the build, with the reason.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import json
import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SITE = Path(sysconfig.get_path("purelib"))
PROGRAM = Path(sysconfig.get_path("scripts")) / "dormant"
LIBRARY = SITE / "dormant" / "_lib" / "libdormant.so"
DROP_IN_LIBRARY = SITE / "torch_memory_saver" / "_dormant" / "_lib" / "libdormant.so"
SHIM = SITE / "torch_memory_saver_hook_mode_preload.abi3.so"
LINKED = Path("/usr/local/lib/libdormant.so")
"""Where programs that are not Python find the library."""

DRIVERS = {
    "cuda": ("libcuda.so.1", "DORMANT_CUDA_LIBRARY"),
    "hip": ("libamdhip64.so.7", "DORMANT_HIP_LIBRARY"),
}
"""The stand-in for each backend's driver, and the variable that says where it is."""

HIP_BEHAVIOURS = {"rocm-7.0": ["7.0"], "rocm-7.2": ["7.2", "7.2-patched"]}
"""Which runtimes the stand-in acts out for a variant; for another one all of them."""

ORDINARY = 1000
"""An ordinary user, who need not have a name."""


class Failed(Exception):
    """Something does not hold; the text says what."""


@dataclass(frozen=True)
class Wanted:
    """What the image is to be."""

    parts: Path
    backend: str
    variant: str
    commit: str
    source: str

    def environments(self) -> list[dict[str, str]]:
        """Each state of the vendor's driver that this variant can meet."""
        if self.backend != "hip":
            return [{}]
        known = sorted({value for values in HIP_BEHAVIOURS.values() for value in values})
        behaviours = HIP_BEHAVIOURS.get(self.variant, known)
        return [{"DORMANT_DOUBLE_HIP_VERSION": behaviour} for behaviour in behaviours]


def run(
    command: list[str], user: int | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command, as another user if there is one, with nothing of ours in its environment."""
    own = ("DORMANT_", "TMS_", "LD_", "PYTHON")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    clean.update(env or {}, HOME="/tmp", PYTHONDONTWRITEBYTECODE="1")
    identity: dict[str, Any] = {}
    if user is not None:
        identity = {"user": user, "group": user, "extra_groups": []}
    return subprocess.run(
        command,
        env=clean,
        cwd="/tmp",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        **identity,
    )


def expect(command: list[str], user: int | None = None, env: dict[str, str] | None = None) -> str:
    """Runs a command that is to succeed, and gives what it wrote."""
    done = run(command, user, env)
    if done.returncode != 0:
        shown = " ".join([f"{name}={value}" for name, value in (env or {}).items()] + command)
        raise Failed(f"exit code {done.returncode}: {shown}\n{done.stdout}{done.stderr}".rstrip())
    return done.stdout


def files_are_as_installed() -> None:
    """Holds that nobody changed a file of the two packages since pip installed it."""
    for package in ("dormant", "torch_memory_saver"):
        records = sorted(SITE.glob(f"{package}-*.dist-info/RECORD"))
        if len(records) != 1:
            raise Failed(f"{package} is installed {len(records)} times in {SITE}, not once")
        for name, recorded, _ in csv.reader(records[0].read_text().splitlines()):
            path = SITE / name
            if not path.is_file():
                raise Failed(f"{path} is gone since {package} was installed")
            kind, _, wanted = recorded.partition("=")
            if kind != "sha256":
                continue
            digest = hashlib.sha256(path.read_bytes()).digest()
            if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != wanted:
                raise Failed(f"{path} was changed since {package} was installed")


def identity(path: Path) -> dict[str, Any]:
    """What a native file says of its own build; it is not loaded for that."""
    found: dict[str, Any] = json.loads(expect([str(PROGRAM), "inspect", str(path), "--json"]))
    return found


def native_files() -> list[Path]:
    """All of ours that are installed here."""
    shims = sorted(SITE.glob("torch_memory_saver_hook_mode_*.so"))
    if SHIM not in shims:
        raise Failed(f"{SHIM} is not there")
    return [LIBRARY, DROP_IN_LIBRARY, LINKED, PROGRAM, *shims]


def identities_are_as_wanted(wanted: Wanted) -> None:
    """Holds each native file against the pin, and the libraries against the backend."""
    for path in native_files():
        found = identity(path)
        for what, expected in (("commit", wanted.commit), ("source", wanted.source)):
            if found[what] != expected:
                said = found[what] or "unknown"
                raise Failed(f"{path} is built from {what} {said}, expected {expected}")
        if found["dirty"] is not False:
            raise Failed(f"{path} is built from commit {wanted.commit} with changes to it")
        if path.name.startswith("torch_memory_saver"):
            continue
        if found["features"] != [wanted.backend]:
            raise Failed(f"{path} has {found['features']}, expected {wanted.backend} alone")
    contents = {path.read_bytes() for path in (LIBRARY, DROP_IN_LIBRARY, LINKED)}
    if len(contents) != 1:
        raise Failed(f"{LIBRARY}, {DROP_IN_LIBRARY} and {LINKED} are not the same library")


def suite_holds(wanted: Wanted, user: int | None) -> None:
    """Runs the conformance suite in the installed library, on the vendor's stand-in."""
    soname, variable = DRIVERS[wanted.backend]
    command = [str(PROGRAM), "verify", "--backend", wanted.backend, "--alone", "--wait", "0"]
    command += ["--expect-commit", wanted.commit, "--expect-source", wanted.source]
    command += ["--device", "0", "--device", "1"]
    for state in wanted.environments():
        stand_in = {variable: str(wanted.parts / "lib" / soname)}
        simulated = {"DORMANT_SIM_DEVICES": "2", "DORMANT_SIM_CAPACITY": "128MiB"}
        # Else new memory is zero there, whether anybody has cleared it or not.
        simulated["DORMANT_SIM_FAULTS"] = "stale_bytes"
        said = expect(command, user, {**stand_in, **simulated, **state})
        counted = [line for line in said.splitlines() if line.startswith(("cases:", "guarantees:"))]
        shown = "; ".join(" ".join(line.split()) for line in counted)
        print(f"{named(user)}: {' '.join(['verify', *state.values()])}: {shown}", flush=True)


def seed_ends_well(wanted: Wanted, user: int | None) -> None:
    """Runs the case that this project grew from, under each file that can be preloaded."""
    programs = sorted((wanted.parts / "bin").iterdir())
    if not programs:
        raise Failed(f"there is no program in {wanted.parts / 'bin'}")
    for program in programs:
        for preloaded in (LIBRARY, SHIM):
            for state in wanted.environments():
                variables = {
                    "LD_PRELOAD": str(preloaded),
                    "LD_LIBRARY_PATH": str(wanted.parts / "lib"),
                    "DORMANT_SIM_DEVICES": "1",
                    "DORMANT_SIM_CAPACITY": "64MiB",
                    **state,
                }
                said = last_line(expect([str(program)], user, variables))
                if said != "all is well":
                    raise Failed(f"{program} under {preloaded} ended with: {said}")
                print(f"{named(user)}: {program.name} under {preloaded.name}: {said}", flush=True)


def packages_are_usable(user: int | None) -> None:
    """Holds that the program answers, that Python finds both packages, and that pip is content."""
    expect([str(PROGRAM), "info"], user)
    expect(["dormant", "info"], user)
    expect([sys.executable, "-c", "import dormant; dormant.build_info()"], user)
    expect([sys.executable, "-c", "import torch_memory_saver"], user)
    expect([sys.executable, "-m", "pip", "check", "--disable-pip-version-check"], user)


def named(user: int | None) -> str:
    """Who that is."""
    return "as root" if user is None else f"as user {user}"


def last_line(text: str) -> str:
    """The last line that has words."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def main() -> int:
    """Runs all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", type=Path, required=True)
    parser.add_argument("--backend", choices=sorted(DRIVERS), required=True)
    for name in ("--variant", "--commit", "--source"):
        parser.add_argument(name, required=True)
    wanted = Wanted(**vars(parser.parse_args()))
    try:
        if not wanted.commit or not wanted.source:
            raise Failed("the image does not say which commit and which source it is to have")
        identities_are_as_wanted(wanted)
        files_are_as_installed()
        for user in (None, ORDINARY):
            packages_are_usable(user)
            suite_holds(wanted, user)
            seed_ends_well(wanted, user)
    except Failed as failed:
        print(f"self-test of {wanted.variant} failed: {failed}", file=sys.stderr)
        return 1
    print(f"self-test of {wanted.variant}: all holds for commit {wanted.commit}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
