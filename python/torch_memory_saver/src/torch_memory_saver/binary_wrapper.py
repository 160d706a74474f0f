"""The C interface of torch_memory_saver, for programs that call it by themselves."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_uint8
from typing import Any

from ._core import native


class BinaryWrapper:
    """A library file of ours: whichever it is, there is one engine behind it."""

    def __init__(self, path_binary: str) -> None:
        # First the library that this package uses, so that the file finds it and hands calls on.
        native.library()
        self.cdll: Any = ctypes.CDLL(str(path_binary))
        for name, (result, arguments) in native._PROTOTYPES.items():
            if name.startswith(("tms_", "set_memory_margin_bytes")):
                function = getattr(self.cdll, name)
                function.restype, function.argtypes = result, arguments
        self.cdll.tms_get_cpu_backup_pointer.restype = POINTER(c_uint8)

    def set_config(
        self,
        *,
        tag: str,
        interesting_region: bool,
        enable_cpu_backup: bool,
        cpu_backup_backend: str | None = None,
        enable_disk_backup: bool = False,
    ) -> None:
        """Sets the switches of this thread, at its innermost region or outside of any."""
        self.cdll.tms_set_current_tag(tag.encode())
        self.cdll.tms_set_interesting_region(interesting_region)
        self.cdll.tms_set_enable_cpu_backup(enable_cpu_backup)
        if cpu_backup_backend is not None:
            self.cdll.tms_set_cpu_backup_backend(cpu_backup_backend.encode())
        self.cdll.tms_set_enable_disk_backup(enable_disk_backup)
