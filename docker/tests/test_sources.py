import hashlib
import os
import subprocess
from pathlib import Path

import pytest
from small_repository import Repository

from images.errors import ImagesError
from images.pins import load_pins
from images.sources import UnknownCommit, source_hash, source_hash_at

# The definition once more, with other tools.
SHELL = r"""
find Cargo.toml Cargo.lock crates backends -type f |
    grep -vE '(^|/)(\.[^/]*|target|__pycache__)(/|$)' |
    LC_ALL=C sort | xargs -d '\n' sha256sum | sha256sum | cut -d ' ' -f 1
"""


def by_shell(root: Path) -> str:
    result = subprocess.run(
        ["bash", "-c", SHELL], cwd=root, check=True, capture_output=True, text=True
    )
    return "sha256:" + result.stdout.strip()


def test_it_is_what_sha256sum_gives(repository: Repository) -> None:
    for path in (
        "crates/a/ö.rs",
        "crates/a b.rs",
        "crates/target/left_out.rs",
        "crates/.hidden/left_out.rs",
        "backends/__pycache__/left_out",
        "crates/.left_out",
    ):
        repository.write(path, path)
    assert source_hash(repository.root) == by_shell(repository.root)


def test_it_is_what_sha256sum_gives_for_the_real_sources(root: Path) -> None:
    assert source_hash(root) == by_shell(root)


def test_a_commit_hashes_like_its_checkout(repository: Repository) -> None:
    before = source_hash(repository.root)
    first = repository.commit()
    os.symlink("lib.rs", repository.root / "crates/dormant/src/link.rs")
    repository.write("crates/dormant/src/more.rs", "more")
    repository.write("crates/target/left_out.rs", "left out")
    repository.write("crates/empty.rs", "")
    after = source_hash(repository.root)
    second = repository.commit()
    assert before != after
    assert source_hash_at(repository.root, first) == before
    assert source_hash_at(repository.root, second) == after


@pytest.mark.parametrize("path", ["Cargo.toml", "Cargo.lock", "crates/dormant/src/lib.rs"])
def test_every_source_counts(repository: Repository, path: str) -> None:
    before = source_hash(repository.root)
    repository.write(path, "changed")
    assert source_hash(repository.root) != before


def test_symbolic_links_do_not_count(repository: Repository) -> None:
    before = source_hash(repository.root)
    os.symlink("lib.rs", repository.root / "crates/dormant/src/link.rs")
    os.symlink("dormant", repository.root / "crates/other")
    assert source_hash(repository.root) == before


def test_without_the_workspace_there_is_no_hash(repository: Repository) -> None:
    (repository.root / "Cargo.lock").unlink()
    with pytest.raises(ImagesError, match=r"lacks Cargo\.lock"):
        source_hash(repository.root)


def test_a_commit_that_is_not_there(repository: Repository) -> None:
    with pytest.raises(UnknownCommit):
        source_hash_at(repository.root, "0" * 40)


def test_the_pinned_commit_has_the_pinned_sources(root: Path) -> None:
    pins = load_pins(root)
    try:
        found = source_hash_at(root, pins.commit)
    except UnknownCommit as error:
        pytest.skip(f"{error}: a shallow clone? The pin is NOT checked")
    assert found == pins.source
    ancestor = subprocess.run(
        ["git", "-C", str(root), "merge-base", "--is-ancestor", pins.commit, "HEAD"], check=False
    )
    assert ancestor.returncode == 0, "the pinned commit is not in this branch's history"


def test_the_definition_by_hand(tmp_path: Path) -> None:
    for folder in ("crates", "backends"):
        (tmp_path / folder).mkdir()
    (tmp_path / "Cargo.toml").write_text("a")
    (tmp_path / "Cargo.lock").write_text("b")
    lines = "".join(
        f"{hashlib.sha256(content).hexdigest()}  {name}\n"
        for content, name in ((b"b", "Cargo.lock"), (b"a", "Cargo.toml"))
    )
    assert source_hash(tmp_path) == "sha256:" + hashlib.sha256(lines.encode()).hexdigest()
