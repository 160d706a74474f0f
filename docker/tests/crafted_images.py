"""Small images with files of ours in them: as folders, layouts and archives."""

import base64
import hashlib
import io
import json
import sys
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path += [str(REPOSITORY / "python" / folder) for folder in ("build", "wheel_tests")]

import elf_files  # noqa: E402
from dormant_wheel.hooks import SHIM_NAMES  # noqa: E402
from dormant_wheel.identity import parse  # noqa: E402

SITE = "opt/dormant/lib/python3.12/site-packages"
LIBRARY = f"{SITE}/dormant/_lib/libdormant.so"
VENDORED = f"{SITE}/torch_memory_saver/_dormant/_lib/libdormant.so"
PROGRAM = "opt/dormant/bin/dormant"
SHIM = f"{SITE}/{SHIM_NAMES[0]}"
WHEELS = "opt/dormant/wheels"
COMMIT = elf_files.IDENTITY["commit"]

Layer = dict[str, bytes | None]
"""Files by path; None: a folder. Whiteouts are files with their names."""


@dataclass
class Crafted:
    """An image's files and labels, before they are written down."""

    files: dict[str, bytes] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)

    def native(self, path: str, **identity: Any) -> None:
        """Put a native file with this identity there."""
        self.files[path] = elf(**identity)

    def folder(self, root: Path) -> str:
        """Write the files as an unpacked root."""
        for path, content in self.files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content)
        return str(root)

    def archive(self, path: Path) -> str:
        """Write it as `buildah push oci-archive:` does, the files in one layer."""
        with tarfile.open(path, "w") as archive:
            for name, content in layout([dict(self.files)], self.labels).items():
                add(archive, name, content)
        return str(path)


def elf(**identity: Any) -> bytes:
    """A small native file with this identity."""
    return elf_files.content(elf_files.dormant(**identity))


def image(backend: str = "cuda", **identity: Any) -> Crafted:
    """An image as the recipe makes it, of one backend."""
    variant = {"cuda": "cuda-13.0", "hip": "rocm-7.2"}[backend]
    said = {"features": [backend], **identity}
    made = Crafted()
    for path in (LIBRARY, VENDORED, PROGRAM):
        made.native(path, **said)
    for name in SHIM_NAMES:
        made.native(f"{SITE}/{name}", **{**said, "features": [], "guarantees": []})
    for package in ("dormant", "torch_memory_saver/_dormant"):
        made.files[f"{SITE}/{package}/__init__.py"] = b'"""Ours."""\n'
        made.files[f"{SITE}/{package}/empty.py"] = b""
    version = parse({**elf_files.IDENTITY, **said}).wheel_version()
    sums = []
    for name, release in (
        ("dormant", version),
        ("torch_memory_saver", f"0.0.10+dormant.{version.replace('+', '.')}"),
    ):
        _install(made, name, release)
        wheel = f"{name}-{release}-py3-none-manylinux_2_17_x86_64.whl"
        made.files[f"{WHEELS}/{wheel}"] = wheel.encode()
        sums.append(f"{hashlib.sha256(wheel.encode()).hexdigest()}  {wheel}\n")
    made.files[f"{WHEELS}/SHA256SUMS"] = "".join(sums).encode()
    about = {
        "variant": variant,
        "backend": backend,
        "base": "b",
        "revision": said.get("commit", COMMIT),
    }
    made.files["etc/dormant/image.json"] = json.dumps(about).encode()
    made.files["etc/os-release"] = b"of the base\n"
    made.labels = {
        "org.opencontainers.image.revision": str(said.get("commit", COMMIT)),
        "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
        "org.opencontainers.image.base.name": f"base of {variant}",
        "org.dormant.variant": variant,
        "org.dormant.backend": backend,
        "org.dormant.inputs": f"sha256:{variant}",
        "io.buildah.version": "1.28.2",
    }
    return made


def _install(made: Crafted, name: str, release: str) -> None:
    """Add what pip writes of a wheel."""
    folder = f"{SITE}/{name}-{release}.dist-info"
    made.files[f"{folder}/METADATA"] = f"Name: {name}\nVersion: {release}\n\nText\n".encode()
    rows = []
    for path, content in made.files.items():
        inside = path.removeprefix(f"{SITE}/")
        if path == PROGRAM and name == "dormant":
            inside = "../../../bin/dormant"
        elif not inside.startswith((f"{name}/", f"{name}-", f"{name}_hook")):
            continue
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        rows.append(f"{inside},sha256={digest},{len(content)}\n")
    rows.append(f"{name}-{release}.dist-info/RECORD,,\n")
    made.files[f"{folder}/RECORD"] = "".join(rows).encode()


def add(archive: tarfile.TarFile, name: str, content: bytes | None) -> None:
    """Add a file, or a folder."""
    member = tarfile.TarInfo(name)
    if content is None:
        member.type = tarfile.DIRTYPE
    else:
        member.size = len(content)
    archive.addfile(member, io.BytesIO(content or b""))


def layer(files: Layer, compression: str = "gz") -> bytes:
    """A layer as a tar file."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=f"w:{compression}") as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            add(archive, name, content)
    return out.getvalue()


def layout(
    layers: list[Layer], labels: dict[str, str], compression: str = "gz", nested: bool = False
) -> dict[str, bytes]:
    """The files of an OCI layout."""
    blobs: dict[str, bytes] = {}

    def blob(content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"digest": f"sha256:{digest}", "size": len(content)}

    def text(value: Any) -> bytes:
        return json.dumps(value).encode()

    config = blob(text({"config": {"Labels": labels}}))
    parts = [blob(layer(one, compression)) for one in layers]
    index = {"manifests": [blob(text({"config": config, "layers": parts}))]}
    if nested:
        attestation = blob(b"{}")
        attestation["annotations"] = {"vnd.docker.reference.type": "attestation-manifest"}
        index["manifests"].append(attestation)
        index = {"manifests": [blob(text(index))]}
    return {"oci-layout": text({"imageLayoutVersion": "1.0.0"}), "index.json": text(index), **blobs}


def docker_archive(layers: list[Layer], labels: dict[str, str]) -> dict[str, bytes]:
    """The files of what `docker save` writes."""
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    manifest = [{"Config": "config.json", "RepoTags": None, "Layers": names}]
    return {
        "manifest.json": json.dumps(manifest).encode(),
        "config.json": json.dumps({"config": {"Labels": labels}}).encode(),
        **{name: layer(one, "") for name, one in zip(names, layers, strict=True)},
    }
