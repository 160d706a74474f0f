"""`docker/lock`: looks up what the tags of docker/pins.toml stand for."""

import argparse
import datetime
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from images import requirements
from images.bake import BAKE, bake_file
from images.errors import ImagesError, RegistryError
from images.inputs import lacking
from images.locked import LOCK, Entry, Lock, load_lock
from images.pins import PINS, Pins, load_pins
from images.reference import Reference
from images.registry import Registry
from images.sources import UnknownCommit, source_hash_at

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run the program; 0 if all is resolved and up to date, else 1."""
    parser = argparse.ArgumentParser(
        prog="docker/lock",
        description="Look up the digests of all images that docker/pins.toml names by a tag, and "
        f"write {LOCK} and {BAKE}.",
        epilog="Exit status: 0 all resolved, 1 something is not, 2 wrong command line. "
        "IMAGES_REGISTRY, IMAGES_REGISTRY_USER and IMAGES_REGISTRY_PASSWORD log in at one host.",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="only say what is stale or unresolved")
    what.add_argument(
        "--bake",
        action="store_true",
        help=f"only make {BAKE} anew, and drop what no row names; asks nobody",
    )
    parser.add_argument(
        "--registry", action="store_true", help="with --check: also ask whether tags have moved"
    )
    parser.add_argument(
        "--only", metavar="IMAGE", action="append", help="look up this one (repeatable)"
    )
    options = parser.parse_args(arguments)
    if options.registry and not options.check:
        parser.error("--registry belongs to --check")
    if options.only and (options.check or options.bake):
        parser.error("--only belongs to looking up")
    try:
        return _run(options, root)
    except ImagesError as error:
        print(f"docker/lock: {error}", file=sys.stderr)
        return 1


def _run(options: argparse.Namespace, root: Path) -> int:
    pins = load_pins(root)
    if options.check:
        lock = load_lock(root)
        found = stale(root, pins, lock)
        if options.registry:
            found += moved(lock, pins, Registry.from_environment())
    else:
        lock = load_lock(root) if (root / LOCK).exists() else Lock()
        found = []
        if options.bake:
            lock = without_others(pins, lock)
        else:
            registry = Registry.from_environment()
            lock, found = resolve(pins, lock, registry, options.only, _today())
        (root / LOCK).write_text(lock.text(), encoding="utf-8")
        (root / BAKE).write_text(bake_file(pins, lock), encoding="utf-8")
    for line in found:
        print(f"docker/lock: {line}", file=sys.stderr)
    return 1 if found else 0


def resolve(
    pins: Pins, old: Lock, registry: Registry, only: Sequence[str] | None, today: str
) -> tuple[Lock, list[str]]:
    """Look up each image; return the new lock, and what could not be looked up.

    What fails keeps its old entry, or gets one without a digest; never another image's.
    """
    floating = pins.floating()
    if unknown := set(only or ()) - floating.keys():
        raise ImagesError(f"docker/pins.toml does not name {', '.join(sorted(unknown))}")
    lock, failures = Lock(), []
    for reference, platforms in floating.items():
        before = old.get(reference)
        lock[reference] = _fitting(before, platforms)
        if only and reference not in only:
            continue
        try:
            image = registry.image(Reference.parse(reference))
        except RegistryError as error:
            failures.append(f"{error}; left as it was")
            continue
        missing = [platform for platform in platforms if platform not in image.platforms]
        if missing:
            failures.append(f"{reference}: there is none for {', '.join(missing)}; left as it was")
            continue
        needed: dict[str, str | None] = {p: image.platforms[p] for p in platforms}
        if before is not None and before.digest not in (None, image.digest):
            print(f"{reference}: {before.digest} is now {image.digest}")
        elif before is None or before.digest is None:
            print(f"{reference}: {image.digest}")
        unchanged = before is not None and before.resolved and before.platforms == needed
        if before is None or not unchanged or before.digest != image.digest:
            lock[reference] = Entry(image.digest, today, None, needed)
    return lock, failures


def without_others(pins: Pins, lock: Lock) -> Lock:
    """Return the lock without images and platforms that the pins do not name."""
    return Lock({ref: _fitting(lock[ref], p) for ref, p in pins.floating().items() if ref in lock})


def stale(root: Path, pins: Pins, lock: Lock) -> list[str]:
    """Return what the lock lacks, has too much, or holds without a registry's word."""
    found = []
    floating = pins.floating()
    found += [
        f"{ref} is in the lock, but not in the pins"
        for ref in sorted(lock.keys() - floating.keys())
    ]
    for reference, platforms in floating.items():
        entry = lock.get(reference)
        if entry is None:
            found.append(f"{reference} is not in the lock")
        elif entry.platforms.keys() != set(platforms):
            found.append(f"{reference}: the lock has other platforms than the pins")
        elif entry.digest is None:
            found.append(f"{reference} is unresolved")
        elif entry.resolved is None:
            found.append(
                f"{reference} is unconfirmed: its digest is from {entry.resolved_from}, "
                "no registry has been asked"
            )
    bake = root / BAKE
    if not bake.exists() or bake.read_text(encoding="utf-8") != bake_file(pins, lock):
        found.append(f"{BAKE} is not what the pins and the lock make (docker/lock --bake)")
    return found + _source(root, pins) + requirements.complaints(root, pins.requirements)


def moved(lock: Lock, pins: Pins, registry: Registry) -> list[str]:
    """Return which tags are not, or not certainly, what the lock says."""
    found = []
    for reference in pins.floating():
        digest = lock.digest(reference)
        try:
            now = registry.image(Reference.parse(reference)).digest
        except RegistryError as error:
            found.append(str(error))
            continue
        if digest is not None and now != digest:
            found.append(f"{reference} has moved: {digest} in the lock, {now} in the registry")
    return found


def _source(root: Path, pins: Pins) -> list[str]:
    try:
        source = source_hash_at(root, pins.commit)
    except UnknownCommit as error:
        return [f"{PINS}: [source] cannot be checked: {error}"]
    found = [
        f"{PINS}: [source]: commit {pins.commit} lacks {path}, which the recipe needs"
        for path in lacking(root, pins.commit)
    ]
    if source != pins.source:
        found.append(
            f"{PINS}: [source]: commit {pins.commit} has the sources {source}, not {pins.source}"
        )
    return found


def _fitting(entry: Entry | None, platforms: Sequence[str]) -> Entry:
    """Return an entry for these platforms; an empty one if it has not all of them."""
    if entry is not None and entry.platforms.keys() >= set(platforms):
        return replace(entry, platforms={p: entry.platforms[p] for p in platforms})
    return Entry(None, None, None, dict.fromkeys(platforms))


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()
