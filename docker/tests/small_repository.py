"""A git repository with all that feeds an image, each file small."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from images.bake import BAKE, bake_file
from images.inputs import Inputs, inputs_of
from images.locked import LOCK, Entry, Lock, load_lock
from images.pins import PINS, Pins, load_pins
from images.sources import source_hash_at

DIGESTS = {letter: "sha256:" + letter * 64 for letter in "abcdef"}
PINS_TEXT = """
[source]
commit = "{commit}"
source = "{source}"
[toolchain]
rust = "1.95.0"
image = "{host}/library/rust:1.95.0"
[tools]
requirements = "docker/requirements.lock"
[[variant]]
name = "cuda-13.0"
image = "cuda"
backend = "cuda"
base = "{host}/nvidia/cuda:13.0"
platforms = ["linux/amd64", "linux/arm64"]
[[variant]]
name = "rocm-7.2"
image = "rocm"
backend = "hip"
base = "{host}/rocm/dev:7.2"
platforms = ["linux/amd64"]
"""
FILES = {
    "Cargo.toml": '[workspace.package]\nversion = "0.1.0"\n',
    "Cargo.lock": "version = 4\n",
    "crates/dormant/src/lib.rs": "//! One.\n",
    "crates/dormant-capi/include/dormant.h": "",
    "crates/dormant-identity/Cargo.toml": "",
    "backends/cuda/src/lib.rs": "//! Two.\n",
    "python/build/requirements.txt": "hatchling==1.33.0\n",
    "python/build/dormant_wheel/native.py": "",
    "python/dormant/pyproject.toml": "",
    "python/dormant/tests/test_one.py": "",
    "python/torch_memory_saver/pyproject.toml": "",
    "docker/Dockerfile.builder": "FROM scratch\n",
    "docker/Dockerfile.cuda": "FROM scratch\n",
    "docker/Dockerfile.rocm": "FROM scratch\n",
    "docker/recipe/install": "#!/bin/sh\n",
    "docker/requirements.lock": f"hatchling==1.33.0 \\\n    --hash=sha256:{'0' * 64}\n",
    "tests/Cargo.toml": "",
    "tests/src/lib.rs": "",
    "tests/src/bin/verify-parts.rs": "",
    "tests/c/seed.c": "",
    "tests/tests/other.rs": "",
    "benches/Cargo.toml": "",
    "LICENSE-MIT": "MIT\n",
    "LICENSE-APACHE": "Apache\n",
    "README.md": "read\n",
    "docs/images.md": "images\n",
    ".gitignore": "*.ignored\n/target\n",
}


@dataclass
class Repository:
    root: Path
    pinned: str = ""

    def git(self, *arguments: str) -> str:
        who = ("-c", "user.name=Test", "-c", "user.email=test@example.invalid")
        return subprocess.run(
            ["git", *who, "-C", str(self.root), *arguments],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def commit(self) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "state")
        return self.git("rev-parse", "HEAD")

    @property
    def pins(self) -> Pins:
        return load_pins(self.root)

    @property
    def lock(self) -> Lock:
        return load_lock(self.root)

    def set_pins(self, host: str = "registry.example", text: str = PINS_TEXT) -> None:
        source = source_hash_at(self.root, self.pinned)
        self.write(PINS, text.format(commit=self.pinned, source=source, host=host))

    def set_lock(self, lock: Lock) -> None:
        self.write(LOCK, lock.text())
        self.write(BAKE, bake_file(self.pins, lock))

    def inputs(
        self, variant: str, wheels: Path | None = None, source_commit: str | None = None
    ) -> Inputs:
        pins = self.pins
        return inputs_of(
            self.root,
            pins,
            self.lock,
            pins.variant(variant),
            wheels=wheels,
            source_commit=source_commit,
        )


def resolved(pins: Pins) -> Lock:
    entries = {}
    for letter, (reference, platforms) in zip("abcdef", pins.floating().items(), strict=False):
        each: dict[str, str | None] = dict.fromkeys(platforms, DIGESTS["f"])
        entries[reference] = Entry(DIGESTS[letter], "2026-11-30", None, each)
    return Lock(entries)


def small_repository(root: Path) -> Repository:
    root.mkdir()
    repository = Repository(root)
    repository.git("init", "-q", "-b", "main")
    for path, text in FILES.items():
        repository.write(path, text)
    repository.pinned = repository.commit()
    repository.set_pins()
    repository.set_lock(resolved(repository.pins))
    repository.commit()
    return repository
