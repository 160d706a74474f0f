#!/usr/bin/env python3
"""The same backup cases with several packages called torch_memory_saver, on a GPU: one table.

    python3 .ci/gpu/backup_cases.py --package dormant=PYTHON --package tms=PYTHON
        [--scale 1] [--only PATTERN] [--disk DIRECTORY] [--json FILE]

PYTHON is an interpreter that has torch and that package. Each case of each package runs in a
process of its own, with the package's library preloaded as the package itself says; what goes
wrong there is a row of the table. `backup_one_case.py` is that process.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from backup_one_case import CASES, FLOOR, GIB

CHILD = Path(__file__).resolve().with_name("backup_one_case.py")
CASE_LIMIT = 150.0
LEAST = 12.0
"""Seconds; with fewer left no case is started."""


@dataclass
class Row:
    """What came out of one case with one package."""

    case: str
    package: str
    records: list[dict[str, Any]] = field(default_factory=list)
    note: str = ""
    seconds: float = 0.0

    def get(self, name: str) -> Any:
        """A value that is said once."""
        return next((record[name] for record in self.records if name in record), None)

    def times(self, name: str) -> list[float]:
        """One for each cycle, the first included."""
        return [record[name] for record in self.records if "cycle" in record]

    def median(self, name: str) -> float | None:
        """Of the cycles after the first."""
        later = self.times(name)[1:]
        return statistics.median(later) if later else None


@dataclass
class Package:
    """An interpreter that has a package, and the environment that the package asks for."""

    name: str
    python: str
    env: dict[str, str] = field(default_factory=dict)
    version: str = ""
    error: str = ""


class Runner:
    """Starts the processes, as long as there is time."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._ends = time.monotonic() + options.total

    def open(self, text: str) -> Package:
        """Asks a package for its environment."""
        name, _, python = text.partition("=")
        package = Package(name, python)
        row = self._child(package, "environment", dict(os.environ))
        if not row.records:
            package.error = f"its environment cannot be had: {row.note}"
            return package
        package.version = row.get("version")
        names = ("LD_PRELOAD", "LD_LIBRARY_PATH")
        package.env = {key: row.get(key) for key in names if row.get(key)}
        torch = row.get("torch")
        print(f"{name}: torch_memory_saver {package.version}, torch {torch}, {package.env}")
        return package

    def case(self, package: Package, case: str) -> Row:
        """One case."""
        only = CASES[case].only if case in CASES else ""
        if only and package.name != only:
            return Row(case, package.name, note=f"skipped: only {only} has it")
        if package.error and case != FLOOR:
            return Row(case, package.name, note=package.error)
        if self._ends - time.monotonic() < LEAST:
            return Row(case, package.name, note="not run: no time left")
        env = {**os.environ, **({} if case == FLOOR else package.env)}
        return self._child(package, case, env)

    def _child(self, package: Package, case: str, env: dict[str, str]) -> Row:
        row = Row(case, package.name)
        options = self._options
        limit = max(1.0, min(CASE_LIMIT, self._ends - time.monotonic()))
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(dir=options.disk) as folder:
            results, log = Path(folder) / "results", Path(folder) / "log"
            command = [package.python, str(CHILD), case, "--results", str(results)]
            command += ["--scale", str(options.scale), "--budget", str(options.budget)]
            command += ["--disk", folder]
            with log.open("w") as output:
                row.note = _ended(command, env, output, limit)
            row.seconds = time.monotonic() - begun
            if results.exists():
                row.records = _records(results.read_text())
            lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        if row.note and lines:
            print("\n".join(f"    {line}" for line in lines[-15:]))
            row.note += f": {lines[-1].strip()}"
        if row.note and row.get("checked"):
            row.note = f"after its results: {row.note}"
        elif not row.note and case != "environment" and not row.get("checked"):
            row.note = "it ended before its results"
        return row


def _ended(command: list[str], env: dict[str, str], output: Any, limit: float) -> str:
    """Runs a process; how it ended, if not well."""
    try:
        done = subprocess.run(
            command, env=env, stdout=output, stderr=subprocess.STDOUT, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return f"ended by us after {limit:.0f} s"
    except OSError as error:
        return str(error)
    if done.returncode < 0:
        return signal.Signals(-done.returncode).name
    return f"exit code {done.returncode}" if done.returncode else ""


def _records(text: str) -> list[dict[str, Any]]:
    """The lines that are whole."""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def _later(row: Row, name: str) -> str:
    later = row.times(name)[1:]
    if not later:
        return ""
    return f"{statistics.median(later):.0f} ({min(later):.0f}-{max(later):.0f})"


def _first(row: Row, name: str) -> str:
    return f"{row.times(name)[0]:.0f}" if row.times(name) else ""


def _note(row: Row) -> str:
    """What else there is to say."""
    notes = [row.note] if row.note else []
    nbytes, freed = row.get("bytes"), row.median("freed")
    if nbytes and freed is not None and freed < 0.9 * nbytes:
        notes.append(f"gave back only {freed / GIB:.2f} of {nbytes / GIB:.2f} GiB")
    return "; ".join(notes).replace("|", "/")[:200]


def _times_the_copy(row: Row, rates: dict[str, float]) -> str:
    """How often a plain copy of the same bytes fits in."""
    pause, resume, nbytes = row.median("pause_ms"), row.median("resume_ms"), row.get("bytes")
    if CASES[row.case].keep != "cpu" or pause is None or resume is None or len(rates) < 2:
        return ""
    down, up = (nbytes / GIB / rates[name] * 1e3 for name in ("to_host", "to_device"))
    return f"{pause / down:.2f} / {resume / up:.2f}"


def _times_the_first(row: Row, rows: list[Row]) -> str:
    """How often the same case with the first package fits in."""
    base = next(other for other in rows if other.case == row.case)
    ratios = []
    for name in ("pause_ms", "resume_ms"):
        mine, its = row.median(name), base.median(name)
        if base is row or mine is None or not its:
            return ""
        ratios.append(f"{mine / its:.1f}")
    return " / ".join(ratios)


def table(rows: list[Row], packages: list[Package], scale: float) -> str:
    """Markdown; a second one for latencies."""
    floor = next((row for row in rows if row.case == FLOOR), None)
    rates = {r["floor"]: r["rate"] for r in floor.records if "floor" in r} if floor else {}
    text = [
        f"{package.name} is torch_memory_saver {package.version or 'that did not start'}."
        for package in packages
    ]
    if scale != 1:
        text.append(f"All sizes are {scale} of what is named.")
    if floor is not None:
        shown = ", ".join(f"{name} {rate:.1f} GiB/s" for name, rate in rates.items())
        text.append(f"Plain pinned copy: {shown or floor.note}.")
    text.append("Times in ms: the first cycle, and median (least-most) of the cycles after it.")
    base = packages[0].name
    titles = "case | package | cycles | first pause | pause | first resume | resume"
    text += ["", f"| {titles} | pause / resume by copy | by {base} | note |"]
    text += ["|---|---|---|---|---|---|---|---|---|---|"]
    latencies = []
    for row in rows:
        if row.case == "latency":
            latencies += _latency(row)
        elif row.case != FLOOR:
            values = [CASES[row.case].title, row.package, str(len(row.times("cycle")[1:]))]
            for name in ("pause_ms", "resume_ms"):
                values += [_first(row, name), _later(row, name)]
            values += [_times_the_copy(row, rates), _times_the_first(row, rows), _note(row)]
            text.append(f"| {' | '.join(values)} |")
    if latencies:
        text += ["", f"{CASES['latency'].title}, ms: p50 / p99 / max", ""]
        text += ["| device | package | calls | malloc | free | both | in calls over 10 ms | note |"]
        text += ["|---|---|---|---|---|---|---|---|", *latencies]
    return "\n".join(text)


def _latency(row: Row) -> list[str]:
    """Its rows."""
    lines = []
    for record in [r for r in row.records if "latency" in r] or [{}]:
        values = [record.get("latency", ""), row.package, str(record.get("samples", ""))]
        for name in ("malloc_ms", "free_ms", "both_ms"):
            one = record.get(name)
            values.append(f"{one['p50']:.3f} / {one['p99']:.2f} / {one['max']:.1f}" if one else "")
        values.append(f"{record['stalled'] * 100:.0f} % of the time" if record else "")
        lines.append(f"| {' | '.join([*values, _note(row)])} |")
    return lines


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--package", action="append", required=True, help="NAME=PYTHON; the first is compared with"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="sizes; 1 is for 140 GiB")
    parser.add_argument("--only", default="", help="a pattern, for 'case [package]'")
    parser.add_argument("--disk", default=tempfile.gettempdir(), help="a directory on a real disk")
    parser.add_argument("--total", type=float, default=265, help="seconds for everything")
    parser.add_argument("--budget", type=float, default=28, help="seconds for the cycles of a case")
    parser.add_argument("--json", help="a file for everything that was measured")
    options = parser.parse_args()
    Path(options.disk).mkdir(parents=True, exist_ok=True)
    runner = Runner(options)
    packages = [runner.open(text) for text in options.package]
    rows: list[Row] = []
    wanted = [(FLOOR, packages[0])] + [(case, package) for case in CASES for package in packages]
    for case, package in wanted:
        name = f"{case} [{package.name}]"
        if not re.search(options.only, name) and case != FLOOR:
            continue
        row = runner.case(package, case)
        rows.append(row)
        print(f"{name}: {row.seconds:.1f} s{', ' + row.note if row.note else ''}", flush=True)
    if options.json:
        everything = {
            "scale": options.scale,
            "packages": {package.name: package.version for package in packages},
            "rows": [vars(row) for row in rows],
        }
        Path(options.json).write_text(json.dumps(everything, indent=1) + "\n")
    print("\n" + table(rows, packages, options.scale))
    bad = [row for row in rows if row.note and not row.note.startswith("skipped")]
    return 1 if bad or any(_note(row) != row.note for row in rows if not row.note) else 0


if __name__ == "__main__":
    sys.exit(main())
