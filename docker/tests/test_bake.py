import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from small_repository import Repository

from images.bake import BAKE, bake_file, bake_values, version
from images.errors import ImagesError
from images.locked import load_lock
from images.pins import load_pins


def test_the_file_is_what_the_pins_and_the_lock_make(root: Path) -> None:
    made = bake_file(load_pins(root), load_lock(root))
    assert (root / BAKE).read_text(encoding="utf-8") == made, "run docker/lock --bake"


def test_each_variant_has_a_target_in_its_images_group(root: Path) -> None:
    pins, text = load_pins(root), (root / BAKE).read_text(encoding="utf-8")
    targets = re.findall(r'^target "([a-zA-Z0-9_-]+)" \{$', text, re.M)
    builders = {"builder-cuda", "builder-rocm"}
    assert set(targets) == {variant.target for variant in pins.variants} | builders
    assert len(targets) == len(set(targets))
    for image in ("cuda", "rocm"):
        listed = json.dumps([variant.target for variant in pins.of_image(image)])
        assert f'group "{image}" {{\n  targets = {listed}\n}}' in text


def test_all_rows_of_an_image_take_one_builder(root: Path) -> None:
    text = (root / BAKE).read_text(encoding="utf-8")
    for block in re.findall(r'^target "((?:cuda|rocm)-.*?)^\}', text, re.M | re.S):
        image = block.partition("-")[0]
        assert f'"dormant-builder" = "target:builder-{image}"' in block
        assert f'dockerfile = "Dockerfile.{image}"' in block
    assert text.count('BACKEND = "cuda"') == text.count('BACKEND = "hip"') == 1


def test_every_image_from_outside_is_named_by_digest(root: Path, repository: Repository) -> None:
    for where in (root, repository.root):
        text = bake_file(load_pins(where), load_lock(where))
        images = re.findall(r'(?:BASE|RUST)_IMAGE = "(.*)"', text)
        assert images
        for image in images:
            assert re.search(r"@sha256:[0-9a-f]{64}$", image) or image.startswith(
                "unresolved.invalid/"
            )


def test_an_unresolved_base_cannot_be_pulled(repository: Repository) -> None:
    pins, lock = repository.pins, repository.lock
    base = pins.variant("rocm-7.2").base
    lock[base] = replace(lock[base], digest=None, resolved=None)
    text = bake_file(pins, lock)
    assert 'BASE_IMAGE = "unresolved.invalid/registry.example/rocm/dev:7.2"' in text
    assert f'BASE_IMAGE = "{base}' not in text


def test_values_of_one_build(repository: Repository) -> None:
    rows = [
        {"variant": name, "inputs": f"i {name}", "recipe": f"r {name}"}
        for name in ("cuda-13.0", "rocm-7.2")
    ]
    text = bake_values(repository.pins, rows, version(repository.root), "c", "s")
    shared = {"VERSION": "0.1.0", "EXPECT_COMMIT": "c", "EXPECT_SOURCE": "s"}
    assert json.loads(text)["target"] == {
        "cuda-13-0": {"args": {"INPUTS": "i cuda-13.0", "RECIPE": "r cuda-13.0", **shared}},
        "rocm-7-2": {"args": {"INPUTS": "i rocm-7.2", "RECIPE": "r rocm-7.2", **shared}},
    }
    # Each of them is empty in the bake file, so that nothing is said twice.
    empty = re.findall(r'([A-Z_]+) = ""', bake_file(repository.pins, repository.lock))
    assert set(empty) == {*shared, "INPUTS", "RECIPE", "SOURCE_URL", "TMS_VERSION"}


def test_what_the_drop_in_stands_for_is_the_builders(root: Path, repository: Repository) -> None:
    text = (root / BAKE).read_text(encoding="utf-8")
    blocks = re.findall(r'^target "(.*?)^\}', text, re.M | re.S)
    has = {block.partition('"')[0] for block in blocks if '    TMS_VERSION = ""\n' in block}
    assert has == {"builder-cuda", "builder-rocm"}
    rows = [{"variant": "rocm-7.2", "inputs": "i", "recipe": "r"}]
    text = bake_values(repository.pins, rows, "0.1.0", "c", "s", "0.0.9.post1")
    targets = json.loads(text)["target"]
    assert targets.keys() == {"rocm-7-2", "builder-rocm"}
    assert targets["builder-rocm"] == {"args": {"TMS_VERSION": "0.0.9.post1"}}


@pytest.mark.parametrize("image", ["builder", "cuda", "rocm"])
def test_the_dockerfiles_take_the_arguments(root: Path, image: str) -> None:
    dockerfile = root / f"docker/Dockerfile.{image}"
    if not dockerfile.exists():
        pytest.skip(f"{dockerfile.name} is not there: its arguments are NOT checked")
    taken = set(re.findall(r"^ARG (\w+)", dockerfile.read_text(encoding="utf-8"), re.M))
    text = (root / BAKE).read_text(encoding="utf-8")
    blocks = re.findall(rf'^target "{image}-.*?^}}', text, re.M | re.S)
    assert blocks
    for block in blocks:
        given = set(re.findall(r"^    ([A-Z_]+) = ", block, re.M))
        assert given <= taken, f"not taken: {given - taken}"


def test_a_workspace_without_a_version(repository: Repository) -> None:
    repository.write("Cargo.toml", "[workspace]\n")
    with pytest.raises(ImagesError, match="no version of the workspace"):
        version(repository.root)
