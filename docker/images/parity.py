"""Holds built images against each other: what may differ between vendors, and what may not."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from images.contents import IMAGE_JSON, Contents, differing, in_site, shown
from images.pins import BACKENDS

VENDORS = tuple((backend,) for backend in BACKENDS.values())
"""The backends of the two images: one each."""

OWN_LABELS = (
    "org.dormant.variant",
    "org.dormant.backend",
    "org.opencontainers.image.base.name",
    "org.opencontainers.image.base.digest",
    "org.dormant.base-stand-in",
)
"""Labels in which a vendor's image is its own."""

REVISION = "org.opencontainers.image.revision"

# Of what they say, the vendor's words and what hashes of different files come to.
_FOLLOW = ("org.dormant.inputs", "org.dormant.recipe", "org.opencontainers.image.title")
_COMPARED = ("org.dormant.", "org.opencontainers.image.")
"""What ours begin with; others come from the base or from what built the image."""
_ABOUT = ("revision",)


def compare(one: Contents, other: Contents) -> list[str]:
    """Where two images, of one vendor each, are not the same but for the vendor."""
    found = [f"{image.name}: {problem}" for image in (one, other) for problem in image.problems]
    if one.identity is None or other.identity is None:
        # Without a library nothing else says more.
        return found
    return [
        *found,
        *_backends(one, other),
        *_identities(one, other),
        *_paths(one, other),
        *_python(one, other),
        *_labels(one, other),
    ]


def _backends(one: Contents, other: Contents) -> Iterator[str]:
    for image in (one, other):
        if image.identity and image.identity.features not in VENDORS:
            yield (
                f"{image.name} has the backends {shown(image.identity.features)}, "
                "and is to have exactly one vendor's"
            )
    if one.identity and other.identity and one.identity.features == other.identity.features:
        yield f"both images have the backends {shown(one.identity.features)}"


def _identities(one: Contents, other: Contents) -> Iterator[str]:
    mine, theirs = one.identity, other.identity
    if mine is None or theirs is None:
        return
    for name in differing(mine, theirs, without=("features",)):
        if name == "guarantees":
            for image, has, lacks in (
                (one, mine, theirs),
                (other, theirs, mine),
            ):
                for guarantee in sorted(set(has.guarantees) - set(lacks.guarantees)):
                    yield f"guarantee {guarantee}: {image.name} alone gives it"
            if sorted(mine.guarantees) == sorted(theirs.guarantees):
                yield "guarantees: the same, in another order"
        else:
            yield (
                f"{name}: {one.name} has {shown(getattr(mine, name))}, "
                f"{other.name} has {shown(getattr(theirs, name))}"
            )


def _paths(one: Contents, other: Contents) -> Iterator[str]:
    """The same native files at the same places."""

    def places(image: Contents) -> set[str]:
        return {_place(path) for path, _ in image.identities()}

    yield from _only(one, other, places(one), places(other))


def _place(path: str) -> str:
    return in_site(path) or path


def _python(one: Contents, other: Contents) -> Iterator[str]:
    yield from _only(one, other, set(one.python), set(other.python))
    for path in sorted(one.python.keys() & other.python.keys()):
        if one.python[path] != other.python[path]:
            yield f"{path} is not the same in {one.name} and {other.name}"


def _only(one: Contents, other: Contents, mine: set[str], theirs: set[str]) -> Iterator[str]:
    for image, paths in ((one, mine - theirs), (other, theirs - mine)):
        for path in sorted(paths):
            yield f"{path} is in {image.name} alone"


def _labels(one: Contents, other: Contents) -> Iterator[str]:
    mine, theirs = one.image.labels, other.image.labels
    if mine is not None and theirs is not None:
        for label in sorted(mine.keys() | theirs.keys()):
            if not label.startswith(_COMPARED):
                continue
            if label in OWN_LABELS or label in _FOLLOW:
                differs = (label in mine) != (label in theirs)
            else:
                differs = mine.get(label) != theirs.get(label)
            if differs:
                yield (
                    f"label {label}: {one.name} has {mine.get(label)!r}, "
                    f"{other.name} has {theirs.get(label)!r}"
                )
    for image in (one, other):
        yield from _own_label(image)
    for key in _ABOUT:
        said = [(image.about or {}).get(key) for image in (one, other)]
        if said[0] != said[1]:
            yield f"{key}: {one.name} says {said[0]!r}, {other.name} says {said[1]!r}"


def _own_label(image: Contents) -> Iterator[str]:
    """What an image says of itself must be true of its library."""
    if image.identity is None:
        return
    labels, about = image.image.labels or {}, image.about or {}
    backend, commit = shown(image.identity.features), shown(image.identity.commit)
    for where, said, truth in (
        ("label org.dormant.backend", labels.get("org.dormant.backend"), backend),
        (IMAGE_JSON, about.get("backend"), backend),
        (f"label {REVISION}", labels.get(REVISION), commit),
        (IMAGE_JSON, about.get("revision"), commit),
    ):
        if said and said != truth:
            yield f"{image.name}: {where} says {said}, and the library is {truth}"


def same_library(images: Sequence[Contents]) -> list[str]:
    """Where images of one vendor do not have the very same library, for each processor."""
    found = [f"{image.name}: {problem}" for image in images for problem in image.problems]
    by_target: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    backends = {image.identity.features for image in images if image.identity}
    for image in images:
        if image.identity is not None:
            for digest in image.libraries().values():
                names = by_target[image.identity.target][digest]
                if image.name not in names:
                    names.append(image.name)
    if len(backends) > 1:
        said = "; ".join(sorted(shown(one) for one in backends))
        found.append(f"the images have different backends: {said}")
    for target, digests in by_target.items():
        if len(digests) > 1:
            said = "; ".join(f"{digest[:12]} in {', '.join(n)}" for digest, n in digests.items())
            found.append(f"{target}: the library is not one file: {said}")
    return found
