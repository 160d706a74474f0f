"""Holds the two vendors' Dockerfiles against each other, and both against the pins."""

import difflib
import re
from collections.abc import Iterator
from pathlib import Path

from images.errors import ImagesError
from images.pins import BACKENDS, PINS, Pins

BUILDER = "docker/Dockerfile.builder"
VENDOR_FILES = {image: f"docker/Dockerfile.{image}" for image in BACKENDS}

WORDS = (
    (("NVIDIA",), ("AMD",)),
    (("CUDA",), ("ROCm", "HIP")),
    (("cuda",), ("rocm", "hip")),
)
"""What one vendor's file says, and what the other's says there."""

PINNED = ("BACKEND", "BASE_IMAGE", "VARIANT")
"""Arguments whose defaults are the vendor's; `docker/pins.toml` says what they may be."""

_DEFAULT = re.compile(rf"ARG ({'|'.join(PINNED)})=(\S+)")


def differences(root: Path, pins: Pins) -> list[str]:
    """Where the recipes are not parallel, or not those of the pins."""
    texts = {image: _lines(root, file) for image, file in VENDOR_FILES.items()}
    found = list(_parallel(texts))
    for image, lines in texts.items():
        found += [f"{VENDOR_FILES[image]}: {problem}" for problem in _vendor(image, lines, pins)]
    found += [f"{BUILDER}: {problem}" for problem in _builder(_lines(root, BUILDER))]
    return found + [f"{PINS}: no variant of {i}" for i in BACKENDS if not pins.of_image(i)]


def _lines(root: Path, file: str) -> list[str]:
    try:
        return (root / file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ImagesError(f"{file}: {error}") from error


def neutral(line: str, image: str) -> str:
    """A line without its vendor: the same of both files, if each has its own vendor's words."""
    own = list(BACKENDS).index(image)
    table: dict[str, str] = {}
    for number, sides in enumerate(WORDS):
        table |= dict.fromkeys(sides[own], f"<own {number}>")
        table |= dict.fromkeys(sides[1 - own], f"<other {number}>")
    line = _DEFAULT.sub(r"ARG \1=<pinned>", line)
    pattern = "|".join(map(re.escape, table))
    return re.sub(rf"(?<![A-Za-z0-9])({pattern})(?![A-Za-z])", lambda m: table[m[1]], line)


def _parallel(texts: dict[str, list[str]]) -> Iterator[str]:
    (one, mine), (other, theirs) = texts.items()
    plain = [[neutral(line, image) for line in lines] for image, lines in texts.items()]
    matcher = difflib.SequenceMatcher(None, plain[0], plain[1], autojunk=False)
    for kind, start, end, their_start, their_end in matcher.get_opcodes():
        if kind != "equal":
            yield "\n".join(
                [
                    "the recipes are not parallel:",
                    *_said(VENDOR_FILES[one], mine, start, end),
                    *_said(VENDOR_FILES[other], theirs, their_start, their_end),
                ]
            )


def _said(file: str, lines: list[str], start: int, end: int) -> Iterator[str]:
    for number in range(start, end):
        yield f"  {file}:{number + 1}: {lines[number]}"
    if start == end:
        yield f"  {file}: nothing after line {start}"


def instructions(lines: list[str]) -> list[str]:
    """The instructions of a Dockerfile, without comments, each in one line."""
    found: list[str] = []
    going_on = False
    for line in lines:
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        rest = text.removesuffix("\\").rstrip()
        if going_on:
            found[-1] += f" {rest}"
        else:
            found.append(rest)
        going_on = text.endswith("\\")
    return found


def _vendor(image: str, lines: list[str], pins: Pins) -> Iterator[str]:
    said = instructions(lines)
    froms = [line.split()[1] for line in said if line.startswith("FROM ")]
    if froms != ["${BUILDER_IMAGE}", "${BASE_IMAGE}"]:
        yield f"takes {', '.join(froms)}; it is to take ${{BUILDER_IMAGE}}, then ${{BASE_IMAGE}}"
    values: dict[str, list[str]] = {name: [] for name in PINNED}
    for line in said:
        if match := _DEFAULT.fullmatch(line):
            values[match[1]].append(match[2])
    backend = BACKENDS[image]
    if values["BACKEND"] != [backend]:
        yield (
            f"the backends are {', '.join(values['BACKEND']) or 'none'}; "
            f"it is to have exactly `ARG BACKEND={backend}`"
        )
    rows = {row.name: row.base for row in pins.of_image(image)}
    variants, bases = values["VARIANT"], values["BASE_IMAGE"]
    if len(variants) != 1 or variants[0] not in rows:
        known = ", ".join(rows) or f"no row of {image}"
        yield f"its variant is {', '.join(variants) or 'none'}; {PINS} has {known}"
    elif bases != [rows[variants[0]]]:
        yield (
            f"its base is {', '.join(bases) or 'none'}; "
            f"that of {variants[0]} in {PINS} is {rows[variants[0]]}"
        )


def _builder(lines: list[str]) -> Iterator[str]:
    said = instructions(lines)
    arguments = {line for line in said if line.startswith("ARG BACKEND")}
    if arguments != {"ARG BACKEND"}:
        has = ", ".join(sorted(arguments)) or "none"
        yield f"is to have `ARG BACKEND` without a default, and has {has}"
    # With what its errors say left out.
    plain = [re.sub(r"\$\{[^}]*\}", "$", line) for line in said]
    for line in plain:
        for backend in BACKENDS.values():
            if re.search(rf"(?<![A-Za-z0-9]){backend}(?![A-Za-z0-9])", line):
                yield f"names the backend {backend} itself: {line}"
    if not any("${BACKEND" in line for line in said if line.startswith("RUN ")):
        yield "hands ${BACKEND} to no step"
