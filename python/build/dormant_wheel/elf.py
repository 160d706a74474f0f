"""Reads of a 64-bit ELF file what a wheel must know, of any processor, without foreign tools."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_MACHINES = {62: "x86_64", 183: "aarch64"}

_SYMTAB, _STRTAB, _DYNAMIC, _NOTE, _DYNSYM, _VERNEED = 2, 3, 6, 7, 11, 0x6FFFFFFE
_PT_LOAD, _PT_NOTE = 1, 4
_DT_NEEDED, _DT_SONAME = 1, 14
_UNDEFINED = 0


class ElfError(ValueError):
    """The file is not an ELF file that can be shipped."""


@dataclass(frozen=True)
class Elf:
    """What was read of one file."""

    path: Path
    machine: str
    """The processor, as platform tags name it."""
    needed: tuple[str, ...]
    """The libraries that it asks the loader for."""
    soname: str | None
    exports: frozenset[str]
    """The dynamic symbols that it defines."""
    versions: frozenset[str]
    """The symbol versions that it needs, as in ``GLIBC_2.17``."""
    stripped: bool
    """It has neither a symbol table nor debug sections."""
    load_alignment: int
    """The smallest alignment of a loaded segment: the largest page size that it runs with."""


@dataclass(frozen=True)
class _Section:
    name: str
    kind: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


@dataclass(frozen=True)
class Note:
    """One note of a file."""

    owner: str
    kind: int
    content: bytes


def _text(table: bytes, offset: int) -> str:
    return table[offset : table.index(b"\0", offset)].decode()


def _sections(data: bytes) -> list[_Section]:
    (start,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", data, 0x3A)
    if not start or not count:
        return []
    raw = [struct.unpack_from("<IIQQQQIIQQ", data, start + i * size) for i in range(count)]
    names = data[raw[names_at][4] : raw[names_at][4] + raw[names_at][5]]
    return [_Section(_text(names, r[0]), r[1], r[4], r[5], r[6], r[7], r[8]) for r in raw]


def _segments(data: bytes) -> list[tuple[int, ...]]:
    (start,) = struct.unpack_from("<Q", data, 0x20)
    size, count = struct.unpack_from("<HH", data, 0x36)
    return [struct.unpack_from("<IIQQQQQQ", data, start + i * size) for i in range(count)]


def _hold(data: bytes, name: str) -> None:
    if data[:6] != b"\x7fELF\x02\x01" or len(data) < 64:
        raise ElfError(f"{name} is not a little-endian 64-bit ELF file")


def notes(data: bytes, name: str) -> list[Note]:
    """The notes of a file of any 64-bit little-endian processor, stripped or not.

    ``data`` is its content; ``name`` is for errors.
    """
    _hold(data, name)
    try:
        found = [
            _notes(data[s[2] : s[2] + s[5]], s[7]) for s in _segments(data) if s[0] == _PT_NOTE
        ]
        # An object file has no segments.
        if not found:
            found = [
                _notes(data[s.offset : s.offset + s.size], s.alignment)
                for s in _sections(data)
                if s.kind == _NOTE
            ]
    except (struct.error, IndexError, OverflowError, ValueError) as error:
        raise ElfError(f"{name} is damaged: {error}") from error
    return [note for some in found for note in some]


def _notes(data: bytes, alignment: int) -> list[Note]:
    """The notes of one segment; those that need 8 bytes' alignment are padded to that."""
    unit = 8 if alignment == 8 else 4
    notes = []
    at = 0
    while at < len(data):
        name_size, size, kind = struct.unpack_from("<III", data, at)
        start = at + 12 + name_size
        start += -start % unit
        if start + size > len(data):
            raise ValueError("a note is longer than its segment")
        owner = data[at + 12 : at + 12 + name_size].rstrip(b"\0").decode()
        notes.append(Note(owner, kind, data[start : start + size]))
        at = start + size
        at += -at % unit
    return notes


def _needed_versions(data: bytes, section: _Section, strings: bytes) -> Iterator[str]:
    at = section.offset
    for _ in range(section.info):
        _, count, _, first, following = struct.unpack_from("<HHIII", data, at)
        inner = at + first
        for _ in range(count):
            _, _, _, name, next_inner = struct.unpack_from("<IHHII", data, inner)
            yield _text(strings, name)
            inner += next_inner
        at += following


def read(path: Path) -> Elf:
    """Reads a program or a shared library."""
    data = path.read_bytes()
    _hold(data, path.name)
    (number,) = struct.unpack_from("<H", data, 0x12)
    if number not in _MACHINES:
        raise ElfError(f"{path.name} is for a processor that no wheel is built for ({number})")
    sections = _sections(data)

    def content(index: int) -> bytes:
        section = sections[index]
        return data[section.offset : section.offset + section.size]

    needed: list[str] = []
    soname: str | None = None
    exports: set[str] = set()
    versions: set[str] = set()
    for section in sections:
        if section.kind == _DYNAMIC:
            strings = content(section.link)
            for at in range(section.offset, section.offset + section.size, 16):
                tag, value = struct.unpack_from("<QQ", data, at)
                if tag == _DT_NEEDED:
                    needed.append(_text(strings, value))
                elif tag == _DT_SONAME:
                    soname = _text(strings, value)
        elif section.kind == _DYNSYM:
            strings = content(section.link)
            for at in range(section.offset, section.offset + section.size, 24):
                name, _, _, where = struct.unpack_from("<IBBH", data, at)
                if where != _UNDEFINED:
                    exports.add(_text(strings, name))
        elif section.kind == _VERNEED:
            versions.update(_needed_versions(data, section, content(section.link)))
    return Elf(
        path=path,
        machine=_MACHINES[number],
        needed=tuple(needed),
        soname=soname,
        exports=frozenset(exports),
        versions=frozenset(versions),
        stripped=not any(s.kind == _SYMTAB or s.name.startswith(".debug") for s in sections),
        load_alignment=min((s[7] for s in _segments(data) if s[0] == _PT_LOAD), default=0),
    )
