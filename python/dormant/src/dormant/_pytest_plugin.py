"""The pytest fixture ``dormant_sim``; see :mod:`dormant.testing`."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest


@pytest.fixture
def dormant_sim() -> Iterator[ModuleType]:
    """``dormant.testing`` over the simulated device; frees at the end what the test allocated."""
    # Not at the top: pytest imports this file in every run.
    from . import testing
    from ._memory import blocks, free

    testing.use_simulated_device()
    before = {block.id for block in blocks()}
    yield testing
    for block in blocks():
        if block.id not in before:
            free(block.address)
