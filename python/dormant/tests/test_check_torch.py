"""The check of torch: its list is that of the glue, and it names what is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import PACKAGE, SOURCE
from torch_scan import uses_of

from dormant import check_torch

FAKES = Path(__file__).with_name("torch_fakes")
DROP_IN = PACKAGE.parent / "torch_memory_saver" / "src" / "torch_memory_saver"


def glue() -> list[Path]:
    files = [*sorted((SOURCE / "dormant" / "torch").glob("*.py"))]
    return [*files, SOURCE / "dormant" / "_torch_bridge.py", *sorted(DROP_IN.rglob("*.py"))]


def test_the_list_is_what_the_glue_uses() -> None:
    assert len(glue()) > 12
    uses, optional = uses_of(glue())
    assert uses == check_torch.USES
    assert optional == check_torch.OPTIONAL


@pytest.mark.parametrize(
    ("code", "name", "shapes"),
    [
        ("torch.cuda.new()", "torch.cuda.new", ((0, ()),)),
        ("torch.cuda.empty_cache(now=True)", "torch.cuda.empty_cache", ((0, ()), (0, ("now",)))),
        ("getattr(torch._C, '_new')", "torch._C._new", ()),
        (
            "x = torch.frombuffer(b, dtype=d, count=1).pin_memory()",
            "torch.Tensor().pin_memory",
            None,
        ),
        ("for name in ('a', 'b'):\n    getattr(tensor, name)", "torch.Tensor().b", ()),
        (
            "m = torch.cuda.MemPool\nself.x = m(None)\nself.x.snapshot()",
            "torch.cuda.MemPool().snapshot",
            None,
        ),
        ("cuda = getattr(sys.modules.get('torch'), 'cuda')\ncuda.x", "torch.cuda.x", ()),
    ],
)
def test_what_the_glue_began_to_use_would_be_found(
    tmp_path: Path, code: str, name: str, shapes: object
) -> None:
    assert name not in check_torch.USES or check_torch.USES[name] != shapes
    file = tmp_path / "new.py"
    file.write_text(code)
    uses, optional = uses_of([*glue(), file])
    assert name in uses
    assert name not in optional
    assert shapes is None or uses[name] == shapes


def test_what_stands_further_down_and_what_only_may_be_there(tmp_path: Path) -> None:
    file = tmp_path / "new.py"
    file.write_text(
        "def outer(torch):\n    return inner(torch).real\n"
        "def inner(torch):\n    return torch.empty(1)\n"
        "other = getattr(torch, 'other', None)\nother.part()\n"
        "def unrelated(other):\n    return value.real\n"
    )
    assert uses_of([file]) == (
        {
            "torch.Tensor().real": (),
            "torch.empty": ((1, ()),),
            "torch.other.part": ((0, ()),),
        },
        {"torch.other.part"},
    )


def check(code: str = "", torch: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs the check in a process with the fake torch, after ``code`` has changed that."""
    paths = [str(SOURCE), *([str(FAKES)] if torch else [])]
    ending = "import sys\nfrom dormant import check_torch\nsys.exit(check_torch.main())"
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", f"{code}\n{ending}"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_torch_that_has_everything() -> None:
    done = check()
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        done.stdout
        == f"torch 2.11.0+fake has all {len(check_torch.USES)} names that dormant uses\n"
    )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("del torch.cuda.MemPool", "torch.cuda.MemPool is missing"),
        ("del torch._C._cuda_releasePool", "torch._C._cuda_releasePool is missing"),
        ("del torch.autograd", "torch.autograd.set_multithreading_enabled is missing"),
        ("del torch.Tensor.as_strided", "torch.Tensor().as_strided is missing"),
        (
            "del torch.cuda.memory.CUDAPluggableAllocator.allocator",
            "torch.cuda.memory.CUDAPluggableAllocator().allocator is missing",
        ),
        (
            "torch.cuda.memory.CUDAPluggableAllocator.allocator = lambda self, more: None",
            "torch.cuda.memory.CUDAPluggableAllocator().allocator does not take 0 arguments",
        ),
        (
            "torch.cuda.graph = lambda graph, pool=None, stream=None: None",
            "torch.cuda.graph does not take 1 argument, capture_error_mode=, pool=, stream=",
        ),
        ("torch.cuda.empty_cache = None", "torch.cuda.empty_cache does not take 0 arguments"),
        (
            "torch.frombuffer = lambda buffer, **words: 1 // 0",
            "torch.frombuffer fails: ZeroDivisionError: integer division or modulo by zero",
        ),
        ("torch.version.cuda = None", "this torch is built for neither CUDA nor ROCm"),
    ],
)
def test_what_is_missing_is_named(change: str, problem: str) -> None:
    done = check(f"import torch\n{change}")
    assert done.returncode == 1
    assert f"torch 2.11.0+fake: {problem}\n" in done.stderr
    assert done.stdout == ""
    names = {line.split(" ")[2] for line in done.stderr.splitlines()}
    assert len(names) == len(done.stderr.splitlines()), "one line a name"


def test_what_may_be_missing_is_not_named() -> None:
    done = check(
        "import torch\ndel torch._C._cuda_hasPrimaryContext\nassert not hasattr(torch, 'xpu')"
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_without_a_torch_the_reason_is_said(tmp_path: Path) -> None:
    done = check(torch=False)
    assert done.returncode == 1
    assert f"no torch in {sys.executable}: No module named 'torch'\n" == done.stderr
    broken = "import sys\nclass F:\n    def find_spec(self, name, *_):\n"
    broken += "        if name == 'torch': raise OSError('libcudart.so.13: cannot open')\n"
    done = check(broken + "sys.meta_path.insert(0, F())", torch=False)
    assert done.returncode == 1
    assert "cannot be imported: OSError: libcudart.so.13: cannot open" in done.stderr


def test_it_is_a_program() -> None:
    for arguments, code in ([], 0), (["--what"], 2):
        done = subprocess.run(
            [sys.executable, "-m", "dormant.check_torch", *arguments],
            env={**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{FAKES}"},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == code, done.stderr
