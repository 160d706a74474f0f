"""`docker/build`: builds images of one commit, from the pins and the lock, for this machine."""

import argparse
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from images.bake import TMS_VERSION, version
from images.engines import ENGINES, Engine, Job, engine
from images.errors import ImagesError
from images.inputs import TMS_VERSION_HELP, inputs_of, lacking, tms_version
from images.lock import ROOT
from images.locked import Entry, Lock, load_lock
from images.pins import Pins, Variant, load_pins
from images.reference import Reference
from images.sources import git, source_hash_at

SOURCES = "target/images/source"
"""Where clones of commits are kept: an engine takes the same folder again from its cache."""

PLATFORMS = {"x86_64": "linux/amd64", "aarch64": "linux/arm64"}


@dataclass(frozen=True)
class Source:
    """A commit that is built."""

    commit: str
    hash: str
    epoch: int
    folder: Path


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run the program; 0 when all images are built."""
    options = _options(arguments)
    try:
        _build(options, root)
    except (ImagesError, OSError) as error:
        print(f"docker/build: {error}", file=sys.stderr)
        return 1
    return 0


def _build(options: argparse.Namespace, root: Path) -> None:
    pins, lock = load_pins(root), load_lock(root)
    variants = [pins.variant(name) for name in options.variants]
    for variant in variants:
        _is_for_this_machine(variant)
    if changed := _changed(root, "docker"):
        if options.push:
            raise ImagesError(f"{changed} has changes that are in no commit: nothing is pushed")
        print(f"docker/build: {changed} has changes that are in no commit", file=sys.stderr)
    builder = engine(options.engine)
    source = source_of(root, pins, options.source)
    rust, lock = _taken(builder, lock, pins.rust_image, options.rust_image)
    for variant in variants:
        base, known = _taken(builder, lock, variant.base, options.base)
        wheels = options.builder_image or _wheels(builder, root, source, variant, rust, options)
        inputs = inputs_of(
            root,
            pins,
            known,
            variant,
            source_commit=source.commit,
            tms_version=options.tms_version,
        )
        tag = options.tag or f"localhost/dormant:{variant.name}"
        labels = {}
        if options.base:
            labels["org.dormant.base-stand-in"] = variant.base
        if options.rust_image:
            labels["org.dormant.toolchain-stand-in"] = pins.rust_image
        builder.build(
            Job(
                root / f"docker/Dockerfile.{variant.image}",
                root / "docker",
                tag,
                {
                    "BUILDER_IMAGE": wheels,
                    "BASE_IMAGE": base,
                    "BASE_NAME": options.base or variant.base,
                    "BASE_DIGEST": known.digest(variant.base) or "",
                    "BACKEND": variant.backend,
                    "VARIANT": variant.name,
                    "VERSION": version(source.folder),
                    "SOURCE_URL": options.source_url,
                    "EXPECT_COMMIT": source.commit,
                    "EXPECT_SOURCE": source.hash,
                    "INPUTS": inputs.inputs,
                    "RECIPE": inputs.recipe,
                },
                source.epoch,
                labels=labels,
            )
        )
        if options.push:
            print(Reference.parse(tag).at(builder.push(tag)))
        else:
            print(f"{tag} {builder.digest(tag)}")


def _wheels(
    builder: Engine,
    root: Path,
    source: Source,
    variant: Variant,
    rust: str,
    options: argparse.Namespace,
) -> str:
    """Build the builder's image; with all of it in the engine's cache that is quick."""
    tag = f"localhost/dormant-builder:{variant.image}-{source.commit[:12]}"
    if options.tms_version:
        tag += f"-tms-{options.tms_version}"
    builder.build(
        Job(
            root / "docker/Dockerfile.builder",
            root / "docker",
            tag,
            {"RUST_IMAGE": rust, "BACKEND": variant.backend, TMS_VERSION: options.tms_version},
            source.epoch,
            contexts={"source": source.folder},
            secrets={"ca": options.secret_ca.resolve()} if options.secret_ca else {},
            cached=not options.no_cache,
        )
    )
    return tag


def source_of(root: Path, pins: Pins, wanted: str | None) -> Source:
    """Return a clean clone of the wanted commit; without one, of that which the pins name."""
    commit = pins.commit
    if wanted is not None:
        found = git(root, "rev-parse", "--verify", "--quiet", f"{wanted}^{{commit}}", check=False)
        if found.returncode != 0:
            raise ImagesError(f"there is no commit {wanted}")
        commit = found.stdout.decode().strip()
    if wanted == "HEAD" and (changed := _changed(root, ".")):
        raise ImagesError(
            f"{changed} has changes that are in no commit, and would not be in the image; "
            f"--source {commit} builds without them"
        )
    source = source_hash_at(root, commit)
    if commit == pins.commit and source != pins.source:
        raise ImagesError(
            f"commit {commit} has the source {source}, but the pins say {pins.source}"
        )
    if lacks := lacking(root, commit):
        raise ImagesError(
            f"commit {commit} lacks {', '.join(lacks)}: "
            "the recipe that is checked out cannot build it"
        )
    epoch = int(git(root, "show", "--no-patch", "--format=%ct", commit).stdout)
    return Source(commit, source, epoch, _clone(root, commit))


def _clone(root: Path, commit: str) -> Path:
    folder = root / SOURCES / commit
    if _is_clean(folder, commit):
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        fresh = Path(scratch, "clone")
        git(root, "init", "--quiet", str(fresh))
        git(fresh, "fetch", "--quiet", "--depth", "1", root.resolve().as_uri(), commit)
        git(fresh, "checkout", "--quiet", "--detach", commit)
        # It says where it came from, which is nobody's matter.
        (fresh / ".git/FETCH_HEAD").unlink()
        fresh.rename(folder)
    if not _is_clean(folder, commit):
        raise ImagesError(f"the clone of {commit} in {folder} is not clean")
    return folder


def _is_clean(folder: Path, commit: str) -> bool:
    if not (folder / ".git").is_dir():
        return False
    head = git(folder, "rev-parse", "HEAD", check=False).stdout.decode().strip()
    changes = git(folder, "status", "--porcelain", "--ignored", check=False)
    return head == commit and changes.returncode == 0 and not changes.stdout


def _changed(root: Path, path: str) -> str | None:
    """Return the first file below `path` that is not as in HEAD."""
    lines = git(root, "status", "--porcelain", "-z", "--", path).stdout.split(b"\0")
    return lines[0][3:].decode(errors="replace") if lines[0] else None


def _taken(builder: Engine, lock: Lock, pinned: str, stand_in: str | None) -> tuple[str, Lock]:
    """Return the image to build from for a pinned one, and the lock with the digest of that."""
    if stand_in is None:
        lock.pinned(pinned)
        digest = lock.digest(pinned)
        return (Reference.parse(pinned).at(digest) if digest else pinned), lock
    entry = Entry(builder.digest(stand_in), None, "a stand-in", {})
    return stand_in, Lock({**lock, pinned: entry})


def _is_for_this_machine(variant: Variant) -> None:
    here = PLATFORMS.get(platform.machine(), platform.machine())
    if here not in variant.platforms:
        raise ImagesError(f"{variant.name} is for {', '.join(variant.platforms)}; this is {here}")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="docker/build",
        description="Build the images of variants for this machine, each with its self-test. "
        "Prints a line for each: its name and digest.",
    )
    add = parser.add_argument
    add("variants", metavar="VARIANT", nargs="+", help="a row of docker/pins.toml")
    add("--engine", choices=sorted(ENGINES), help="default: docker if it is there, else buildah")
    add("--source", metavar="COMMIT", help="default: the commit of docker/pins.toml")
    add("--source-url", metavar="URL", default="", help="for the label: where the sources are")
    add("--base", metavar="IMAGE", help="a local image as the base; a label says so")
    add("--rust-image", metavar="IMAGE", help="the same for the image with the toolchain")
    add("--tms-version", metavar="VERSION", default="", help=TMS_VERSION_HELP, type=tms_version)
    add("--builder-image", metavar="IMAGE", help="the wheels and parts, made before")
    add("--secret-ca", metavar="FILE", type=Path, help="certificates to trust while building")
    add("--tag", metavar="NAME", help="the image's name; default: localhost/dormant:VARIANT")
    add("--push", action="store_true", help="push it, and print name@digest")
    add("--no-cache", action="store_true", help="do every step again")
    options = parser.parse_args(arguments)
    if options.tag and len(options.variants) > 1:
        parser.error("--tag is for one variant")
    if options.push and not options.tag:
        parser.error("--push needs --tag")
    if options.tms_version and options.builder_image:
        parser.error("--tms-version is for the wheels, which --builder-image has already")
    if options.push and (options.base or options.rust_image or options.builder_image):
        parser.error("an image of parts that the pins do not name is not pushed")
    return options
