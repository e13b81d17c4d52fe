"""Remotes of a repository: which forge they are on, where its web pages are; pushes and fetches in the user's name."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from msgspec import Struct, structs

from corral.model.errors import BadRequest, CorralError
from corral.model.forge import ForgeKind, ForgeSettings
from corral.world import process
from corral.world.git.repository import Repository
from corral.world.process import ProcessStart
from corral.world.proxy.secret import PLACEHOLDER, SecretValue

HOSTS: dict[str, ForgeKind] = {
    "github.com": "github", "gitlab.com": "gitlab", "codeberg.org": "forgejo", "gitea.com": "gitea",
}  # fmt: skip
API: dict[ForgeKind, str] = {"github": "/api/v3", "gitlab": "/api/v4", "forgejo": "/api/v1", "gitea": "/api/v1"}
SCP = re.compile(r"(?:[^@/]+@)?(?P<host>[^:/]+):(?P<path>[^/].*)")
ADDRESS = re.compile(r"https?://[^\s\x1b]+")
CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")
MOST_WORDS = 400
SECONDS = 300.0
FORK = 'name the remote of your fork in config.toml: [forge] fork = "REMOTE"'


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


async def fork_of(repository: Repository, settings: ForgeSettings, place: ForgePlace) -> tuple[str, str] | None:
    """Return the remote of the user's fork of a repository, and its path on the forge; None where none is named."""
    if not settings.fork:
        return None
    if settings.fork not in (await repository.text("remote")).split():
        hint = f"git remote add {settings.fork} URL, with the address of your fork"
        raise BadRequest(f'[forge] fork = "{settings.fork}": there is no such remote', hint=hint)
    found = place_of(await repository.text("remote", "get-url", "--push", settings.fork), settings)
    if found is None or found.host != place.host:
        raise BadRequest(
            f'[forge] fork = "{settings.fork}": it is not on {place.host}',
            hint="a fork is on the same forge as the repository",
        )
    return (settings.fork, found.path) if found.path != place.path else None


async def push(  # noqa: PLR0913 -- what a push needs
    repository: Repository,
    remote: str,
    ref: str,
    *,
    before: str,
    say: Callable[[str], None],
    token: tuple[SecretValue, str] | None = None,
    options: Sequence[str] = (),
) -> str:
    """Push a branch; return what the remote said. It is replaced only where it is at `before` (empty: not there).

    One that was deleted there is pushed anew. A token comes with the one host that it is for.
    """
    lease = f"--force-with-lease={ref}:{before}"
    chosen = [word for option in options for word in ("--push-option", option)]
    argv = ["git", "-c", "core.hooksPath=/dev/null", "push", "--porcelain", lease, *chosen, remote, f"{ref}:{ref}"]
    url = await repository.text("remote", "get-url", "--push", remote)
    env = {**os.environ, "GIT_TERMINAL_PROMPT": "0", **_credentials(url, token)}
    start = ProcessStart(argv=argv, env=env, cwd=str(repository.folder), owner=repository.owner)
    ended = await process.run(start, timeout=SECONDS)
    words = _without_secrets(f"{ended.out.decode(errors='replace')}\n{ended.err.decode(errors='replace')}", token)
    if ended.code == 0:
        return words
    branch = ref.removeprefix("refs/heads/")
    if "stale info" in words:
        listed = structs.replace(start, argv=["git", "ls-remote", "--refs", remote, ref])
        there = await process.run(listed, timeout=SECONDS)
        if before and there.code == 0 and not there.out.strip():
            say(f"{branch} was deleted on {remote}: it is pushed anew")
            return await push(repository, remote, ref, before="", say=say, token=token, options=options)
        hint = (
            f"look at it: git fetch {remote} {branch}; remove it there if nobody needs it: git push {remote} :{branch}"
        )
        words = f"{branch} on {remote} has commits that corral did not push; nothing was pushed"
        raise ForeignCommits(words, hint=hint)
    said = " ".join(words.strip()[-MOST_WORDS:].split())
    raise PushRefused(
        f"git push to {remote} failed: {said}",
        hint=f"try it by hand: git push {remote} {branch}; if you may not, {FORK}",
    )


async def fetch(repository: Repository, commit: str) -> None:
    """Fetch a commit from the remote; no ref is written."""
    remote, _ = await push_remote(repository)
    words = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--refmap=")
    argv = ["git", "-c", "core.hooksPath=/dev/null", *words, remote, commit]
    env = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    start = ProcessStart(argv=argv, env=env, cwd=str(repository.folder), owner=repository.owner)
    ended = await process.run(start, timeout=SECONDS)
    if ended.code:
        said = " ".join(_without_secrets(ended.err.decode(errors="replace"), None).strip()[-MOST_WORDS:].split())
        raise BadRequest(f"git fetch {remote} {commit[:12]} failed: {said}", hint=f"try it by hand: git fetch {remote}")


class ForeignCommits(BadRequest):
    """Others have pushed to the branch."""


class PushRefused(CorralError):
    """The remote takes no push: no permission, a protected branch, no connection."""


def addresses(said: str) -> list[str]:
    """Return the addresses that a remote printed."""
    spoken = "\n".join(line for line in said.splitlines() if line.startswith("remote:"))
    return [found.group() for found in ADDRESS.finditer(spoken)]


def _credentials(url: str, token: tuple[SecretValue, str] | None) -> dict[str, str]:
    """Return settings that hand a token to git: through the environment, and for its host alone."""
    host = CREDENTIALS.sub("", url).split("/", 3)
    if token is None or not url.startswith(("http://", "https://")) or host[2] != token[1]:
        return {}
    pair = base64.b64encode(f"x-access-token:{token[0].reveal()}".encode()).decode()
    count = int(os.environ.get("GIT_CONFIG_COUNT", "0") or 0)
    return {
        "GIT_CONFIG_COUNT": str(count + 1),
        f"GIT_CONFIG_KEY_{count}": f"http.{'/'.join(host[:3])}/.extraHeader",
        f"GIT_CONFIG_VALUE_{count}": f"Authorization: Basic {pair}",
    }


def _without_secrets(words: str, token: tuple[SecretValue, str] | None) -> str:
    found = CREDENTIALS.sub(f"{PLACEHOLDER}@", words)
    return found.replace(token[0].reveal(), PLACEHOLDER) if token else found
