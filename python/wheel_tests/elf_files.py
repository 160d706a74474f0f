"""Small ELF files with notes, for tests of what reads them."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

Note = tuple[bytes, int, bytes]
"""Owner, kind and content."""

IDENTITY: dict[str, Any] = {
    "schema": 1,
    "version": "0.1.0",
    "commit": "45c0a3705a1b2c3d4e5f60718293a4b5c6d7e8f9",
    "dirty": False,
    "source": "sha256:" + "5f" * 32,
    "features": ["cuda", "hip", "sim"],
    "target": "x86_64-unknown-linux-gnu",
    "profile": "release",
    "rustc": "rustc 1.95.0 (59807616e 2026-04-14)",
    "guarantees": ["free-while-paused", "oom-returns"],
}


def dormant(identity: Any = None, **changed: Any) -> Note:
    """Our note, with an identity that differs from the usual one in this."""
    said = {**IDENTITY, **changed} if identity is None else identity
    return b"dormant", 1, json.dumps(said, separators=(",", ":")).encode()


def packed(notes: list[Note], unit: int = 4) -> bytes:
    """Notes as they lie in a section, padded to so many bytes."""
    data = b""
    for owner, kind, content in notes:
        data += struct.pack("<III", len(owner) + 1, len(content), kind) + owner + b"\0"
        data += b"\0" * (-len(data) % unit) + content
        data += b"\0" * (-len(data) % unit)
    return data


def write(path: Path, *notes: Note, **how: Any) -> Path:
    """Writes a file with these notes, as :func:`content` makes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content(*notes, **how))
    return path


def content(
    *notes: Note,
    machine: int = 62,
    unit: int = 4,
    segment: bool = True,
    section: bool = True,
    rest: bytes = b"",
) -> bytes:
    """A file with these notes, which a segment, a section or both show."""
    content = packed(list(notes), unit)
    start = 64 + 56
    names = b"\0.note.dormant\0.shstrtab\0"
    sections = start + len(content) + len(names)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01",
        3,
        machine,
        1,
        0,
        64 if segment else 0,
        sections if section else 0,
        0,
        64,
        56,
        1 if segment else 0,
        64,
        3 if section else 0,
        2 if section else 0,
    )
    program = struct.pack("<IIQQQQQQ", 4, 4, start, start, start, len(content), len(content), unit)
    table = b"\0" * 64
    table += struct.pack("<IIQQQQIIQQ", 1, 7, 2, start, start, len(content), 0, 0, unit, 0)
    table += struct.pack("<IIQQQQIIQQ", 15, 3, 0, 0, start + len(content), len(names), 0, 0, 1, 0)
    return header + program + content + names + table + rest
