"""`docker/decide`: what to do for the image of a variant, or of all variants."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from images.bake import bake_values, version
from images.decide import Verdict, Wanted, decide
from images.errors import ImagesError, say
from images.inputs import TMS_VERSION_HELP, Inputs, inputs_of, tms_version
from images.lock import ROOT
from images.locked import load_lock
from images.pins import Variant, load_pins
from images.reference import Reference
from images.registry import Registry
from images.released import find
from images.sources import git, source_hash


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run the program; 0 for reuse, rebuild and overlay, 1 for stop."""
    options = _options(arguments)
    try:
        rows, documents = _rows(options, root)
        if options.bake_values is not None:
            pins, building = load_pins(root), [r for r in rows if r["verdict"] != Verdict.STOP]
            commit, source = rows[0]["head"], rows[0]["source"]
            text = bake_values(pins, building, version(root), commit, source, options.tms_version)
            options.bake_values.write_text(text, encoding="utf-8")
        if options.explain is not None:
            options.explain.write_text(json.dumps(documents, indent=2) + "\n", encoding="utf-8")
        if options.github_output is not None:
            with options.github_output.open("a", encoding="utf-8") as output:
                output.writelines(f"{key}={value}\n" for key, value in _outputs(rows, options))
    except (ImagesError, OSError) as error:
        print(f"docker/decide: {error}", file=sys.stderr)
        return 1
    stopped = [row for row in rows if row["verdict"] == Verdict.STOP]
    if options.json:
        say([json.dumps(rows if options.all else rows[0], indent=2)])
    else:
        say(_shown(row) for row in rows if row not in stopped)
    for row in stopped:
        print(f"{row['variant']}: stop: {row['reason']}", file=sys.stderr)
    return 1 if stopped else 0


def _shown(row: dict[str, Any]) -> str:
    image = f"\n  {row['image']}" if row["image"] else ""
    return f"{row['variant']}: {row['verdict']}: {row['reason']}{image}"


def _rows(options: argparse.Namespace, root: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    pins, lock = load_pins(root), load_lock(root)
    variants = pins.variants if options.all else (pins.variant(options.variant),)
    names = {
        v.name: Reference.parse(options.image_name.replace("{image}", v.image)) for v in variants
    }
    if len({(v.image, names[v.name]) for v in variants}) != len(set(names.values())):
        raise ImagesError("--all needs {image} in --image-name: the images have different names")
    head = git(root, "rev-parse", "--verify", "HEAD^{commit}").stdout.decode().strip()
    source = source_hash(root)
    registry = Registry.from_environment()
    rows, documents = [], {}
    for variant in variants:
        inputs = inputs_of(
            root, pins, lock, variant, wheels=options.wheels, tms_version=options.tms_version
        )
        documents[variant.name] = inputs.document
        floating = (variant.base, pins.rust_image)
        wanted = Wanted(
            variant.platforms,
            inputs.inputs,
            inputs.recipe,
            tuple(reference for reference in floating if lock.digest(reference) is None),
        )
        name = names[variant.name]
        released = find(registry, Reference(name.host, name.repository, variant.name))
        decision = decide(
            wanted,
            released,
            name,
            forced=options.force,
            may_publish=options.may_publish == "yes",
        )
        reused = decision.verdict is Verdict.REUSE
        commit = decision.revision if reused else head
        rows.append(_row(variant, inputs, name, decision.verdict, decision.reason))
        rows[-1] |= {"image": decision.image, "commit": commit, "source": source, "head": head}
    return rows, documents


def _row(
    variant: Variant, inputs: Inputs, name: Reference, verdict: Verdict, reason: str
) -> dict[str, Any]:
    return {
        "variant": variant.name,
        "kind": variant.image,
        "backend": variant.backend,
        "target": variant.target,
        "platforms": list(variant.platforms),
        "name": name.name,
        "inputs": inputs.inputs,
        "recipe": inputs.recipe,
        "verdict": str(verdict),
        "reason": reason,
    }


def _outputs(rows: list[dict[str, Any]], options: argparse.Namespace) -> list[tuple[str, str]]:
    if not options.all:
        return [(key, _value(value)) for key, value in rows[0].items()]
    lists: dict[str, list[dict[str, Any]]] = {"all": rows}
    for verdict in Verdict:
        lists[str(verdict)] = [row for row in rows if row["verdict"] == verdict]
    lists["builds"] = [
        {**row, "platform": platform, "platform_name": platform.replace("/", "-")}
        for row in lists["rebuild"]
        for platform in row["platforms"]
    ]
    return [(key, _value(value)) for key, value in lists.items()]


def _value(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return " ".join(value.split())  # One line.
    return json.dumps(value, separators=(",", ":"))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="docker/decide",
        description="Decide from what feeds an image and from what is released: reuse, rebuild, "
        "overlay (put this tree's wheel into the released image) or stop.",
        epilog="Exit status: 0 reuse, rebuild or overlay; 1 stop, with the reason on stderr; "
        "2 wrong command line. IMAGES_REGISTRY, IMAGES_REGISTRY_USER and "
        "IMAGES_REGISTRY_PASSWORD log in at one host.",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--variant", metavar="NAME", help="a variant of docker/pins.toml")
    which.add_argument("--all", action="store_true", help="all of them")
    parser.add_argument(
        "--image-name",
        metavar="NAME",
        required=True,
        help="the released image without its tag, which is the variant's name; {image} stands for "
        "cuda or rocm",
    )
    parser.add_argument("--force", action="store_true", help="rebuild also what is equal")
    parser.add_argument(
        "--may-publish", choices=("yes", "no"), default="no", help="default: %(default)s"
    )
    parser.add_argument("--wheels", metavar="DIR", type=Path, help="local wheels that go in too")
    parser.add_argument(
        "--tms-version", metavar="VERSION", default="", type=tms_version, help=TMS_VERSION_HELP
    )
    parser.add_argument(
        "--bake-values", metavar="FILE", type=Path, help="write a second file for buildx bake"
    )
    parser.add_argument(
        "--explain", metavar="FILE", type=Path, help="write all that went into the hashes"
    )
    parser.add_argument("--github-output", metavar="FILE", type=Path, help="append outputs there")
    parser.add_argument("--json", action="store_true", help="print the decision as JSON")
    return parser.parse_args(arguments)
