import itertools

import pytest

from images.decide import (
    Decision,
    Found,
    Labels,
    NoAnswer,
    NotAllowed,
    NotThere,
    Released,
    Verdict,
    Wanted,
    decide,
)
from images.reference import Reference

NAME = Reference.parse("ghcr.io/owner/dormant-cuda")
DIGEST = "sha256:" + "d" * 64
AMD64, ARM64 = "linux/amd64", "linux/arm64"
REGISTRY = ("no answer", "denied", "absent", "no platforms", "mixed", "same")
INPUTS = ("equal", "differ", "no label")
RECIPE = ("equal", "differ", "no label")
REVISION = ("known", "no label")
PLATFORMS = ("all", "one missing", "none wanted")
FLAGS = (False, True)


def label(which: str, equal: str) -> str | None:
    return {"equal": equal, "differ": "other", "no label": None}[which]


def found(registry: str, inputs: str, recipe: str, revision: str, platforms: str) -> Found:
    match registry:
        case "no answer":
            return NoAnswer("timed out")
        case "denied":
            return NotAllowed("403")
        case "absent":
            return NotThere()
        case "no platforms":
            return Released(DIGEST, {})
    of = Labels(label(inputs, "i"), label(recipe, "r"), "c" if revision == "known" else None)
    there = {"all": [AMD64, ARM64], "one missing": [AMD64], "none wanted": ["linux/s390x"]}[
        platforms
    ]
    images = dict.fromkeys(there, of)
    if registry == "mixed":
        images["linux/riscv64"] = Labels("else", of.recipe, of.revision)
    return Released(DIGEST, images)


def expected(
    registry: str,
    inputs: str,
    revision: str,
    platforms: str,
    forced: bool,
    may_publish: bool,
    resolved: bool,
) -> Verdict:
    """Say it in another way: from the rights down, not from the registry up."""
    if registry in ("no answer", "denied", "no platforms"):
        return Verdict.STOP
    same = (
        registry == "same"
        and (inputs, revision, platforms) == ("equal", "known", "all")
        and not forced
    )
    if same:
        return Verdict.REUSE
    if registry == "mixed" and not (forced and may_publish):
        return Verdict.STOP
    if may_publish:
        return Verdict.REBUILD if resolved else Verdict.STOP
    usable = registry == "same" and platforms != "none wanted"
    return Verdict.OVERLAY if usable else Verdict.STOP


COMBINATIONS = list(
    itertools.product(REGISTRY, INPUTS, RECIPE, REVISION, PLATFORMS, FLAGS, FLAGS, FLAGS)
)


def test_every_combination() -> None:
    seen: dict[Verdict, int] = dict.fromkeys(Verdict, 0)
    for combination in COMBINATIONS:
        registry, inputs, recipe, revision, platforms, forced, may_publish, resolved = combination
        wanted = Wanted((AMD64, ARM64), "i", "r", () if resolved else ("docker.io/a/b:1",))
        released = found(registry, inputs, recipe, revision, platforms)
        decision = decide(wanted, released, NAME, forced=forced, may_publish=may_publish)
        verdict = expected(registry, inputs, revision, platforms, forced, may_publish, resolved)
        assert decision.verdict is verdict, (combination, decision)
        seen[verdict] += 1
        used = verdict in (Verdict.REUSE, Verdict.OVERLAY)
        assert decision.image == (f"ghcr.io/owner/dormant-cuda@{DIGEST}" if used else None)
        if verdict is Verdict.REUSE:
            assert decision.revision == "c"
        if verdict is Verdict.OVERLAY:
            says_so = "proves the wheel, not the recipe" in decision.reason
            assert says_so == (recipe != "equal"), (combination, decision)
        assert decision.reason
    assert all(seen.values()), seen
    assert len(COMBINATIONS) == 6 * 3 * 3 * 2 * 3 * 8


def one(
    registry: str = "same", *, inputs: str = "equal", platforms: str = "all", **flags: bool
) -> Decision:
    resolved = flags.pop("resolved", True)
    wanted = Wanted((AMD64, ARM64), "i", "r", () if resolved else ("docker.io/a/b:1",))
    flags = {"forced": False, "may_publish": True} | flags
    return decide(wanted, found(registry, inputs, "equal", "known", platforms), NAME, **flags)


@pytest.mark.parametrize(
    ("decision", "words"),
    [
        (one("no answer"), ["cannot be known", "timed out"]),
        (one("denied"), ["may not be seen", "403"]),
        (one("absent"), ["none is released"]),
        (one("absent", may_publish=False), ["nothing to overlay", "no right to publish"]),
        (one("mixed"), ["different things", "linux/riscv64: inputs else", "forced rebuild"]),
        (one("mixed", forced=True), ["forced, for all platforms"]),
        (one(forced=True), ["forced, with equal inputs"]),
        (one(inputs="differ"), ["the inputs differ: released other, here i"]),
        (one(inputs="differ", forced=True), ["forced; the inputs differ"]),
        (one(inputs="no label"), ["no label org.dormant.inputs"]),
        (one(platforms="one missing"), ["lacks linux/arm64"]),
        (one(inputs="differ", resolved=False), ["no digest is known of docker.io/a/b:1"]),
        (one(inputs="differ", may_publish=False), ["no right to publish", "the inputs differ"]),
        (one(), ["the same inputs"]),
    ],
)
def test_reasons(decision: Decision, words: list[str]) -> None:
    for word in words:
        assert word in decision.reason
