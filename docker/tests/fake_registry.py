"""A registry on this machine, with every fault that the tests want."""

import hashlib
import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from images.reference import Reference

OCI_INDEX = "application/vnd.oci.image.index.v1+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def digest_of(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


@dataclass
class Request:
    path: str
    authorization: str | None


@dataclass
class FakeRegistry:
    # Of "repository" and "tag or digest", and of blobs' digests.
    manifests: dict[tuple[str, str], tuple[str, bytes]] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    # "bearer" or "basic" to want a login; the token, and the user that it is given to.
    login: str | None = None
    token: str = "let-me-in"
    token_key: str = "token"
    token_status: int = 200
    token_body: bytes | None = None
    user: str | None = None
    # Answers all manifests with this status, this many times (-1: always).
    status: int = 0
    times: int = -1
    seconds: float = 0.0
    cut_short: bool = False
    blobs_elsewhere: "FakeRegistry | None" = None
    digest_header: str | None = None
    requests: list[Request] = field(default_factory=list)

    def __enter__(self) -> "FakeRegistry":
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                fake.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server.server_address[1]}"

    def reference(self, rest: str) -> Reference:
        return Reference.parse(f"{self.host}/{rest}")

    def add(self, repository: str, media_type: str, content: dict[str, Any], tag: str = "") -> str:
        body = json.dumps({"schemaVersion": 2, "mediaType": media_type, **content}).encode()
        digest = digest_of(body)
        for name in filter(None, (digest, tag)):
            self.manifests[repository, name] = (media_type, body)
        return digest

    def add_image(
        self,
        repository: str,
        labels: dict[str, str] | None,
        platform: str = "linux/amd64",
        tag: str = "",
        media_type: str = OCI_MANIFEST,
    ) -> str:
        system, processor, *_ = platform.split("/")
        config = {"os": system, "architecture": processor, "config": {"Labels": labels}}
        body = json.dumps(config).encode()
        self.blobs[digest_of(body)] = body
        return self.add(repository, media_type, {"config": {"digest": digest_of(body)}}, tag)

    def add_index(
        self, repository: str, tag: str, images: dict[str, str], media_type: str = OCI_INDEX
    ) -> str:
        entries = []
        for platform, digest in images.items():
            system, processor, *kind = platform.split("/")
            about = {"os": system, "architecture": processor}
            about |= {"variant": kind[0]} if kind else {}
            entries.append({"digest": digest, "platform": about})
        return self.add(repository, media_type, {"manifests": entries}, tag)

    def release(self, repository: str, tag: str, labels: dict[str, dict[str, str] | None]) -> str:
        images = {
            platform: self.add_image(repository, of, platform) for platform, of in labels.items()
        }
        return self.add_index(repository, tag, images)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        authorization = handler.headers.get("Authorization")
        self.requests.append(Request(handler.path, authorization))
        url = urlsplit(handler.path)
        if url.path == "/token":
            return self._give_token(handler, parse_qs(url.query), authorization)
        expected = {"bearer": f"Bearer {self.token}", "basic": self.user}.get(self.login or "")
        if expected is not None and authorization != expected:
            challenge = f'Bearer realm="http://{self.host}/token",service="fake"'
            if self.login == "basic":
                challenge = 'Basic realm="fake"'
            return self._send(handler, 401, b"", {"WWW-Authenticate": challenge})
        _, _, rest = url.path.partition("/v2/")
        for kind in ("manifests", "blobs"):
            repository, found, name = rest.partition(f"/{kind}/")
            if found:
                return self._give(handler, kind, repository, name)
        return self._send(handler, 400, b"", {})

    def _give(self, handler: BaseHTTPRequestHandler, kind: str, repository: str, name: str) -> None:
        time.sleep(self.seconds)
        if self.status and self.times != 0:
            self.times -= 1
            return self._send(handler, self.status, b"", {})
        if kind == "blobs" and self.blobs_elsewhere is not None:
            where = f"http://{self.blobs_elsewhere.host}/v2/any/blobs/{name}"
            return self._send(handler, 307, b"", {"Location": where})
        media_type, body = "application/octet-stream", self.blobs.get(name)
        if kind == "manifests":
            media_type, body = self.manifests.get((repository, name), (media_type, None))
        if body is None:
            return self._send(handler, 404, b"{}", {})
        headers = {"Content-Type": media_type}
        if kind == "manifests":
            headers["Docker-Content-Digest"] = self.digest_header or digest_of(body)
        return self._send(handler, 200, body, headers)

    def _give_token(
        self,
        handler: BaseHTTPRequestHandler,
        query: dict[str, list[str]],
        authorization: str | None,
    ) -> None:
        if query.get("service") != ["fake"] or not query.get("scope", [""])[0].endswith(":pull"):
            return self._send(handler, 400, b"", {})
        if self.user is not None and authorization != self.user:
            return self._send(handler, 401, b"", {})
        body = json.dumps({self.token_key: self.token}).encode()
        return self._send(
            handler,
            self.token_status,
            body if self.token_body is None else self.token_body,
            {},
        )

    def _send(
        self, handler: BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str]
    ) -> None:
        try:
            handler.send_response(status)
            for name, value in headers.items():
                handler.send_header(name, value)
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body[: len(body) // 2] if self.cut_short else body)
        except OSError:
            pass  # The client has gone: it was to time out.
