"""What the fake says it was built for."""

from __future__ import annotations

cuda: str | None = "13.0"
hip: str | None = None
