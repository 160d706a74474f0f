"""Gathers the licence texts of what is in the native files.

    licences.py BACKEND FOLDER      in the root of the sources

puts our own into FOLDER, and those of each crate that the library and the program are made of into
a folder below it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

SHIPPED = ["dormant-capi", "dormant-shim", "dormant-cli"]
"""The packages whose native files are in the wheels."""

_NAMES = re.compile(r"(LICEN[CS]E|COPYING|NOTICE|COPYRIGHT|UNLICENSE)", re.IGNORECASE)


def linked(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """The packages of others that end up in the native files, by name and version."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    waiting = [key for key, package in packages.items() if package["name"] in SHIPPED]
    seen = set(waiting)
    while waiting:
        for dependency in nodes[waiting.pop()]["deps"]:
            normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if normal and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                waiting.append(dependency["pkg"])
    others = [packages[key] for key in seen if packages[key]["source"] is not None]
    return sorted(others, key=lambda package: (package["name"], package["version"]))


def texts(package: dict[str, Any]) -> list[Path]:
    """The files with a package's licence."""
    folder = Path(package["manifest_path"]).parent
    files = {path for path in folder.iterdir() if path.is_file() and _NAMES.match(path.name)}
    if package["license_file"]:
        files.add(folder / package["license_file"])
    return sorted(files)


def main(arguments: list[str]) -> int:
    """Gathers them."""
    backend, into = arguments[0], Path(arguments[1])
    features = ",".join(f"{package}/{backend}" for package in ("dormant-capi", "dormant-cli"))
    host = next(
        line.removeprefix("host: ")
        for line in subprocess.check_output(["rustc", "-vV"], text=True).splitlines()
        if line.startswith("host: ")
    )
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", host]
    command += ["--no-default-features", "--features", features]
    metadata = json.loads(subprocess.check_output(command))
    into.mkdir(parents=True, exist_ok=True)
    for name in ("LICENSE-MIT", "LICENSE-APACHE"):
        shutil.copyfile(name, into / name)
    table = []
    for package in linked(metadata):
        name = f"{package['name']}-{package['version']}"
        table.append(f"{name}: {package['license'] or package['license_file']}\n")
        files = texts(package)
        if files:
            (into / "crates" / name).mkdir(parents=True)
        for file in files:
            shutil.copyfile(file, into / "crates" / name / file.name)
    (into / "crates.txt").write_text("".join(table), encoding="utf-8")
    print(f"licences of {len(table)} crates")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
