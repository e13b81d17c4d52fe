"""Remotes of a repository: which forge they are on, and where its web pages and its API are."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from msgspec import Struct

from corral.model.errors import BadRequest
from corral.model.forge import ForgeKind, ForgeSettings
from corral.world.git.repository import Repository

HOSTS: dict[str, ForgeKind] = {
    "github.com": "github", "gitlab.com": "gitlab", "codeberg.org": "forgejo", "gitea.com": "gitea",
}  # fmt: skip
API: dict[ForgeKind, str] = {"github": "/api/v3", "gitlab": "/api/v4", "forgejo": "/api/v1", "gitea": "/api/v1"}
SCP = re.compile(r"(?:[^@/]+@)?(?P<host>[^:/]+):(?P<path>[^/].*)")


class ForgePlace(Struct, frozen=True, kw_only=True):
    """A repository on a forge."""

    kind: ForgeKind
    host: str  #: with its port
    web: str  #: address of the forge, without the repository
    api: str  #: empty: it has none that we know
    path: str  #: `owner/name`

    @property
    def page(self) -> str:
        return f"{self.web}/{self.path}"


def place_of(url: str, settings: ForgeSettings) -> ForgePlace | None:
    """Return where a remote is; None of one that is no forge, such as a folder."""
    found = _split(url)
    if found is None:
        return None
    scheme, host, path = found
    web = settings.url if settings.url and host.partition(":")[0] not in HOSTS else None
    if web is not None:
        parts = urlsplit(web)
        scheme, host = parts.scheme, parts.netloc.rpartition("@")[2]
    return known_place(scheme, host, path, settings)


def known_place(scheme: str, host: str, path: str, settings: ForgeSettings) -> ForgePlace:
    """Return a repository on a host, with the API that the kind of its forge has."""
    kind: ForgeKind = HOSTS.get(host) or settings.kind or "other"
    web = f"{scheme}://{host}"
    api = "https://api.github.com" if host == "github.com" else f"{web}{API[kind]}" if kind in API else ""
    own = settings.url.rstrip("/") if settings.url and host not in HOSTS else ""
    if own and kind in API:
        api = own if kind == "github" or own.endswith(API[kind]) else f"{own}{API[kind]}"
        web = own.removesuffix(API[kind])
    return ForgePlace(kind=kind, host=host, web=web, api=api, path=path)


def _split(url: str) -> tuple[str, str, str] | None:
    """Return scheme, host with port, and path of a remote; credentials in it are left out."""
    parts = urlsplit(url)
    if parts.scheme in ("http", "https", "ssh", "git+ssh", "git") and parts.hostname:
        plain = parts.scheme in ("http", "https")
        scheme, port = (parts.scheme, parts.port) if plain else ("https", None)
        return scheme, f"{parts.hostname}:{port}" if port else parts.hostname, _path(parts.path)
    found = SCP.fullmatch(url) if "://" not in url else None
    return ("https", found["host"], _path(found["path"])) if found else None


def _path(text: str) -> str:
    return text.strip("/").removesuffix(".git")


async def push_remote(repository: Repository) -> tuple[str, str]:
    """Return the remote that work is pushed to, and its address."""
    remotes = (await repository.text("remote")).split()
    if not remotes:
        raise BadRequest("the repository has no remote to push to", hint="git remote add origin URL")
    remote = "origin" if "origin" in remotes else remotes[0]
    return remote, await repository.text("remote", "get-url", "--push", remote)
