import json
import os
import platform
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from small_repository import DIGESTS, Repository

from images.build import SOURCES, main
from images.locked import Entry, Lock

ENGINE = """#!PYTHON
import json, os, sys
line = sys.argv[1:]
with open(os.environ["SAID"], "a") as said:
    said.write(json.dumps(line) + "\\n")
if "inspect" in line and "buildx" not in line:
    print("sha256:" + "9" * 64)
elif "push" in line:
    open(line[line.index("--digestfile") + 1], "w").write("sha256:" + "8" * 64)
sys.exit(1 if os.environ.get("FAILS") and os.environ["FAILS"] in line[-1 :] + line else 0)
"""
STAND_IN = "sha256:" + "9" * 64


@dataclass
class Engine:
    """A program in place of the engine, which keeps what it was told."""

    said: Path

    def lines(self, verb: str = "build") -> list[list[str]]:
        every: list[list[str]] = [json.loads(line) for line in self.said.read_text().splitlines()]
        return [line for line in every if verb in line]


def values(line: list[str], option: str) -> dict[str, str]:
    given = [line[at + 1] for at, word in enumerate(line) if word == option]
    return dict(pair.split("=", 1) for pair in given)


@pytest.fixture(params=["buildah", "docker"])
def engine(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Engine:
    program = tmp_path / "bin" / request.param
    program.parent.mkdir()
    program.write_text(ENGINE.replace("PYTHON", sys.executable, 1))
    program.chmod(0o755)
    # The real ones are not to be found.
    for tool in ("git", "mktemp"):
        (program.parent / tool).symlink_to(str(shutil.which(tool)))
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setenv("SAID", str(tmp_path / "said"))
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    return Engine(tmp_path / "said")


def test_the_pinned_commit_goes_in_with_all_that_the_pins_and_the_lock_say(
    engine: Engine, repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cuda-13.0"], repository.root) == 0
    builder, image = engine.lines()
    lock, pins = repository.lock, repository.pins
    clone = repository.root / SOURCES / repository.pinned
    args = values(builder, "--build-arg")
    rust = lock.digest(pins.rust_image)
    assert args["RUST_IMAGE"] == f"registry.example/library/rust@{rust}"
    assert (args["BACKEND"], args["TMS_VERSION"]) == ("cuda", "")
    assert values(builder, "--build-context") == {"source": str(clone)}
    args = values(image, "--build-arg")
    base = pins.variant("cuda-13.0").base
    inputs = repository.inputs("cuda-13.0", source_commit=repository.pinned)
    assert args.pop("BUILDER_IMAGE") == builder[builder.index("--tag") + 1]
    args.pop("SOURCE_DATE_EPOCH", None)
    assert args == {
        "BASE_IMAGE": f"registry.example/nvidia/cuda@{lock.digest(base)}",
        "BASE_NAME": base,
        "BASE_DIGEST": lock.digest(base),
        "BACKEND": "cuda",
        "VARIANT": "cuda-13.0",
        "VERSION": "0.1.0",
        "SOURCE_URL": "",
        "EXPECT_COMMIT": repository.pinned,
        "EXPECT_SOURCE": pins.source,
        "INPUTS": inputs.inputs,
        "RECIPE": inputs.recipe,
    }
    assert values(image, "--label") == {}
    assert capsys.readouterr().out == f"localhost/dormant:cuda-13.0 {STAND_IN}\n"


def test_the_drop_in_can_stand_for_another_version(engine: Engine, repository: Repository) -> None:
    assert main(["cuda-13.0"], repository.root) == 0
    assert main(["cuda-13.0", "--tms-version", "0.0.9.post1"], repository.root) == 0
    default, image, builder, other = (values(line, "--build-arg") for line in engine.lines())
    assert (default["TMS_VERSION"], builder["TMS_VERSION"]) == ("", "0.0.9.post1")
    # Neither is taken for the other.
    assert image["BUILDER_IMAGE"] + "-tms-0.0.9.post1" == other["BUILDER_IMAGE"]
    assert image["INPUTS"] != other["INPUTS"]
    assert image["RECIPE"] == other["RECIPE"]


def test_the_image_never_comes_from_the_cache(engine: Engine, repository: Repository) -> None:
    assert main(["cuda-13.0"], repository.root) == 0
    builder, image = engine.lines()
    assert "--no-cache" in image
    assert "--no-cache" not in builder
    assert main(["cuda-13.0", "--no-cache"], repository.root) == 0
    assert all("--no-cache" in line for line in engine.lines()[2:])


def test_an_unresolved_base_is_refused_and_a_stand_in_is_named(
    engine: Engine, repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    base = repository.pins.variant("rocm-7.2").base
    pinned = repository.inputs("rocm-7.2", source_commit=repository.pinned)
    unresolved = Entry(None, None, None, {"linux/amd64": None})
    repository.set_lock(Lock({**repository.lock, base: unresolved}))
    assert main(["rocm-7.2"], repository.root) == 1
    assert f"{base} is unresolved" in capsys.readouterr().err
    assert engine.lines() == [] if engine.said.exists() else True

    assert main(["rocm-7.2", "--base", "localhost/other"], repository.root) == 0
    image = engine.lines()[-1]
    args = values(image, "--build-arg")
    assert args["BASE_IMAGE"] == args["BASE_NAME"] == "localhost/other"
    assert args["BASE_DIGEST"] == STAND_IN
    assert args["INPUTS"] != pinned.inputs
    assert args["RECIPE"] != pinned.recipe
    assert values(image, "--label") == {"org.dormant.base-stand-in": base}


def test_changes_that_are_in_no_commit_are_never_built_in_silence(
    engine: Engine, repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    head = repository.git("rev-parse", "HEAD")
    repository.write("crates/dormant/src/lib.rs", "//! Changed.\n")
    assert main(["cuda-13.0", "--source", "HEAD"], repository.root) == 1
    said = capsys.readouterr().err
    assert "crates/dormant/src/lib.rs has changes that are in no commit" in said
    assert f"--source {head} builds without them" in said
    assert main(["cuda-13.0", "--source", head], repository.root) == 0
    clone = repository.root / SOURCES / head
    assert (clone / "crates/dormant/src/lib.rs").read_text() == "//! One.\n"
    assert values(engine.lines()[-1], "--build-arg")["EXPECT_COMMIT"] == head

    repository.write("docker/recipe/install", "#!/bin/sh\n# Changed.\n")
    assert main(["cuda-13.0", "--source", head], repository.root) == 0
    assert "docker/recipe/install has changes that are in no commit" in capsys.readouterr().err
    pushed = ["cuda-13.0", "--source", head, "--tag", "localhost:5000/dormant:cuda", "--push"]
    assert main(pushed, repository.root) == 1
    assert "nothing is pushed" in capsys.readouterr().err


def test_a_clone_is_kept_only_while_it_is_clean(engine: Engine, repository: Repository) -> None:
    clone = repository.root / SOURCES / repository.pinned
    for planted, kept in ((None, True), ("crates/dormant/src/lib.rs", False), ("new", False)):
        assert main(["cuda-13.0"], repository.root) == 0
        mark = clone / ".git" / "mark"
        mark.touch()
        if planted:
            (clone / planted).write_text("planted")
        assert main(["cuda-13.0"], repository.root) == 0
        assert mark.exists() == kept
        assert repository.git("-C", str(clone), "status", "--porcelain", "--ignored") == ""
    assert str(repository.root) not in (clone / ".git/config").read_text()


def test_a_source_that_the_pins_do_not_know_is_refused(
    engine: Engine, repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cuda-13.0", "--source", "nowhere"], repository.root) == 1
    assert "there is no commit nowhere" in capsys.readouterr().err
    pins = repository.root / "docker/pins.toml"
    pins.write_text(pins.read_text().replace(repository.pins.source, DIGESTS["e"]))
    assert main(["cuda-13.0"], repository.root) == 1
    assert f"but the pins say {DIGESTS['e']}" in capsys.readouterr().err


def test_a_commit_from_before_the_recipe_is_refused_before_anything_is_built(
    engine: Engine, repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.git("rm", "-q", "tests/src/bin/verify-parts.rs", "LICENSE-MIT")
    before = repository.commit()
    assert main(["cuda-13.0", "--source", before], repository.root) == 1
    said = f"commit {before} lacks LICENSE-MIT, tests/src/bin/verify-parts.rs: the recipe"
    assert said in capsys.readouterr().err
    assert not engine.said.exists() or engine.lines() == []


def test_an_image_for_another_processor_is_refused(
    engine: Engine,
    repository: Repository,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert main(["rocm-7.2"], repository.root) == 1
    assert "rocm-7.2 is for linux/amd64; this is linux/arm64" in capsys.readouterr().err


@pytest.mark.parametrize("where", ["Dockerfile.builder", "Dockerfile.cuda"])
def test_a_build_that_fails_is_no_image(
    engine: Engine,
    repository: Repository,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    where: str,
) -> None:
    monkeypatch.setenv("FAILS", str(repository.root / "docker" / where))
    assert main(["cuda-13.0"], repository.root) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "failed; the reason stands above" in said.err


@pytest.mark.parametrize(
    "line",
    [
        ["cuda-13.0", "--push"],
        ["cuda-13.0", "--push", "--tag", "a.example/b:c", "--base", "localhost/other"],
        ["cuda-13.0", "rocm-7.2", "--tag", "a.example/b:c"],
        ["cuda-13.0", "--tms-version", "latest"],
        ["cuda-13.0", "--tms-version", "0.0.9", "--builder-image", "localhost/other"],
        [],
    ],
)
def test_what_makes_no_sense_is_a_wrong_command_line(
    repository: Repository, line: list[Any]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(line, repository.root)
    assert ended.value.code == 2


def test_without_an_engine_it_says_what_it_needs(
    engine: Engine,
    repository: Repository,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("docker", "buildah"):
        Path(os.environ["PATH"], name).unlink(missing_ok=True)
    assert main(["cuda-13.0"], repository.root) == 1
    assert "docker with buildx and its engine or buildah" in capsys.readouterr().err
