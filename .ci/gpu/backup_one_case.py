#!/usr/bin/env python3
"""One case of `backup_cases.py`, which starts it with one package or the other.

It uses what both have, `torch_memory_saver` and `configure_subprocess`, and says what it measured
in lines of JSON in a file, each as soon as it is known.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import mmap
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from ctypes import c_int, c_size_t, c_void_p
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

MIB = 2**20
GIB = 2**30
TAG = "measured"
CYCLES = 5
"""At most, after the first."""
SLOW_MS, SLOW_CYCLES = 3000.0, 2
"""Where a cycle takes longer than this there are fewer."""
SLICE = 4096
PIECE = 8 * MIB
CHECKERS = 8
TO_DEVICE, TO_HOST = 1, 2
PROGRAM = ctypes.CDLL(None)

Say = Callable[..., None]


@dataclass(frozen=True)
class Case:
    """What is paused and resumed, and how."""

    title: str
    gib: int
    keep: str = "cpu"
    """``cpu``, ``disk`` or nothing."""
    block: int = 64 * MIB
    raw: bool = False
    """By `cudaMalloc`: of 2 MiB, torch would put ten into a block of its own."""
    retain: bool = False
    backend: str | None = None
    only: str = ""
    """The one package that has it."""

    def count(self, scale: float) -> int:
        """Of its blocks."""
        return max(4, int(self.gib * GIB * scale) // self.block)


CASES = {
    "cpu": Case("16 GiB in 64 MiB tensors, cpu backup", 16),
    "cpu-2MiB": Case("8 GiB in 2 MiB blocks, cpu backup", 8, block=2 * MIB, raw=True),
    "cpu-retain": Case("16 GiB in 64 MiB tensors, retain_cpu_backup", 16, retain=True),
    "none": Case("64 GiB in 64 MiB tensors, no backup", 64, keep=""),
    "latency": Case("4 MiB cudaMalloc and cudaFree of another thread, beside 4 GiB", 4),
    "cpu-mmap": Case("16 GiB in 64 MiB tensors, backend mmap", 16, backend="mmap", only="tms"),
    "disk": Case("8 GiB in 64 MiB tensors, disk backup", 8, keep="disk"),
}
FLOOR = "floor"


class Runtime:
    """The runtime library, and the hooks in front of it."""

    def __init__(self) -> None:
        maps = Path("/proc/self/maps").read_text().split()
        self._real = ctypes.CDLL(next(path for path in maps if "libcudart" in path))
        self._hooked = PROGRAM

    def _call(self, library: Any, name: str, *arguments: Any) -> None:
        code = getattr(library, name)(*arguments)
        if code != 0:
            raise RuntimeError(f"{name} answered {code}")

    def malloc(self, nbytes: int, hooked: bool = True) -> int:
        """As a program calls it; or behind the hooks."""
        library = self._hooked if hooked else self._real
        address = c_void_p()
        self._call(library, "cudaMalloc", ctypes.byref(address), c_size_t(nbytes))
        return address.value or 0

    def free(self, address: int, hooked: bool = True) -> None:
        """The opposite."""
        self._call(self._hooked if hooked else self._real, "cudaFree", c_void_p(address))

    def host(self, nbytes: int) -> int:
        """Pinned memory, which is never freed."""
        address = c_void_p()
        self._call(self._real, "cudaMallocHost", ctypes.byref(address), c_size_t(nbytes))
        return address.value or 0

    def fill(self, address: int, value: int, nbytes: int) -> None:
        """Memory of the device."""
        self._call(self._real, "cudaMemset", c_void_p(address), c_int(value), c_size_t(nbytes))

    def copy(self, to: int, source: int, nbytes: int, way: int) -> None:
        """Returns when it is done."""
        size = c_size_t(nbytes)
        self._call(self._real, "cudaMemcpy", c_void_p(to), c_void_p(source), size, c_int(way))


class Memory:
    """The blocks of a case, each filled with a value of its own."""

    def __init__(self, runtime: Runtime, case: Case, scale: float) -> None:
        self.runtime, self.block = runtime, case.block
        self.addresses: list[int] = []
        self.nbytes = case.count(scale) * case.block
        self._raw, self._tensors = case.raw, list[Any]()
        self._host = runtime.host(CHECKERS * PIECE)

    def allocate(self) -> None:
        """In the region that the caller is in."""
        torch = sys.modules["torch"]
        for _ in range(self.nbytes // self.block):
            if self._raw:
                self.addresses.append(self.runtime.malloc(self.block))
                continue
            self._tensors.append(torch.empty(self.block, dtype=torch.uint8, device="cuda"))
            self.addresses.append(self._tensors[-1].data_ptr())
        assert len(set(self.addresses)) == len(self.addresses)

    @staticmethod
    def _value(index: int, cycle: int) -> int:
        return 1 + (7 * index + 41 * cycle) % 251

    def fill(self, cycle: int) -> None:
        """With values that no block had a cycle ago."""
        for index, address in enumerate(self.addresses):
            self.runtime.fill(address, self._value(index, cycle), self.block)
        sys.modules["torch"].cuda.synchronize()

    def check_slices(self, cycle: int) -> None:
        """The beginning, the middle and the end of each block."""
        for index in range(len(self.addresses)):
            for start in (0, self.block // 2, self.block - SLICE):
                self._check(index, cycle, start, SLICE, self._host)

    def check(self, cycle: int) -> None:
        """All bytes, in several threads: each has a place of its own for what it copies."""

        def part(checker: int) -> None:
            host = self._host + checker * PIECE
            for index in range(checker, len(self.addresses), CHECKERS):
                for start in range(0, self.block, PIECE):
                    self._check(index, cycle, start, min(PIECE, self.block - start), host)

        with ThreadPoolExecutor(CHECKERS) as pool:
            list(pool.map(part, range(CHECKERS)))

    def _check(self, index: int, cycle: int, start: int, nbytes: int, host: int) -> None:
        """The first byte, and that each equals the one before it."""
        self.runtime.copy(host, self.addresses[index] + start, nbytes, TO_HOST)
        differs = PROGRAM.memcmp(c_void_p(host), c_void_p(host + 1), c_size_t(nbytes - 1))
        if differs or ctypes.string_at(host, 1)[0] != self._value(index, cycle):
            raise AssertionError(f"wrong contents in block {index} of {len(self.addresses)}")

    def use_what_was_freed(self) -> None:
        """Takes as much memory and writes over it, so that no contents can be there by chance."""
        other = self.runtime.malloc(self.nbytes, hooked=False)
        self.runtime.fill(other, 0, self.nbytes)
        self.runtime.free(other, hooked=False)


def region(saver: Any, case: Case) -> AbstractContextManager[Any]:
    """That of a case; names no more than the case needs."""
    more: dict[str, Any] = {"cpu_backup_backend": case.backend} if case.backend else {}
    if case.keep == "disk":
        more["enable_disk_backup"] = True
    scope: AbstractContextManager[Any] = saver.region(
        tag=TAG, enable_cpu_backup=case.keep == "cpu", **more
    )
    return scope


def timed(function: Callable[..., None], *arguments: Any) -> float:
    """In ms, until the device has nothing to do."""
    begun = time.perf_counter()
    function(*arguments)
    sys.modules["torch"].cuda.synchronize()
    return (time.perf_counter() - begun) * 1e3


def free_bytes() -> int:
    """The device's own reading."""
    return int(sys.modules["torch"].cuda.mem_get_info()[0])


def cycles(case: Case, saver: Any, options: argparse.Namespace, say: Say) -> None:
    """Pauses and resumes, and checks what comes back."""
    if case.retain:
        saver.retain_cpu_backup = True
    if case.keep == "disk":
        saver.set_disk_backup_dir(options.disk)
    memory = Memory(Runtime(), case, options.scale)
    with region(saver, case):
        memory.allocate()
    say(bytes=memory.nbytes, blocks=len(memory.addresses))
    begun = time.monotonic()
    for cycle in range(CYCLES + 1):
        memory.fill(cycle)
        before = free_bytes()
        pause_ms = timed(saver.pause, TAG)
        freed = free_bytes() - before
        if cycle == 0:
            memory.use_what_was_freed()
        resume_ms = timed(saver.resume, TAG)
        if not case.keep:
            memory.fill(cycle)
        memory.check_slices(cycle)
        say(cycle=cycle, pause_ms=pause_ms, resume_ms=resume_ms, freed=freed)
        took = pause_ms + resume_ms
        is_late = time.monotonic() - begun + took / 1e3 > options.budget
        if cycle >= (SLOW_CYCLES if took > SLOW_MS else CYCLES) or (cycle > 0 and is_late):
            break
    if case.keep:
        memory.check(cycle)
    say(checked=True)


class Caller(threading.Thread):
    """Allocates and frees 4 MiB, about once a millisecond, until it is told to stop."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(daemon=True)
        self._runtime, self._over = runtime, threading.Event()
        self.malloc_ms: list[float] = []
        self.free_ms: list[float] = []
        self.error = ""

    def run(self) -> None:
        """The thread."""
        try:
            while not self._over.wait(0.001):
                begun = time.perf_counter()
                address = self._runtime.malloc(4 * MIB)
                between = time.perf_counter()
                self._runtime.free(address)
                self.malloc_ms.append((between - begun) * 1e3)
                self.free_ms.append((time.perf_counter() - between) * 1e3)
        except Exception as error:
            self.error = str(error)

    def stop(self) -> None:
        """Waits until it has ended."""
        self._over.set()
        self.join()
        if self.error:
            raise RuntimeError(self.error)


def spread(times: list[float]) -> dict[str, float]:
    """Of some times."""
    times = sorted(times)
    return {
        "p50": times[len(times) // 2],
        "p99": times[min(len(times) - 1, len(times) * 99 // 100)],
        "max": times[-1],
    }


def latency(case: Case, saver: Any, options: argparse.Namespace, say: Say) -> None:
    """What another thread's allocations take, idle and beside pauses."""
    sys.setswitchinterval(0.0002)  # Threads of Python must not be what is measured.
    runtime = Runtime()
    memory = Memory(runtime, case, options.scale)
    with region(saver, case):
        memory.allocate()
    memory.fill(0)
    saver.pause(TAG)  # What a first time costs is no part of it.
    saver.resume(TAG)
    seconds = max(0.2, 6 * min(1.0, options.scale))
    for name in ("idle", "busy"):
        caller = Caller(runtime)
        caller.start()
        begun = time.monotonic()
        done = 0
        while name == "busy" and (done < 2 or time.monotonic() - begun < seconds):
            saver.pause(TAG)
            saver.resume(TAG)
            done += 1
        time.sleep(seconds / 2 if name == "idle" else 0)
        caller.stop()
        both = [a + b for a, b in zip(caller.malloc_ms, caller.free_ms)]
        stalled = sum(took for took in both if took > 10) / 1e3 / (time.monotonic() - begun)
        malloc, free = spread(caller.malloc_ms), spread(caller.free_ms)
        more = {"malloc_ms": malloc, "free_ms": free, "cycles": done, "stalled": stalled}
        say(latency=name, samples=len(both), both_ms=spread(both), **more)
    memory.check(0)
    say(checked=True)


def floor(options: argparse.Namespace, say: Say) -> None:
    """A plain pinned copy of 16 GiB, either way, 1 GiB at a time: GiB/s."""
    # Some virtual machines get memory from their host when it is first used; no case shall pay.
    nbytes = max(MIB, int(24 * GIB * options.scale))
    touched = mmap.mmap(-1, nbytes)
    address = ctypes.addressof(ctypes.c_char.from_buffer(touched))
    part = nbytes // 16
    threads = [
        threading.Thread(target=ctypes.memset, args=(address + i * part, 1, part))
        for i in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    runtime = Runtime()
    piece = max(MIB, int(GIB * options.scale))
    host, device = runtime.host(piece), runtime.malloc(16 * piece, hooked=False)
    ctypes.memset(host, 1, piece)
    for name, way in (("to_host", TO_HOST), ("to_device", TO_DEVICE)):
        rates = []
        for _ in range(4):
            begun = time.perf_counter()
            for i in range(16):
                there, here = (host, device + i * piece)
                to, source = (there, here) if way == TO_HOST else (here, there)
                runtime.copy(to, source, piece, way)
            rates.append(16 * piece / GIB / (time.perf_counter() - begun))
        say(floor=name, rate=sorted(rates[1:])[1])
    say(checked=True)


def environment() -> dict[str, str]:
    """What the package asks for, and where its file finds the runtime library at the start."""
    torch = importlib.import_module("torch")
    package = importlib.import_module("torch_memory_saver")
    with package.configure_subprocess():
        preload = os.environ["LD_PRELOAD"]
    maps = Path("/proc/self/maps").read_text().split()
    folders = [str(Path(path).parent) for path in maps if "libcudart" in path][:1]
    folders += [os.environ["LD_LIBRARY_PATH"]] if os.environ.get("LD_LIBRARY_PATH") else []
    try:
        version = metadata.version("torch_memory_saver")
    except metadata.PackageNotFoundError:
        version = str(getattr(package, "__version__", "unknown"))
    return {
        "LD_PRELOAD": preload,
        "LD_LIBRARY_PATH": ":".join(folders),
        "version": version,
        "torch": str(torch.__version__),
    }


def main() -> None:
    """The command line, which `backup_cases.py` writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", choices=[*CASES, FLOOR, "environment"])
    parser.add_argument("--results", required=True, help="a file, for lines of JSON")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--budget", type=float, default=28.0, help="seconds for the cycles")
    parser.add_argument("--disk", default=".", help="where contents go that are kept on disk")
    options = parser.parse_args()
    with open(options.results, "w", encoding="utf-8") as results:

        def say(**what: Any) -> None:
            results.write(json.dumps(what) + "\n")
            results.flush()

        if options.case == "environment":
            say(**environment())
            return
        torch = importlib.import_module("torch")
        torch.ones(1, device="cuda")
        if options.case == FLOOR:
            floor(options, say)
            return
        saver = importlib.import_module("torch_memory_saver").torch_memory_saver
        saver.hook_mode = "preload"
        case = CASES[options.case]
        (latency if options.case == "latency" else cycles)(case, saver, options, say)


if __name__ == "__main__":
    main()
