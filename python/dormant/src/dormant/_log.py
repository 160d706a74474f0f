"""What this package has to say, beside errors."""

from __future__ import annotations

import logging
from contextlib import suppress

logger = logging.getLogger("dormant")


def log(level: int, message: str, *arguments: object) -> None:
    """One line of the logger ``dormant``.

    What a program's filter or handler raises goes no further: a report must not be lost for it.
    """
    with suppress(Exception):
        logger.log(level, message, *arguments, stacklevel=2)
