"""What builds images: docker with buildx, or buildah, which needs no service."""

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from images.errors import ImagesError


@dataclass(frozen=True)
class Job:
    """One Dockerfile's build."""

    dockerfile: Path
    context: Path
    tag: str
    args: dict[str, str]
    epoch: int
    """The time that the image and its files get."""
    contexts: dict[str, Path] = field(default_factory=dict)
    secrets: dict[str, Path] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    cached: bool = False
    """Whether steps may come from an earlier build."""

    def options(self) -> list[str]:
        """Return what both engines spell alike."""
        options = ["--file", str(self.dockerfile), "--tag", self.tag]
        for name, value in self.args.items():
            options += ["--build-arg", f"{name}={value}"]
        for name, folder in self.contexts.items():
            options += ["--build-context", f"{name}={folder}"]
        for name, file in self.secrets.items():
            options += ["--secret", f"id={name},src={file}"]
        for name, value in self.labels.items():
            options += ["--label", f"{name}={value}"]
        return options


class Engine(Protocol):
    """A program that builds images."""

    @staticmethod
    def is_here() -> bool:
        """Return whether it can be run."""

    def build(self, job: Job) -> None:
        """Build an image."""

    def digest(self, image: str) -> str:
        """Return the digest of an image that is here."""

    def push(self, image: str) -> str:
        """Push an image, and return the digest that the registry has it under."""


class Buildah:
    """`buildah`; where it may not make namespaces, BUILDAH_ISOLATION=chroot helps."""

    @staticmethod
    def is_here() -> bool:
        """Return whether it can be run."""
        return shutil.which("buildah") is not None

    def build(self, job: Job) -> None:
        """Build an image."""
        command = ["buildah", "build", *job.options(), "--pull=false", "--force-rm"]
        command += ["--format", "oci", "--timestamp", str(job.epoch)]
        # Its cache does not look at what is bind-mounted into a step, so nothing that is installed
        # from a mount may come from there.
        command += ["--layers"] if job.cached else ["--layers=false", "--no-cache"]
        _run([*command, str(job.context)])

    def digest(self, image: str) -> str:
        """Return the digest of an image that is here."""
        form = "{{.FromImageDigest}}"
        return _output(["buildah", "inspect", "--type", "image", "--format", form, image])

    def push(self, image: str) -> str:
        """Push an image, and return the digest that the registry has it under."""
        file = Path(_output(["mktemp"]))
        try:
            _run(["buildah", "push", "--digestfile", str(file), image])
            return file.read_text(encoding="ascii").strip()
        finally:
            file.unlink()


class Docker:
    """`docker buildx`, with a builder that sees the engine's own images."""

    @staticmethod
    def is_here() -> bool:
        """Return whether it can be run; docker's program may be here alone."""
        if shutil.which("docker") is None:
            return False
        asked = subprocess.run(["docker", "buildx", "inspect"], capture_output=True, check=False)
        return asked.returncode == 0

    def build(self, job: Job) -> None:
        """Build an image."""
        command = ["docker", "buildx", "build", *job.options(), "--load", "--provenance=false"]
        command += ["--build-arg", f"SOURCE_DATE_EPOCH={job.epoch}"]
        command += [] if job.cached else ["--no-cache"]
        _run([*command, str(job.context)])

    def digest(self, image: str) -> str:
        """Return the digest of an image that is here."""
        return _output(["docker", "image", "inspect", "--format", "{{.Id}}", image])

    def push(self, image: str) -> str:
        """Push an image, and return the digest that the registry has it under."""
        _run(["docker", "push", image])
        form = "{{range .RepoDigests}}{{println .}}{{end}}"
        name = image.rpartition(":")[0]
        for line in _output(["docker", "image", "inspect", "--format", form, image]).split():
            found, _, digest = line.partition("@")
            if found == name or f"docker.io/{found}" == name:
                return digest
        raise ImagesError(f"docker does not say which digest {image} was pushed under")


ENGINES: dict[str, type[Buildah] | type[Docker]] = {"docker": Docker, "buildah": Buildah}


def engine(name: str | None) -> Engine:
    """Return the engine of that name, or the first that can be run here."""
    for candidate in [name] if name else ENGINES:
        if ENGINES[candidate].is_here():
            return ENGINES[candidate]()
    missing = {"docker": "docker with buildx and its engine", "buildah": "buildah"}
    wanted = [missing[candidate] for candidate in ([name] if name else ENGINES)]
    raise ImagesError(f"this needs {' or '.join(wanted)}, which cannot be run here")


def _run(command: list[str]) -> None:
    """Run a command whose words go to standard error, since ours are the answer."""
    if subprocess.run(command, stdout=2, env=os.environ, check=False).returncode != 0:
        raise ImagesError(f"{command[0]} failed; the reason stands above")


def _output(command: list[str]) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise ImagesError(f"{' '.join(command)} failed; the reason stands above")
    return done.stdout.strip()
