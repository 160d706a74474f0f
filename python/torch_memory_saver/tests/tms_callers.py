"""Programs in small: they call the drop-in exactly as the frameworks do that use it."""

from __future__ import annotations

from contextlib import contextmanager
from types import ModuleType
from typing import Any

MIB = 2**20


def saver() -> Any:
    """What frameworks import."""
    from torch_memory_saver import torch_memory_saver

    return torch_memory_saver


def tensor(nbytes: int, value: int = 1) -> Any:
    """On the device, filled."""
    import torch

    return torch.full((nbytes,), value, dtype=torch.uint8, device="cuda")


def tag(tensor: Any) -> str | None:
    """Under which its memory is paused; ``None`` where that is not ours."""
    import dormant

    block = dormant.find(tensor.data_ptr())
    return None if block is None else block.tag


def policy(tensor: Any) -> str:
    """What happens to its contents."""
    import dormant

    return dormant.find(tensor.data_ptr()).policy.value


def free_bytes() -> int:
    """The device's own reading."""
    import torch

    return torch.cuda.mem_get_info()[0]


class SGLang:
    """Its adapter: keywords only, three tags."""

    def __init__(self) -> None:
        import torch_memory_saver

        self._saver = torch_memory_saver.torch_memory_saver
        self.configure_subprocess = torch_memory_saver.configure_subprocess

    def region(self, tag: str, enable_cpu_backup: bool = False) -> Any:
        return self._saver.region(tag=tag, enable_cpu_backup=enable_cpu_backup)

    def cuda_graph(self, **keywords: Any) -> Any:
        return self._saver.cuda_graph(**keywords)

    def disable(self) -> Any:
        return self._saver.disable()

    def release(self, tags: tuple[str, ...] = ("kv_cache", "weights", "cuda_graph")) -> None:
        for tag in tags:
            self._saver.pause(tag=tag)

    def resume(self, tags: tuple[str, ...] = ("cuda_graph", "weights", "kv_cache")) -> None:
        for tag in tags:
            self._saver.resume(tag=tag)


class DeepEP:
    """A buffer that is made between two switches, as slime (unconditionally) and miles do it."""

    def __init__(self, restore: bool, fails: bool = False) -> None:
        impl = saver()._impl
        if impl is not None:
            cdll = impl._binary_wrapper.cdll
            before = cdll.tms_get_interesting_region()
            cdll.tms_set_interesting_region(False)
        try:
            self.memory = foreign_malloc(2 * MIB)
            if fails:
                raise ZeroDivisionError
        finally:
            if impl is not None:
                cdll.tms_set_interesting_region(before if restore else True)


def foreign_malloc(nbytes: int) -> int | None:
    """Calls the process's ``cudaMalloc``, past torch; ``None`` where there is no runtime."""
    import ctypes

    place = ctypes.c_void_p()
    try:
        code = ctypes.CDLL(None).cudaMalloc(ctypes.byref(place), ctypes.c_size_t(nbytes))
    except AttributeError:
        return None
    assert code == 0
    return place.value


class MegatronContext:
    """Megatron-LM's inference: two modules set the mode, tags are positional."""

    TAG = "inference_context"

    def __init__(self) -> None:
        for _module in range(2):
            from torch_memory_saver import torch_memory_saver

            torch_memory_saver.hook_mode = "torch"
        self._saver = torch_memory_saver
        with self._saver.region(tag=self.TAG):
            self.memory_buffer = tensor(12 * MIB)

    def suspend(self) -> None:
        self._saver.pause(self.TAG)

    def resume(self) -> None:
        self._saver.resume(self.TAG)


class ForeignImpl:
    """What another project puts in place of ``_impl``: it knows the oldest keywords only."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    @contextmanager
    def region(self, tag: str, enable_cpu_backup: bool) -> Any:
        self.calls.append(("region", tag, enable_cpu_backup))
        yield

    @contextmanager
    def cuda_graph(
        self,
        cuda_graph: Any,
        pool: Any,
        stream: Any,
        capture_error_mode: str,
        tag: str,
        enable_cpu_backup: bool,
    ) -> Any:
        self.calls.append(("cuda_graph", tag, enable_cpu_backup))
        yield

    def pause(self, tag: str | None) -> None:
        self.calls.append(("pause", tag))

    def resume(self, tag: str | None) -> None:
        self.calls.append(("resume", tag))


def patch_as_dynamo(module: ModuleType, impl: ForeignImpl) -> list[Any]:
    """Replaces ``_ensure_initialized`` on the class; answers the modes that it has seen."""
    modes: list[Any] = []
    kind = module.entrypoint.TorchMemorySaver
    original = kind._ensure_initialized

    def patched(self: Any) -> None:
        if self._impl is not None:
            return
        mode = self._impl_ctor_kwargs.get("hook_mode")
        modes.append(mode)
        if mode is None or mode == "gms":
            self._impl = impl
            del self._impl_ctor_kwargs
        else:
            original(self)

    kind._ensure_initialized = patched
    return modes
