"""Names of images in registries."""

import re
from dataclasses import dataclass

from images.errors import ImagesError

_PATTERN = re.compile(
    r"(?P<host>[A-Za-z0-9.-]+|\[[0-9a-f:]+\])(?P<port>:[0-9]+)?"
    r"/(?P<repository>[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)


@dataclass(frozen=True)
class Reference:
    """An image's full name: host, repository, and a tag, a digest, both or neither."""

    host: str
    repository: str
    tag: str | None = None
    digest: str | None = None

    @classmethod
    def parse(cls, text: str) -> "Reference":
        """Read `HOST/NAME[:TAG][@sha256:...]`; nothing is filled in."""
        match = _PATTERN.fullmatch(text)
        host = (match["host"] + (match["port"] or "")) if match else ""
        if match is None or not (re.search(r"[.:]", host) or host == "localhost"):
            raise ImagesError(
                f"{text!r} is no full image name (HOST/NAME[:TAG][@sha256:...], "
                "docker.io/library/debian:12 for example)"
            )
        return cls(host, match["repository"], match["tag"], match["digest"])

    @property
    def name(self) -> str:
        """Host and repository."""
        return f"{self.host}/{self.repository}"

    @property
    def is_local(self) -> bool:
        """Whether the registry is this machine, which may speak plain HTTP."""
        host = self.host if self.host.startswith("[") else self.host.partition(":")[0]
        return host in ("localhost", "127.0.0.1") or host.startswith("[::1]")

    @property
    def url(self) -> str:
        """Where the registry's programming interface has this repository."""
        host = "registry-1.docker.io" if self.host == "docker.io" else self.host
        return f"{'http' if self.is_local else 'https'}://{host}/v2/{self.repository}"

    def at(self, digest: str) -> str:
        """Return `name@digest`: exactly one content, whatever happens to tags."""
        return f"{self.name}@{digest}"

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return self.name + tag + (f"@{self.digest}" if self.digest else "")
