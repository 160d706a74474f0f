"""The parity check: every difference between the vendors is found and spelled out."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crafted_images import (
    COMMIT,
    LIBRARY,
    PROGRAM,
    SHIM,
    SITE,
    VENDORED,
    WHEELS,
    Crafted,
    elf,
    image,
)

from images import recipes
from images.check import main
from images.contents import Contents, examine, wanted
from images.layers import read_image
from images.locked import Lock
from images.parity import compare, same_library
from images.pins import load_pins

DOCKER = Path(__file__).resolve().parents[1]

PINS = """
[source]
commit = "45c0a3705a1b2c3d4e5f60718293a4b5c6d7e8f9"
source = "sha256:5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f"
[toolchain]
rust = "1.95.0"
image = "docker.io/library/rust:1.95.0-bookworm"
[tools]
requirements = "docker/requirements.lock"
[[variant]]
name = "cuda-13.0"
image = "cuda"
backend = "cuda"
base = "docker.io/nvidia/cuda:13.0"
platforms = ["linux/amd64", "linux/arm64"]
[[variant]]
name = "rocm-7.2"
image = "rocm"
backend = "hip"
base = "docker.io/rocm/dev:7.2"
platforms = ["linux/amd64"]
"""
BUILDER = """ARG RUST_IMAGE=docker.io/library/rust:1.95.0-bookworm
FROM ${RUST_IMAGE} AS wheels
ARG BACKEND
# Not cuda alone.
RUN recipe/wheels "${BACKEND:?is cuda or hip}" \\
    /out
FROM scratch
ARG BACKEND
COPY --from=wheels /parts/${BACKEND} /verify
"""
VENDOR = """# For {maker}; Dockerfile.{other} is for {others}.
ARG BUILDER_IMAGE=dormant-builder
ARG BASE_IMAGE={base}
FROM ${{BUILDER_IMAGE}} AS builder

FROM ${{BASE_IMAGE}}
ARG BACKEND={backend}
ARG VARIANT={variant}
RUN --mount=type=bind,from=builder,target=/mnt /mnt/recipe/install
LABEL org.opencontainers.image.title="dormant for {maker} GPUs" \\
    org.dormant.backend="${{BACKEND}}"
RUN dormant verify --backend "${{BACKEND}}"
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A repository with the two vendors' recipes."""
    (tmp_path / "docker").mkdir()
    cuda = {"maker": "NVIDIA", "others": "AMD", "other": "rocm", "backend": "cuda"}
    rocm = {"maker": "AMD", "others": "NVIDIA", "other": "cuda", "backend": "hip"}
    for name, text in {
        "pins.toml": PINS,
        "pins.lock.json": Lock().text(),
        "Dockerfile.builder": BUILDER,
        "Dockerfile.cuda": VENDOR.format(
            variant="cuda-13.0", base="docker.io/nvidia/cuda:13.0", **cuda
        ),
        "Dockerfile.rocm": VENDOR.format(variant="rocm-7.2", base="docker.io/rocm/dev:7.2", **rocm),
    }.items():
        (tmp_path / "docker" / name).write_text(text)
    return tmp_path


def differences(root: Path) -> list[str]:
    return recipes.differences(root, load_pins(root))


def change(root: Path, file: str, old: str, new: str) -> None:
    path = root / "docker" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_parallel_recipes(recipe: Path) -> None:
    assert differences(recipe) == []


CHANGES = [
    ("RUN dormant", "RUN true\nRUN dormant"),
    ("/mnt/recipe/install", "/mnt/recipe/install --old"),
    ("RUN dormant verify", "# RUN dormant verify"),
    ("org.dormant.backend=", "org.dormant.backends="),
    ("${BUILDER_IMAGE}", "${OTHER_BUILDER}"),
    ("BUILDER_IMAGE=dormant-builder", "BUILDER_IMAGE=dormant-builder:old"),
]


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        *(("Dockerfile.cuda", *change) for change in CHANGES),
        *(("Dockerfile.rocm", *change) for change in CHANGES),
        ("Dockerfile.cuda", "# For NVIDIA", "# For AMD"),
        ("Dockerfile.rocm", "# For AMD", "# For NVIDIA"),
        ("Dockerfile.cuda", "Dockerfile.rocm", "Dockerfile.cuda"),
        ("Dockerfile.rocm", "Dockerfile.cuda", "Dockerfile.rocm"),
    ],
)
def test_recipes_that_are_not_parallel(recipe: Path, file: str, old: str, new: str) -> None:
    change(recipe, file, old, new)
    found = "\n".join(differences(recipe))
    assert "the recipes are not parallel:" in found
    assert new.splitlines()[0] in found
    assert f"  docker/{file}:" in found


def test_a_line_that_one_recipe_has_alone(recipe: Path) -> None:
    change(recipe, "Dockerfile.rocm", "AS builder\n\n", "AS builder\n")
    assert differences(recipe) == [
        "the recipes are not parallel:\n"
        "  docker/Dockerfile.cuda:5: \n"
        "  docker/Dockerfile.rocm: nothing after line 4"
    ]


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        (
            "Dockerfile.rocm",
            "ARG BACKEND=hip",
            "ARG BACKEND=cuda",
            "docker/Dockerfile.rocm: the backends are cuda; "
            "it is to have exactly `ARG BACKEND=hip`",
        ),
        (
            "Dockerfile.cuda",
            "ARG BACKEND=cuda",
            "ARG BACKEND=cuda,hip",
            "docker/Dockerfile.cuda: the backends are cuda,hip;",
        ),
        (
            "Dockerfile.cuda",
            "ARG BACKEND=cuda\n",
            "",
            "docker/Dockerfile.cuda: the backends are none",
        ),
        (
            "Dockerfile.cuda",
            "cuda:13.0",
            "cuda:12.9",
            "its base is docker.io/nvidia/cuda:12.9; that of cuda-13.0 in docker/pins.toml is "
            "docker.io/nvidia/cuda:13.0",
        ),
        (
            "Dockerfile.rocm",
            "rocm-7.2",
            "rocm-7.0",
            "its variant is rocm-7.0; docker/pins.toml has rocm-7.2",
        ),
        ("Dockerfile.cuda", "FROM ${BASE_IMAGE}", "FROM base", "takes ${BUILDER_IMAGE}, base;"),
        (
            "Dockerfile.builder",
            "ARG BACKEND\n# ",
            "ARG BACKEND=cuda\n# ",
            "docker/Dockerfile.builder: is to have `ARG BACKEND` without a default, and has "
            "ARG BACKEND, ARG BACKEND=cuda",
        ),
        (
            "Dockerfile.builder",
            '"${BACKEND:?is cuda or hip}"',
            "cuda",
            "docker/Dockerfile.builder: names the backend cuda itself: RUN recipe/wheels cuda /out",
        ),
        (
            "Dockerfile.builder",
            '"${BACKEND:?is cuda or hip}"',
            "all",
            "docker/Dockerfile.builder: hands ${BACKEND} to no step",
        ),
    ],
)
def test_recipes_that_are_not_those_of_the_pins(
    recipe: Path, file: str, old: str, new: str, said: str
) -> None:
    change(recipe, file, old, new)
    assert said in "\n".join(differences(recipe))


def test_a_vendor_without_a_variant(recipe: Path) -> None:
    text = (recipe / "docker/pins.toml").read_text()
    start = text.rindex("[[variant]]")
    (recipe / "docker/pins.toml").write_text(text[:start])
    assert differences(recipe) == [
        "docker/Dockerfile.rocm: its variant is rocm-7.2; docker/pins.toml has no row of rocm",
        "docker/pins.toml: no variant of rocm",
    ]


@pytest.mark.skipif(
    not (DOCKER / "Dockerfile.cuda").exists(), reason="the recipes are not in this checkout"
)
def test_our_own_recipes() -> None:
    assert differences(DOCKER.parent) == []


def contents(made: Crafted, path: Path) -> Contents:
    return examine(read_image(made.archive(path), wanted))


@pytest.fixture
def pair(tmp_path: Path) -> Callable[[Crafted, Crafted], list[str]]:
    """The differences of two images."""

    def differ(cuda: Crafted, rocm: Crafted) -> list[str]:
        return compare(contents(cuda, tmp_path / "cuda.tar"), contents(rocm, tmp_path / "rocm.tar"))

    return differ


Pair = Callable[[Crafted, Crafted], list[str]]


def test_images_of_one_source(pair: Pair) -> None:
    assert pair(image("cuda"), image("hip")) == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"version": "0.0.9"}, "version: {cuda} has 0.1.0, {rocm} has 0.0.9"),
        ({"commit": "f" * 40}, f"commit: {{cuda}} has {COMMIT}, {{rocm}} has {'f' * 40}"),
        ({"source": "sha256:" + "0" * 64}, "source: {cuda} has sha256:5f5f"),
        ({"dirty": True}, f"is of {COMMIT} with changes"),
        ({"commit": None, "dirty": None}, "is of an unknown commit"),
        ({"rustc": "rustc 1.94.0"}, "{rocm} has rustc 1.94.0"),
        ({"profile": "debug"}, "profile: {cuda} has release, {rocm} has debug"),
        ({"target": "aarch64-unknown-linux-gnu"}, "target: {cuda} has x86_64-unknown"),
        ({"guarantees": ["oom-returns"]}, "guarantee free-while-paused: {cuda} alone gives it"),
        ({"features": ["hip", "cuda"]}, "{rocm} has the backends hip cuda, and is to have"),
        ({"features": ["hip", "sim"]}, "{rocm} has the backends hip sim, and is to have"),
        ({"features": ["cuda"]}, "both images have the backends cuda"),
        ({"features": []}, "{rocm} has the backends none, and is to have"),
    ],
)
def test_an_image_of_another_build(
    pair: Pair, tmp_path: Path, changed: dict[str, Any], said: str
) -> None:
    found = pair(image("cuda"), image("hip", **changed))
    said = said.format(cuda=tmp_path / "cuda.tar", rocm=tmp_path / "rocm.tar")
    assert any(said in one for one in found), found


@pytest.mark.parametrize("path", [LIBRARY, VENDORED, PROGRAM, SHIM])
def test_one_stale_file_in_an_image(pair: Pair, path: str) -> None:
    """The story: an image with an old build in it under the same version."""
    rocm = image("hip")
    own = ["hip"] if path != SHIM else []
    rocm.native(path, features=own, commit="f" * 40, **({} if own else {"guarantees": []}))
    found = pair(image("cuda"), rocm)
    assert any("commit: " in one and path in one and "f" * 40 in one for one in found), found
    assert any(f"{path} is not the file that was installed" in one for one in found), found


def test_other_files_that_differ(pair: Pair) -> None:
    cuda, rocm = image("cuda"), image("hip")
    rocm.files[f"{SITE}/dormant/__init__.py"] = b"changed\n"
    rocm.files[f"{SITE}/dormant/new.py"] = b""
    del rocm.files[f"{SITE}/torch_memory_saver/_dormant/empty.py"]
    wheel = next(path for path in rocm.files if path.startswith(f"{WHEELS}/dormant-"))
    rocm.files[wheel] = b"another"
    rocm.files[f"{WHEELS}/dormant-0.0.9-py3-none-any.whl"] = b"stray"
    del cuda.files[SHIM]
    cuda.files[VENDORED] = cuda.files[VENDORED] + b"0"
    found = "\n".join(pair(cuda, rocm))
    for said in (
        f"{SITE}/dormant/__init__.py is not the file that was installed",
        "dormant/__init__.py is not the same in ",
        "dormant/new.py is in ",
        f"{SITE}/torch_memory_saver/_dormant/empty.py is missing, which ",
        "torch_memory_saver/_dormant/empty.py is in ",
        f"{wheel} is not what {WHEELS}/SHA256SUMS says",
        f"{WHEELS}/SHA256SUMS does not have {WHEELS}/dormant-0.0.9-py3-none-any.whl",
        f"{SHIM} is missing, which ",
        f"{SHIM.rpartition('/')[2]} is in ",
        "the libraries are not one file",
    ):
        assert said in found


def test_a_program_that_is_a_script_or_is_gone(pair: Pair) -> None:
    cuda, rocm = image("cuda"), image("hip")
    cuda.files[PROGRAM] = b"#!/bin/sh\n"
    del rocm.files[PROGRAM]
    found = "\n".join(pair(cuda, rocm))
    assert f"{PROGRAM} is not a little-endian 64-bit ELF file" in found
    assert "rocm.tar: there is no program" in found


def test_an_image_without_dormant_is_one_line(pair: Pair, tmp_path: Path) -> None:
    bare = Crafted({"etc/os-release": b"of another\n"}, {"maintainer": "another"})
    said = f"{tmp_path}/rocm.tar: there is no library of dormant"
    assert pair(image("cuda"), bare) == [said]
    assert len(pair(bare, bare)) == 2


def test_a_library_that_cannot_be_read_is_named(pair: Pair) -> None:
    rocm = image("hip")
    rocm.files[LIBRARY] = rocm.files[VENDORED] = b"damaged"
    found = "\n".join(pair(image("cuda"), rocm))
    assert f"{LIBRARY} is not a little-endian 64-bit ELF file" in found


def test_a_drop_in_file_is_called_so(pair: Pair) -> None:
    rocm = image("hip")
    for path in [path for path in rocm.files if path.endswith(".abi3.so")]:
        del rocm.files[path]
    found = "\n".join(pair(image("cuda"), rocm))
    assert "rocm.tar: there is no drop-in file" in found
    assert "shim" not in found


def test_an_installed_version_that_the_library_is_not(pair: Pair) -> None:
    rocm = image("hip")
    for path in [path for path in rocm.files if path.endswith("/METADATA")]:
        rocm.files[path] = rocm.files[path].replace(b".hip", b"")
    found = "\n".join(pair(image("cuda"), rocm))
    assert f"dormant is installed as 0.1.0+g{COMMIT[:12]}, and {LIBRARY} is 0.1.0+g" in found
    assert "torch_memory_saver is installed as " in found


@pytest.mark.parametrize(
    ("label", "value", "said"),
    [
        ("org.opencontainers.image.licenses", "MIT", "label org.opencontainers.image.licenses: "),
        ("org.opencontainers.image.revision", "f" * 40, "image.revision says ffff"),
        ("org.dormant.backend", "cuda", "org.dormant.backend says cuda, and the library is hip"),
        ("org.dormant.inputs", None, "label org.dormant.inputs: "),
        ("org.dormant.variant", None, "label org.dormant.variant: "),
        ("org.dormant.extra", "x", "label org.dormant.extra: "),
    ],
)
def test_labels(pair: Pair, label: str, value: str | None, said: str) -> None:
    rocm = image("hip")
    rocm.labels.pop(label, None)
    if value is not None:
        rocm.labels[label] = value
    assert said in "\n".join(pair(image("cuda"), rocm))


def test_labels_of_the_vendor_and_of_others_may_differ(pair: Pair) -> None:
    rocm = image("hip")
    rocm.labels["org.opencontainers.image.base.name"] = "another"
    rocm.labels["io.buildah.version"] = "2"
    rocm.labels["maintainer"] = "of the base"
    rocm.labels["org.dormant.inputs"] = "sha256:another"
    assert pair(image("cuda"), rocm) == []


def test_what_an_image_says_of_itself(pair: Pair) -> None:
    rocm = image("hip")
    about = json.loads(rocm.files["etc/dormant/image.json"])
    rocm.files["etc/dormant/image.json"] = json.dumps({**about, "revision": "f" * 40}).encode()
    found = "\n".join(pair(image("cuda"), rocm))
    assert f"etc/dormant/image.json says {'f' * 40}, and the library is {COMMIT}" in found


def test_damaged_lists(pair: Pair) -> None:
    rocm = image("hip")
    rocm.files["etc/dormant/image.json"] = b"[1]"
    record = next(path for path in rocm.files if path.endswith("/RECORD"))
    rocm.files[record] += b"half,a line\n"
    found = "\n".join(pair(image("cuda"), rocm))
    assert "etc/dormant/image.json: " in found
    assert f"{record} has a line that is none: half,a line" in found


def test_files_of_others_are_not_ours(pair: Pair) -> None:
    rocm = image("hip")
    rocm.files["usr/share/doc/SHA256SUMS"] = b"00  something.iso\n"
    rocm.files[f"{SITE}/other/__init__.py"] = b""
    rocm.files["usr/lib/python3/dist-packages/dormant_other/__init__.py"] = b""
    assert pair(image("cuda"), rocm) == []


def test_unpacked_roots(tmp_path: Path) -> None:
    cuda = image("cuda").folder(tmp_path / "cuda")
    rocm = image("hip").folder(tmp_path / "rocm")
    assert main(["--images", cuda, rocm]) == 0
    (tmp_path / "rocm" / VENDORED).write_bytes(elf(features=["hip"], commit="f" * 40))
    assert main(["--images", cuda, rocm]) == 1


def test_the_same_library(tmp_path: Path) -> None:
    def read(name: str, made: Crafted) -> Contents:
        return contents(made, tmp_path / f"{name}.tar")

    arm = {"target": "aarch64-unknown-linux-gnu"}
    same = [read("a", image("cuda")), read("b", image("cuda")), read("arm", image("cuda", **arm))]
    assert same_library(same) == []
    other = image("cuda")
    other.files[LIBRARY] += b"0"
    other.files[VENDORED] += b"0"
    found = "\n".join(same_library([*same, read("c", other)]))
    assert "x86_64-unknown-linux-gnu: the library is not one file: " in found
    assert f"in {tmp_path}/a.tar, {tmp_path}/b.tar; " in found
    assert "aarch64" not in found
    assert "different backends: cuda; hip" in "\n".join(
        same_library([*same, read("hip", image("hip"))])
    )


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(DOCKER / "check"), *arguments], capture_output=True, text=True, timeout=60
    )


def test_the_program(recipe: Path, tmp_path: Path) -> None:
    done = check("--root", str(recipe))
    assert (done.returncode, done.stderr) == (0, "")
    assert f"evidence for {COMMIT}:" in done.stdout
    assert "rocm-7.2   linux/amd64  none" in done.stdout
    change(recipe, "Dockerfile.rocm", "install", "installed")
    done = check("--root", str(recipe), "--json")
    assert done.returncode == 1
    said = json.loads(done.stdout)
    assert "not parallel" in said["differences"][0]
    assert [row["evidence"] for row in said["evidence"]] == ["none"] * 3
    assert check("--root", str(recipe), "--evidence").returncode == 0
    (recipe / "docker/Dockerfile.cuda").unlink()
    done = check("--root", str(recipe))
    assert done.returncode == 2
    assert done.stderr.startswith("error: docker/Dockerfile.cuda: ")

    cuda = image("cuda").archive(tmp_path / "cuda.tar")
    rocm = image("hip").archive(tmp_path / "rocm.tar")
    assert check("--images", cuda, rocm).stdout == "no difference but the vendor's\n"
    assert check("--same-library", cuda, cuda).stdout == "the library is one file\n"
    done = check("--images", cuda, cuda)
    assert done.returncode == 1
    assert "both images have the backends cuda" in done.stdout
    done = check("--images", cuda, "/nowhere.tar")
    assert done.returncode == 2
    assert done.stderr == ("error: /nowhere.tar is no folder, archive or image: there is nothing\n")


def test_a_reader_that_stops_reading(recipe: Path) -> None:
    """As in `docker/check | head`."""
    shell = '"$@" | true; echo "${PIPESTATUS[0]}"'
    done = subprocess.run(
        ["bash", "-c", shell, "bash", str(DOCKER / "check"), "--root", str(recipe)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_the_program_needs_nothing_but_the_standard_library(recipe: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(DOCKER / "check"), "--root", str(recipe)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
