"""``python -m dormant``: what this installation is.

    python -m dormant build-info [--json] [--expect-commit COMMIT]

For the end of a Dockerfile, and wherever the program ``dormant`` is not installed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from ._identity import build_info
from .errors import Error


def main(arguments: Sequence[str] | None = None) -> int:
    """Answers 0; 1 where the library is missing or another one; 2 for a wrong command line."""
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}")
    commands = parser.add_subparsers(dest="command", required=True)
    about = commands.add_parser(
        "build-info", help="what the library was built from", description="No device is touched."
    )
    about.add_argument("--json", action="store_true", help="all of it, as one JSON object")
    about.add_argument(
        "--expect-commit",
        metavar="COMMIT",
        help="fail unless the library was built from exactly this commit, with no changes",
    )
    asked = parser.parse_args(arguments)
    try:
        info = build_info()
    except Error as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(info.as_dict()) if asked.json else info)
    wrong = info.mismatch(asked.expect_commit) if asked.expect_commit is not None else None
    if wrong:
        print(wrong, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
