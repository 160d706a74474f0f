"""Asks registries about images: the Docker Registry HTTP API, version 2, with `urllib` only."""

import hashlib
import http.client
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from images.errors import Absent, Denied, ImagesError, Unreachable
from images.reference import Reference
from images.tokens import Credentials, Login

INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
LARGEST = 8 << 20


@dataclass(frozen=True)
class Manifest:
    """A manifest or index whose content has been held against its digest."""

    digest: str
    media_type: str
    content: dict[str, Any]

    @property
    def is_index(self) -> bool:
        """Whether it lists manifests of platforms."""
        return self.media_type in INDEXES


@dataclass(frozen=True)
class Image:
    """What a name stands for: its own digest and that of each platform."""

    digest: str
    platforms: dict[str, str]


@dataclass
class Registry:
    """A client for one or several registries; it only reads."""

    credentials: Credentials | None = None
    timeout: float = 20.0
    pauses: tuple[float, ...] = (1.0, 4.0)
    logins: dict[str, Login] = field(default_factory=dict)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Registry":
        """Use the credentials that the environment has, if any."""
        return cls(Credentials.from_environment(environment))

    def image(self, reference: Reference) -> Image:
        """Return the digests that a reference stands for now."""
        top = self.manifest(reference)
        if top.is_index:
            if not (platforms := _platforms(top, reference)):
                raise Unreachable(f"{reference}: an index without any platform")
            return Image(top.digest, platforms)
        config = self._config(reference, top)
        return Image(top.digest, {_platform(config, str(reference)): top.digest})

    def labels(self, reference: Reference) -> tuple[str, dict[str, dict[str, str]]]:
        """Return the digest of the whole and the labels of each platform's image."""
        top = self.manifest(reference)
        if not top.is_index:
            config = self._config(reference, top)
            return top.digest, {_platform(config, str(reference)): _labels(config)}
        found = {}
        for platform, digest in _platforms(top, reference).items():
            part = Reference(reference.host, reference.repository, digest=digest)
            try:
                manifest = self.manifest(part)
            except Absent as error:
                raise Unreachable(f"{reference}: its {platform} is not there: {error}") from error
            if manifest.is_index:
                raise Unreachable(f"{part}: an index inside an index")
            found[platform] = _labels(self._config(part, manifest))
        return top.digest, found

    def manifest(self, reference: Reference) -> Manifest:
        """Return a manifest or index by tag or digest."""
        wanted = reference.digest or reference.tag
        if wanted is None:
            raise ImagesError(f"{reference} has neither tag nor digest")
        accept = ", ".join((*INDEXES, *MANIFESTS))
        body, headers = self._get(reference, f"manifests/{wanted}", accept)
        digest = "sha256:" + hashlib.sha256(body).hexdigest()
        for said in (reference.digest, headers.get("Docker-Content-Digest")):
            if said is not None and said != digest:
                raise Unreachable(f"{reference}: the content is {digest}, not {said}")
        content = _json(body, str(reference))
        media_type = content.get("mediaType") or headers.get_content_type()
        if media_type not in INDEXES + MANIFESTS:
            raise Unreachable(f"{reference}: a manifest of an unknown kind, {media_type}")
        return Manifest(digest, media_type, content)

    def _config(self, reference: Reference, manifest: Manifest) -> dict[str, Any]:
        config = manifest.content.get("config")
        digest = config.get("digest") if isinstance(config, dict) else None
        if not isinstance(digest, str):
            raise Unreachable(f"{reference}: the manifest names no configuration")
        try:
            body, _ = self._get(reference, f"blobs/{digest}", "*/*")
        except Absent as error:
            raise Unreachable(f"{reference}: its configuration is not there: {error}") from error
        found = "sha256:" + hashlib.sha256(body).hexdigest()
        if found != digest:
            raise Unreachable(f"{reference}: the configuration is {found}, not {digest}")
        return _json(body, f"{reference}'s configuration")

    def _get(
        self, reference: Reference, path: str, accept: str
    ) -> tuple[bytes, http.client.HTTPMessage]:
        """Get once more after each pause, as long as there is no answer at all."""
        for pause in self.pauses:
            try:
                return self._get_with_login(reference, path, accept)
            except Unreachable:
                time.sleep(pause)
        return self._get_with_login(reference, path, accept)

    def _get_with_login(
        self, reference: Reference, path: str, accept: str
    ) -> tuple[bytes, http.client.HTTPMessage]:
        url = f"{reference.url}/{path}"
        login = self.logins.get(reference.name)
        try:
            return self._open(reference, url, accept, login)
        except _Challenged as challenge:
            # Also where a login had been given: those run out.
            login = Login.answer(challenge.header, reference, self.credentials, self.fetch)
        try:
            answer = self._open(reference, url, accept, login)
        except _Challenged as challenge:
            raise Denied(f"{reference}: the registry refused the login it asked for") from challenge
        self.logins[reference.name] = login
        return answer

    def _open(
        self, reference: Reference, url: str, accept: str, login: Login | None
    ) -> tuple[bytes, http.client.HTTPMessage]:
        request = urllib.request.Request(url, headers={"Accept": accept})
        if login is not None:
            # Not handed on when the registry redirects to another host.
            request.add_unredirected_header("Authorization", login.header)
        try:
            return self.fetch(request, reference.is_local)
        except urllib.error.HTTPError as error:
            if error.code == 401:
                raise _Challenged(error.headers.get("WWW-Authenticate", "")) from error
            if error.code == 403:
                raise Denied(f"{reference}: the registry answers 403, forbidden") from error
            if error.code == 404:
                raise Absent(f"{reference}: the registry answers 404, not there") from error
            raise Unreachable(f"{reference}: the registry answers {error.code}") from error

    def fetch(
        self, request: urllib.request.Request, is_local: bool
    ) -> tuple[bytes, http.client.HTTPMessage]:
        """Open one request; every failure but `HTTPError` becomes `Unreachable`."""
        proxies = urllib.request.ProxyHandler({} if is_local else None)
        try:
            with urllib.request.build_opener(proxies).open(request, timeout=self.timeout) as answer:
                body: bytes = answer.read(LARGEST + 1)
                headers: http.client.HTTPMessage = answer.headers
                expected = headers.get("Content-Length")
        except urllib.error.HTTPError:
            raise
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise Unreachable(
                f"{request.full_url}: no answer: {reason or type(reason).__name__}"
            ) from error
        if len(body) > LARGEST or (expected is not None and expected != str(len(body))):
            raise Unreachable(
                f"{request.full_url}: an answer of {expected} bytes, not as announced"
            )
        return body, headers


class _Challenged(Exception):
    """The registry wants a login first; `header` says how."""

    def __init__(self, header: str) -> None:
        super().__init__(header)
        self.header = header


def _platforms(index: Manifest, reference: Reference) -> dict[str, str]:
    platforms: dict[str, str] = {}
    entries = index.content.get("manifests")
    if not isinstance(entries, list):
        raise Unreachable(f"{reference}: an index without a list of manifests")
    for entry in entries:
        about = entry.get("platform") if isinstance(entry, dict) else None
        if not isinstance(about, dict) or not isinstance(entry.get("digest"), str):
            raise Unreachable(f"{reference}: an index entry without platform or digest")
        if about.get("os") == "unknown":
            continue  # Attestations of the build.
        platform = _platform(about, str(reference))
        if platform in platforms:
            raise Unreachable(f"{reference}: the index has {platform} twice")
        platforms[platform] = entry["digest"]
    return platforms


def _platform(about: Mapping[str, Any], where: str) -> str:
    system, processor, kind = (about.get(k) for k in ("os", "architecture", "variant"))
    if not isinstance(system, str) or not isinstance(processor, str):
        raise Unreachable(f"{where}: does not say which platform it is for")
    if kind and (processor, kind) != ("arm64", "v8"):  # arm64 is v8, said or not.
        return f"{system}/{processor}/{kind}"
    return f"{system}/{processor}"


def _labels(config: dict[str, Any]) -> dict[str, str]:
    inner = config.get("config")
    labels = inner.get("Labels") if isinstance(inner, dict) else None
    return {str(k): str(v) for k, v in labels.items()} if isinstance(labels, dict) else {}


def _json(body: bytes, where: str) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError as error:
        raise Unreachable(f"{where}: the answer is not JSON") from error
    if not isinstance(value, dict):
        raise Unreachable(f"{where}: the answer is no JSON object")
    return value
