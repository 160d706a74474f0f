"""Checks the file of the builder's Python tools: one version each, with hashes."""

import re
from pathlib import Path

_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;]+)")
_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}(?=\s|$)")
# The versions that everybody else builds and tests with.
TOOLS = "python/build/requirements.txt"


def complaints(root: Path, path: str) -> list[str]:
    """Return what is floating in the requirements, or differs from the project's tools."""
    try:
        locked = _lines(root / path)
        tools = dict(filter(None, map(_pin, _lines(root / TOOLS))))
    except OSError as error:
        return [f"{path}: {error.strerror}: {error.filename}"]
    found = [] if locked else [f"{path}: nothing in it"]
    for line in locked:
        pin = _pin(line)
        if pin is None:
            found.append(f"{path}: not NAME==VERSION: {line}")
            continue
        name, version = pin
        if not _HASH.search(line):
            found.append(f"{path}: {name} without --hash=sha256:...")
        if tools.get(name, version) != version:
            found.append(f"{path}: {name} {version}, but {TOOLS} has {tools[name]}")
    return found


def _lines(file: Path) -> list[str]:
    joined = file.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = (re.sub(r"(^|\s)#.*", "", line).strip() for line in joined.splitlines())
    return [line for line in lines if line]


def _pin(line: str) -> tuple[str, str] | None:
    match = _NAME.match(line)
    return (re.sub(r"[-_.]+", "-", match[1]).lower(), match[2]) if match else None
