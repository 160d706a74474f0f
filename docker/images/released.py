"""Finds out what is released under a name."""

from images.decide import (
    LABEL_INPUTS,
    LABEL_RECIPE,
    LABEL_REVISION,
    Found,
    Labels,
    NoAnswer,
    NotAllowed,
    NotThere,
    Released,
)
from images.errors import Absent, Denied, Unreachable
from images.reference import Reference
from images.registry import Registry


def find(registry: Registry, reference: Reference) -> Found:
    """Ask the registry; every way to fail has its own answer."""
    try:
        digest, platforms = registry.labels(reference)
    except Absent:
        return NotThere()
    except Denied as error:
        return NotAllowed(str(error))
    except Unreachable as error:
        return NoAnswer(str(error))
    return Released(
        digest,
        {
            platform: Labels(
                labels.get(LABEL_INPUTS), labels.get(LABEL_RECIPE), labels.get(LABEL_REVISION)
            )
            for platform, labels in platforms.items()
        },
    )
