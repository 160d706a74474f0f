import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_registry import FakeRegistry
from small_repository import Repository, resolved

from images.decide import LABEL_INPUTS, LABEL_RECIPE, LABEL_REVISION
from images.locked import Lock
from images.plan import main
from images.registry import Registry
from images.sources import source_hash

COMMIT = "c" * 40
CUDA, ROCM = "cuda-13.0", "rocm-7.2"


class Case:
    """A repository, and a registry with its images."""

    def __init__(
        self, repository: Repository, fake: FakeRegistry, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.repository, self.fake, self.capsys = repository, fake, capsys
        self.err = ""

    def release(self, variant: str, *platforms: str) -> str:
        found = self.repository.inputs(variant)
        of: dict[str, str] | None = {
            LABEL_INPUTS: found.inputs,
            LABEL_RECIPE: found.recipe,
            LABEL_REVISION: COMMIT,
        }
        name = f"o/dormant-{variant.partition('-')[0]}"
        wanted = platforms or self.repository.pins.variant(variant).platforms
        digest = self.fake.release(name, variant, dict.fromkeys(wanted, of))
        return f"{self.fake.host}/{name}@{digest}"

    def run(self, *arguments: str, status: int = 0) -> Any:
        name = f"{self.fake.host}/o/dormant-{{image}}"
        which = () if "--all" in arguments else ("--variant", CUDA)
        assert status == main(
            [*which, "--image-name", name, "--json", *arguments], self.repository.root
        )
        output = self.capsys.readouterr()
        self.err = output.err
        return json.loads(output.out) if output.out else None


@pytest.fixture
def case(
    repository: Repository,
    fake: FakeRegistry,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Case:
    impatient = Registry(timeout=2.0, pauses=())
    monkeypatch.setattr(Registry, "from_environment", lambda: impatient)
    return Case(repository, fake, capsys)


def test_reuse_names_the_digest_and_the_commit_in_the_image(case: Case) -> None:
    image = case.release(CUDA)
    row = case.run()
    assert (row["verdict"], row["image"], row["commit"]) == ("reuse", image, COMMIT)
    assert row["source"] == source_hash(case.repository.root)


def test_what_is_no_input_is_reused_also_after_a_commit(case: Case) -> None:
    image = case.release(CUDA)
    case.repository.write("README.md", "other")
    case.repository.commit()
    assert case.run()["image"] == image


def test_rebuild_expects_this_commit(case: Case) -> None:
    case.release(CUDA)
    case.repository.write("crates/dormant/src/lib.rs", "changed")
    head = case.repository.commit()
    row = case.run("--may-publish", "yes")
    assert (row["verdict"], row["image"], row["commit"]) == ("rebuild", None, head)


@pytest.mark.parametrize(
    ("path", "says_recipe"), [("Cargo.lock", False), ("docker/recipe/install", True)]
)
def test_overlay_without_rights(case: Case, path: str, says_recipe: bool) -> None:
    image = case.release(CUDA)
    case.repository.write(path, "changed")
    head = case.repository.commit()
    row = case.run()
    assert (row["verdict"], row["image"], row["commit"]) == ("overlay", image, head)
    assert ("the recipe differs too" in row["reason"]) == says_recipe


def test_rocm_is_told_apart_from_cuda(case: Case) -> None:
    cuda = case.release(CUDA)
    case.release(ROCM)
    case.repository.write("docker/Dockerfile.rocm", "changed")
    rows = {row["variant"]: row for row in case.run("--all", "--may-publish", "yes")}
    assert (rows[CUDA]["verdict"], rows[CUDA]["image"]) == ("reuse", cuda)
    assert rows[ROCM]["verdict"] == "rebuild"


def test_forced(case: Case) -> None:
    case.release(CUDA)
    row = case.run("--force", "--may-publish", "yes")
    assert (row["verdict"], row["reason"]) == ("rebuild", "forced, with equal inputs")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("absent", "nothing to overlay"),
        ("down", "cannot be known"),
        ("denied", "may not be seen"),
        ("mixed", "made from different things"),
        ("part lost", "cannot be known"),
    ],
)
def test_stop(case: Case, fault: str, words: str) -> None:
    fake = case.fake
    if fault != "absent":
        case.release(CUDA)
    match fault:
        case "down":
            fake.status = 503
        case "denied":
            fake.status = 403
        case "mixed":
            labels = {"linux/amd64": {LABEL_INPUTS: "1"}, "linux/arm64": {LABEL_INPUTS: "2"}}
            fake.release("o/dormant-cuda", CUDA, labels)  # type: ignore[arg-type]
        case "part lost":
            fake.blobs.clear()
    row = case.run(status=1)
    assert (row["verdict"], row["image"]) == ("stop", None)
    assert words in case.err
    assert case.err.startswith(f"{CUDA}: stop: ")


def test_a_forced_rebuild_mends_mixed_platforms(case: Case) -> None:
    labels = {"linux/amd64": {LABEL_INPUTS: "1"}, "linux/arm64": {LABEL_INPUTS: "2"}}
    case.fake.release("o/dormant-cuda", CUDA, labels)  # type: ignore[arg-type]
    assert case.run("--force", "--may-publish", "yes")["verdict"] == "rebuild"


def test_a_lost_platform_is_rebuilt(case: Case) -> None:
    case.release(CUDA, "linux/amd64")
    row = case.run("--may-publish", "yes")
    assert (row["verdict"], row["reason"]) == ("rebuild", "the released image lacks linux/arm64")


def test_nothing_is_built_on_an_unresolved_base(case: Case) -> None:
    lock = resolved(case.repository.pins)
    base = case.repository.pins.variant(CUDA).base
    lock[base] = replace(lock[base], digest=None, resolved=None)
    case.repository.set_lock(lock)
    case.run("--may-publish", "yes", status=1)
    assert f"no digest is known of {base}" in case.err


def test_a_row_that_stops_hides_no_other(case: Case) -> None:
    image = case.release(CUDA)
    case.repository.write("docker/Dockerfile.rocm", "changed")
    lock = resolved(case.repository.pins)
    base = case.repository.pins.variant(ROCM).base
    lock[base] = replace(lock[base], digest=None, resolved=None)
    case.repository.set_lock(lock)
    rows = {row["variant"]: row for row in case.run("--all", "--may-publish", "yes", status=1)}
    assert (rows[CUDA]["verdict"], rows[CUDA]["image"]) == ("reuse", image)
    assert rows[ROCM]["verdict"] == "stop"
    assert case.err.startswith(f"{ROCM}: stop: ")
    name = f"{case.fake.host}/o/dormant-{{image}}"
    arguments = ["--all", "--image-name", name, "--may-publish", "yes"]
    assert main(arguments, case.repository.root) == 1
    assert case.capsys.readouterr().out.startswith(f"{CUDA}: reuse: ")


def test_what_the_drop_in_stands_for_is_an_input(case: Case, tmp_path: Path) -> None:
    case.release(CUDA)
    values = tmp_path / "values.json"
    arguments = ["--tms-version", "0.0.9.post1", "--bake-values", str(values)]
    row = case.run("--may-publish", "yes", *arguments)
    assert (row["verdict"], row["recipe"]) == ("rebuild", case.repository.inputs(CUDA).recipe)
    target = json.loads(values.read_text())["target"]
    assert target["builder-cuda"]["args"] == {"TMS_VERSION": "0.0.9.post1"}
    assert target["cuda-13-0"]["args"]["INPUTS"] == row["inputs"]


def test_outputs_for_github(case: Case, tmp_path: Path) -> None:
    image = case.release(ROCM)
    output, values = tmp_path / "output", tmp_path / "values.json"
    output.write_text("before=1\n")
    files = ("--github-output", str(output), "--bake-values", str(values))
    case.run("--all", "--may-publish", "yes", *files)
    lines = dict(line.split("=", 1) for line in output.read_text().splitlines())
    found = {key: json.loads(value) for key, value in lines.items()}
    assert [row["image"] for row in found["reuse"]] == [image]
    assert [row["variant"] for row in found["rebuild"]] == [CUDA]
    assert [(row["target"], row["platform_name"]) for row in found["builds"]] == [
        ("cuda-13-0", "linux-amd64"),
        ("cuda-13-0", "linux-arm64"),
    ]
    assert (found["overlay"], found["stop"], found["before"]) == ([], [], 1)
    target = json.loads(values.read_text())["target"]["cuda-13-0"]["args"]
    head = case.repository.git("rev-parse", "HEAD")
    assert (target["INPUTS"], target["EXPECT_COMMIT"]) == (found["rebuild"][0]["inputs"], head)


def test_outputs_for_one_variant_are_one_line_each(case: Case, tmp_path: Path) -> None:
    output = tmp_path / "output"
    case.run("--github-output", str(output), status=1)
    lines = dict(line.split("=", 1) for line in output.read_text().splitlines())
    assert (lines["verdict"], lines["image"], lines["variant"]) == ("stop", "", CUDA)
    assert json.loads(lines["platforms"]) == ["linux/amd64", "linux/arm64"]


def test_what_went_in_is_written_down(case: Case, tmp_path: Path) -> None:
    case.release(CUDA)
    case.run("--explain", str(tmp_path / "explained.json"))
    document = json.loads((tmp_path / "explained.json").read_text())
    assert "docker/Dockerfile.cuda" in document[CUDA]["recipe"]["dockerfiles"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--variant", "cuda-1", "--image-name", "ghcr.io/o/a"], "no variant cuda-1"),
        (["--variant", CUDA, "--image-name", "o/a"], "no full image name"),
        (["--all", "--image-name", "ghcr.io/o/a"], "--all needs {image}"),
    ],
)
def test_errors(case: Case, arguments: list[str], words: str) -> None:
    assert main(arguments, case.repository.root) == 1
    assert words in case.capsys.readouterr().err


def test_a_missing_input_is_said_and_no_decision(case: Case) -> None:
    case.release(CUDA)
    (case.repository.root / "LICENSE-MIT").unlink()
    assert case.run(status=1) is None
    assert "LICENSE-MIT feeds the image" in case.err


def test_the_programs_start(root: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    for program in ("lock", "decide"):
        result = subprocess.run(
            [sys.executable, str(root / "docker" / program), "--help"],
            check=True,
            capture_output=True,
            text=True,
            env=environment,
        )
        assert f"docker/{program}" in result.stdout
        assert os.access(root / "docker" / program, os.X_OK)


def test_a_lock_of_other_pins_has_no_digest(case: Case) -> None:
    case.repository.set_lock(Lock())
    case.run("--may-publish", "yes", status=1)
    assert "no digest is known" in case.err
