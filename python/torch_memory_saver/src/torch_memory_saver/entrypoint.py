"""The object that programs use, and what is behind it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ._core import dormant, glue
from .binary_wrapper import BinaryWrapper
from .hooks.base import HookMode, HookUtilBase
from .hooks.mode_preload import are_hooks_bound, check_hooks, is_process_wide
from .utils import _torch

logger = logging.getLogger(__name__)

_TAG_DEFAULT = "default"
_BACKENDS = ("pinned", "mmap")


class TorchMemorySaver:
    """GPU memory that can be paused. What it does is up to ``_impl``, which others may replace."""

    def __init__(self) -> None:
        self._impl_ctor_kwargs: dict[str, Any] = {}
        self._impl: Any = None

    @contextmanager
    def region(
        self,
        tag: str = _TAG_DEFAULT,
        enable_cpu_backup: bool = False,
        enable_disk_backup: bool = False,
        cpu_backup_backend: str | None = None,
    ) -> Iterator[None]:
        """Memory that this thread allocates inside can be paused under ``tag``.

        With ``enable_cpu_backup`` or ``enable_disk_backup`` its contents are kept while it is
        paused, else they are not, whatever the environment says.
        """
        self._ensure_initialized()
        newer = _given(enable_disk_backup=enable_disk_backup, cpu_backup_backend=cpu_backup_backend)
        with self._impl.region(tag=tag, enable_cpu_backup=enable_cpu_backup, **newer):
            yield

    @contextmanager
    def cuda_graph(
        self,
        cuda_graph: Any,
        pool: Any = None,
        stream: Any = None,
        capture_error_mode: str = "global",
        tag: str = _TAG_DEFAULT,
        enable_cpu_backup: bool = False,
        cpu_backup_backend: str | None = None,
    ) -> Iterator[None]:
        """As ``torch.cuda.graph``; memory that is allocated in the capture can be paused."""
        self._ensure_initialized()
        with self._impl.cuda_graph(
            cuda_graph=cuda_graph,
            pool=pool,
            stream=stream,
            capture_error_mode=capture_error_mode,
            tag=tag,
            enable_cpu_backup=enable_cpu_backup,
            **_given(cpu_backup_backend=cpu_backup_backend),
        ):
            yield

    @contextmanager
    def disable(self) -> Iterator[None]:
        """Memory that this thread allocates inside is not paused, also after the block."""
        self._ensure_initialized()
        with self._impl.disable():
            yield

    def pause(self, tag: str | None = None) -> None:
        """Gives the memory of a tag, or of all, back to the device."""
        self._ensure_initialized()
        self._impl.pause(tag=tag)

    def resume(self, tag: str | None = None) -> None:
        """Takes memory for a tag, or for all, at the same addresses."""
        self._ensure_initialized()
        self._impl.resume(tag=tag)

    def get_cpu_backup(self, x: Any, zero_copy: bool = False) -> Any | None:
        """What was saved of a paused tensor; ``None`` where the tensor itself can be read."""
        self._ensure_initialized()
        return self._impl.get_cpu_backup(x, **_given(zero_copy=zero_copy))

    def set_disk_backup_dir(self, path: str | os.PathLike[str] | None) -> None:
        """Where contents go that are kept on disk, of memory that is allocated from now on."""
        self._ensure_initialized()
        self._impl.set_disk_backup_dir(path)

    @property
    def enabled(self) -> bool:
        """True."""
        return True

    @property
    def hook_mode(self) -> str:
        """``preload`` or ``torch``; can be set before the first use."""
        mode = getattr(self._impl, "_hook_mode", None)
        return str(mode or getattr(self, "_impl_ctor_kwargs", {}).get("hook_mode") or "preload")

    @hook_mode.setter
    def hook_mode(self, hook_mode: HookMode) -> None:
        if self._impl is None:
            self._impl_ctor_kwargs["hook_mode"] = hook_mode
        elif hook_mode != self.hook_mode:
            logger.warning(
                "hook_mode is %r since the first use; %r comes too late",
                self.hook_mode,
                hook_mode,
            )

    @property
    def memory_margin_bytes(self) -> int:
        """An allocation that would leave less than this free on its device is refused."""
        return dormant.memory_margin_bytes()

    @memory_margin_bytes.setter
    def memory_margin_bytes(self, value: int) -> None:
        self._ensure_initialized()
        dormant.set_memory_margin_bytes(value)

    @property
    def retain_cpu_backup(self) -> bool:
        """Whether host memory for backups is kept from one pause to the next.

        From the next pause on. Switched off, it goes back after a later resume.
        """
        self._ensure_initialized()
        return bool(self._impl.retain_cpu_backup)

    @retain_cpu_backup.setter
    def retain_cpu_backup(self, value: bool) -> None:
        self._ensure_initialized()
        self._impl.retain_cpu_backup = value

    def _ensure_initialized(self) -> None:
        if self._impl is None:
            self._impl = _TorchMemorySaverImpl(**getattr(self, "_impl_ctor_kwargs", {}))
            self.__dict__.pop("_impl_ctor_kwargs", None)


def _given(**keywords: Any) -> dict[str, Any]:
    """Keywords that say something: another ``_impl`` may not know them."""
    return {name: value for name, value in keywords.items() if value}


class _TorchMemorySaverImpl:
    """Dormant, under the names that programs know."""

    def __init__(self, hook_mode: HookMode | None = None) -> None:
        self._torch = _torch()
        check_hooks()
        self._hooked = are_hooks_bound()
        self._hook_mode: HookMode = hook_mode or ("preload" if self._hooked else "torch")
        self._hook_util = HookUtilBase.create(self._hook_mode)
        self._binary_wrapper = BinaryWrapper(self._hook_util.get_path_binary())
        self._mem_pools: dict[Any, Any] = {}
        """Empty: pools belong to the regions that are entered."""
        self._disk_directory: str | None = os.environ.get("TMS_DISK_BACKUP_DIR") or None
        self._switched = self.retain_cpu_backup
        """Whether memory from before may be held as ``retain_cpu_backup`` no longer says."""
        self._retained = False
        """Whether host memory may be kept that is to go back."""
        self._check_settings()

    def _check_settings(self) -> None:
        """Memory outside of torch's pools is ours only if torch asks the runtime for it."""
        if is_process_wide() and glue.usable():
            glue.check_settings()

    @contextmanager
    def region(
        self,
        tag: str = _TAG_DEFAULT,
        enable_cpu_backup: bool = False,
        enable_disk_backup: bool = False,
        cpu_backup_backend: str | None = None,
    ) -> Iterator[None]:
        """See the object above."""
        policy = _policy(enable_cpu_backup, enable_disk_backup, cpu_backup_backend)
        directory = self._directory(policy)
        mode = self._host_mode()
        with dormant.region(tag, policy=policy, disk_directory=directory, host_mode=mode):
            self._set_backend(cpu_backup_backend)
            yield

    @contextmanager
    def _with_region_config(
        self,
        tag: str,
        enable_cpu_backup: bool,
        cpu_backup_backend: str | None = None,
        enable_disk_backup: bool = False,
    ) -> Iterator[None]:
        """A region; some programs call it by this name."""
        with self.region(tag, enable_cpu_backup, enable_disk_backup, cpu_backup_backend):
            yield

    @contextmanager
    def cuda_graph(
        self,
        cuda_graph: Any,
        pool: Any = None,
        stream: Any = None,
        capture_error_mode: str = "global",
        tag: str = _TAG_DEFAULT,
        enable_cpu_backup: bool = False,
        cpu_backup_backend: str | None = None,
    ) -> Iterator[None]:
        """See the object above."""
        policy = _policy(enable_cpu_backup, False, cpu_backup_backend)
        mode = self._host_mode()
        if pool is not None and not self._hooked:
            # Torch's own pool asks the runtime, where nobody of ours is listening.
            pool = glue.capture_pool(cuda_graph, pool, tag=tag, policy=policy, host_mode=mode)
        with glue.graph(
            cuda_graph,
            tag=tag,
            policy=policy,
            host_mode=mode,
            pool=pool,
            stream=stream,
            capture_error_mode=capture_error_mode,
        ):
            self._set_backend(cpu_backup_backend)
            yield

    @contextmanager
    def disable(self, dispose_mem_pool_after_use: bool = True) -> Iterator[None]:
        """See the object above."""
        if not dispose_mem_pool_after_use:
            raise dormant.NotSupportedError("the pool of disable() does not outlive it")
        with dormant.disable():
            yield

    def pause(self, tag: str | None = None) -> None:
        """See the object above."""
        self._check_settings()
        self._switched = self._switched or self.retain_cpu_backup
        mode = self._host_mode() if self._switched else None
        dormant.pause(*([tag] if tag else []), host_mode=mode)
        self._give_back()

    def resume(self, tag: str | None = None) -> None:
        """See the object above."""
        dormant.resume(*([tag] if tag else []))
        self._give_back()

    def get_cpu_backup(self, x: Any, zero_copy: bool = False) -> Any | None:
        """See the object above."""
        return glue.tensor_backup(x, zero_copy)

    def set_disk_backup_dir(self, path: str | os.PathLike[str] | None) -> None:
        """See the object above."""
        self._disk_directory = None if path is None else os.fspath(path) or None
        raw = None if path is None else os.fsencode(path)
        self._binary_wrapper.cdll.tms_set_disk_backup_dir(raw)

    @property
    def retain_cpu_backup(self) -> bool:
        """See the object above."""
        return bool(self._binary_wrapper.cdll.tms_get_retain_cpu_backup())

    @retain_cpu_backup.setter
    def retain_cpu_backup(self, value: bool) -> None:
        self._switched = self._switched or bool(value) or self.retain_cpu_backup
        self._retained = self._retained or self.retain_cpu_backup
        self._binary_wrapper.cdll.tms_set_retain_cpu_backup(bool(value))

    def _host_mode(self) -> str:
        return "retain" if self.retain_cpu_backup else "reclaim"

    def _give_back(self) -> None:
        """What was retained and is not to be any more goes back, unless a backup is in it."""
        if self.retain_cpu_backup:
            self._retained = True
        elif self._retained:
            dormant.trim()
            self._retained = dormant.stats().host_retained_bytes > 0

    def _directory(self, policy: str) -> str | None:
        return self._disk_directory if policy == "disk" else None

    def _set_backend(self, backend: str | None) -> None:
        if backend is not None:
            self._binary_wrapper.cdll.tms_set_cpu_backup_backend(backend.encode())


def _policy(cpu_backup: bool, disk_backup: bool, backend: str | None) -> str:
    if backend is not None and backend not in _BACKENDS:
        raise dormant.InvalidArgumentError(
            f"no cpu_backup_backend {backend!r}; there are {' and '.join(_BACKENDS)}"
        )
    return "disk" if disk_backup else "host" if cpu_backup else "discard"
