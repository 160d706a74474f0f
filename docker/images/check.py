"""`docker/check`: both vendors' images are the same but for the vendor; what was shown of each.

    docker/check                       the recipes, held against each other and against the pins;
                                       then the table of evidence
    docker/check --images A B          two built images, one of each vendor
    docker/check --same-library A...   images of one vendor: the library is one file
    docker/check --records RECORD...   records of `dormant verify`: all of one build
    docker/check --evidence            the table alone

Images are unpacked root folders, folders or archives as `buildah push` and `docker save` make them,
or names that buildah knows. Each difference is a line. The exit status is 1 if there is one.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from images import contents, evidence, layers, parity, recipes, records
from images.errors import ImagesError, say
from images.locked import load_lock
from images.pins import load_pins

ROOT = Path(__file__).resolve().parents[2]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="docker/check", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--images", nargs=2, metavar=("A", "B"))
    what.add_argument("--same-library", nargs="+", metavar="IMAGE")
    what.add_argument("--records", nargs="+", metavar="RECORD")
    what.add_argument("--evidence", action="store_true")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Answers 0; 1 with a difference; 2 where something cannot be read."""
    asked = _parser().parse_args(arguments)
    try:
        if asked.images or asked.same_library:
            answer = _images(asked)
        else:
            answer = _records(asked.records) if asked.records else _repository(asked)
    except ImagesError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if asked.json:
        say([json.dumps({**answer.said, "differences": answer.differences}, indent=1)])
    else:
        say([*answer.differences, *answer.lines])
    return 1 if answer.differences else 0


@dataclass(frozen=True)
class _Answer:
    said: dict[str, object]
    """For `--json`."""
    lines: list[str]
    """The same for people."""
    differences: list[str]


def _images(asked: argparse.Namespace) -> _Answer:
    names: list[str] = asked.images or asked.same_library
    images = [contents.examine(layers.read_image(name, contents.wanted)) for name in names]
    differences = parity.compare(*images) if asked.images else parity.same_library(images)
    well = "no difference but the vendor's" if asked.images else "the library is one file"
    return _Answer({"images": names}, [] if differences else [well], differences)


def _records(files: list[str]) -> _Answer:
    tested = [records.read(file) for file in files]
    differences = records.differences(tested)
    backends = sorted({backend for one in tested for backend in one.texts("features")})
    well = f"all are of the sources {tested[0].record.source}: {' '.join(backends)}"
    return _Answer({"records": files}, [] if differences else [well], differences)


def _repository(asked: argparse.Namespace) -> _Answer:
    pins = load_pins(asked.root)
    differences = [] if asked.evidence else recipes.differences(asked.root, pins)
    kept = evidence.load(asked.root)
    rows = evidence.table(pins, load_lock(asked.root), kept)
    others = list(evidence.of_no_row(pins, kept))
    said: dict[str, object] = {
        "commit": pins.commit,
        "evidence": [row.as_dict() for row in rows],
        "others": others,
    }
    table = [f"evidence for {pins.commit}:", *evidence.lines(pins, rows, others)]
    return _Answer(said, table, differences)
