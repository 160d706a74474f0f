"""Builds the native files of the wheels, or takes them from a folder, and checks them.

    python -m dormant_wheel.native FOLDER      builds them into FOLDER, for DORMANT_WHEEL_NATIVE

Parameters are environment variables; an empty one counts as unset:

DORMANT_WHEEL_TARGET   the Rust target; default: the one of this machine
DORMANT_WHEEL_LINKER   `zig` (default: cargo-zigbuild, any glibc from 2.17, any processor) or
                       `system` (plain cargo: for this machine's glibc and newer)
DORMANT_WHEEL_GLIBC    the oldest glibc that the wheel claims; default: 2.17 with zig, else what
                       the files need
DORMANT_WHEEL_PROFILE  the cargo profile; default: release
DORMANT_WHEEL_FEATURES the backends, separated by commas, as in `cuda`; default: cuda,hip,sim. A
                       build with fewer of them says so in its version
DORMANT_WHEEL_NATIVE   a folder with files built before; nothing is built then. They must be of
                       the same commit and the same sources as the Python files
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from . import claims, elf
from .claims import NativeError as NativeError
from .identity import BACKENDS, checkout

ROOT = Path(__file__).resolve().parents[3]
"""The root of the repository."""

LIBRARY, SHIM, PROGRAM = "libdormant.so", "libdormant_shim.so", "dormant"

_PACKAGES = {"dormant-capi": LIBRARY, "dormant-shim": SHIM, "dormant-cli": PROGRAM}
_WITH_BACKENDS = ("dormant-capi", "dormant-cli")
_ARTIFACTS = {"libdormant_capi.so": LIBRARY, "libdormant_shim.so": SHIM, "dormant": PROGRAM}

ZIG_REQUIREMENTS = ["cargo-zigbuild>=0.20,<1", "ziglang>=0.13,<1"]
"""What a build with zig needs beside cargo."""

OLDEST_GLIBC = (2, 17)
"""The oldest that Rust's standard library supports."""

# Libraries that every system with glibc has.
_SYSTEM = re.compile(
    r"(libc\.so\.6|libm\.so\.6|libdl\.so\.2|libpthread\.so\.0|librt\.so\.1|libgcc_s\.so\.1"
    r"|ld-linux-[a-z0-9-]+\.so\.[0-9])"
)


def _version(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)\.(\d+)", text)
    if match is None:
        raise NativeError(f"a glibc version looks like 2.17, not like {text!r}")
    return int(match[1]), int(match[2])


def _backends(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    asked = {name.strip() for name in text.split(",")}
    if strange := sorted(asked - set(BACKENDS)):
        raise NativeError(
            f"DORMANT_WHEEL_FEATURES is {text!r}; the backends are {', '.join(BACKENDS)}, "
            f"and {strange[0]!r} is none"
        )
    return tuple(name for name in BACKENDS if name in asked)


@dataclass(frozen=True)
class Settings:
    """The parameters of a build."""

    target: str | None = None
    linker: str = "zig"
    glibc: tuple[int, int] | None = None
    profile: str = "release"
    prebuilt: Path | None = None
    features: tuple[str, ...] | None = None
    """The backends; None: all of them, or those of the files built before."""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Settings:
        """As the environment says."""

        def value(name: str) -> str | None:
            return environment.get(f"DORMANT_WHEEL_{name}") or None

        linker = value("LINKER") or "zig"
        if linker not in ("zig", "system"):
            raise NativeError(f"DORMANT_WHEEL_LINKER is {linker!r}; it can be zig or system")
        prebuilt, glibc = value("NATIVE"), value("GLIBC")
        return cls(
            target=value("TARGET"),
            linker=linker,
            glibc=_version(glibc) if glibc else None,
            profile=value("PROFILE") or "release",
            prebuilt=Path(prebuilt) if prebuilt else None,
            features=_backends(value("FEATURES")),
        )

    @property
    def requirements(self) -> list[str]:
        """The Python packages that this build needs."""
        return [] if self.prebuilt or self.linker != "zig" else list(ZIG_REQUIREMENTS)

    @property
    def claim(self) -> tuple[int, int] | None:
        """The glibc that the wheel shall claim; None: what the files need."""
        if self.glibc is None and self.linker == "zig" and self.prebuilt is None:
            return OLDEST_GLIBC
        return self.glibc


@dataclass(frozen=True)
class Native:
    """Native files that were checked, and the platform tag that is true of them."""

    files: dict[str, Path]
    platform: str
    scratch: Path
    """A folder for the time of the build."""
    version: str
    """What a wheel with them is called."""

    @property
    def tag(self) -> str:
        """The wheel's tag: any Python 3."""
        return f"py3-none-{self.platform}"


def workspace_version() -> str:
    """The version in the workspace's Cargo.toml, which every wheel shows."""
    text = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    section = re.search(r"^\[workspace\.package\]$(.*?)^\[", text, re.MULTILINE | re.DOTALL)
    found = section and re.search(r'^version *= *"([^"]+)"', section[1], re.MULTILINE)
    if not found:
        raise NativeError("Cargo.toml has no version under [workspace.package]")
    return found[1]


def host_target() -> str:
    """The Rust target of this machine."""
    text = _output(["rustc", "-vV"])
    found = re.search(r"^host: (.+)$", text, re.MULTILINE)
    if found is None:
        raise NativeError("rustc does not say which target it is for")
    return found[1]


def _output(command: list[str], env: dict[str, str] | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, check=False)
    except FileNotFoundError as missing:
        raise NativeError(f"{command[0]} is needed to build the native files") from missing
    if done.returncode != 0:
        raise NativeError(f"exit code {done.returncode}: {' '.join(command)}")
    return done.stdout.decode()


def build_environment(settings: Settings) -> dict[str, str]:
    """The environment that cargo is to build in."""
    env = dict(os.environ)
    # Cargo would take what one linker made for what another would make.
    linked = "-".join([settings.linker, *map(str, settings.claim or ())])
    # And of two sets of backends each would build the other's anew.
    linked = "-".join([linked, *_chosen(settings)])
    target = Path(env.get("CARGO_TARGET_DIR") or "target") / "wheel" / linked
    env["CARGO_TARGET_DIR"] = str(ROOT / target)
    # The linker strips, so no tool for the target's processor is needed.
    profile = settings.profile.upper().replace("-", "_")
    env[f"CARGO_PROFILE_{profile}_STRIP"] = "symbols"
    env[f"CARGO_PROFILE_{profile}_DEBUG"] = "0"
    # Messages name source files; those of the building machine are nobody's matter.
    home = Path(env.get("CARGO_HOME") or Path.home() / ".cargo")
    places = {ROOT: "dormant", home / "registry" / "src": "cargo", home: "cargo"}
    encoded = env.pop("CARGO_ENCODED_RUSTFLAGS", None)
    flags = encoded.split("\x1f") if encoded else env.get("RUSTFLAGS", "").split()
    # Of several that match, rustc takes the last.
    for place, name in sorted(places.items(), key=lambda item: len(item[0].parts)):
        flags.append(f"--remap-path-prefix={place}=/{name}")
    env["CARGO_ENCODED_RUSTFLAGS"] = "\x1f".join(flags)
    # Beside this interpreter is where pip puts cargo-zigbuild, also where PATH does not lead.
    env["PATH"] = os.pathsep.join([env.get("PATH", ""), str(Path(sys.executable).parent)])
    env["CARGO_ZIGBUILD_PYTHON_PATH"] = env.get("CARGO_ZIGBUILD_PYTHON_PATH") or sys.executable
    return env


def _chosen(settings: Settings) -> tuple[str, ...]:
    """The backends, where they are not simply all."""
    return () if settings.features in (None, BACKENDS) else settings.features or ()


def claim(settings: Settings) -> claims.Claim:
    """What a wheel with these settings says that it is."""
    library = None
    if settings.prebuilt is not None:
        if not (settings.prebuilt / LIBRARY).is_file():
            raise NativeError(f"DORMANT_WHEEL_NATIVE has no {LIBRARY}")
        library = claims.read(settings.prebuilt / LIBRARY)
    features = settings.features or (library.features if library else BACKENDS)
    return claims.claim(checkout(ROOT), workspace_version(), features, library)


def held(claim: claims.Claim, files: Mapping[str, Path]) -> None:
    """Raises where one of these files is not what the claim says."""
    with_backends = frozenset(_PACKAGES[package] for package in _WITH_BACKENDS)
    identities = {name: claims.read(path) for name, path in files.items()}
    claims.hold(claim, identities, with_backends)


def cargo_command(settings: Settings) -> list[str]:
    """What builds the files."""
    target = settings.target or host_target()
    command = ["cargo"]
    if settings.linker == "zig":
        major, minor = settings.claim or OLDEST_GLIBC
        command += ["zigbuild", "--target", f"{target}.{major}.{minor}"]
    else:
        command += ["build", "--target", target]
    command += ["--locked", "--profile", settings.profile]
    command += ["--message-format", "json-render-diagnostics"]
    for package in _PACKAGES:
        command += ["--package", package]
    if chosen := _chosen(settings):
        wanted = [f"{package}/{name}" for package in _WITH_BACKENDS for name in chosen]
        command += ["--no-default-features", "--features", ",".join(wanted)]
    return command


def build(settings: Settings, into: Path) -> None:
    """Builds the files and puts them there under the names that they are shipped by."""
    command = cargo_command(settings)
    into.mkdir(parents=True, exist_ok=True)
    built: set[str] = set()
    for line in _output(command, build_environment(settings)).splitlines():
        message = json.loads(line) if line.startswith("{") else {}
        if message.get("reason") != "compiler-artifact":
            continue
        if not {"cdylib", "bin"} & set(message["target"]["crate_types"]):
            continue
        for file in map(Path, message["filenames"]):
            if name := _ARTIFACTS.get(file.name):
                shutil.copy2(file, into / name)
                built.add(name)
    if missing := sorted(set(_PACKAGES.values()) - built):
        raise NativeError(f"cargo built no {', '.join(missing)}")


def glibc_needed(files: Iterable[elf.Elf]) -> tuple[tuple[int, int], str]:
    """The newest glibc that one of the files needs, and a symbol version that shows it."""
    newest, why = (0, 0), "nothing"
    for file in files:
        for version in file.versions:
            if version == "GLIBC_PRIVATE":
                raise NativeError(f"{file.path.name} uses what is private to one glibc")
            if version == "GLIBC_ABI_DT_RELR":
                number = (2, 36)
            elif match := re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", version):
                number = int(match[1]), int(match[2])
            else:
                continue
            if number > newest:
                newest, why = number, f"{file.path.name} needs {version}"
    return newest, why


def check(files: dict[str, Path], claim: tuple[int, int] | None) -> str:
    """The platform tag of these files, if they can be shipped under one."""
    read = [elf.read(path) for path in files.values()]
    machines = sorted({file.machine for file in read})
    if len(machines) != 1:
        raise NativeError(f"the files are for different processors: {', '.join(machines)}")
    for file in read:
        if strange := sorted(name for name in file.needed if not _SYSTEM.fullmatch(name)):
            raise NativeError(f"{file.path.name} needs {', '.join(strange)}, which not all have")
        if not file.stripped:
            raise NativeError(
                f"{file.path.name} is not stripped; `python -m dormant_wheel.native` builds "
                "files that are"
            )
        if file.path.name == LIBRARY and file.soname != LIBRARY:
            raise NativeError(f"{file.path.name} calls itself {file.soname}")
    needed, why = glibc_needed(read)
    claim = max(needed, OLDEST_GLIBC) if claim is None else claim
    if needed > claim:
        raise NativeError(f"the wheel claims glibc {claim[0]}.{claim[1]}, but {why}")
    return f"manylinux_{claim[0]}_{claim[1]}_{machines[0]}"


def native(settings: Settings, names: Iterable[str], scratch: Path) -> Native:
    """The files of these names, built now or before, checked, in a scratch folder."""
    names = list(names)
    if settings.prebuilt is None:
        build(settings, scratch)
    elif missing := [name for name in names if not (settings.prebuilt / name).is_file()]:
        raise NativeError(f"DORMANT_WHEEL_NATIVE has no {', '.join(missing)}")
    else:
        for name in names:
            shutil.copy2(settings.prebuilt / name, scratch / name)
    files = {name: scratch / name for name in names}
    for name, path in files.items():
        # Wheels keep this, and the same files are to make the same wheel.
        path.chmod(0o755 if name == PROGRAM else 0o644)
    platform = check(files, settings.claim)
    claimed = claim(settings)
    held(claimed, files)
    return Native(files, platform, scratch, claimed.local_version)


def main(arguments: list[str]) -> int:
    """Builds the files into a folder, and says what they are."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    into = Path(arguments[0])
    try:
        settings = Settings.of(os.environ)
        build(settings, into)
        files = {name: into / name for name in _PACKAGES.values()}
        platform = check(files, settings.claim)
        claimed = claim(replace(settings, prebuilt=None))
        held(claimed, files)
        (needed, why) = glibc_needed(elf.read(path) for path in files.values())
    except (NativeError, elf.ElfError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{platform}; {why}" if needed != (0, 0) else platform)
    print(claimed.local_version)
    for name, path in files.items():
        print(f"{path.stat().st_size:>10}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
