import json
from pathlib import Path

import pytest
from small_repository import DIGESTS, PINS_TEXT, Repository

from images.errors import ImagesError
from images.locked import LOCK, load_lock
from images.pins import PINS, load_pins

REF = "registry.example/rocm/dev:7.2"


def test_the_real_table(root: Path) -> None:
    pins = load_pins(root)
    rows = {variant.name: (variant.backend, variant.platforms) for variant in pins.variants}
    assert rows == {
        "cuda-12.9": ("cuda", ("linux/amd64", "linux/arm64")),
        "cuda-13.0": ("cuda", ("linux/amd64", "linux/arm64")),
        "rocm-7.0": ("hip", ("linux/amd64",)),
        "rocm-7.2": ("hip", ("linux/amd64",)),
    }
    for variant in pins.variants:
        vendor = {"cuda": "docker.io/nvidia/cuda:", "rocm": "docker.io/rocm/"}[variant.image]
        assert variant.base.startswith(vendor)
        assert variant.name.partition("-")[2] in variant.base


def test_the_toolchain_is_the_workspaces(root: Path) -> None:
    pins = load_pins(root)
    text = (root / "Cargo.toml").read_text(encoding="utf-8")
    assert f'rust-version = "{pins.rust.rpartition(".")[0]}"' in text
    assert f":{pins.rust}-" in pins.rust_image


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[toolchain]", "[tool", "line"),
        ("[tools]", "[others]", "lacks tools"),
        ('rust = "1.95.0"', "", "[toolchain] lacks rust"),
        ('rust = "1.95.0"', 'rust = ""', "[toolchain] rust must be a text"),
        ('rust = "1.95.0"', 'rust = "1"\nextra = "1"', "unknown extra"),
        ('commit = "', 'commit = "g', "[source] commit must match"),
        ('source = "sha256:', 'source = "', "[source] source must match"),
        ("rust:1.95.0", "rust", "[toolchain] image must be HOST/NAME:TAG"),
        ("registry.example/rocm/dev:7.2", "rocm/dev:7.2", "no full image name"),
        ("dev:7.2", "dev:7.2@" + DIGESTS["a"], "must be HOST/NAME:TAG"),
        ('backend = "hip"', 'backend = "cuda"', "cuda with cuda, rocm with hip"),
        ('name = "rocm-7.2"', 'name = "cuda-7.2"', "name must match"),
        ('name = "rocm-7.2"', 'name = "rocm-7.2 "', "name must match"),
        ('["linux/amd64"]', "[]", "list that is not empty"),
        ('["linux/amd64"]', '["amd64"]', "platforms must match"),
        ('["linux/amd64"]', '["linux/amd64", "linux/amd64"]', "a platform twice"),
    ],
)
def test_what_is_refused(repository: Repository, old: str, new: str, words: str) -> None:
    text = (repository.root / PINS).read_text(encoding="utf-8")
    assert old in text
    repository.write(PINS, text.replace(old, new))
    with pytest.raises(ImagesError) as error:
        load_pins(repository.root)
    assert words in str(error.value)


@pytest.mark.parametrize("same", ["name", "base"])
def test_one_row_a_base(repository: Repository, same: str) -> None:
    name = "cuda-13.0" if same == "name" else "cuda-12.9"
    base = "{host}/nvidia/cuda:13.0" if same == "base" else "{host}/nvidia/cuda:12.9"
    row = f'[[variant]]\nname = "{name}"\nimage = "cuda"\nbackend = "cuda"\n'
    row += f'base = "{base}"\nplatforms = ["linux/amd64"]\n'
    repository.set_pins(text=PINS_TEXT + row)
    with pytest.raises(ImagesError, match=f"two variants with the {same}"):
        load_pins(repository.root)


def test_a_variant_that_is_not_there(repository: Repository) -> None:
    with pytest.raises(ImagesError, match=r"no variant cuda-1; it has cuda-13\.0, rocm-7\.2"):
        repository.pins.variant("cuda-1")


def test_the_lock_is_written_as_it_is_read(root: Path) -> None:
    assert load_lock(root).text() == (root / LOCK).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"digest": "sha256:1"}, "is no digest"),
        ({"platforms": {"linux/amd64": "1"}}, "is no digest"),
        ({"platforms": []}, "must be a table"),
        ({"other": 1}, "needs digest, platforms, resolved"),
        ({"digest": None}, "without a digest, but"),
        ({"resolved": None}, "needs one of"),
        ({"resolved_from": "somewhere"}, "needs one of"),
        ({"platforms": {"linux/amd64": None}}, "but not all platforms"),
    ],
)
def test_a_lock_that_is_refused(
    repository: Repository, entry: dict[str, object], words: str
) -> None:
    table = json.loads((repository.root / LOCK).read_text(encoding="utf-8"))
    table["images"][REF] |= entry
    repository.write(LOCK, json.dumps(table))
    with pytest.raises(ImagesError, match=words):
        load_lock(repository.root)


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 2, "images": {}}', '{"schema": 1}'])
def test_a_lock_of_another_kind(repository: Repository, text: str) -> None:
    repository.write(LOCK, text)
    with pytest.raises(ImagesError, match=LOCK):
        load_lock(repository.root)


def test_an_unresolved_image_cannot_be_pinned(repository: Repository) -> None:
    lock = repository.lock
    assert lock.pinned(REF).startswith(f"{REF}@sha256:")
    del lock[REF]
    with pytest.raises(ImagesError, match="unresolved"):
        lock.pinned(REF)
