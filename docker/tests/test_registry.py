import base64
import json
import socket

import pytest
from fake_registry import (
    DOCKER_LIST,
    DOCKER_MANIFEST,
    OCI_INDEX,
    OCI_MANIFEST,
    FakeRegistry,
    digest_of,
)

from images.errors import Absent, Denied, ImagesError, Unreachable
from images.reference import Reference
from images.registry import Registry
from images.tokens import Credentials

BOTH = ("linux/amd64", "linux/arm64")


@pytest.mark.parametrize("media_type", [OCI_INDEX, DOCKER_LIST])
def test_an_index_gives_its_digest_and_those_of_its_platforms(
    fake: FakeRegistry, client: Registry, media_type: str
) -> None:
    images = {"linux/amd64": "sha256:" + "1" * 64, "linux/arm64/v8": "sha256:" + "2" * 64}
    digest = fake.add_index("a/b", "1", images | {"unknown/unknown": "sha256:" + "3" * 64})
    fake.add_index("a/b", "1", images, media_type)
    found = client.image(fake.reference("a/b:1"))
    assert found.platforms == dict(zip(BOTH, images.values(), strict=True))
    # By digest the first one is there too; its attestation is no platform.
    first = client.image(fake.reference(f"a/b@{digest}"))
    assert (first.digest, first.platforms) == (digest, found.platforms)


@pytest.mark.parametrize("media_type", [OCI_MANIFEST, DOCKER_MANIFEST])
def test_a_single_manifest_is_of_the_platform_in_its_configuration(
    fake: FakeRegistry, client: Registry, media_type: str
) -> None:
    digest = fake.add_image("a/b", None, "linux/amd64", "1", media_type)
    found = client.image(fake.reference("a/b:1"))
    assert (found.digest, found.platforms) == (digest, {"linux/amd64": digest})


def test_labels_are_read_for_each_platform(fake: FakeRegistry, client: Registry) -> None:
    digest = fake.release("a/b", "1", {"linux/amd64": {"x": "1"}, "linux/arm64": None})
    assert client.labels(fake.reference("a/b:1")) == (
        digest,
        {"linux/amd64": {"x": "1"}, "linux/arm64": {}},
    )


@pytest.mark.parametrize("key", ["token", "access_token"])
def test_a_token_is_asked_for_anonymously_and_once(
    fake: FakeRegistry, client: Registry, key: str
) -> None:
    fake.login, fake.token_key = "bearer", key
    fake.release("a/b", "1", {"linux/amd64": {"x": "1"}})
    assert client.labels(fake.reference("a/b:1"))[1] == {"linux/amd64": {"x": "1"}}
    tokens = [request for request in fake.requests if request.path.startswith("/token")]
    assert [request.authorization for request in tokens] == [None]
    assert "scope=repository%3Aa%2Fb%3Apull" in tokens[0].path


def test_a_token_that_has_run_out_is_replaced(fake: FakeRegistry, client: Registry) -> None:
    fake.login = "bearer"
    fake.add_image("a/b", None, tag="1")
    client.image(fake.reference("a/b:1"))
    fake.token = "another"
    client.image(fake.reference("a/b:1"))


@pytest.mark.parametrize("login", ["bearer", "basic"])
def test_credentials_go_to_their_own_host_only(fake: FakeRegistry, login: str) -> None:
    fake.login = login
    fake.user = "Basic " + base64.b64encode(b"me:secret").decode()
    fake.add_image("a/b", None, tag="1")
    Registry(Credentials(fake.host, "me", "secret"), 2.0, ()).image(fake.reference("a/b:1"))
    before = len(fake.requests)
    with pytest.raises(Denied):
        Registry(Credentials("other.example", "me", "secret"), 2.0, ()).image(
            fake.reference("a/b:1")
        )
    assert all(request.authorization is None for request in fake.requests[before:])


def test_credentials_do_not_follow_a_redirect(fake: FakeRegistry, client: Registry) -> None:
    fake.login = "bearer"
    with FakeRegistry() as elsewhere:
        fake.add_image("a/b", {"x": "1"}, tag="1")
        elsewhere.blobs, fake.blobs_elsewhere = fake.blobs, elsewhere
        _, labels = client.labels(fake.reference("a/b:1"))
        assert labels == {"linux/amd64": {"x": "1"}}
        assert [request.authorization for request in elsewhere.requests] == [None]


def test_credentials_come_from_the_environment_whole_or_not_at_all() -> None:
    assert Credentials.from_environment({}) is None
    three = {
        "IMAGES_REGISTRY": "ghcr.io",
        "IMAGES_REGISTRY_USER": "me",
        "IMAGES_REGISTRY_PASSWORD": "secret",
    }
    found = Credentials.from_environment(three)
    assert found == Credentials("ghcr.io", "me", "secret")
    assert "secret" not in repr(found)
    with pytest.raises(ImagesError, match="without IMAGES_REGISTRY_PASSWORD"):
        Credentials.from_environment({**three, "IMAGES_REGISTRY_PASSWORD": ""})


def test_without_encryption_no_token_is_fetched(client: Registry) -> None:
    from images.tokens import Login

    reference = Reference.parse("ghcr.io/a/b:1")
    with pytest.raises(Denied, match="without encryption"):
        Login.answer('Bearer realm="http://ghcr.io/token"', reference, None, client.fetch)


@pytest.mark.parametrize(
    ("login", "status", "body", "kind", "words"),
    [
        ("bearer", 401, None, Denied, "token service answers 401"),
        ("bearer", 403, None, Denied, "token service answers 403"),
        ("bearer", 500, None, Unreachable, "token service answers 500"),
        ("bearer", 200, b"<html>", Unreachable, "does not answer JSON"),
        ("bearer", 200, b"{}", Unreachable, "gave no token"),
        ("bearer", 200, b'{"token": "wrong"}', Denied, "refused the login it asked for"),
        ("basic", 200, None, Denied, "wants a user"),
    ],
)
def test_a_login_that_fails(
    fake: FakeRegistry,
    client: Registry,
    login: str,
    status: int,
    body: bytes | None,
    kind: type[Exception],
    words: str,
) -> None:
    fake.login, fake.token_status, fake.token_body = login, status, body
    fake.user = "Basic other" if login == "basic" else None
    fake.add_image("a/b", None, tag="1")
    with pytest.raises(kind, match=words):
        client.image(fake.reference("a/b:1"))


@pytest.mark.parametrize(
    ("status", "kind"),
    [(403, Denied), (404, Absent), (429, Unreachable), (500, Unreachable), (503, Unreachable)],
)
def test_what_the_registry_answers(
    fake: FakeRegistry, client: Registry, status: int, kind: type[Exception]
) -> None:
    fake.add_image("a/b", None, tag="1")
    fake.status = status
    with pytest.raises(kind, match=str(status)):
        client.image(fake.reference("a/b:1"))


def test_an_image_that_is_not_there(fake: FakeRegistry, client: Registry) -> None:
    with pytest.raises(Absent):
        client.labels(fake.reference("a/b:1"))


@pytest.mark.parametrize("lost", ["manifest", "configuration"])
def test_a_part_that_is_not_there_is_not_the_image_absent(
    fake: FakeRegistry, client: Registry, lost: str
) -> None:
    digest = fake.add_image("a/b", None)
    fake.add_index("a/b", "1", {"linux/amd64": digest})
    if lost == "manifest":
        del fake.manifests["a/b", digest]
    else:
        fake.blobs.clear()
    with pytest.raises(Unreachable, match="is not there"):
        client.labels(fake.reference("a/b:1"))


def test_a_second_try_after_no_answer_but_not_after_a_clear_one(fake: FakeRegistry) -> None:
    fake.add_image("a/b", None, tag="1")
    patient = Registry(timeout=2.0, pauses=(0.0, 0.0))
    fake.status, fake.times = 502, 2
    patient.image(fake.reference("a/b:1"))
    fake.requests.clear()
    fake.status, fake.times = 404, -1
    with pytest.raises(Absent):
        patient.image(fake.reference("a/b:1"))
    assert len(fake.requests) == 1


def test_a_registry_that_is_silent(fake: FakeRegistry) -> None:
    fake.add_image("a/b", None, tag="1")
    fake.seconds = 0.5
    with pytest.raises(Unreachable, match="timed out"):
        Registry(timeout=0.1, pauses=()).image(fake.reference("a/b:1"))


def test_a_registry_that_is_not_there(client: Registry) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(Unreachable, match="refused"):
            client.image(Reference.parse(f"{host}/a/b:1"))


def test_a_host_that_has_no_address(client: Registry) -> None:
    with pytest.raises(Unreachable, match="no answer"):
        client.image(Reference.parse("registry.invalid/a/b:1"))


def test_contents_are_held_against_their_digests(fake: FakeRegistry, client: Registry) -> None:
    digest = fake.add_image("a/b", None, tag="1")
    fake.digest_header = "sha256:" + "0" * 64
    with pytest.raises(Unreachable, match="not sha256:0000"):
        client.image(fake.reference("a/b:1"))
    fake.digest_header = None
    fake.manifests["a/b", digest] = (OCI_MANIFEST, b"{}")
    with pytest.raises(Unreachable, match=f"not {digest}"):
        client.image(fake.reference(f"a/b@{digest}"))
    config = next(iter(fake.blobs))
    fake.blobs[config] = b"{}"
    with pytest.raises(Unreachable, match=f"not {config}"):
        client.image(fake.reference("a/b:1"))


def test_an_answer_that_is_cut_short(fake: FakeRegistry, client: Registry) -> None:
    fake.add_image("a/b", None, tag="1")
    fake.cut_short = True
    with pytest.raises(Unreachable, match=r"not as announced|IncompleteRead"):
        client.image(fake.reference("a/b:1"))


def test_an_answer_that_is_too_large(
    fake: FakeRegistry, client: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.add_image("a/b", None, tag="1")
    monkeypatch.setattr("images.registry.LARGEST", 10)
    with pytest.raises(Unreachable, match="not as announced"):
        client.image(fake.reference("a/b:1"))


@pytest.mark.parametrize(
    ("media_type", "content", "words"),
    [
        ("application/vnd.docker.distribution.manifest.v1+json", {}, "unknown kind"),
        (OCI_INDEX, {}, "without a list"),
        (OCI_INDEX, {"manifests": []}, "without any platform"),
        (OCI_INDEX, {"manifests": [{"digest": "sha256:1"}]}, "without platform or digest"),
        (
            OCI_INDEX,
            {"manifests": [{"platform": {"os": "linux"}, "digest": "x"}]},
            "which platform",
        ),
        (OCI_MANIFEST, {}, "names no configuration"),
    ],
)
def test_contents_that_make_no_sense(
    fake: FakeRegistry,
    client: Registry,
    media_type: str,
    content: dict[str, object],
    words: str,
) -> None:
    fake.add("a/b", media_type, content, "1")
    with pytest.raises(Unreachable, match=words):
        client.image(fake.reference("a/b:1"))


def test_an_index_with_a_platform_twice(fake: FakeRegistry, client: Registry) -> None:
    fake.add_index("a/b", "1", {"linux/arm64": "sha256:1", "linux/arm64/v8": "sha256:2"})
    with pytest.raises(Unreachable, match="twice"):
        client.image(fake.reference("a/b:1"))


def test_an_answer_that_is_no_json(fake: FakeRegistry, client: Registry) -> None:
    fake.manifests["a/b", "1"] = (OCI_MANIFEST, b"<html>")
    with pytest.raises(Unreachable, match="not JSON"):
        client.image(fake.reference("a/b:1"))
    body = json.dumps([1]).encode()
    fake.manifests["a/b", digest_of(body)] = (OCI_MANIFEST, body)
    with pytest.raises(Unreachable, match="no JSON object"):
        client.image(fake.reference(f"a/b@{digest_of(body)}"))


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("docker.io/nvidia/cuda:1", "https://registry-1.docker.io/v2/nvidia/cuda"),
        ("ghcr.io/o/dormant-cuda:cuda-13.0", "https://ghcr.io/v2/o/dormant-cuda"),
        ("localhost:5000/a:1", "http://localhost:5000/v2/a"),
        ("[::1]:5000/a:1", "http://[::1]:5000/v2/a"),
        ("r.example:5000/a/b/c@sha256:" + "0" * 64, "https://r.example:5000/v2/a/b/c"),
    ],
)
def test_names(text: str, url: str) -> None:
    reference = Reference.parse(text)
    assert (str(reference), reference.url) == (text, url)


@pytest.mark.parametrize(
    "text",
    [
        "cuda",
        "nvidia/cuda:1",
        "ghcr.io/Owner/a:1",
        "ghcr.io/a:1@sha256:12",
        "ghcr.io/",
        "ghcr.io/a b",
    ],
)
def test_names_that_are_not_whole(text: str) -> None:
    with pytest.raises(ImagesError, match="no full image name"):
        Reference.parse(text)
