"""Logging in at a registry: the challenge it answers with, and the token that it wants."""

import base64
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPMessage

from images.errors import Denied, ImagesError, Unreachable
from images.reference import Reference

VARIABLES = ("IMAGES_REGISTRY", "IMAGES_REGISTRY_USER", "IMAGES_REGISTRY_PASSWORD")
_PARAMETER = re.compile(r'([A-Za-z_]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,]+))')

Fetch = Callable[[urllib.request.Request, bool], tuple[bytes, HTTPMessage]]


@dataclass(frozen=True)
class Credentials:
    """A user's name and password, for one host only."""

    host: str
    user: str
    password: str

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Credentials | None":
        """Take them from IMAGES_REGISTRY, IMAGES_REGISTRY_USER and IMAGES_REGISTRY_PASSWORD."""
        given = [name for name in VARIABLES if environment.get(name)]
        if not given:
            return None
        if missing := [name for name in VARIABLES if name not in given]:
            raise ImagesError(f"{' and '.join(given)} without {' and '.join(missing)}")
        return cls(*(environment[name] for name in VARIABLES))

    def __repr__(self) -> str:
        return f"Credentials(host={self.host!r}, user={self.user!r})"

    @property
    def header(self) -> str:
        """The value of a header for basic authentication."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


@dataclass(frozen=True, repr=False)
class Login:
    """What to send as `Authorization`."""

    header: str

    @classmethod
    def answer(
        cls, challenge: str, reference: Reference, credentials: Credentials | None, fetch: Fetch
    ) -> "Login":
        """Do what a `WWW-Authenticate` header asks for; anonymously without credentials."""
        ours = credentials if credentials and credentials.host == reference.host else None
        scheme, _, rest = challenge.strip().partition(" ")
        if scheme.lower() == "basic":
            if ours is None:
                raise Denied(f"{reference}: the registry wants a user ({', '.join(VARIABLES)})")
            return cls(ours.header)
        given = {key.lower(): quoted or plain for key, quoted, plain in _PARAMETER.findall(rest)}
        realm = given.get("realm")
        if scheme.lower() != "bearer" or not realm:
            raise Denied(f"{reference}: the registry asks for an unknown login: {challenge!r}")
        if not realm.startswith("https://") and not reference.is_local:
            raise Denied(f"{reference}: the registry sends us to {realm} without encryption")
        query = {"service": given["service"]} if "service" in given else {}
        query["scope"] = given.get("scope") or f"repository:{reference.repository}:pull"
        separator = "&" if urllib.parse.urlsplit(realm).query else "?"
        request = urllib.request.Request(realm + separator + urllib.parse.urlencode(query))
        if ours is not None:
            request.add_unredirected_header("Authorization", ours.header)
        return cls("Bearer " + _token(request, reference, fetch))


def _token(request: urllib.request.Request, reference: Reference, fetch: Fetch) -> str:
    try:
        body, _ = fetch(request, reference.is_local)
    except urllib.error.HTTPError as error:
        words = f"{reference}: its token service answers {error.code}"
        raise (Denied if error.code in (401, 403) else Unreachable)(words) from error
    try:
        answer = json.loads(body)
    except ValueError as error:
        raise Unreachable(f"{reference}: its token service does not answer JSON") from error
    token = (
        (answer.get("token") or answer.get("access_token")) if isinstance(answer, dict) else None
    )
    if not isinstance(token, str):
        raise Unreachable(f"{reference}: its token service gave no token")
    return token
