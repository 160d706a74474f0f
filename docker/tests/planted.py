"""Plants a stale library into a builder's wheels: one of another commit, under the same version.

    planted.py WHEELS COMMIT OTHER

All that goes with a wheel is made anew, so that nothing but the library's own words gives it away.
"""

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

LIBRARY = "libdormant.so"


def plant(wheel: Path, commit: bytes, other: bytes) -> int:
    """Put it into a wheel, and return how many files were changed."""
    with zipfile.ZipFile(wheel) as archive:
        members = [(info, archive.read(info)) for info in archive.infolist()]
    changed = {}
    for info, content in members:
        if info.filename.endswith(f"/{LIBRARY}") and commit in content:
            changed[info.filename] = content.replace(commit, other)
    with zipfile.ZipFile(wheel, "w") as archive:
        for info, content in members:
            if info.filename.endswith(".dist-info/RECORD"):
                content = _record(content.decode(), changed).encode()
            archive.writestr(info, changed.get(info.filename, content))
    return len(changed)


def _record(text: str, changed: dict[str, bytes]) -> str:
    lines = []
    for line in text.splitlines():
        name = line.rsplit(",", 2)[0]
        if name in changed:
            digest = hashlib.sha256(changed[name]).digest()
            code = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            line = f"{name},sha256={code},{len(changed[name])}"
        lines.append(f"{line}\n")
    return "".join(lines)


def main() -> int:
    """Plant it into all wheels of a folder."""
    folder, commit, other = Path(sys.argv[1]), sys.argv[2].encode(), sys.argv[3].encode()
    wheels = sorted(folder.glob("*.whl"))
    changed = sum(plant(wheel, commit, other) for wheel in wheels)
    if changed != 2 or len(commit) != len(other):
        print(f"{changed} files of {folder} were changed, not 2", file=sys.stderr)
        return 1
    sums = [f"{hashlib.sha256(wheel.read_bytes()).hexdigest()}  {wheel.name}\n" for wheel in wheels]
    (folder / "SHA256SUMS").write_text("".join(sums), encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())
