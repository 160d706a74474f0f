"""Errors that the programs print as one line instead of a traceback; and what they print."""

import os
import sys
from collections.abc import Iterable


def say(lines: Iterable[str]) -> None:
    """Print an answer; nobody may be reading it to its end, as in `| head`."""
    try:
        for line in lines:
            print(line)
        sys.stdout.flush()
    except BrokenPipeError:
        # Else Python says so once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class ImagesError(Exception):
    """Something outside the program is not as it must be; the text says what and where."""


class RegistryError(ImagesError):
    """A registry did not say what was asked."""


class Absent(RegistryError):
    """It has no such image."""


class Denied(RegistryError):
    """It does not let us see the image."""


class Unreachable(RegistryError):
    """No answer, or none that can be believed."""
