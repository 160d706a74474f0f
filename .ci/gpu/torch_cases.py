#!/usr/bin/env python3
"""Cases from the field, with torch on a GPU. Needs torch and both wheels of this project.

    python3 .ci/gpu/torch_cases.py [--scale 1] [--only F15] [--list]

Each case runs in a process of its own, in both hook modes (`torch`: nothing preloaded; `preload`:
the drop-in's file in LD_PRELOAD) and through both packages, where both apply. One line for each:
PASS, FAIL and why, or SKIP and why; then a total. The exit code is 1 if one failed, 0 if none did.

Torch is imported once for each mode, and the processes are forked from there before the GPU is
touched; a case that needs another environment from the start gets a new interpreter.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch_case_tools as tools

MODULES = ("torch_cases_memory", "torch_cases_field", "torch_cases_graphs", "torch_cases_host")
SKIPPED = 77
CRASHES = ("INTERNAL ASSERT", "terminate called", "Fatal Python error", "Segmentation fault")


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="sizes; 1 is for 140 GiB")
    parser.add_argument("--only", default="", help="names that contain this text")
    parser.add_argument("--list", action="store_true", help="names, and nothing else")
    parser.add_argument("--timeout", type=float, default=90, help="seconds for one case")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    tools.SCALE = options.scale
    for module in MODULES:
        importlib.import_module(module)
    if options.child:
        return child(options.child)
    if options.serve:
        return serve(options.timeout)
    runs = [run for run in tools.runs() if options.only in run.name]
    if options.list:
        print("\n".join(run.name for run in runs))
        return 0
    return report(runs, options)


def report(runs: list[tools.Run], options: argparse.Namespace) -> int:
    """Runs all, and prints what came out."""
    counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}
    started = time.monotonic()
    for mode in tools.MODES:
        mine = [run for run in runs if run.mode == mode]
        if not mine:
            continue
        results = served([run for run in mine if not run.case.fresh], mode, options)
        for run in mine:
            begun = time.monotonic()
            status, why = next(results) if not run.case.fresh else started_anew(run, options)
            counts[status] += 1
            seconds = time.monotonic() - begun
            print(f"{status} {run.name} ({seconds:.1f} s){': ' + why if why else ''}", flush=True)
    passed, failed, skipped = counts["PASS"], counts["FAIL"], counts["SKIP"]
    seconds = time.monotonic() - started
    print(f"{passed} passed, {failed} failed, {skipped} skipped, {seconds:.0f} s")
    return 1 if failed or not passed else 0


def command(options: argparse.Namespace, *more: str) -> list[str]:
    """This script again."""
    timeout = str(options.timeout)
    script = str(Path(__file__).resolve())
    return [sys.executable, script, "--scale", str(options.scale), "--timeout", timeout, *more]


def served(runs: list[tools.Run], mode: str, options: argparse.Namespace) -> tools.Results:
    """One process that forks for each run; answers as they are asked for."""
    if not runs:
        return
    server = subprocess.Popen(
        command(options, "--serve", mode),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=tools.environment(mode),
    )
    assert server.stdin is not None
    assert server.stdout is not None
    for run in runs:
        server.stdin.write(run.name + "\n")
        server.stdin.flush()
        answer = server.stdout.readline().rstrip("\n")
        status, _, why = answer.partition("\t")
        yield (status, why) if answer else ("FAIL", "the process that forks is gone")
    server.stdin.close()
    server.wait()


def serve(timeout: float) -> int:
    """Reads names, and forks for each."""
    importlib.import_module("torch")
    for line in sys.stdin:
        name = line.rstrip("\n")
        with tempfile.TemporaryFile("w+") as output:
            sys.stdout.flush()
            pid = os.fork()
            if pid == 0:
                os.dup2(output.fileno(), 1)
                os.dup2(output.fileno(), 2)
                return child(name)
            code = waited(pid, timeout)
            output.seek(0)
            status, why = judged(code, output.read())
        print(f"{status}\t{why}", flush=True)
    return 0


def waited(pid: int, timeout: float) -> int:
    """How a child of ours ended; one that takes too long is ended."""
    ends = time.monotonic() + timeout
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > ends:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return -signal.SIGALRM
        time.sleep(0.01)


def started_anew(run: tools.Run, options: argparse.Namespace) -> tuple[str, str]:
    """A run in an interpreter of its own."""
    env = {**tools.environment(run.mode), **run.case.env}
    try:
        done = subprocess.run(
            command(options, "--child", run.name),
            env=env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=options.timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return judged(-signal.SIGALRM, "")
    return judged(done.returncode, done.stdout)


def judged(code: int, output: str) -> tuple[str, str]:
    """What an exit code and an output come to."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    crash = next((line for line in lines if any(text in line for text in CRASHES)), "")
    last = lines[-1] if lines else ""
    if code == -signal.SIGALRM:
        return "FAIL", "it took too long"
    if crash or code not in (0, SKIPPED):
        shown = crash or " | ".join(lines[-3:])
        return "FAIL", f"exit code {code}: {shown}"
    if code == SKIPPED:
        return "SKIP", last
    return "PASS", last if last.startswith("note: ") else ""


def child(name: str) -> int:
    """Runs one case in this process; its answer is the exit code."""
    run = next(run for run in tools.runs() if run.name == name)
    os.environ.update(run.case.env)
    importlib.import_module("torch")
    try:
        run.case.function(run.api())
    except tools.Skipped as skipped:
        print(skipped)
        return SKIPPED
    except BaseException:
        traceback.print_exc(file=sys.stdout)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
