"""Makes `docker/docker-bake.hcl` from the pins and the lock, and its values for one build."""

import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from images.errors import ImagesError
from images.locked import Lock
from images.pins import BACKENDS, Pins, Variant
from images.reference import Reference

BAKE = "docker/docker-bake.hcl"
# No registry can have this host: a build on an input without a digest fails, and names it.
UNRESOLVED = "unresolved.invalid"
# Of the builder: empty is the wheel's own default.
TMS_VERSION = "TMS_VERSION"
# Not known before a build is decided.
LATER = ("VERSION", "SOURCE_URL", "EXPECT_COMMIT", "EXPECT_SOURCE", "INPUTS", "RECIPE")
HEADER = """\
# Made by docker/lock from docker/pins.toml and docker/pins.lock.json: change those, not this.
# What is empty here comes from a second file (docker/decide --bake-values FILE) or from --set.
"""


def builder(image: str) -> str:
    """Return the target that makes an image's wheels and verify parts."""
    return f"builder-{image}"


def bake_file(pins: Pins, lock: Lock) -> str:
    """Return the text of the bake file."""
    images = [image for image in BACKENDS if pins.of_image(image)]
    blocks = [_group("default", images)]
    for image in images:
        variants = pins.of_image(image)
        blocks.append(_group(image, [variant.target for variant in variants]))
        blocks.append(_builder(pins, lock, image))
        blocks.extend(_variant(lock, variant) for variant in variants)
    return HEADER + "\n" + "\n".join(blocks)


def bake_values(
    pins: Pins,
    rows: Iterable[dict[str, Any]],
    version: str,
    commit: str,
    source: str,
    tms_version: str = "",
) -> str:
    """Return a second bake file with what differs from build to build."""
    targets: dict[str, Any] = {}
    for row in rows:
        args = {
            "VERSION": version,
            "EXPECT_COMMIT": commit,
            "EXPECT_SOURCE": source,
            "INPUTS": row["inputs"],
            "RECIPE": row["recipe"],
        }
        variant = pins.variant(row["variant"])
        targets[variant.target] = {"args": args}
        if tms_version:
            targets[builder(variant.image)] = {"args": {TMS_VERSION: tms_version}}
    return json.dumps({"target": targets}, indent=2) + "\n"


def version(root: Path) -> str:
    """Return the workspace's version."""
    try:
        table = tomllib.loads((root / "Cargo.toml").read_text(encoding="utf-8"))
        return str(table["workspace"]["package"]["version"])
    except (OSError, KeyError, tomllib.TOMLDecodeError) as error:
        raise ImagesError(f"Cargo.toml: no version of the workspace: {error!r}") from error


def _group(name: str, targets: list[str]) -> str:
    return f"group {_text(name)} {{\n  targets = {_list(targets)}\n}}\n"


def _builder(pins: Pins, lock: Lock, image: str) -> str:
    args = {
        "RUST_IMAGE": _pinned(lock, pins.rust_image),
        "BACKEND": BACKENDS[image],
        TMS_VERSION: "",
    }
    # A clone of the wanted commit; this tree unless it is set to another.
    contexts = {"source": "."}
    return _target(builder(image), "builder", pins.platforms_of(image), contexts, args)


def _variant(lock: Lock, variant: Variant) -> str:
    args = {
        "BUILDER_IMAGE": "dormant-builder",
        "BASE_IMAGE": _pinned(lock, variant.base),
        "BASE_NAME": variant.base,
        "BASE_DIGEST": lock.digest(variant.base) or "",
        "VARIANT": variant.name,
    }
    contexts = {"dormant-builder": f"target:{builder(variant.image)}"}
    return _target(
        variant.target, variant.image, variant.platforms, contexts, args | dict.fromkeys(LATER, "")
    )


def _target(
    name: str,
    dockerfile: str,
    platforms: Iterable[str],
    contexts: dict[str, str],
    args: dict[str, str],
) -> str:
    lines = [
        f"target {_text(name)} {{",
        '  context = "docker"',
        f"  dockerfile = {_text(f'Dockerfile.{dockerfile}')}",
        f"  platforms = {_list(platforms)}",
    ]
    for key, values in (("contexts", contexts), ("args", args)):
        lines.append(f"  {key} = {{")
        lines.extend(f"    {_key(k)} = {_text(v)}" for k, v in values.items())
        lines.append("  }")
    return "\n".join([*lines, "}", ""])


def _pinned(lock: Lock, reference: str) -> str:
    if lock.digest(reference) is None:
        parsed = Reference.parse(reference)
        return f"{UNRESOLVED}/{parsed.host.replace(':', '/')}/{parsed.repository}:{parsed.tag}"
    return lock.pinned(reference)


def _key(key: str) -> str:
    return key if key.isidentifier() else _text(key)


def _text(value: str) -> str:
    if any(mark in value for mark in ("${", "%{")):
        raise ImagesError(f"{value!r} would be a template in {BAKE}")
    return json.dumps(value)


def _list(values: Iterable[str]) -> str:
    return "[" + ", ".join(map(_text, values)) + "]"
