"""Reading images: which files are there after all layers."""

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from crafted_images import Layer, add, docker_archive, layer, layout

from images.errors import ImagesError
from images.layers import Image, read_image

LABELS = {"org.dormant.backend": "cuda"}

LAYERS: list[Layer] = [
    {
        "etc": None,
        "etc/kept": b"kept",
        "etc/changed": b"first",
        "etc/removed": b"gone",
        "opt/emptied/old": b"old",
        "opt/emptied/sub/old": b"old",
        "opt/emptied-not/file": b"stays",
        "opt/folder/inside": b"gone with its folder",
        "opt/becomes-a-file/inside": b"gone",
        "opt/becomes-a-folder": b"gone",
        "empty": b"",
    },
    {
        "./etc/changed": b"second",
        "etc/.wh.removed": b"",
        "opt/emptied/new": b"new",
        "opt/emptied/.wh..wh..opq": b"",
        "opt/.wh.folder": b"",
        "opt/becomes-a-file": b"file",
        "opt/becomes-a-folder": None,
        "opt/becomes-a-folder/inside": b"inside",
    },
    {"etc/.wh.not-there": b"", "opt/folder/again": b"again"},
]
RESULT = {
    "etc/kept": b"kept",
    "etc/changed": b"second",
    "opt/emptied/new": b"new",
    "opt/emptied-not/file": b"stays",
    "opt/folder/again": b"again",
    "opt/becomes-a-file": b"file",
    "opt/becomes-a-folder/inside": b"inside",
    "empty": b"",
}


def everything(_path: str) -> bool:
    return True


def put(files: dict[str, bytes], folder: Path) -> str:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return str(folder)


def tar(files: dict[str, bytes], path: Path) -> str:
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            add(archive, name, content)
    return str(path)


@pytest.mark.parametrize("compression", ["", "gz"])
@pytest.mark.parametrize("nested", [False, True])
def test_layouts(tmp_path: Path, compression: str, nested: bool) -> None:
    files = layout(LAYERS, LABELS, compression, nested)
    for named in (put(files, tmp_path / "folder"), tar(files, tmp_path / "archive.tar")):
        assert read_image(named, everything) == Image(named, RESULT, LABELS)


def test_archives_of_docker(tmp_path: Path) -> None:
    named = tar(docker_archive(LAYERS, LABELS), tmp_path / "saved.tar")
    assert read_image(named, everything) == Image(named, RESULT, LABELS)


def test_unpacked_roots(tmp_path: Path) -> None:
    named = put(RESULT, tmp_path)
    (tmp_path / "etc/link").symlink_to("kept")
    assert read_image(named, everything) == Image(named, RESULT, None)


def test_only_what_is_wanted_is_kept(tmp_path: Path) -> None:
    named = put(layout(LAYERS, {}), tmp_path)
    assert read_image(named, lambda path: path.startswith("etc/")).files == {
        "etc/kept": b"kept",
        "etc/changed": b"second",
    }


def test_a_whiteout_of_the_whole_root(tmp_path: Path) -> None:
    named = put(layout([*LAYERS, {".wh..wh..opq": b"", "etc/only": b"1"}], {}), tmp_path)
    assert read_image(named, everything).files == {"etc/only": b"1"}


def test_links_within_a_layer(tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        add(archive, "a", b"content")
        for name, kind in (("hard", tarfile.LNKTYPE), ("soft", tarfile.SYMTYPE)):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = kind, "a"
            archive.addfile(link)
    files = {**docker_archive([{}], {}), "0/layer.tar": out.getvalue()}
    named = tar(files, tmp_path / "saved.tar")
    assert read_image(named, everything).files == {"a": b"content", "hard": b"content"}
    with pytest.raises(ImagesError, match="hard is a link to a, which was not read"):
        read_image(named, lambda path: path == "hard")


def damaged(files: dict[str, bytes]) -> dict[str, bytes]:
    name = max(files, key=lambda name: len(files[name]))
    return {**files, name: files[name][:-1] + b"?"}


def test_what_is_no_image_is_refused(tmp_path: Path) -> None:
    whole = layout(LAYERS, {})
    two = layout(LAYERS, {})
    two["index.json"] = b'{"manifests": [{"digest": "a"}, {"digest": "b"}]}'
    zstd = docker_archive([{}], {})
    zstd["0/layer.tar"] = b"\x28\xb5\x2f\xfd rest"
    cut = docker_archive([{"a": b"1" * 4096}], {})
    cut["0/layer.tar"] = cut["0/layer.tar"][:1000]
    lacking = {name: data for name, data in whole.items() if len(data) < 200}
    (tmp_path / "text").write_text("no archive")
    (tmp_path / "nothing").mkdir()
    for named, reason in {
        put(damaged(whole), tmp_path / "damaged"): "is not what its name says",
        put(two, tmp_path / "two"): "has 2 images",
        put(lacking, tmp_path / "lacking"): "No such file",
        tar(lacking, tmp_path / "lacking.tar"): "has no blobs/sha256",
        tar(zstd, tmp_path / "zstd.tar"): "is compressed with zstd",
        tar(cut, tmp_path / "cut.tar"): "layer 0/layer.tar: ",
        tar({"a": b""}, tmp_path / "other.tar"): "neither index nor manifest",
        str(tmp_path / "text"): "is no archive of an image",
        str(tmp_path / "nothing"): "neither an image's layout nor an unpacked root",
    }.items():
        with pytest.raises(ImagesError, match=reason):
            read_image(named, everything)


def test_a_name_without_buildah(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        ImagesError, match=r"^dormant:x is no folder, archive or image: .* no buildah"
    ):
        read_image("dormant:x", everything)


def test_a_name_that_buildah_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in its place: it is asked for a layout."""
    made = put(layout(LAYERS, LABELS), tmp_path / "made")
    program = tmp_path / "bin" / "buildah"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\n[ "$3" = dormant:x ] || {{ echo "$3: image not known" >&2; exit 125; }}\n'
        f'cp -r {made} "${{4#oci:}}"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    assert read_image("dormant:x", everything) == Image("dormant:x", RESULT, LABELS)
    with pytest.raises(
        ImagesError,
        match=r"no folder, archive or image: .* buildah says: dormant:y: image not known",
    ):
        read_image("dormant:y", everything)


@pytest.mark.skipif(shutil.which("buildah") is None, reason="buildah is not here")
def test_archives_of_buildah(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_DRIVER", "vfs")
    monkeypatch.setenv("BUILDAH_ISOLATION", "chroot")
    store = ["--root", str(tmp_path / "store"), "--runroot", str(tmp_path / "run")]
    (tmp_path / "Dockerfile").write_text(
        "FROM scratch\nCOPY a /etc/a\nCOPY b /etc/b\nLABEL org.dormant.backend=cuda\n"
    )
    for name in "ab":
        (tmp_path / name).write_text(name)

    def buildah(*arguments: str) -> None:
        done = subprocess.run(["buildah", *store, *arguments], capture_output=True, text=True)
        if "bud" in arguments and "operation not permitted" in done.stderr.lower():
            pytest.skip("buildah may not work here")
        assert done.returncode == 0, done.stderr

    buildah("bud", "--layers", "-q", "-t", "small", str(tmp_path))
    for kind in ("oci-archive", "docker-archive", "oci"):
        into = tmp_path / kind
        buildah("push", "-q", "small", f"{kind}:{into}")
        found = read_image(str(into), everything)
        assert found.files == {"etc/a": b"a", "etc/b": b"b"}
        assert found.labels is not None
        assert found.labels["org.dormant.backend"] == "cuda"


def test_a_layer_is_a_tar_file() -> None:
    with tarfile.open(fileobj=io.BytesIO(layer({"a": b"1"}))) as archive:
        assert archive.getnames() == ["a"]
