from dataclasses import replace
from pathlib import Path

import pytest
from fake_registry import FakeRegistry
from small_repository import DIGESTS, Repository, resolved

from images import requirements
from images.bake import BAKE
from images.errors import ImagesError
from images.lock import main, moved, resolve, stale
from images.locked import LOCK, Lock
from images.pins import PINS
from images.registry import Registry

TODAY = "2026-12-01"
BOTH = ("linux/amd64", "linux/arm64")


@pytest.fixture
def floating(repository: Repository, fake: FakeRegistry) -> dict[str, str]:
    """Have pins that name images of the fake registry; return their digests there."""
    repository.set_pins(fake.host)
    repository.set_lock(Lock())
    index = dict.fromkeys(BOTH, fake.add_image("any", None))
    return {
        f"{fake.host}/library/rust:1.95.0": fake.add_index("library/rust", "1.95.0", index),
        f"{fake.host}/nvidia/cuda:13.0": fake.add_index("nvidia/cuda", "13.0", index),
        f"{fake.host}/rocm/dev:7.2": fake.add_image("rocm/dev", None, tag="7.2"),
    }


def test_all_are_looked_up_and_kept(
    repository: Repository, floating: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([], repository.root) == 0
    output = capsys.readouterr().out
    assert output.splitlines() == [f"{name}: {digest}" for name, digest in floating.items()]
    lock = repository.lock
    assert {reference: entry.digest for reference, entry in lock.items()} == floating
    assert all(entry.resolved and not entry.resolved_from for entry in lock.values())
    assert stale(repository.root, repository.pins, lock) == []
    assert main(["--check", "--registry"], repository.root) == 0


def test_what_has_not_changed_keeps_its_day(
    repository: Repository, floating: dict[str, str], client: Registry
) -> None:
    first, failures = resolve(repository.pins, Lock(), client, None, "2026-01-01")
    second, _ = resolve(repository.pins, first, client, None, TODAY)
    assert (failures, second) == ([], first)
    reference = next(iter(floating))
    first[reference] = replace(first[reference], digest=DIGESTS["a"])
    third, _ = resolve(repository.pins, first, client, None, TODAY)
    assert third[reference].digest == floating[reference]
    assert third[reference].resolved == TODAY


def test_a_digest_from_elsewhere_is_confirmed_or_replaced(
    repository: Repository, floating: dict[str, str], client: Registry
) -> None:
    right, wrong, _ = floating
    old = resolved(repository.pins)
    for reference, digest in ((right, floating[right]), (wrong, DIGESTS["a"])):
        old[reference] = replace(
            old[reference], digest=digest, resolved=None, resolved_from="some/repository"
        )
    repository.set_lock(old)
    complaints = stale(repository.root, repository.pins, old)
    assert len([line for line in complaints if "unconfirmed" in line]) == 2
    lock, _ = resolve(repository.pins, old, client, None, TODAY)
    for reference in (right, wrong):
        entry = lock[reference]
        assert (entry.digest, entry.resolved, entry.resolved_from) == (
            floating[reference],
            TODAY,
            None,
        )


@pytest.mark.parametrize("fault", ["absent", "no such platform", "denied", "broken"])
def test_a_failure_keeps_the_old_entry_and_is_said(
    repository: Repository,
    floating: dict[str, str],
    fake: FakeRegistry,
    client: Registry,
    fault: str,
) -> None:
    reference = f"{fake.host}/nvidia/cuda:13.0"
    before = resolved(repository.pins)
    match fault:
        case "absent":
            del fake.manifests["nvidia/cuda", "13.0"]
        case "no such platform":
            fake.add_image("nvidia/cuda", None, "linux/amd64", "13.0")
        case "denied" | "broken":
            fake.status = 403 if fault == "denied" else 500
    for old in (before, Lock()):
        lock, failures = resolve(repository.pins, old, client, [reference], TODAY)
        assert len(failures) == 1
        assert reference in failures[0]
        assert lock.digest(reference) == old.digest(reference)
        if not old:
            assert lock[reference].platforms == dict.fromkeys(BOTH)
    if fault == "no such platform":
        assert "linux/arm64" in failures[0]


def test_only_one(repository: Repository, floating: dict[str, str], client: Registry) -> None:
    first, *others = floating
    lock, failures = resolve(repository.pins, Lock(), client, [first], TODAY)
    assert failures == []
    assert lock.digest(first) == floating[first]
    assert [lock.digest(other) for other in others] == [None, None]
    with pytest.raises(ImagesError, match="does not name other"):
        resolve(repository.pins, Lock(), client, ["other"], TODAY)


def test_the_program_writes_what_it_got_and_fails_for_the_rest(
    repository: Repository,
    floating: dict[str, str],
    fake: FakeRegistry,
    capsys: pytest.CaptureFixture[str],
) -> None:
    del fake.manifests["rocm/dev", "7.2"]
    assert main([], repository.root) == 1
    assert f"{fake.host}/rocm/dev:7.2: the registry answers 404" in capsys.readouterr().err
    lock = repository.lock
    assert [lock.digest(reference) for reference in floating] == [
        *list(floating.values())[:2],
        None,
    ]
    assert main(["--check"], repository.root) == 1
    assert f"{fake.host}/rocm/dev:7.2 is unresolved" in capsys.readouterr().err


@pytest.mark.parametrize("asking", [False, True])
def test_what_no_row_names_is_dropped(
    repository: Repository, fake: FakeRegistry, client: Registry, asking: bool
) -> None:
    """A row is left out of pins.toml: CUDA's, and with it a platform of the toolchain."""
    before, pins = repository.lock, repository.pins
    path = repository.root / PINS
    _, rocm = path.read_text(encoding="utf-8").split('[[variant]]\nname = "rocm')
    head, _ = path.read_text(encoding="utf-8").split('[[variant]]\nname = "cuda')
    repository.write(PINS, f'{head}[[variant]]\nname = "rocm{rocm}')
    found = stale(repository.root, repository.pins, before)
    assert f"{pins.variant('cuda-13.0').base} is in the lock, but not in the pins" in found
    if asking:
        fake.status = 500
        lock, _ = resolve(repository.pins, before, client, None, TODAY)
        repository.set_lock(lock)
    else:
        assert main(["--bake"], repository.root) == 0
    lock, base = repository.lock, pins.variant("rocm-7.2").base
    assert lock.keys() == {pins.rust_image, base}
    assert lock[base] == before[base]
    assert lock[pins.rust_image].digest == before[pins.rust_image].digest
    assert lock[pins.rust_image].platforms.keys() == {"linux/amd64"}
    assert stale(repository.root, repository.pins, lock) == []


def test_what_is_stale(repository: Repository) -> None:
    root, pins, lock = repository.root, repository.pins, repository.lock
    assert stale(root, pins, lock) == []
    cuda, rocm = (variant.base for variant in pins.variants)
    lock["registry.example/old:1"] = lock.pop(cuda)
    lock[rocm] = replace(lock[rocm], platforms=dict.fromkeys(BOTH, DIGESTS["a"]))
    repository.write(BAKE, "")
    repository.write("docker/requirements.lock", "hatchling\n")
    assert stale(root, pins, lock) == [
        "registry.example/old:1 is in the lock, but not in the pins",
        f"{cuda} is not in the lock",
        f"{rocm}: the lock has other platforms than the pins",
        f"{BAKE} is not what the pins and the lock make (docker/lock --bake)",
        "docker/requirements.lock: not NAME==VERSION: hatchling",
    ]


def test_a_pin_of_other_sources(repository: Repository) -> None:
    text = (repository.root / PINS).read_text(encoding="utf-8")
    source, commit = repository.pins.source, repository.pinned
    repository.write(PINS, text.replace(source, DIGESTS["a"]))
    (line,) = stale(repository.root, repository.pins, repository.lock)
    assert f"commit {commit} has the sources {source}, not" in line
    repository.write(PINS, text.replace(commit, "0" * 40))
    (line,) = stale(repository.root, repository.pins, repository.lock)
    assert "cannot be checked" in line


@pytest.mark.parametrize("gone", ["tests/src/bin/verify-parts.rs", "python/torch_memory_saver"])
def test_a_pin_from_before_something_that_the_recipe_needs(
    repository: Repository, capsys: pytest.CaptureFixture[str], gone: str
) -> None:
    later = repository.git("rev-parse", "HEAD")
    repository.git("rm", "-q", "-r", gone)
    repository.pinned = repository.commit()
    repository.git("checkout", "-q", later, "--", gone)
    repository.set_pins()
    repository.commit()
    said = f"[source]: commit {repository.pinned} lacks {gone}, which the recipe needs"
    assert stale(repository.root, repository.pins, repository.lock) == [f"{PINS}: {said}"]
    assert main(["--check"], repository.root) == 1
    assert said in capsys.readouterr().err


def test_a_tag_that_has_moved(
    repository: Repository, floating: dict[str, str], fake: FakeRegistry, client: Registry
) -> None:
    lock, _ = resolve(repository.pins, Lock(), client, None, TODAY)
    assert moved(lock, repository.pins, client) == []
    fake.add_image("rocm/dev", {"new": "yes"}, tag="7.2")
    del fake.manifests["library/rust", "1.95.0"]
    gone, other = moved(lock, repository.pins, client)
    assert "404" in gone
    assert "rocm/dev:7.2 has moved" in other


def test_new_pins_leave_nothing_of_the_old(
    repository: Repository, floating: dict[str, str], client: Registry
) -> None:
    lock, _ = resolve(repository.pins, Lock(), client, None, TODAY)
    text = (repository.root / PINS).read_text(encoding="utf-8")
    repository.write(PINS, text.replace("dev:7.2", "dev:7.3"))
    lock, failures = resolve(repository.pins, lock, client, None, TODAY)
    assert not any(reference.endswith("dev:7.2") for reference in lock)
    assert "dev:7.3" in failures[0]


def test_the_bake_file_alone_asks_nobody(repository: Repository) -> None:
    before = (repository.root / LOCK).read_text(encoding="utf-8")
    repository.write(BAKE, "")
    assert main(["--bake"], repository.root) == 0
    assert stale(repository.root, repository.pins, repository.lock) == []
    assert (repository.root / LOCK).read_text(encoding="utf-8") == before


@pytest.mark.parametrize("arguments", [["--registry"], ["--check", "--only", "a"], ["--nonsense"]])
def test_a_wrong_command_line(repository: Repository, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments, repository.root)
    assert exit_.value.code == 2


def test_an_error_is_one_line(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    repository.write(PINS, "")
    assert main(["--check"], repository.root) == 1
    assert capsys.readouterr().err == "docker/lock: docker/pins.toml: the file lacks source\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["nothing in it"]),
        ("hatchling==1.33.0", ["hatchling without --hash"]),
        (f"hatchling==1.32.0 --hash=sha256:{'0' * 64}", ["1.32.0, but python/build/requirements"]),
        (f"hatchling>=1 --hash=sha256:{'0' * 64}", ["not NAME==VERSION"]),
        (f"# A comment\nziglang==1 \\\n  --hash=sha256:{'0' * 64} # why\n", []),
    ],
)
def test_requirements(repository: Repository, text: str, words: list[str]) -> None:
    repository.write("docker/requirements.lock", text)
    found = requirements.complaints(repository.root, "docker/requirements.lock")
    assert len(found) == len(words)
    for word, line in zip(words, found, strict=True):
        assert word in line


def test_requirements_that_are_not_there(repository: Repository) -> None:
    (line,) = requirements.complaints(repository.root, "docker/none.lock")
    assert "No such file" in line


def test_the_real_lock_fits_the_real_pins(root: Path) -> None:
    from images.locked import load_lock
    from images.pins import load_pins

    pins, lock = load_pins(root), load_lock(root)
    # What no registry has said yet is known and stands in docs/images.md; all else is an error.
    # The third is so in a shallow clone, test_sources.py says it.
    known = ("is unresolved", "is unconfirmed", "[source] cannot be checked")
    found = [line for line in stale(root, pins, lock) if not any(word in line for word in known)]
    if not (root / pins.requirements).exists():
        found = [line for line in found if not line.startswith(pins.requirements)]
    assert found == []
