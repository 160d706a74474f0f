"""What must hold for every job that works on a GPU."""

import re
from typing import Any

INSTALL = re.compile(
    r"\b(pip3?|uv|conda|mamba|apt|apt-get|npm|cargo)\b[^\n]*\b(install|add|sync|update)\b"
    r"|\bdpkg\b[^\n]*\s(-i|--install)\b|\bsetup\.py\b|\bdocker cp (-\S+ )*\S+ \S*:"
)
VERIFY = re.compile(r"\bdormant verify\b[^\n]* --expect-commit \S")


def gpu_jobs(workflow: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the jobs on machines of one's own, and those that hand devices to a container."""
    return {
        name: job
        for name, job in workflow["jobs"].items()
        if not _hosted(job["runs-on"])
        or re.search(r"--gpus\b|/dev/kfd", " ".join(map(script, job["steps"])))
    }


def _hosted(runs_on: object) -> bool:
    labels = [runs_on]
    if isinstance(runs_on, str) and "${{" in runs_on:
        labels = [word for word in re.findall(r"'([^']*)'", runs_on) if "/" not in word]
    return bool(labels) and all(str(label).startswith("ubuntu-") for label in labels)


def script(step: dict[str, Any]) -> str:
    """Return a step's commands, each in one line."""
    return re.sub(r"\\\n\s*", "", str(step.get("run", "")))


def complaints(job: dict[str, Any]) -> list[str]:
    """Return why a job does not prove what it tested."""
    steps = job["steps"]
    installs = [at for at, step in enumerate(steps) if INSTALL.search(script(step))]
    verifies = [at for at, step in enumerate(steps) if VERIFY.search(script(step))]
    if not verifies:
        return ["no step runs `dormant verify` with --expect-commit"]
    found = []
    last = verifies[-1]
    if installs and installs[-1] > last:
        found.append(f"step {installs[-1]} installs after the verification")
    elif installs and last != installs[-1] + 1:
        found.append("the verification is not the step after the last that installs")
    for key in ("if", "continue-on-error"):
        if key in steps[last]:
            found.append(f"the verification has `{key}`: it can be passed over")
    return found
