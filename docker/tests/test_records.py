"""Records held against each other: every difference is found and spelled out."""

from pathlib import Path
from typing import Any

import pytest
from crafted_images import COMMIT
from elf_files import IDENTITY
from test_evidence import put

from images.check import main


def record(root: Path, backend: str, **changed: Any) -> str:
    """A record of a run on one backend, with something changed in the library's identity."""
    identity = {**IDENTITY, "features": [backend], **changed}
    put(root, f"{backend}.json", library__identity=identity, backend=backend)
    return str(root / f"{backend}.json")


def test_records_of_one_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [record(tmp_path, "cuda"), record(tmp_path, "hip", commit="f" * 40)]
    assert main(["--records", *files]) == 0
    said = f"all are of the sources {IDENTITY['source']}: cuda hip\n"
    assert capsys.readouterr().out == said


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"version": "0.0.9"}, "version: {cuda} has 0.1.0, {hip} has 0.0.9"),
        (
            {"source": "sha256:0"},
            f"source: {{cuda}} has {IDENTITY['source']}, {{hip}} has sha256:0",
        ),
        ({"source": None}, "{hip}: tested a library of unknown sources"),
        ({"rustc": "rustc 1.94.0"}, "{hip} has rustc 1.94.0"),
        ({"profile": "debug"}, "profile: {cuda} has release, {hip} has debug"),
        (
            {"guarantees": ["oom-returns"]},
            "guarantee free-while-paused: {cuda} has it, {hip} does not",
        ),
        (
            {"guarantees": [*IDENTITY["guarantees"], "new"]},
            "guarantee new: {hip} has it, {cuda} does not",
        ),
        ({"dirty": True}, f"{{hip}}: tested {COMMIT} with changes"),
        ({"commit": None, "dirty": None}, "{hip}: tested a library of an unknown commit"),
        ({"features": ["hip", "sim"]}, "{hip}: the library has the backends hip sim, and is to"),
        ({"features": []}, "{hip}: the library has the backends none, and is to have exactly one"),
        ({"features": ["cuda"]}, "{hip}: tested the backend hip, and the library has cuda"),
    ],
)
def test_each_difference_is_spelled_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changed: dict[str, Any], said: str
) -> None:
    files = {"cuda": record(tmp_path, "cuda"), "hip": record(tmp_path, "hip", **changed)}
    assert main(["--records", *files.values()]) == 1
    out = capsys.readouterr().out
    assert said.format(**files) in out
    assert "all are of" not in out


def test_a_run_that_failed_or_had_no_library(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [record(tmp_path, "cuda"), str(tmp_path / "early.json"), str(tmp_path / "failed.json")]
    put(tmp_path, "early.json", library=None, passed=False)
    identity = {**IDENTITY, "features": ["cuda"]}
    put(tmp_path, "failed.json", library__identity=identity, failures=["a case"])
    assert main(["--records", *files]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{files[1]}: tested no library that says what it is",
        f"{files[2]}: did not pass",
    ]


def test_what_is_no_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other.json").write_text('{"record": "bench"}')
    assert main(["--records", str(tmp_path / "other.json")]) == 2
    assert "other.json is no record of dormant verify" in capsys.readouterr().err
    assert main(["--records", str(tmp_path / "gone.json")]) == 2
    assert "gone.json: " in capsys.readouterr().err
