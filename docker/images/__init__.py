"""What the programs in `docker/` share; Python's standard library only."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 (for whoever starts the programs)
    raise SystemExit("the programs in docker/ need Python 3.11 or newer")
