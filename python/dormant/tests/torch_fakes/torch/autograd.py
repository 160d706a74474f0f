"""The part of autograd that is used."""

from __future__ import annotations

from typing import Any

is_multithreaded = True


class set_multithreading_enabled:
    """As in torch: holds from when it is made until its block ends."""

    def __init__(self, mode: bool) -> None:
        global is_multithreaded
        self._before = is_multithreaded
        is_multithreaded = mode

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_error: Any) -> None:
        global is_multithreaded
        is_multithreaded = self._before
