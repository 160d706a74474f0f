"""What is in the wheels, without installing them."""

from __future__ import annotations

import email
import email.message
import re
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from dormant_wheel import elf, hooks, identity, native
from packaging.specifiers import SpecifierSet
from packaging.utils import parse_wheel_filename

from conftest import MACHINES, NAMES, ROOT, wheel_path

pytestmark = pytest.mark.usefixtures("wheels")

CLAIM = native.claim(native.Settings())
VERSION = CLAIM.local_version
DROP_IN_VERSION = f"0.0.10+dormant.{VERSION.replace('+', '.')}"

Unpacked = Callable[[str, str], Path]

# What users of torch_memory_saver look up in its files.
TMS_SYMBOLS = {
    "set_memory_margin_bytes",
    "tms_get_cpu_backup_backend",
    "tms_get_cpu_backup_pointer",
    "tms_get_current_tag",
    "tms_get_enable_cpu_backup",
    "tms_get_enable_disk_backup",
    "tms_get_interesting_region",
    "tms_get_retain_cpu_backup",
    "tms_pause",
    "tms_resume",
    "tms_set_cpu_backup_backend",
    "tms_set_current_tag",
    "tms_set_disk_backup_dir",
    "tms_set_enable_cpu_backup",
    "tms_set_enable_disk_backup",
    "tms_set_interesting_region",
    "tms_set_retain_cpu_backup",
    "tms_torch_free",
    "tms_torch_malloc",
}
HOOKS = {"cudaMalloc", "cudaFree", "hipMalloc", "hipFree"}
HOOK = re.compile(
    r"(cuda|hip)(Malloc|Free|DeviceEnablePeerAccess|DeviceDisablePeerAccess|IpcGetMemHandle"
    r"|StreamBeginCapture(ToGraph)?(_ptsz|_spt)?|StreamEndCapture(_ptsz|_spt)?)"
)


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    """Each processor in turn."""
    found: str = request.param
    return found


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    """Each wheel in turn."""
    found: str = request.param
    return found


def metadata(name: str, machine: str, file: str) -> email.message.Message:
    with zipfile.ZipFile(wheel_path(name, machine)) as archive:
        (path,) = (p for p in archive.namelist() if p.endswith(f".dist-info/{file}"))
        return email.message_from_bytes(archive.read(path))


def exported(path: Path) -> set[str]:
    """As `nm` sees it; our own reader must see the same."""
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", str(path)], capture_output=True, text=True, check=True
    ).stdout
    names = {line.split()[-1].split("@")[0] for line in listing.splitlines()}
    assert names == elf.read(path).exports
    return names


def test_the_tag_is_that_of_the_oldest_glibc(name: str, machine: str) -> None:
    _, _, build, tags = parse_wheel_filename(wheel_path(name, machine).name)
    assert not build
    assert {str(tag) for tag in tags} == {f"py3-none-manylinux_2_17_{machine}"}
    wheel = metadata(name, machine, "WHEEL")
    assert wheel.get_all("Tag") == [str(tag) for tag in tags]
    assert wheel["Root-Is-Purelib"] == "false"


def test_the_metadata(name: str, machine: str) -> None:
    said = metadata(name, machine, "METADATA")
    assert said["Requires-Python"] == ">=3.9"
    assert said["License-Expression"] == "MIT OR Apache-2.0"
    wanted = said.get_all("Requires-Dist") or []
    assert all("extra ==" in one for one in wanted), f"no dependencies: {wanted}"


def test_the_versions(machine: str) -> None:
    assert metadata("dormant", machine, "METADATA")["Version"] == VERSION
    drop_in = metadata("torch_memory_saver", machine, "METADATA")
    assert (drop_in["Name"], drop_in["Version"]) == (
        "torch_memory_saver",
        DROP_IN_VERSION,
    )
    for wanted in (">=0.0.9.post1", ">=0.0.10", "==0.0.10", "~=0.0.9"):
        assert SpecifierSet(wanted).contains(drop_in["Version"]), wanted


def test_the_files(machine: str, unpacked: Unpacked) -> None:
    def files(folder: Path) -> set[str]:
        return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}

    source = ROOT / "python" / "dormant" / "src" / "dormant"
    package = {path for path in files(source) if path.endswith((".py", "py.typed"))}
    assert "py.typed" in package
    package.add("_lib/libdormant.so")

    def dist_info(folder: str) -> set[str]:
        texts = ("METADATA", "RECORD", "WHEEL", "licenses/LICENSE-MIT", "licenses/LICENSE-APACHE")
        return {f"{folder}.dist-info/{text}" for text in texts}

    release = f"dormant-{VERSION}"
    assert files(unpacked("dormant", machine)) == (
        {f"dormant/{path}" for path in package}
        | {f"{release}.data/scripts/dormant", f"{release}.dist-info/entry_points.txt"}
        | dist_info(release)
    )
    drop_in = ROOT / "python" / "torch_memory_saver" / "src" / "torch_memory_saver"
    own = {path for path in files(drop_in) if path.endswith((".py", "py.typed"))}
    assert files(unpacked("torch_memory_saver", machine)) == (
        {f"torch_memory_saver/_dormant/{path}" for path in package}
        | {f"torch_memory_saver/{path}" for path in own}
        | {
            f"torch_memory_saver_hook_mode_{mode}{suffix}.abi3.so"
            for mode in ("preload", "torch")
            for suffix in ("", "_cu12", "_cu13")
        }
        | dist_info(f"torch_memory_saver-{DROP_IN_VERSION}")
    )


def test_both_wheels_have_the_same_package_and_library(machine: str, unpacked: Unpacked) -> None:
    ours = unpacked("dormant", machine) / "dormant"
    vendored = unpacked("torch_memory_saver", machine) / hooks.VENDORED
    for path in ours.rglob("*"):
        if path.is_file():
            assert (vendored / path.relative_to(ours)).read_bytes() == path.read_bytes(), path


def native_files(unpacked: Unpacked, machine: str) -> list[Path]:
    folders = [unpacked(name, machine) for name in NAMES]
    return [
        path
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.suffix == ".so" or path.match("*.data/scripts/dormant")
    ]


def test_the_native_files_are_what_the_version_says(machine: str, unpacked: Unpacked) -> None:
    files = native_files(unpacked, machine)
    assert len(files) == 9
    for path in files:
        # The drop-in's files are copies of one.
        name = native.SHIM if path.name in hooks.SHIM_NAMES else path.name
        said = identity.note(path)
        native.held(CLAIM, {name: path})
        assert said.target == f"{machine}-unknown-linux-gnu"
        assert bool(said.guarantees) == (name != native.SHIM), path


def test_the_native_files_run_on_any_system(machine: str, unpacked: Unpacked) -> None:
    files = native_files(unpacked, machine)
    assert len(files) == 9
    for path in files:
        read = elf.read(path)
        assert read.machine == machine, path
        assert read.stripped, path
        needed, why = native.glibc_needed([read])
        assert needed <= (2, 17), why
        # Kernels for this processor may have pages of 64 KiB.
        assert machine != "aarch64" or read.load_alignment >= 65536, path


def test_the_native_files_name_no_folder_of_the_machine_that_built_them(
    machine: str, unpacked: Unpacked
) -> None:
    folders = (f"{ROOT}/", f"{Path.home()}/", "/registry/src/")
    for path in native_files(unpacked, machine):
        content = path.read_bytes()
        for folder in folders:
            at = content.find(folder.encode())
            assert at < 0, f"{path.name}: {content[max(at - 50, 0) : at + 150]!r}"


def test_the_library_exports_our_names_only(machine: str, unpacked: Unpacked) -> None:
    library = unpacked("dormant", machine) / "dormant/_lib/libdormant.so"
    assert elf.read(library).soname == "libdormant.so"
    names = exported(library)
    assert names >= TMS_SYMBOLS | HOOKS
    assert names >= {f"dormant_torch_malloc_{slot}" for slot in range(128)}
    rest = {name for name in names if not name.startswith(("dormant_", "tms_"))} - TMS_SYMBOLS
    strange = {name for name in rest if not HOOK.fullmatch(name)}
    assert not strange


def test_every_drop_in_file_exports_what_its_users_look_up(
    machine: str, unpacked: Unpacked
) -> None:
    folder = unpacked("torch_memory_saver", machine)
    assert sorted(path.name for path in folder.glob("*.so")) == sorted(hooks.SHIM_NAMES)
    for path in folder.glob("*.so"):
        names = exported(path)
        assert names >= TMS_SYMBOLS | HOOKS, path
        rest = names - TMS_SYMBOLS - {"dormant_serves"}
        assert not {name for name in rest if not HOOK.fullmatch(name)}, path
        # Programs look for their features by reading the file.
        assert b"TMS_INIT_ENABLE_DISK_BACKUP" in path.read_bytes(), path


def test_the_wheels_are_small(name: str, machine: str) -> None:
    assert wheel_path(name, machine).stat().st_size < 5_000_000
