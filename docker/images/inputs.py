"""The content hash of all that feeds an image: one function the same function for every image."""

import argparse
import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from images.errors import ImagesError
from images.locked import Lock
from images.pins import Pins, Variant
from images.sources import FILES, FOLDERS, git, read_blobs, tree_at

SCHEMA = 1
# What only goes into the wheels: an overlay replaces all of it.
WHEELS = {
    "source": (*FILES, *FOLDERS),
    "python": ("python/build", "python/dormant", "python/torch_memory_saver"),
}
# The rest. `{image}` is cuda or rocm, `{requirements}` the file that pins.toml names.
RECIPE = {
    "dockerfiles": ("docker/Dockerfile.builder", "docker/Dockerfile.{image}"),
    "recipe": ("docker/recipe",),
    "tools": ("{requirements}",),
}
# What the builder takes from the sources beside the wheels.
WITH_SOURCES = {
    # The stand-ins' programs for the self-test; cargo wants the manifests of the whole workspace.
    "verify": ("tests/Cargo.toml", "tests/src", "tests/c", "benches/Cargo.toml"),
    "licences": ("LICENSE-MIT", "LICENSE-APACHE"),
}
# Single files that the recipe's steps name. A commit from before one of them cannot be built.
NAMED = (
    "crates/dormant-capi/include/dormant.h",
    # What each native file says of itself, and the self-test reads.
    "crates/dormant-identity/Cargo.toml",
    "python/build/dormant_wheel/native.py",
    "tests/src/bin/verify-parts.rs",
)
# Below those folders, but not in any image.
NOT_SHIPPED = ("python/dormant/tests/", "python/torch_memory_saver/tests/")

TMS_VERSION_HELP = "of torch_memory_saver, that the drop-in stands for; default: the wheel's"

Files = dict[str, str]
Lister = Callable[[str], Files]


@dataclass(frozen=True)
class Inputs:
    """The two hashes, and all that went into them, to see what differs."""

    inputs: str
    recipe: str
    document: dict[str, Any]


def inputs_of(
    root: Path,
    pins: Pins,
    lock: Lock,
    variant: Variant,
    *,
    wheels: Path | None = None,
    source_commit: str | None = None,
    tms_version: str = "",
) -> Inputs:
    """Hash everything that feeds a variant's image.

    `wheels` is a folder of local wheels that go into the image too. With `source_commit` the
    sources, packages and self-test's programs are those of that commit, not of the working tree.
    `tms_version` is what the drop-in stands for, if not the default.
    """
    tree = worktree_lister(root)
    sources = commit_lister(root, source_commit) if source_commit else tree
    recipe: dict[str, Any] = {
        "variant": variant.row(),
        "base": lock.digest(variant.base),
        "toolchain": {"rust": pins.rust, "image": pins.rust_image},
        "toolchain_digest": lock.digest(pins.rust_image),
    }
    for name, paths in RECIPE.items():
        filled = (p.format(image=variant.image, requirements=pins.requirements) for p in paths)
        recipe[name] = _files(filled, tree)
    recipe.update({name: _files(paths, sources) for name, paths in WITH_SOURCES.items()})
    into_wheels: dict[str, Any] = {n: _files(paths, sources) for n, paths in WHEELS.items()}
    into_wheels["tms_version"] = tms_version
    into_wheels["local_wheels"] = _local_wheels(wheels) if wheels is not None else {}
    return Inputs(
        _hash({"recipe": recipe, "wheels": into_wheels}),
        _hash({"recipe": recipe}),
        {"recipe": recipe, "wheels": into_wheels},
    )


def tms_version(text: str) -> str:
    """Return what may be such a version, or is empty; the build of the wheel looks closer."""
    if not re.fullmatch(r"(\d[0-9a-z.]*)?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no version as in 0.0.9.post1")
    return text


def lacking(root: Path, commit: str) -> list[str]:
    """Return what the recipe needs of the sources and that commit does not have."""
    needed = [p for paths in (*WHEELS.values(), *WITH_SOURCES.values(), NAMED) for p in paths]
    there = {name for _, _, name in tree_at(root, commit, needed)}
    return [
        path
        for path in needed
        if path not in there and not any(name.startswith(f"{path}/") for name in there)
    ]


def worktree_lister(root: Path) -> Lister:
    """List files as git sees them: tracked, and untracked unless ignored; as they are now."""

    def files(path: str) -> Files:
        listing = git(
            root, "ls-files", "-z", "-c", "-o", "--exclude-standard", "--deduplicate", "--", path
        ).stdout
        found: Files = {}
        for name in map(os.fsdecode, filter(None, listing.split(b"\0"))):
            try:
                found[name] = _entry(root / name)
            except FileNotFoundError:
                continue  # Tracked and deleted.
        return found

    return files


def commit_lister(root: Path, commit: str) -> Lister:
    """List the files of a commit, from git's objects."""

    def files(path: str) -> Files:
        blobs = {name: (mode, blob) for mode, blob, name in tree_at(root, commit, [path])}
        if odd := [name for name, (mode, _) in blobs.items() if mode == "160000"]:
            raise ImagesError(f"{odd[0]}: submodules are not counted")
        contents = read_blobs(root, (blob for _, blob in blobs.values()))
        return {name: _line(mode, contents[blob]) for name, (mode, blob) in blobs.items()}

    return files


def _files(paths: Iterable[str], lister: Lister) -> Files:
    found: Files = {}
    for path in paths:
        here = {
            name: entry for name, entry in lister(path).items() if not name.startswith(NOT_SHIPPED)
        }
        if not here:
            raise ImagesError(f"{path} feeds the image and is not there (or git ignores it)")
        found.update(here)
    return found


def _entry(file: Path) -> str:
    mode = file.lstat().st_mode
    if stat.S_ISLNK(mode):
        return _line("120000", os.fsencode(os.readlink(file)))
    if not stat.S_ISREG(mode):
        raise ImagesError(
            f"{file}: neither a file nor a symbolic link (submodules are not counted)"
        )
    return _line("100755" if mode & stat.S_IXUSR else "100644", file.read_bytes())


def _line(mode: str, content: bytes) -> str:
    return f"{mode} {hashlib.sha256(content).hexdigest()}"


def _local_wheels(folder: Path) -> Files:
    found = {file.name: _entry(file.resolve()) for file in sorted(folder.glob("*.whl"))}
    if not found:
        raise ImagesError(f"{folder} has no wheel")
    return found


def _hash(document: dict[str, Any]) -> str:
    text = json.dumps({"schema": SCHEMA, **document}, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode("ascii")).hexdigest()
