"""Decides what to do for an image: reuse it, rebuild it, put a wheel over it, or stop.

`decide` is a pure function; `images.released` asks the registry and `images.plan` is the program.
"""

import enum
from dataclasses import dataclass

from images.reference import Reference

LABEL_INPUTS = "org.dormant.inputs"
LABEL_RECIPE = "org.dormant.recipe"
LABEL_REVISION = "org.opencontainers.image.revision"


class Verdict(enum.StrEnum):
    """What to do."""

    REUSE = "reuse"
    REBUILD = "rebuild"
    OVERLAY = "overlay"
    STOP = "stop"


@dataclass(frozen=True)
class Labels:
    """What a released image says it was made from; none where it has no such label."""

    inputs: str | None
    recipe: str | None
    revision: str | None


@dataclass(frozen=True)
class NotThere:
    """The registry has no such image."""


@dataclass(frozen=True)
class NotAllowed:
    """The registry does not let us see it."""

    reason: str


@dataclass(frozen=True)
class NoAnswer:
    """The registry could not be asked, or answered what cannot be believed."""

    reason: str


@dataclass(frozen=True)
class Released:
    """The registry has it: the digest of the whole, and the labels of each platform."""

    digest: str
    platforms: dict[str, Labels]


Found = NotThere | NotAllowed | NoAnswer | Released


@dataclass(frozen=True)
class Wanted:
    """What an image of this tree would be made from."""

    platforms: tuple[str, ...]
    inputs: str
    recipe: str
    # Images whose digest the lock does not know: nothing may be built on them.
    unresolved: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decision:
    """The verdict with its reason in words.

    `image` is `name@sha256:...` where a released image is used, `revision` the commit that its
    library says it was built from.
    """

    verdict: Verdict
    reason: str
    image: str | None = None
    revision: str | None = None


def decide(
    wanted: Wanted, found: Found, name: Reference, *, forced: bool, may_publish: bool
) -> Decision:
    """Decide for one image."""
    match found:
        case NoAnswer(reason):
            return _stop(f"what is released cannot be known: {reason}")
        case NotAllowed(reason):
            return _stop(f"what is released may not be seen: {reason}")
        case NotThere():
            if may_publish:
                return _rebuild(wanted, "none is released")
            return _stop(
                "none is released, so there is nothing to overlay, and no right to publish"
            )
        case Released():
            return _decide_released(wanted, found, name, forced=forced, may_publish=may_publish)


def _decide_released(
    wanted: Wanted, found: Released, name: Reference, *, forced: bool, may_publish: bool
) -> Decision:
    if not found.platforms:
        return _stop(f"{name.at(found.digest)} has no platform at all")
    if len(set(found.platforms.values())) > 1:
        mixed = "; ".join(
            f"{platform}: inputs {of.inputs}, recipe {of.recipe}, commit {of.revision}"
            for platform, of in sorted(found.platforms.items())
        )
        words = f"the released platforms were made from different things: {mixed}"
        if forced and may_publish:
            return _rebuild(wanted, f"forced, for all platforms; {words}")
        return _stop(f"{words}; a forced rebuild replaces them all")
    labels = next(iter(found.platforms.values()))
    differences = _differences(wanted, found, labels)
    if not differences and not forced:
        return Decision(
            Verdict.REUSE,
            "made from the same inputs",
            name.at(found.digest),
            labels.revision,
        )
    why = "; ".join(differences) or "forced, with equal inputs"
    if forced and differences:
        why = f"forced; {why}"
    if may_publish:
        return _rebuild(wanted, why)
    if not any(platform in found.platforms for platform in wanted.platforms):
        return _stop(f"{why}; nothing to overlay for {', '.join(wanted.platforms)}")
    if labels.recipe != wanted.recipe:
        why += "; the recipe differs too: an overlay proves the wheel, not the recipe"
    return Decision(
        Verdict.OVERLAY,
        f"no right to publish; {why}",
        name.at(found.digest),
        labels.revision,
    )


def _differences(wanted: Wanted, found: Released, labels: Labels) -> list[str]:
    differences = []
    if labels.inputs is None:
        differences.append(f"the released image has no label {LABEL_INPUTS}")
    elif labels.inputs != wanted.inputs:
        differences.append(f"the inputs differ: released {labels.inputs}, here {wanted.inputs}")
    elif labels.revision is None:
        differences.append(f"the released image has no label {LABEL_REVISION}")
    missing = [platform for platform in wanted.platforms if platform not in found.platforms]
    if missing:
        differences.append(f"the released image lacks {', '.join(missing)}")
    return differences


def _rebuild(wanted: Wanted, why: str) -> Decision:
    if wanted.unresolved:
        names = ", ".join(wanted.unresolved)
        return _stop(
            f"{why}; but a build is impossible: no digest is known of {names} (docker/lock)"
        )
    return Decision(Verdict.REBUILD, why)


def _stop(reason: str) -> Decision:
    return Decision(Verdict.STOP, reason)
