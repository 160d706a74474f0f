"""`docker/pins.toml`: the variant table and every pinned input, read strictly."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from images.errors import ImagesError
from images.reference import Reference

PINS = "docker/pins.toml"
IMAGES = ("cuda", "rocm")
BACKENDS = {"cuda": "cuda", "rocm": "hip"}
PLATFORM = re.compile(r"linux/[a-z0-9]+(/v[0-9]+)?")
COMMIT = re.compile(r"[0-9a-f]{40}")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class Variant:
    """One row of the table: one base."""

    name: str
    image: str
    backend: str
    base: str
    platforms: tuple[str, ...]

    @property
    def target(self) -> str:
        """The name of its bake target; those have no dots."""
        return self.name.replace(".", "-")

    def row(self) -> dict[str, Any]:
        """Return the row as in the file."""
        return {
            "name": self.name,
            "image": self.image,
            "backend": self.backend,
            "base": self.base,
            "platforms": list(self.platforms),
        }


@dataclass(frozen=True)
class Pins:
    """All of `docker/pins.toml`."""

    commit: str
    source: str
    rust: str
    rust_image: str
    requirements: str
    variants: tuple[Variant, ...]

    def variant(self, name: str) -> Variant:
        """Return the row of that name."""
        for variant in self.variants:
            if variant.name == name:
                return variant
        known = ", ".join(variant.name for variant in self.variants)
        raise ImagesError(f"{PINS} has no variant {name}; it has {known}")

    def of_image(self, image: str) -> tuple[Variant, ...]:
        """Return the rows of one image."""
        return tuple(variant for variant in self.variants if variant.image == image)

    def platforms_of(self, image: str) -> tuple[str, ...]:
        """Return all platforms that an image's builder makes."""
        return tuple(sorted({p for v in self.of_image(image) for p in v.platforms}))

    def floating(self) -> dict[str, tuple[str, ...]]:
        """Return each image that is named by a tag, with the platforms that are needed of it."""
        needed: dict[str, set[str]] = {
            self.rust_image: {p for v in self.variants for p in v.platforms}
        }
        for variant in self.variants:
            needed.setdefault(variant.base, set()).update(variant.platforms)
        return {reference: tuple(sorted(platforms)) for reference, platforms in needed.items()}


def load_pins(root: Path) -> Pins:
    """Read the file below the repository's root; what is missing or unknown is an error."""
    path = root / PINS
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ImagesError(f"{PINS}: {error}") from error
    _keys(table, "the file", {"source", "toolchain", "tools", "variant"})
    source = _table(table, "source", {"commit", "source"})
    toolchain = _table(table, "toolchain", {"rust", "image"})
    tools = _table(table, "tools", {"requirements"})
    _matches(source["commit"], COMMIT, "[source] commit")
    _matches(source["source"], DIGEST, "[source] source")
    _tagged(toolchain["image"], "[toolchain] image")
    rows = table["variant"]
    if not isinstance(rows, list) or not rows:
        raise ImagesError(f"{PINS}: no [[variant]]")
    return Pins(
        source["commit"],
        source["source"],
        toolchain["rust"],
        toolchain["image"],
        tools["requirements"],
        _variants(rows),
    )


def _variants(rows: list[Any]) -> tuple[Variant, ...]:
    variants: list[Variant] = []
    for number, row in enumerate(rows, 1):
        where = f"[[variant]] {number}"
        _keys(row, where, {"name", "image", "backend", "base", "platforms"})
        platforms = row["platforms"]
        if not isinstance(platforms, list) or not platforms:
            raise ImagesError(f"{PINS}: {where}: platforms must be a list that is not empty")
        for key in ("name", "image", "backend", "base"):
            _text(row[key], f"{where} {key}")
        for platform in platforms:
            _matches(platform, PLATFORM, f"{where} platforms")
        if len(set(platforms)) != len(platforms):
            raise ImagesError(f"{PINS}: {where}: a platform twice")
        if BACKENDS.get(row["image"]) != row["backend"]:
            pairs = ", ".join(f"{image} with {backend}" for image, backend in BACKENDS.items())
            raise ImagesError(f"{PINS}: {where}: image and backend must be one of {pairs}")
        _matches(row["name"], re.compile(rf"{row['image']}-[0-9]+(\.[0-9]+)*"), f"{where} name")
        _tagged(row["base"], f"{where} base")
        variants.append(
            Variant(row["name"], row["image"], row["backend"], row["base"], tuple(platforms))
        )
    for key in ("name", "base"):
        values = [getattr(variant, key) for variant in variants]
        for value in values:
            if values.count(value) > 1:
                raise ImagesError(f"{PINS}: two variants with the {key} {value}")
    return tuple(variants)


def _table(parent: dict[str, Any], name: str, keys: set[str]) -> dict[str, str]:
    table = parent[name]
    _keys(table, f"[{name}]", keys)
    for key in keys:
        _text(table[key], f"[{name}] {key}")
    return dict(table)


def _keys(table: object, where: str, keys: set[str]) -> None:
    if not isinstance(table, dict):
        raise ImagesError(f"{PINS}: {where} must be a table")
    for missing in sorted(keys - table.keys()):
        raise ImagesError(f"{PINS}: {where} lacks {missing}")
    for unknown in sorted(table.keys() - keys):
        raise ImagesError(f"{PINS}: {where} has an unknown {unknown}")


def _text(value: object, where: str) -> None:
    if not isinstance(value, str) or not value:
        raise ImagesError(f"{PINS}: {where} must be a text that is not empty")


def _matches(value: object, pattern: re.Pattern[str], where: str) -> None:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ImagesError(f"{PINS}: {where} must match {pattern.pattern}, not {value!r}")


def _tagged(value: str, where: str) -> None:
    reference = Reference.parse(value)
    if reference.tag is None or reference.digest is not None:
        raise ImagesError(
            f"{PINS}: {where} must be HOST/NAME:TAG, its digest stands in the lock; not {value}"
        )
