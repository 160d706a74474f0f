"""What native files and checkouts say that they are, and wheels that claim to be that."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from dormant_wheel import claims, elf, identity, native
from dormant_wheel.identity import Identity, IdentityError

import elf_files
from elf_files import IDENTITY, dormant

COMMIT = IDENTITY["commit"]
SOURCE = IDENTITY["source"]
SAID = identity.parse(IDENTITY)


@pytest.mark.parametrize(("segment", "section"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("machine", [62, 183, 243], ids=["x86_64", "aarch64", "riscv"])
@pytest.mark.parametrize("unit", [4, 8])
def test_the_note_is_read_of_any_file(
    tmp_path: Path, segment: bool, section: bool, machine: int, unit: int
) -> None:
    others = [(b"GNU", 3, b"\1\2\3\4\5\6\7"), (b"dormant", 2, b"another kind")]
    notes = [*others, dormant(), (b"CORE", 1, b"x")]
    file = tmp_path / "file"
    elf_files.write(file, *notes, machine=machine, unit=unit, segment=segment, section=section)
    assert identity.note(file) == SAID
    found = elf.notes(file.read_bytes(), "file")
    assert [(note.owner.encode(), note.kind, note.content) for note in found] == notes


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"schema": 2}, "no identity of schema 1"),
        ({"commit": "45c0a37"}, "'commit' is '45c0a37'"),
        ({"source": "5f"}, "'source' is '5f'"),
        ({"dirty": "no"}, "'dirty' is 'no'"),
        ({"features": "cuda"}, "'features' is 'cuda'"),
        ({"rustc": None}, "'rustc' is None"),
        ({"commit": None}, "has a commit and does not know"),
        ({"dirty": None}, "has a commit and does not know"),
    ],
)
def test_a_note_of_another_form_is_refused(
    tmp_path: Path, changed: dict[str, object], complaint: str
) -> None:
    file = elf_files.write(tmp_path / "libdormant.so", dormant(**changed))
    with pytest.raises(IdentityError, match=f"libdormant.so: .*({complaint})"):
        identity.note(file)


def test_a_file_that_says_nothing_or_two_things_is_refused(tmp_path: Path) -> None:
    silent = elf_files.write(tmp_path / "silent", (b"GNU", 3, b"1234"))
    with pytest.raises(IdentityError, match="silent does not say what it was built from"):
        identity.note(silent)
    twice = elf_files.write(tmp_path / "twice", dormant(), dormant())
    assert identity.note(twice) == SAID
    split = elf_files.write(tmp_path / "split", dormant(), dormant(version="0.2.0"))
    with pytest.raises(IdentityError, match="split says twice"):
        identity.note(split)


@pytest.mark.parametrize("size", [3, 63, 70, 130, 200])
def test_a_file_that_was_cut_is_refused(tmp_path: Path, size: int) -> None:
    file = elf_files.write(tmp_path / "file", dormant())
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises((elf.ElfError, IdentityError), match="file"):
        identity.note(file)


def test_a_place_beyond_all_files_is_damage(tmp_path: Path) -> None:
    file = elf_files.write(tmp_path / "file", dormant())
    content = bytearray(file.read_bytes())
    content[0x20:0x28] = b"\xff" * 8  # Where the program headers are.
    file.write_bytes(content)
    with pytest.raises(elf.ElfError, match="file is damaged"):
        identity.note(file)


def test_the_note_of_a_library_that_a_compiler_made(
    tmp_path: Path, tool: Callable[[str], str]
) -> None:
    text = json.dumps(IDENTITY, separators=(",", ":"))
    source = tmp_path / "library.s"
    source.write_text(
        '.section .note.dormant,"a",@note\n.balign 4\n'
        f'.long 8, {len(text)}, 1\n.asciz "dormant"\n.balign 4\n'
        f'.ascii "{text.translate({34: chr(92) + chr(34)})}"\n.balign 4\n'
    )
    for name, flags in {"library.so": ["-shared", "-s"], "object.o": ["-c"]}.items():
        made = tmp_path / name
        subprocess.run([tool("gcc"), *flags, str(source), "-o", str(made)], check=True)
        assert identity.note(made) == SAID


def tree(root: Path) -> Path:
    """A small checkout, without git."""
    for name, text in {
        "Cargo.toml": "[workspace]\n",
        "Cargo.lock": "",
        ".gitignore": "/target\n__pycache__\n",
        "README.md": "words\n",
        "crates/one/src/lib.rs": "//! One.\n",
        "crates/one/b.txt": "b\n",
        "crates/one-more/a.txt": "a\n",
        "backends/cuda/src/lib.rs": "//! CUDA.\n",
        "python/dormant/a.py": "",
    }.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def test_the_source_hash_is_that_of_sha256sum(tmp_path: Path, tool: Callable[[str], str]) -> None:
    root = tree(tmp_path / "root")
    for left_out in (
        "crates/target/x",
        "crates/one/.hidden/x",
        "crates/.x",
        "crates/__pycache__/x",
    ):
        (root / left_out).parent.mkdir(exist_ok=True)
        (root / left_out).write_text("no source")
    (root / "crates/one/link").symlink_to("b.txt")
    (root / "crates/folder").symlink_to("one")
    script = (
        "find Cargo.toml Cargo.lock crates backends -type f -not -path '*/.*' "
        "-not -path '*/target/*' -not -path '*/__pycache__/*' | LC_ALL=C sort | xargs -d '\\n' "
        "sha256sum | sha256sum"
    )
    assert tool("sha256sum")
    said = subprocess.run(["sh", "-c", script], cwd=root, capture_output=True, text=True)
    assert identity.source_hash(root) == "sha256:" + said.stdout.split()[0]


def test_the_source_hash_changes_with_every_source(tmp_path: Path) -> None:
    root = tree(tmp_path)
    seen = {identity.source_hash(root)}
    (root / "README.md").write_text("other words\n")
    assert identity.source_hash(root) in seen
    (root / "crates/one/src/lib.rs").write_text("//! Two.\n")
    seen.add(identity.source_hash(root))
    (root / "crates/one/src/lib.rs").rename(root / "crates/one/src/two.rs")
    seen.add(identity.source_hash(root))
    (root / "Cargo.lock").write_text("version = 4\n")
    seen.add(identity.source_hash(root))
    assert len(seen) == 4


def git(root: Path, *arguments: str) -> None:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    who = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.invalid"]
    subprocess.run(["git", *who, "-C", str(root), *arguments], check=True, env=env, stdout=-1)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A clean checkout."""
    root = tree(tmp_path / "repository")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "All")
    return root


def test_a_clean_checkout(repository: Path) -> None:
    here = identity.checkout(repository)
    assert here.commit
    assert len(here.commit) == 40
    assert (here.dirty, here.python_dirty) == (False, False)
    assert here.source == identity.source_hash(repository)


@pytest.mark.parametrize(
    ("path", "dirty"),
    [
        ("crates/one/src/lib.rs", (True, False)),
        ("crates/new.rs", (True, False)),
        (".gitignore", (True, False)),
        ("python/dormant/a.py", (False, True)),
        ("python/dormant/new.py", (False, True)),
        ("README.md", (False, False)),
        ("target/x", (False, False)),
    ],
)
def test_what_a_changed_file_makes_dirty(
    repository: Path, path: str, dirty: tuple[bool, bool]
) -> None:
    (repository / path).parent.mkdir(exist_ok=True)
    (repository / path).write_text("/target\n__pycache__\nchanged\n")
    here = identity.checkout(repository)
    assert (here.dirty, here.python_dirty) == dirty


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_a_file_that_git_takes_for_unchanged_makes_dirty(repository: Path, flag: str) -> None:
    git(repository, "update-index", flag, "crates/one/src/lib.rs")
    (repository / "crates/one/src/lib.rs").write_text("changed\n")
    assert identity.checkout(repository).dirty is True


def test_a_source_that_git_ignores_makes_dirty_and_what_is_made_does_not(repository: Path) -> None:
    (repository / ".git/info/exclude").write_text("new.rs\nmade\n.*\n")
    one = repository / "crates/one"
    for path in ("target/made", "__pycache__/made", ".hidden"):
        (one / path).parent.mkdir(exist_ok=True)
        (one / path).write_text("")
    assert identity.checkout(repository).dirty is False
    (one / "src/new.rs").write_text("")
    assert identity.checkout(repository).dirty is True


def test_a_checkout_does_not_believe_the_variables_of_another(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = identity.checkout(repository)
    other = tree(tmp_path / "other")
    git(other, "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    assert identity.checkout(repository) == truth


def test_what_is_no_repository_of_its_own_has_no_commit(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = tree(tmp_path / "alone")
    within = tree(repository / "vendor" / "dormant")
    empty = tree(tmp_path / "empty")
    git(empty, "init", "-q")
    for root in (alone, within, empty):
        here = identity.checkout(root)
        assert (here.commit, here.dirty, here.python_dirty) == (None, None, None), root
        assert here.source == identity.source_hash(alone)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert identity.checkout(repository).commit is None


@pytest.mark.parametrize(
    ("commit", "dirty", "features", "version"),
    [
        (COMMIT, False, identity.BACKENDS, "0.1.0+g45c0a3705a1b"),
        (COMMIT, True, identity.BACKENDS, "0.1.0+g45c0a3705a1b.dirty.s5f5f5f5f"),
        (None, None, identity.BACKENDS, "0.1.0+unknown.s5f5f5f5f"),
        (COMMIT, False, ("cuda",), "0.1.0+g45c0a3705a1b.cuda"),
        (COMMIT, True, ("hip", "cuda"), "0.1.0+g45c0a3705a1b.dirty.s5f5f5f5f.cuda.hip"),
        (None, None, ("hip",), "0.1.0+unknown.s5f5f5f5f.hip"),
    ],
)
def test_a_wheels_version(
    commit: str | None, dirty: bool | None, features: tuple[str, ...], version: str
) -> None:
    assert identity.local_version("0.1.0", commit, dirty, SOURCE, features) == version


CLEAN = identity.Checkout(COMMIT, False, False, SOURCE)
NO_GIT = identity.Checkout(None, None, None, SOURCE)
WITH_BACKENDS = frozenset([native.LIBRARY, native.PROGRAM])


def claimed(here: identity.Checkout, library: Identity | None = None) -> claims.Claim:
    features = library.features if library else identity.BACKENDS
    return claims.claim(here, "0.1.0", features, library)


def test_files_that_are_what_the_wheel_says_are_taken() -> None:
    files = {
        native.LIBRARY: SAID,
        native.PROGRAM: SAID,
        native.SHIM: replace(SAID, features=(), guarantees=()),
    }
    for here in (CLEAN, replace(CLEAN, python_dirty=True)):
        claims.hold(claimed(here), files, WITH_BACKENDS)
        claims.hold(claimed(here, SAID), files, WITH_BACKENDS)
    claims.hold(claimed(NO_GIT, SAID), files, WITH_BACKENDS)


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"commit": "f" * 40}, f"is of {'f' * 40}, source 5f5f5f5f; these files of {COMMIT}"),
        (
            {"source": "sha256:" + "aa" * 32},
            "is of .*, source aaaaaaaa; these files of .*, source 5f5f5f5f",
        ),
        ({"dirty": True}, f"is of {COMMIT} with changes, .*; these files of {COMMIT}, "),
        ({"commit": None, "dirty": None}, "is of an unknown commit, "),
        ({"version": "0.0.9"}, r"is of version 0\.0\.9, and the wheel of 0\.1\.0"),
        ({"features": ("cuda",)}, "has the backends cuda, and .* the backends cuda hip sim"),
        ({"features": ()}, "has no backends, and "),
    ],
)
@pytest.mark.parametrize("name", [native.LIBRARY, native.PROGRAM])
def test_a_file_that_is_something_else_is_refused(
    name: str, changed: dict[str, object], complaint: str
) -> None:
    stale = replace(SAID, **changed)  # type: ignore[arg-type]
    with pytest.raises(native.NativeError, match=f"{name} {complaint}"):
        claims.hold(claimed(CLEAN), {name: stale}, WITH_BACKENDS)


def test_a_shim_with_backends_is_refused() -> None:
    with pytest.raises(native.NativeError, match=r"has the backends .* is to have no backends"):
        claims.hold(claimed(CLEAN), {native.SHIM: SAID}, WITH_BACKENDS)


def test_changed_python_files_make_the_wheel_dirty() -> None:
    changed = replace(CLEAN, python_dirty=True)
    assert claimed(changed).local_version == "0.1.0+g45c0a3705a1b.dirty.s5f5f5f5f"
    assert claimed(CLEAN).local_version == "0.1.0+g45c0a3705a1b"


def test_without_git_the_commit_is_that_of_the_library_of_the_same_sources() -> None:
    assert claimed(NO_GIT).local_version == "0.1.0+unknown.s5f5f5f5f"
    assert claimed(NO_GIT, SAID).local_version == "0.1.0+g45c0a3705a1b"
    dirty = claimed(NO_GIT, replace(SAID, dirty=True))
    assert dirty.local_version == "0.1.0+g45c0a3705a1b.dirty.s5f5f5f5f"
    other = replace(NO_GIT, source="sha256:" + "aa" * 32)
    with pytest.raises(
        native.NativeError, match=r"source 5f5f5f5f; these files, without git, .* source aaaaaaaa"
    ):
        claimed(other, SAID)


def test_a_library_of_another_commit_than_the_python_files_is_refused(tmp_path: Path) -> None:
    elf_files.write(tmp_path / native.LIBRARY, dormant(commit="f" * 40))
    settings = native.Settings(prebuilt=tmp_path)
    claim = native.claim(settings)
    with pytest.raises(native.NativeError, match=f"libdormant.so is of {'f' * 40}.*; these files"):
        native.held(claim, {native.LIBRARY: tmp_path / native.LIBRARY})


def test_the_backends_are_a_parameter() -> None:
    def asked(text: str) -> tuple[str, ...] | None:
        return native.Settings.of({"DORMANT_WHEEL_FEATURES": text}).features

    assert asked("") is None
    assert asked("cuda") == ("cuda",)
    assert asked("sim, cuda") == ("cuda", "sim")
    with pytest.raises(native.NativeError, match="'rocm' is none"):
        asked("cuda,rocm")
    command = native.cargo_command(native.Settings(linker="system", features=("hip",)))
    assert command[-3:] == [
        "--no-default-features",
        "--features",
        "dormant-capi/hip,dormant-cli/hip",
    ]
    for everything in (None, identity.BACKENDS):
        whole = native.cargo_command(native.Settings(linker="system", features=everything))
        assert "--features" not in whole


def test_each_set_of_backends_has_a_target_folder_of_its_own() -> None:
    def folder(features: tuple[str, ...] | None) -> str:
        settings = native.Settings(features=features)
        return native.build_environment(settings)["CARGO_TARGET_DIR"]

    assert folder(None) == folder(identity.BACKENDS)
    assert len({folder(None), folder(("cuda",)), folder(("hip",)), folder(("cuda", "hip"))}) == 4
