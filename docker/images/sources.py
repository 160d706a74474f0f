"""The hash of the Rust sources, as the build script of `dormant-identity` computes it too."""

import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from dormant_wheel import identity

from images.errors import ImagesError

FILES = ("Cargo.toml", "Cargo.lock")
FOLDERS = ("crates", "backends")


class UnknownCommit(ImagesError):
    """The commit is not in this repository; a shallow clone has few."""


def source_hash(root: Path) -> str:
    """Return `sha256:...` over the files below `root` as they are now."""
    try:
        return identity.source_hash(root)
    except identity.IdentityError as error:
        raise ImagesError(f"{error}: not the workspace's root") from error


def source_hash_at(repository: Path, commit: str) -> str:
    """Return the same over the files of a commit, from git's objects, without a checkout."""
    blobs = {
        path: blob
        for mode, blob, path in tree_at(repository, commit, (*FILES, *FOLDERS))
        if mode in ("100644", "100755") and all(map(identity.counts, path.split("/")))
    }
    for needed in FILES:
        if needed not in blobs:
            raise ImagesError(f"commit {commit} lacks {needed}: not the workspace's root")
    contents = read_blobs(repository, blobs.values())
    return identity.hash_of((path, contents[blob]) for path, blob in blobs.items())


def tree_at(repository: Path, commit: str, paths: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield mode, blob and path of each file that a commit has below `paths`."""
    known = git(repository, "cat-file", "-e", f"{commit}^{{commit}}", check=False)
    if known.returncode != 0:
        raise UnknownCommit(f"{repository} has no commit {commit}")
    listing = git(repository, "ls-tree", "-r", "-z", "--full-tree", commit, "--", *paths).stdout
    for entry in filter(None, listing.split(b"\0")):
        about, _, path = entry.partition(b"\t")
        mode, _, blob = about.decode().split(" ")
        yield mode, blob, os.fsdecode(path)


def read_blobs(repository: Path, blobs: Iterable[str]) -> dict[str, bytes]:
    """Return the contents of git's objects by their names."""
    wanted = sorted(set(blobs))
    output = git(
        repository, "cat-file", "--batch", stdin="".join(f"{b}\n" for b in wanted).encode()
    ).stdout
    contents: dict[str, bytes] = {}
    at = 0
    for blob in wanted:
        end = output.index(b"\n", at)
        header = output[at:end].decode().split(" ")
        if header[-1] == "missing":
            raise ImagesError(f"{repository} lacks the object {blob} (a partial clone?)")
        size = int(header[2])
        contents[blob] = output[end + 1 : end + 1 + size]
        at = end + 1 + size + 1
    return contents


def git(
    repository: Path, *arguments: str, stdin: bytes = b"", check: bool = True
) -> subprocess.CompletedProcess[bytes]:
    """Run git there; a failure is an `ImagesError` with git's own words."""
    try:
        result = subprocess.run(
            ["git", "-C", str(repository), *arguments],
            input=stdin,
            capture_output=True,
            check=False,
        )
    except OSError as error:
        raise ImagesError(f"git cannot be run: {error}") from error
    if check and result.returncode != 0:
        words = result.stderr.decode(errors="replace").strip()
        raise ImagesError(f"git {arguments[0]} in {repository}: {words or 'failed'}")
    return result
