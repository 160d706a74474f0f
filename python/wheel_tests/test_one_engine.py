"""Both wheels in one process: eight files of ours and one engine, whichever is loaded first."""

from __future__ import annotations

import itertools

import pytest

from conftest import Environment

# Allocates through the file of LD_PRELOAD, pauses through Python, reads through the file that
# programs open by the unsuffixed name.
CODE = """
import ctypes, os, sys

site, order = sys.argv[1], sys.argv[2].split(",")
SIZE = 3 << 20


def library(name):
    lib = ctypes.CDLL(os.path.join(site, f"torch_memory_saver_hook_mode_{name}.abi3.so"))
    lib.tms_torch_malloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
    lib.tms_torch_malloc.restype = ctypes.c_void_p
    lib.tms_torch_free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
    lib.tms_torch_free.restype = None
    lib.tms_get_cpu_backup_pointer.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    lib.tms_get_cpu_backup_pointer.restype = ctypes.c_void_p
    lib.tms_get_current_tag.restype = ctypes.c_char_p
    lib.tms_set_current_tag.argtypes = [ctypes.c_char_p]
    lib.tms_pause.argtypes = lib.tms_resume.argtypes = [ctypes.c_char_p]
    for name in ("interesting_region", "enable_cpu_backup"):
        getattr(lib, f"tms_set_{name}").argtypes = [ctypes.c_bool]
        getattr(lib, f"tms_get_{name}").restype = ctypes.c_bool
    return lib


def python(name):
    module = __import__(name, fromlist=["x"])
    assert module.backend() == "sim"  # Importing loads nothing; this does.
    return module


load = {
    "preload": lambda: library("preload"),
    "torch": lambda: library("torch"),
    "dormant": lambda: python("dormant"),
    "vendored": lambda: python("torch_memory_saver._dormant"),
}
files = {name: load[name]() for name in order}
preload, torch, dormant, vendored = (files[n] for n in ("preload", "torch", "dormant", "vendored"))

assert not torch.tms_get_interesting_region()
preload.tms_set_interesting_region(True)
preload.tms_set_current_tag(b"weights")
preload.tms_set_enable_cpu_backup(True)
assert torch.tms_get_interesting_region() and torch.tms_get_enable_cpu_backup()
assert torch.tms_get_current_tag() == b"weights"

address = preload.tms_torch_malloc(SIZE, 0, None)
assert address
ctypes.memset(address, 0xA5, SIZE)
for python in (dormant, vendored):
    (block,) = python.blocks()
    assert (block.address, block.bytes, block.tag) == (address, SIZE, "weights"), block
assert torch.tms_get_cpu_backup_pointer(address, SIZE) is None

report = dormant.pause("weights")
assert report.moved.blocks == 1 and report.copied.bytes == SIZE, report
assert vendored.state("weights") == dormant.state("weights") == "paused"
for lib in (torch, preload):
    saved = lib.tms_get_cpu_backup_pointer(address, SIZE)
    assert ctypes.string_at(saved, SIZE) == b"\\xa5" * SIZE
assert vendored.stats().host_backup_bytes == dormant.stats().host_backup_bytes >= SIZE

assert torch.tms_resume(b"weights") == 0
assert vendored.read(address, SIZE) == b"\\xa5" * SIZE
assert torch.tms_pause(None) == 0 and dormant.state("weights") == "paused"
assert vendored.resume().moved.blocks == 1
torch.tms_torch_free(address, SIZE, 0, None)
assert not dormant.blocks() and not vendored.blocks()

with open("/proc/self/maps") as maps:
    mapped = {line.split()[-1] for line in maps if site in line and ".so" in line}
print(len({os.path.basename(path) for path in mapped}), len(mapped))
"""

ORDERS = [
    ",".join(order) for order in itertools.permutations(("preload", "torch", "dormant", "vendored"))
]


@pytest.mark.parametrize("order", ORDERS)
def test_loaded_in_any_order(both: Environment, order: str) -> None:
    assert run_here(both, order, {})


def test_under_the_preload(both: Environment) -> None:
    preload = both.site / "torch_memory_saver_hook_mode_preload.abi3.so"
    assert run_here(both, "preload,torch,dormant,vendored", {"LD_PRELOAD": str(preload)})


def test_under_the_preload_of_the_other_wheel(both: Environment) -> None:
    preload = both.site / "dormant/_lib/libdormant.so"
    assert run_here(both, "preload,torch,dormant,vendored", {"LD_PRELOAD": str(preload)})


def run_here(both: Environment, order: str, env: dict[str, str]) -> bool:
    names, files = both.run(
        f"import sys; sys.argv = ['', {str(both.site)!r}, {order!r}]\n{CODE}", env
    ).split()
    # Two libraries of one name are mapped, and two of the small ones.
    return (int(names), int(files)) == (3, 4)
