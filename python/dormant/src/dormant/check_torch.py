"""Says whether this interpreter's torch has all that our torch glue uses. Needs no GPU.

    python -m dormant.check_torch

For the end of a Dockerfile: torch is installed by others, and a later step may bring another one.
It answers 0 if everything is there; else 1, with a line for each name that is missing or does not
take what it is given. Where the drop-in is installed alone, it is
``python -m torch_memory_saver._dormant.check_torch``.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Shape = tuple[int, tuple[str, ...]]
"""How something is called: how many positional arguments, and which keywords."""

USES: dict[str, tuple[Shape, ...]] = {
    "torch.Tensor().as_strided": ((2, ()),),
    "torch.Tensor().clone": ((0, ()),),
    "torch.Tensor().data_ptr": ((0, ()),),
    "torch.Tensor().dtype": (),
    "torch.Tensor().element_size": ((0, ()),),
    "torch.Tensor().is_conj": ((0, ()),),
    "torch.Tensor().is_cuda": (),
    "torch.Tensor().is_neg": (),
    "torch.Tensor().numel": ((0, ()),),
    "torch.Tensor().shape": (),
    "torch.Tensor().stride": ((0, ()),),
    "torch.Tensor().untyped_storage": ((0, ()),),
    "torch.UntypedStorage().data_ptr": ((0, ()),),
    "torch._C._accelerator_getAllocatorSettings": ((0, ()),),
    "torch._C._cuda_beginAllocateCurrentThreadToPool": ((2, ()),),
    "torch._C._cuda_endAllocateToPool": ((2, ()),),
    "torch._C._cuda_hasPrimaryContext": ((1, ()),),
    "torch._C._cuda_memorySnapshot": ((0, ()), (1, ())),
    "torch._C._cuda_releasePool": ((2, ()),),
    "torch.__version__": (),
    "torch.autograd.set_multithreading_enabled": ((1, ()),),
    "torch.cuda.MemPool": ((0, ()), (1, ())),
    "torch.cuda.MemPool().id": (),
    "torch.cuda.OutOfMemoryError": (),
    "torch.cuda.current_device": ((0, ()),),
    "torch.cuda.device": ((1, ()),),
    "torch.cuda.device_count": ((0, ()),),
    "torch.cuda.empty_cache": ((0, ()),),
    "torch.cuda.get_allocator_backend": ((0, ()),),
    "torch.cuda.graph": ((1, ("capture_error_mode", "pool", "stream")),),
    "torch.cuda.is_available": ((0, ()),),
    "torch.cuda.is_current_stream_capturing": ((0, ()),),
    "torch.cuda.is_initialized": ((0, ()),),
    "torch.cuda.memory.CUDAPluggableAllocator": ((3, ()),),
    "torch.cuda.memory.CUDAPluggableAllocator().allocator": ((0, ()),),
    "torch.cuda.memory_stats_as_nested_dict": ((1, ()),),
    "torch.empty": ((1, ("device", "dtype")),),
    "torch.empty_strided": ((2, ("dtype",)),),
    "torch.frombuffer": ((1, ("count", "dtype")),),
    "torch.uint8": (),
    "torch.version.cuda": (),
    "torch.version.hip": (),
    "torch.xpu.is_available": ((0, ()),),
}
"""By its path; `()` stands for an object of the class before it. A test holds this against the
glue's source."""

OPTIONAL = {
    "torch.Tensor().is_conj",
    "torch.Tensor().is_neg",
    "torch._C._accelerator_getAllocatorSettings",
    "torch._C._cuda_hasPrimaryContext",
    "torch.version.cuda",
    "torch.version.hip",
    "torch.xpu.is_available",
}
"""What the glue does without where it is missing."""

# Functions of which Python cannot read what they take; tried on the CPU.
TRIALS: dict[str, Callable[[Any], Any]] = {
    "torch.empty": lambda torch: torch.empty(1, dtype=torch.uint8, device="cpu"),
    "torch.empty_strided": lambda torch: torch.empty_strided((1,), (1,), dtype=torch.uint8),
    "torch.frombuffer": lambda torch: torch.frombuffer(bytearray(1), dtype=torch.uint8, count=1),
}

_MISSING = object()


def problems(torch: Any) -> Iterator[str]:
    """What this torch lacks, a line each."""
    made = _made(torch)
    for path, shapes in USES.items():
        value = _find(torch, made, path)
        if value is _MISSING:
            if path not in OPTIONAL:
                yield f"{path} is missing"
            continue
        owner = path.rpartition(".")[0]
        is_method = owner.endswith("()") and owner not in made and inspect.isfunction(value)
        for shape in shapes:
            if not _takes(value, shape, is_method):
                yield f"{path} does not take {_words(shape)}"
        if path in TRIALS:
            try:
                TRIALS[path](torch)
            except Exception as error:
                yield f"{path} fails: {type(error).__name__}: {error}"
    version = getattr(torch, "version", None)
    if not (getattr(version, "cuda", None) or getattr(version, "hip", None)):
        yield "this torch is built for neither CUDA nor ROCm"


def _made(torch: Any) -> dict[str, Any]:
    """Objects of classes that say on their objects alone what they have."""
    try:
        tensor = TRIALS["torch.empty"](torch)
        return {"torch.Tensor()": tensor, "torch.UntypedStorage()": tensor.untyped_storage()}
    except Exception:
        return {}


def _find(torch: Any, made: dict[str, Any], path: str) -> Any:
    """What is at a path. What an object has is looked for in its class."""
    value, at = torch, "torch"
    for name in path.split(".")[1:]:
        at = f"{at}.{name}"
        value = getattr(value, name[:-2] if name.endswith("()") else name, _MISSING)
        value = made.get(at, value)
        if value is _MISSING:
            break
    return value


def _takes(value: Any, shape: Shape, is_method: bool) -> bool:
    count, keywords = shape
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return callable(value)  # It is of C, and does not say.
    try:
        signature.bind(*[None] * (count + is_method), **dict.fromkeys(keywords))
    except TypeError:
        return False
    return True


def _words(shape: Shape) -> str:
    count, keywords = shape
    said = [f"{count} argument{'s' * (count != 1)}", *(f"{word}=" for word in keywords)]
    return ", ".join(said)


def main(arguments: Sequence[str] = ()) -> int:
    """Checks the installed torch."""
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        torch = importlib.import_module("torch")
    except ModuleNotFoundError as error:
        print(f"no torch in {sys.executable}: {error}", file=sys.stderr)
        return 1
    except Exception as error:
        # Also libraries that it needs and that are not there.
        said = f"{type(error).__name__}: {error}"
        print(f"the torch of {sys.executable} cannot be imported: {said}", file=sys.stderr)
        return 1
    version = getattr(torch, "__version__", "of an unknown version")
    found = list(problems(torch))
    for problem in found:
        print(f"torch {version}: {problem}", file=sys.stderr)
    if found:
        return 1
    print(f"torch {version} has all {len(USES)} names that dormant uses")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
