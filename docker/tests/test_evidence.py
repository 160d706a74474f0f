"""The table of evidence: what counts for a variant, and what is only shown."""

import json
from pathlib import Path
from typing import Any

import pytest

from images import evidence
from images.errors import ImagesError
from images.locked import Entry, Lock
from images.pins import Pins, Variant

COMMIT, SOURCE = "45c0a3705a1b2c3d4e5f60718293a4b5c6d7e8f9", "sha256:" + "5f" * 32
BASE = "docker.io/nvidia/cuda:13.0.1-base-ubuntu24.04"
PINS = Pins(
    COMMIT,
    SOURCE,
    "1.95.0",
    "docker.io/library/rust:1.95.0-bookworm",
    "docker/requirements.lock",
    (
        Variant("cuda-13.0", "cuda", "cuda", BASE, ("linux/amd64", "linux/arm64")),
        Variant("rocm-7.2", "rocm", "hip", "docker.io/rocm/dev:7.2", ("linux/amd64",)),
    ),
)
TAG, AMD64 = "sha256:" + "0" * 64, "sha256:" + "1" * 64
LOCK = Lock({BASE: Entry(TAG, "2026-11-30", None, {"linux/amd64": AMD64, "linux/arm64": None})})
RECORD: dict[str, Any] = {
    "record": "dormant-verify",
    "schema": 1,
    "passed": True,
    "begun": "2026-11-30T16:20:00Z",
    "library": {"identity": {"commit": COMMIT, "dirty": False, "source": SOURCE}},
    "backend": "cuda",
    "driver": {"version": "13.0", "library": "libcuda.so.1", "stand_in": False},
    "devices": [{"ordinal": 0, "name": "NVIDIA H200"}],
    "image": {"name": None, "variant": "cuda-13.0", "base": f"{BASE}@{TAG}"},
    "overlay": None,
    "host": {"machine": "x86_64"},
    "suite": {"cases": [{"outcome": "passed"}, {"outcome": "skipped"}]},
    "failures": [],
}


def put(root: Path, file: str, **changed: Any) -> str:
    said = {**RECORD}
    for path, value in changed.items():
        *parts, last = path.split("__")
        at = said
        for part in parts:
            at[part] = dict(at[part])
            at = at[part]
        at[last] = value
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_text(json.dumps(said))
    return file


def rows(root: Path) -> dict[tuple[str, str], evidence.Row]:
    table = evidence.table(PINS, LOCK, evidence.load(root))
    return {(row.variant.name, row.platform): row for row in table}


def first(root: Path) -> evidence.Row:
    return rows(root)["cuda-13.0", "linux/amd64"]


def files(row: evidence.Row) -> list[str]:
    return [record.file for record in row.records]


FILE = "docker/evidence/h200.json"


@pytest.mark.parametrize(
    ("changed", "strength"),
    [
        ({}, "built"),
        ({"image__base": f"{BASE}@{AMD64}"}, "built"),
        ({"image__base": BASE}, "stand-in only"),
        ({"image__base": f"{BASE}@sha256:{'2' * 64}"}, "stand-in only"),
        ({"overlay": {"wheel": "w.whl", "sha256": "00"}}, "overlaid"),
        ({"driver__stand_in": True}, "stand-in only"),
        ({"image__base": "localhost/stand-in:13.0"}, "stand-in only"),
        ({"image__base": f"docker.io/nvidia/cuda:12.9@{TAG}"}, "stand-in only"),
        ({"image__base": "not a name"}, "stand-in only"),
        ({"image__base": None}, "stand-in only"),
        ({"image__base": "localhost/x:1", "overlay": {"wheel": "w"}}, "stand-in only"),
        ({"driver__stand_in": None}, "stand-in only"),
        ({"driver": None}, "stand-in only"),
    ],
)
def test_what_a_record_shows(tmp_path: Path, changed: dict[str, Any], strength: str) -> None:
    put(tmp_path, FILE, **changed)
    row = first(tmp_path)
    assert (row.evidence, files(row), row.others) == (strength, [FILE], [])


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (
            {"library__identity__commit": "f" * 40, "library__identity__source": "sha256:0"},
            f"tested {'f' * 40} with the sources sha256:0, not {SOURCE}",
        ),
        ({"library__identity__commit": None}, f"tested an unknown commit, not {COMMIT}"),
        ({"library__identity__dirty": True}, f"tested {COMMIT} with changes"),
        (
            {"library__identity__commit": "f" * 40, "library__identity__dirty": True},
            f"tested {'f' * 40} with changes",
        ),
        ({"library__identity__source": None}, f"tested the sources None, not {SOURCE}"),
        ({"library__identity__dirty": None}, f"tested {COMMIT} with changes"),
        ({"library__identity__source": "sha256:0"}, f"tested the sources sha256:0, not {SOURCE}"),
        ({"backend": "hip"}, "tested the backend hip, not cuda"),
        ({"passed": False}, "did not pass"),
        ({"passed": "yes"}, "did not pass"),
        ({"failures": ["a case"]}, "did not pass"),
        ({"suite__cases": []}, "did not pass"),
        ({"suite__cases": [{"outcome": "skipped"}]}, "did not pass"),
        ({"suite__cases": [{"outcome": "passed"}, {"outcome": "failed"}]}, "did not pass"),
        ({"library": None, "passed": False}, f"tested an unknown commit, not {COMMIT}"),
        ({"library__identity": None}, f"tested an unknown commit, not {COMMIT}"),
        ({"driver": None, "backend": None}, "tested the backend None, not cuda"),
    ],
)
def test_what_does_not_count(tmp_path: Path, changed: dict[str, Any], reason: str) -> None:
    put(tmp_path, FILE, **changed)
    row = first(tmp_path)
    assert (row.evidence, row.records, row.others) == ("none", [], [f"{FILE}: {reason}"])
    said = "\n".join(evidence.lines(PINS, [row], []))
    assert said == f"cuda-13.0  linux/amd64  none\n           not counted: {FILE}: {reason}"


def test_another_commit_with_the_same_sources_counts_and_is_shown(tmp_path: Path) -> None:
    put(tmp_path, FILE)
    other = put(tmp_path, "docker/evidence/later.json", library__identity__commit="f" * 40)
    row = first(tmp_path)
    assert (row.evidence, files(row), row.others) == ("built", [FILE, other], [])
    assert list(evidence.lines(PINS, [row], [])) == [
        f"cuda-13.0  linux/amd64  built: {FILE}, {other} (of {'f' * 40}, the same sources)"
    ]
    assert row.as_dict()["records"][1] == {"file": other, "commit": "f" * 40}


def test_a_base_that_nobody_looked_up_is_not_proved(tmp_path: Path) -> None:
    put(tmp_path, FILE)
    unresolved = Lock({BASE: Entry(None, None, None, {"linux/amd64": None})})
    for lock in (unresolved, Lock()):
        row, *_ = evidence.table(PINS, lock, evidence.load(tmp_path))
        assert row.evidence == "stand-in only"


def test_the_strongest_counts_and_each_platform_has_its_own(tmp_path: Path) -> None:
    put(tmp_path, "docker/evidence/a.json", driver__stand_in=True)
    put(tmp_path, "benches/results/deep/b.json", overlay={"wheel": "w"})
    put(tmp_path, "benches/results/c.json", overlay={"wheel": "w"})
    arm = put(tmp_path, "docker/evidence/arm.json", host__machine="aarch64")
    found = rows(tmp_path)
    assert first(tmp_path).evidence == "overlaid"
    assert files(first(tmp_path)) == ["benches/results/c.json", "benches/results/deep/b.json"]
    assert files(found["cuda-13.0", "linux/arm64"]) == [arm]
    assert found["rocm-7.2", "linux/amd64"].evidence == "none"
    built = put(tmp_path, "docker/evidence/d.json")
    assert (first(tmp_path).evidence, files(first(tmp_path))) == ("built", [built])


def test_other_files_are_no_records(tmp_path: Path) -> None:
    for name, text in {
        "list.json": "[1]",
        "other.json": '{"record": "bench"}',
        "x.txt": "{",
    }.items():
        (tmp_path / "benches/results").mkdir(parents=True, exist_ok=True)
        (tmp_path / "benches/results" / name).write_text(text)
    put(tmp_path, "elsewhere/record.json")
    assert evidence.load(tmp_path) == []


def test_records_of_no_variant_are_named(tmp_path: Path) -> None:
    put(tmp_path, "docker/evidence/bare.json", image=None)
    put(tmp_path, "docker/evidence/old.json", image__variant="cuda-12.4")
    put(tmp_path, "docker/evidence/ppc.json", host__machine="ppc64le")
    assert first(tmp_path).evidence == "none"
    assert list(evidence.of_no_row(PINS, evidence.load(tmp_path))) == [
        "docker/evidence/bare.json: was not made in an image",
        "docker/evidence/old.json: cuda-12.4 on linux/amd64 is no variant",
        "docker/evidence/ppc.json: cuda-13.0 on ppc64le is no variant",
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "h200.json: "),
        (json.dumps({**RECORD, "schema": 2}), "is a record of schema 2, not 1"),
        (json.dumps({k: v for k, v in RECORD.items() if k != "library"}), "no whole record"),
        (json.dumps({**RECORD, "driver": {}}), "no whole record"),
        (json.dumps({**RECORD, "library": "x"}), "no whole record"),
    ],
)
def test_damaged_records_are_errors(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "docker/evidence").mkdir(parents=True)
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ImagesError, match=reason):
        evidence.load(tmp_path)


def test_as_json(tmp_path: Path) -> None:
    put(tmp_path, FILE)
    assert first(tmp_path).as_dict() == {
        "variant": "cuda-13.0",
        "platform": "linux/amd64",
        "base": BASE,
        "evidence": "built",
        "records": [{"file": FILE, "commit": COMMIT}],
        "not_counted": [],
    }
