"""Reads the files of built images without an engine: image layouts, archives, unpacked folders.

Of a whole image only the files that are asked for are kept.
"""

import hashlib
import json
import os
import posixpath
import shutil
import stat
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol

from images.errors import ImagesError

Wanted = Callable[[str], bool]
"""Whether the file at a path, without the first slash, is asked for."""

_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
_ZSTD = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True)
class Image:
    """What was read of one image."""

    name: str
    files: dict[str, bytes]
    """The contents of those asked for, by path."""
    labels: dict[str, str] | None
    """None: an unpacked folder, which has none."""


class _Store(Protocol):
    """Where a layout's files come from."""

    def open(self, name: str) -> IO[bytes]:
        """Open one of them."""
        ...


class _Folder:
    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self, name: str) -> IO[bytes]:
        try:
            return (self.path / name).open("rb")
        except OSError as error:
            raise ImagesError(f"{self.path}: {error.strerror}: {name}") from error


class _Archive:
    def __init__(self, path: Path, archive: tarfile.TarFile) -> None:
        self.path, self.archive = path, archive
        self.members = {posixpath.normpath(member.name): member for member in archive}

    def open(self, name: str) -> IO[bytes]:
        member = self.members.get(posixpath.normpath(name))
        # Docker's archives have links from one layer to the same one of another image.
        found = self.archive.extractfile(member) if member else None
        if found is None:
            raise ImagesError(f"{self.path} has no {name}")
        return found


def read_image(named: str, wanted: Wanted) -> Image:
    """Read an unpacked root, a layout's folder, an archive, or an image that buildah has."""
    path = Path(named)
    with ExitStack() as stack:
        if path.is_dir() and (path / "index.json").is_file():
            return _oci(named, _Folder(path), wanted)
        if path.is_dir():
            return Image(named, dict(_unpacked(path, wanted)), None)
        if not path.exists():
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dormant-check-")))
            _push(named, folder / "image")
            return _oci(named, _Folder(folder / "image"), wanted)
        try:
            archive = stack.enter_context(tarfile.open(path))
            store = _Archive(path, archive)
            if "index.json" in store.members:
                return _oci(named, store, wanted)
            if "manifest.json" in store.members:
                return _docker(named, store, wanted)
        except (tarfile.TarError, EOFError, OSError) as error:
            raise ImagesError(f"{named} is no archive of an image: {error}") from error
    raise ImagesError(f"{named} is no archive of an image: it has neither index nor manifest")


def _push(name: str, into: Path) -> None:
    if name.startswith(("/", ".")):
        raise ImagesError(f"{name} is no folder, archive or image: there is nothing")
    buildah = shutil.which("buildah")
    if buildah is None:
        raise ImagesError(
            f"{name} is no folder, archive or image: there is no such file, and no buildah here "
            "that may have an image so named"
        )
    done = subprocess.run(
        [buildah, "push", "--quiet", name, f"oci:{into}"], capture_output=True, text=True
    )
    if done.returncode != 0:
        raise ImagesError(
            f"{name} is no folder, archive or image: there is no such file, and buildah says: "
            f"{done.stderr.strip()}"
        )


def _unpacked(root: Path, wanted: Wanted) -> Iterator[tuple[str, bytes]]:
    if not any((root / name).is_dir() for name in ("etc", "usr", "opt", "wheels")):
        raise ImagesError(f"{root} is neither an image's layout nor an unpacked root")
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            relative = path.relative_to(root).as_posix()
            if wanted(relative) and stat.S_ISREG(path.lstat().st_mode):
                yield relative, path.read_bytes()


def _oci(named: str, store: _Store, wanted: Wanted) -> Image:
    index = _json(store, "index.json")
    seen = 0
    while "manifests" in index:
        images = [one for one in index["manifests"] if not _is_attestation(one)]
        if len(images) != 1:
            raise ImagesError(f"{named} has {len(images)} images; one is wanted, of one platform")
        index = json.loads(_blob(store, images[0]["digest"]))
        seen += 1
        if seen > 8:
            raise ImagesError(f"{named}: its index never comes to an image")
    config = json.loads(_blob(store, index["config"]["digest"]))
    files: dict[str, bytes] = {}
    for layer in index["layers"]:
        with _opened(store, layer["digest"]) as file:
            _apply(files, file, wanted, f"{named}, layer {layer['digest']}")
    return Image(named, files, _labels(config))


def _docker(named: str, store: _Store, wanted: Wanted) -> Image:
    manifests = _json(store, "manifest.json")
    if len(manifests) != 1:
        raise ImagesError(f"{named} has {len(manifests)} images; one is wanted")
    config = _json(store, manifests[0]["Config"])
    files: dict[str, bytes] = {}
    for layer in manifests[0]["Layers"]:
        with store.open(layer) as file:
            _apply(files, file, wanted, f"{named}, layer {layer}")
    return Image(named, files, _labels(config))


def _labels(config: dict[str, Any]) -> dict[str, str]:
    return dict((config.get("config") or {}).get("Labels") or {})


def _is_attestation(entry: dict[str, Any]) -> bool:
    return "vnd.docker.reference.type" in (entry.get("annotations") or {})


def _json(store: _Store, name: str) -> Any:
    with store.open(name) as file:
        return json.load(file)


def _blob(store: _Store, digest: str) -> bytes:
    with _opened(store, digest) as file:
        return file.read()


def _opened(store: _Store, digest: str) -> IO[bytes]:
    """A copy of a blob, held against its digest."""
    algorithm, _, value = digest.partition(":")
    hashed = hashlib.sha256()
    copy = tempfile.TemporaryFile()  # noqa: SIM115 (the caller closes it)
    with store.open(f"blobs/{algorithm}/{value}") as file:
        while part := file.read(1 << 20):
            hashed.update(part)
            copy.write(part)
    if algorithm != "sha256" or hashed.hexdigest() != value:
        copy.close()
        raise ImagesError(f"the content of {digest} is not what its name says")
    copy.seek(0)
    return copy


def _apply(files: dict[str, bytes], layer: IO[bytes], wanted: Wanted, where: str) -> None:
    """Change ``files`` as a layer does: first what it takes away from those below it."""
    start = layer.read(4)
    layer.seek(0)
    if start == _ZSTD:
        raise ImagesError(f"{where} is compressed with zstd, which cannot be read here")
    gone: set[str] = set()
    emptied: set[str] = set()
    new: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=layer, mode="r|*") as archive:
            for member in archive:
                path = posixpath.normpath(member.name).lstrip("/")
                folder, name = posixpath.split(path)
                if name == _OPAQUE:
                    emptied.add(folder)
                elif name.startswith(_WHITEOUT):
                    gone.add(posixpath.join(folder, name.removeprefix(_WHITEOUT)))
                elif member.isdir():
                    files.pop(path, None)
                else:
                    gone.add(path)
                    new.pop(path, None)
                    content = _read(archive, member, new, files, where) if wanted(path) else None
                    if content is not None:
                        new[path] = content
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ImagesError(f"{where}: {error}") from error
    for path in list(files):
        above = [str(folder) for folder in PurePosixPath("/", path).parents]
        above = [folder.lstrip("/") for folder in above]
        if path in gone or gone.intersection(above) or emptied.intersection(above):
            del files[path]
    files.update(new)


def _read(
    archive: tarfile.TarFile,
    member: tarfile.TarInfo,
    new: dict[str, bytes],
    files: dict[str, bytes],
    where: str,
) -> bytes | None:
    if member.islnk():
        target = posixpath.normpath(member.linkname).lstrip("/")
        found = new.get(target, files.get(target))
        if found is None:
            raise ImagesError(f"{where}: {member.name} is a link to {target}, which was not read")
        return found
    file = archive.extractfile(member) if member.isfile() else None
    return None if file is None else file.read()
