import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from small_repository import DIGESTS, Repository

from images.errors import ImagesError
from images.inputs import NAMED, RECIPE, WHEELS, inputs_of
from images.locked import load_lock
from images.pins import PINS, load_pins

BOTH = {"cuda-13.0", "rocm-7.2"}


def hashes(repository: Repository) -> dict[str, tuple[str, str]]:
    both = {name: repository.inputs(name) for name in sorted(BOTH)}
    return {name: (found.inputs, found.recipe) for name, found in both.items()}


def changed(
    before: dict[str, tuple[str, str]], after: dict[str, tuple[str, str]], at: int
) -> set[str]:
    return {name for name in before if before[name][at] != after[name][at]}


# What is touched; whose inputs change; whose recipe does.
TOUCHED = [
    ("docker/Dockerfile.cuda", {"cuda-13.0"}, {"cuda-13.0"}),
    ("docker/Dockerfile.rocm", {"rocm-7.2"}, {"rocm-7.2"}),
    ("docker/Dockerfile.builder", BOTH, BOTH),
    ("docker/recipe/install", BOTH, BOTH),
    ("docker/recipe/deeper/new", BOTH, BOTH),
    ("docker/requirements.lock", BOTH, BOTH),
    ("tests/src/lib.rs", BOTH, BOTH),
    ("tests/c/seed.c", BOTH, BOTH),
    ("tests/Cargo.toml", BOTH, BOTH),
    ("benches/Cargo.toml", BOTH, BOTH),
    ("LICENSE-MIT", BOTH, BOTH),
    ("LICENSE-APACHE", BOTH, BOTH),
    ("Cargo.toml", BOTH, set()),
    ("Cargo.lock", BOTH, set()),
    ("crates/dormant/src/lib.rs", BOTH, set()),
    ("crates/dormant/src/new.rs", BOTH, set()),
    ("backends/cuda/src/lib.rs", BOTH, set()),
    ("python/build/dormant_wheel/native.py", BOTH, set()),
    ("python/dormant/pyproject.toml", BOTH, set()),
    ("python/torch_memory_saver/pyproject.toml", BOTH, set()),
    ("docs/images.md", set(), set()),
    ("README.md", set(), set()),
    ("tests/tests/other.rs", set(), set()),
    ("python/dormant/tests/test_one.py", set(), set()),
    ("docker/other", set(), set()),
    ("crates/dormant/src/some.ignored", set(), set()),
    ("docker/recipe/some.ignored", set(), set()),
    ("target/anything", set(), set()),
]


@pytest.mark.parametrize(("path", "inputs", "recipe"), TOUCHED)
def test_what_a_file_changes(
    repository: Repository, path: str, inputs: set[str], recipe: set[str]
) -> None:
    before = hashes(repository)
    repository.write(path, "touched\n")
    after = hashes(repository)
    assert changed(before, after, 0) == inputs
    assert changed(before, after, 1) == recipe
    # Committed or not is the same.
    repository.commit()
    assert hashes(repository) == after


def test_every_set_is_touched_above() -> None:
    for name, paths in (WHEELS | RECIPE).items():
        for path in paths:
            filled = {
                path.format(image=image, requirements="docker/requirements.lock")
                for image in ("cuda", "rocm")
            }
            for one in filled:
                hits = [
                    t
                    for t, inputs, _ in TOUCHED
                    if inputs and (t == one or t.startswith(f"{one}/"))
                ]
                assert hits, f"nothing touches {one} of {name}"


def test_cuda_and_rocm_differ_only_by_their_row_and_dockerfile(repository: Repository) -> None:
    cuda, rocm = (repository.inputs(name).document for name in sorted(BOTH))
    assert cuda["wheels"] == rocm["wheels"]
    differ = {key for key in cuda["recipe"] if cuda["recipe"][key] != rocm["recipe"][key]}
    assert differ == {"variant", "base", "dockerfiles"}
    files = {
        name: set(of["recipe"]["dockerfiles"]) for name, of in (("cuda", cuda), ("rocm", rocm))
    }
    assert files["cuda"] ^ files["rocm"] == {"docker/Dockerfile.cuda", "docker/Dockerfile.rocm"}
    assert cuda["recipe"].keys() == rocm["recipe"].keys()


def test_the_executable_bit_counts(repository: Repository) -> None:
    before = hashes(repository)
    (repository.root / "docker/recipe/install").chmod(0o755)
    assert changed(before, hashes(repository), 1) == BOTH


def test_other_bits_and_times_do_not(repository: Repository) -> None:
    before = hashes(repository)
    file = repository.root / "docker/recipe/install"
    file.chmod(0o600)
    os.utime(file, (1, 1))
    assert hashes(repository) == before


def test_a_symbolic_link_is_its_target(repository: Repository) -> None:
    os.symlink("install", repository.root / "docker/recipe/link")
    before = hashes(repository)
    (repository.root / "docker/recipe/link").unlink()
    os.symlink("other", repository.root / "docker/recipe/link")
    assert changed(before, hashes(repository), 0) == BOTH


def test_a_renamed_and_a_deleted_file_count(repository: Repository) -> None:
    before = hashes(repository)
    repository.write("docker/recipe/second", "")
    with_second = hashes(repository)
    repository.git("add", "-A")
    (repository.root / "docker/recipe/second").rename(repository.root / "docker/recipe/third")
    assert changed(with_second, hashes(repository), 0) == BOTH
    (repository.root / "docker/recipe/third").unlink()
    assert hashes(repository) == before


@pytest.mark.parametrize("of", ["base", "rust"])
def test_a_digest_counts_and_who_found_it_does_not(repository: Repository, of: str) -> None:
    before = hashes(repository)
    pins, lock = repository.pins, repository.lock
    reference = pins.variant("rocm-7.2").base if of == "base" else pins.rust_image
    entry = lock[reference]
    lock[reference] = replace(entry, resolved=None, resolved_from="somewhere")
    repository.set_lock(lock)
    assert hashes(repository) == before
    for digest in (DIGESTS["e"], None):
        lock[reference] = replace(entry, digest=digest, resolved=digest and "2026-11-30")
        repository.set_lock(lock)
        expected = {"rocm-7.2"} if of == "base" else BOTH
        assert changed(before, hashes(repository), 0) == expected
        assert changed(before, hashes(repository), 1) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('["linux/amd64", "linux/arm64"]', '["linux/amd64"]', {"cuda-13.0"}),
        ('rust = "1.95.0"', 'rust = "1.96.0"', BOTH),
        # The pin says what releases are built from, it feeds nothing by itself.
        ('[source]\ncommit = "', '[source]\ncommit = "' + "0" * 40 + '" # "', set()),
    ],
)
def test_the_pins_count(repository: Repository, old: str, new: str, expected: set[str]) -> None:
    before = hashes(repository)
    text = (repository.root / PINS).read_text(encoding="utf-8")
    assert old in text
    repository.write(PINS, text.replace(old, new))
    assert changed(before, hashes(repository), 0) == expected


def test_local_wheels_count_but_not_for_the_recipe(repository: Repository, tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    with pytest.raises(ImagesError, match="has no wheel"):
        repository.inputs("rocm-7.2", wheels=wheels)
    found = [repository.inputs("rocm-7.2")]
    for content in ("one", "two"):
        (wheels / "a-1-py3-none-any.whl").write_text(content)
        found.append(repository.inputs("rocm-7.2", wheels=wheels))
    assert len({each.inputs for each in found}) == 3
    assert len({each.recipe for each in found}) == 1


def test_sources_of_a_commit(repository: Repository) -> None:
    commit, before = repository.commit(), hashes(repository)
    repository.write("crates/dormant/src/lib.rs", "changed")
    repository.write("docker/recipe/install", "changed")
    repository.commit()
    now = repository.inputs("cuda-13.0")
    then = repository.inputs("cuda-13.0", source_commit=commit)
    assert then.inputs not in (now.inputs, before["cuda-13.0"][0])
    assert then.recipe == now.recipe
    repository.write("crates/dormant/src/lib.rs", "//! One.\n")
    assert repository.inputs("cuda-13.0").inputs == then.inputs


@pytest.mark.parametrize("path", ["tests/c/seed.c", "LICENSE-MIT"])
def test_what_the_builder_takes_from_the_sources_is_of_their_commit(
    repository: Repository, path: str
) -> None:
    commit, before = repository.commit(), repository.inputs("rocm-7.2")
    repository.write(path, "changed")
    repository.commit()
    assert repository.inputs("rocm-7.2").recipe != before.recipe
    assert repository.inputs("rocm-7.2", source_commit=commit).recipe == before.recipe


@pytest.mark.parametrize(
    "path",
    [
        "docker/recipe/install",
        "docker/Dockerfile.rocm",
        "tests/c/seed.c",
        "LICENSE-MIT",
        "Cargo.lock",
    ],
)
@pytest.mark.parametrize("how", ["deleted", "ignored"])
def test_a_missing_input_is_an_error(repository: Repository, path: str, how: str) -> None:
    if how == "deleted":
        (repository.root / path).unlink()
    else:
        repository.git("rm", "-q", "--cached", path)
        repository.write(".gitignore", path)
    with pytest.raises(ImagesError, match="feeds the image and is not there"):
        repository.inputs("rocm-7.2")


def test_a_submodule_is_an_error(repository: Repository) -> None:
    head = repository.commit()
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{head},crates/module")
    (repository.root / "crates/module").mkdir()
    with pytest.raises(ImagesError, match="submodules are not counted"):
        repository.inputs("rocm-7.2")


def test_without_git_there_is_no_hash(tmp_path: Path, repository: Repository) -> None:
    (repository.root / ".git").rename(tmp_path / "gone")
    with pytest.raises(ImagesError, match="git ls-files"):
        repository.inputs("rocm-7.2")


def test_the_real_repository_has_all_inputs(root: Path) -> None:
    if not (root / "docker/Dockerfile.builder").exists():
        pytest.skip("docker/Dockerfile.builder is not there: the real inputs are NOT checked")
    pins, lock = load_pins(root), load_lock(root)
    found = {v.name: inputs_of(root, pins, lock, v).inputs for v in pins.variants}
    assert len(set(found.values())) == len(pins.variants)


def test_what_the_real_recipe_names_is_known(root: Path) -> None:
    recipe = root / "docker/recipe"
    wheels, parts = ((recipe / name).read_text(encoding="utf-8") for name in ("wheels", "parts"))
    named = {f"tests/src/bin/{name}.rs" for name in re.findall(r"--bin (\S+)", parts)}
    named |= {
        f"python/build/{name.replace('.', '/')}.py"
        for name in re.findall(r"-m (dormant_wheel\S+)", wheels)
    }
    named |= set(re.findall(r"cp (crates/\S+)", wheels))
    assert len(named) == 3
    assert named <= set(NAMED)
    assert all((root / path).is_file() for path in NAMED)


def test_the_recipe_hands_on_what_the_drop_in_stands_for(root: Path) -> None:
    builder = (root / "docker/Dockerfile.builder").read_text(encoding="utf-8")
    wheels = (root / "docker/recipe/wheels").read_text(encoding="utf-8")
    # In the stage that makes wheels: the other steps come from the cache all the same.
    stage = builder[builder.index("AS wheels") :]
    assert "ARG TMS_VERSION\n" in stage
    assert '/out "${TMS_VERSION}"\n' in stage
    assert 'export DORMANT_TMS_VERSION="$5"\n' in wheels
