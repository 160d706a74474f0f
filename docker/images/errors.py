"""Errors that the programs print as one line instead of a traceback."""


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
