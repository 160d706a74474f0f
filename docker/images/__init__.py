"""What the programs in `docker/` share; Python's standard library only."""

import sys
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 (for whoever starts the programs)
    raise SystemExit("the programs in docker/ need Python 3.11 or newer")

# What the wheels' build knows of identities is known here from there.
sys.path.append(str(Path(__file__).resolve().parents[2] / "python" / "build"))
