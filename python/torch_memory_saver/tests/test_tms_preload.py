"""``LD_PRELOAD``, the files of a wheel, and the check at the first use."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from torch_children import PYTHON, in_child, preloaded, run, runtime, shim

from tms_callers import MIB, foreign_malloc, free_bytes, saver, tag, tensor


def _run(site: Path, code: str, **more: str) -> str:
    """Runs code against the installed files, with nothing else of ours in reach."""
    vendored = str(site / "torch_memory_saver" / "_dormant" / "_lib" / "libdormant.so")
    env = {
        "FAKE_TORCH_CUDART": str(runtime()),
        "FAKE_TORCH_LIBRARY": vendored,
        "DORMANT_LIBRARY": "",
        "PYTHONPATH": os.pathsep.join([str(site), str(PYTHON / "dormant/tests/torch_fakes")]),
        **more,
    }
    done = run([sys.executable, "-c", code], env)
    assert done.stderr == ""
    return done.stdout


STARTS = """
import os, subprocess, sys
from torch_memory_saver import configure_subprocess, torch_memory_saver
child = '''
import os, torch, torch_memory_saver
from torch_memory_saver import torch_memory_saver as saver, configure_subprocess
assert torch_memory_saver._core.dormant.__name__ == "torch_memory_saver._dormant"
before = os.environ["LD_PRELOAD"]
with configure_subprocess():
    assert os.environ["LD_PRELOAD"] == before
with saver.region("a", enable_cpu_backup=True):
    kept = torch.full((12 << 20,), 3, dtype=torch.uint8, device="cuda")
free = torch.cuda.mem_get_info()[0]
saver.pause("a")
assert torch.cuda.mem_get_info()[0] - free == 12 << 20
saver.resume("a")
assert kept[0].item() == 3
assert saver.hook_mode == "preload" and saver._impl._hooked
print(before)
'''
with configure_subprocess():
    command = [sys.executable, "-c", child]
    if sys.argv[1:] == ["sh"]:
        import shlex
        command = ["/bin/sh", "-c", "exec " + shlex.join(command)]
    done = subprocess.run(command, capture_output=True, text=True)
assert done.returncode == 0 and not done.stderr, done.stderr
sys.stdout.write(done.stdout)
print(os.environ.get("LD_PRELOAD"))
"""


@pytest.mark.parametrize("through", ["", "sh"])
def test_a_child_has_our_hooks_whoever_starts_it(site: Path, through: str):
    code = STARTS.replace("sys.argv[1:]", repr([through]))
    inside, after = _run(site, code).split()
    # The parent has not imported torch, and needs not know for which version of CUDA that is.
    assert inside == str(site / "torch_memory_saver_hook_mode_preload.abi3.so")
    assert after == "None"


@pytest.mark.parametrize("before", ["{libm}", " {libm}  {libc} ", "{libm}:{libc}"])
def test_other_entries_stay_and_ours_is_there_once(site: Path, before: str):
    names = {"libm": "libm.so.6", "libc": "libc.so.6"}
    given = before.format(**names)
    inside, *after = _run(site, STARTS, LD_PRELOAD=given).splitlines()
    entries = inside.split(":")
    assert sum("torch_memory_saver" in entry for entry in entries) == 1
    assert entries[1:] == given.replace(":", " ").split()
    assert after == [given]


def test_all_files_are_one_engine(site: Path):
    code = """
import ctypes, glob, os, torch
from torch_memory_saver import torch_memory_saver as saver
from torch_memory_saver.utils import get_binary_path_from_package
site = os.environ["PYTHONPATH"].split(":")[0]
files = sorted(glob.glob(site + "/*.abi3.so"))
assert len(files) == 6
with saver.region("a"):
    kept = torch.zeros(3 << 20, device="cuda")
for file in files:
    library = ctypes.CDLL(file)
    free = torch.cuda.mem_get_info()[0]
    assert library.tms_pause(b"a") == 0
    assert torch.cuda.mem_get_info()[0] > free, file
    saver.resume("a")
for stem in ("preload", "torch"):
    path = get_binary_path_from_package("torch_memory_saver_hook_mode_" + stem)
    assert str(path) in files
assert b"TMS_INIT_ENABLE_DISK_BACKUP" in path.read_bytes()
assert saver._impl._binary_wrapper.cdll._name in files
"""
    _run(site, code)


def test_the_version_is_there(site: Path):
    code = "import torch_memory_saver; print(torch_memory_saver.__version__)"
    assert _run(site, code).startswith("0.0.")


def test_importing_it_needs_no_torch_no_library_and_no_device(site: Path):
    code = """
import sys
sys.modules["torch"] = None
import torch_memory_saver
from torch_memory_saver.utils import change_env, is_xpu
from torch_memory_saver.hooks.base import HookMode, HookUtilBase
import os
assert not is_xpu()
with change_env("A_NAME", "x"):
    assert os.environ["A_NAME"] == "x"
assert "A_NAME" not in os.environ
assert torch_memory_saver.torch_memory_saver._impl is None
assert "libdormant" not in open("/proc/self/maps").read()
"""
    _run(site, code)


def test_a_first_use_without_the_hooks_that_were_promised_is_an_error():
    for name in ("TMS_INIT_ENABLE", "DORMANT_ENABLE"):
        without_hooks(environment={name: "1"}, reason=f"{name} is set, and LD_PRELOAD does not")


@in_child(quiet=False, TMS_INIT_ENABLE="tRuE", DORMANT_ENABLE="enabled", LD_PRELOAD="")
def test_what_the_library_takes_for_no_promise_is_none_here():
    from torch_memory_saver.hooks.mode_preload import is_process_wide

    assert not is_process_wide()
    with saver().region():
        pass


def test_another_library_below_a_folder_of_our_name_is_not_ours(site: Path):
    code = """
import os
os.mkdir("torch_memory_saver")
other = os.path.abspath("torch_memory_saver/libother.so")
open(other, "w").close()
os.environ["LD_PRELOAD"] = other
from torch_memory_saver import configure_subprocess
from torch_memory_saver.hooks.mode_preload import HookUtilModePreload
assert HookUtilModePreload().get_path_binary() != other
with configure_subprocess():
    ours, *others = os.environ["LD_PRELOAD"].split(":")
assert others == [other] and ours.endswith("/torch_memory_saver_hook_mode_preload.abi3.so")
"""
    with tempfile.TemporaryDirectory() as folder:
        _run(site, f"import os\nos.chdir({folder!r})\n{code}")


def test_a_preloaded_file_that_is_not_there_is_an_error(tmp_path: Path):
    gone = str(tmp_path / "torch_memory_saver_hook_mode_preload.abi3.so")
    without_hooks(environment={"LD_PRELOAD": gone}, reason="no such file")


@in_child(quiet=False)  # ld.so's one line.
def without_hooks(reason: str):
    import socket

    for _ in range(2):
        with pytest.raises(RuntimeError) as raised, saver().region():
            pass
        said = str(raised.value)
        assert socket.gethostname() in said
        assert reason in said
        assert os.environ.get("LD_PRELOAD", "") in said
        assert saver()._impl is None


def test_another_librarys_functions_before_ours_are_an_error(tmp_path: Path):
    both = f"{runtime()}:{shim()}"
    hidden(environment={**preloaded(), "LD_PRELOAD": both})


@in_child()
def hidden():
    with pytest.raises(RuntimeError, match="come before it"):
        saver().pause()


def test_raw_memory_in_a_region_is_ours_with_the_hooks():
    raw(environment=preloaded())


@in_child()
def raw():
    import ctypes

    import dormant

    with saver().region("a", enable_cpu_backup=True):
        address = foreign_malloc(4 * MIB)
        assert dormant.find(address).tag == "a"
        with saver().disable():
            assert dormant.find(foreign_malloc(4 * MIB)) is None
    assert dormant.find(foreign_malloc(4 * MIB)) is None
    before = free_bytes()
    saver().pause()
    assert free_bytes() - before == 4 * MIB
    assert ctypes.CDLL(None).cudaFree(ctypes.c_void_p(address)) == 0
    assert dormant.blocks() == ()
    assert tag(tensor(100)) is None


@pytest.mark.parametrize("command", [["/bin/true"], [sys.executable, "-c", "pass"], ["cc", "-v"]])
def test_programs_that_have_nothing_to_do_with_it_run(command: list[str]):
    if shutil.which(command[0]) is None:
        pytest.skip(f"there is no {command[0]}")
    for entry in (f"{shim()}", f"{shim()}:libm.so.6", f" {shim()} "):
        env = {**os.environ, "LD_PRELOAD": entry}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        assert "ld.so" not in done.stderr
