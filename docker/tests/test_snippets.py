"""The part for frameworks' Dockerfiles: what its shell does before it installs anything."""

import os
import re
import subprocess
from pathlib import Path

import pytest

COMMIT, HASH = "4" * 40, "a" * 64


def install(root: Path, tmp_path: Path, pin: str | None) -> subprocess.CompletedProcess[str]:
    """Run the step's shell; the wheels would be where there is nothing."""
    text = (root / "docker/snippets/install.Dockerfile").read_text(encoding="utf-8")
    (step,) = re.findall(r"^RUN (.*)", text, re.M | re.S)
    shell = step.replace("\\\n", "").partition("target=/dormant-context ")[2]
    env = {"PATH": os.environ["PATH"], "DORMANT_WHEELS": "none", "TMPDIR": str(tmp_path)}
    env |= {} if pin is None else {"DORMANT_PIN": pin}
    return subprocess.run(["sh", "-c", shell], env=env, capture_output=True, text=True)


@pytest.mark.parametrize(
    "pin",
    [
        None,
        "",
        COMMIT,
        f"{COMMIT}@sha256:",
        f"{COMMIT}@{HASH}",
        f"main@sha256:{HASH}",
        f"{COMMIT}@sha256:{HASH}0",
        f"{COMMIT[:12]}@sha256:{HASH}",
    ],
)
def test_a_pin_of_another_form_says_which_is_wanted(
    root: Path, tmp_path: Path, pin: str | None
) -> None:
    done = install(root, tmp_path, pin)
    said = f"DORMANT_PIN is '{pin or ''}', not <commit>@sha256:<hash of SHA256SUMS>\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_a_whole_pin_goes_on_to_the_wheels(root: Path, tmp_path: Path) -> None:
    done = install(root, tmp_path, f"{COMMIT}@sha256:{HASH}")
    assert done.returncode != 0
    assert "/dormant-context/none/SHA256SUMS" in done.stderr
    assert "DORMANT_PIN" not in done.stderr
