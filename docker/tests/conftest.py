import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

DOCKER = Path(__file__).resolve().parents[1]
for folder in (DOCKER, DOCKER / "tests"):
    sys.path.insert(0, str(folder))

from fake_registry import FakeRegistry  # noqa: E402
from small_repository import Repository, small_repository  # noqa: E402

from images.registry import Registry  # noqa: E402


@pytest.fixture
def root() -> Path:
    return DOCKER.parent


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    with FakeRegistry() as registry:
        yield registry


@pytest.fixture
def client() -> Registry:
    return Registry(timeout=2.0, pauses=())


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return small_repository(tmp_path / "repository")
