"""The torch glue: tensors made in a region are pausable, without a preloaded library.

It goes through torch's own ``MemPool`` with a pluggable allocator of ours, so nothing is patched.
:func:`dormant.region` and the others use it by themselves once the program has imported torch; what
is of use beside them is :func:`graph`, which captures a CUDA graph whose memory can sleep, and
:func:`tensor_backup`. torch 2.8 or newer is needed.
"""

from __future__ import annotations

from ._access import usable
from ._backup import tensor_backup
from ._graphs import capture_pool, check_not_capturing, graph
from ._pools import allocator, carry_pool, enter_foreign_pool, enter_pool
from ._settings import check_settings

__all__ = [
    "allocator",
    "capture_pool",
    "carry_pool",
    "check_not_capturing",
    "check_settings",
    "enter_foreign_pool",
    "enter_pool",
    "graph",
    "tensor_backup",
    "usable",
]
