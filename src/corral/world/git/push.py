"""Pushes of branches to a remote: in the user's name, with their settings, and with a token that no argument shows."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Sequence

from corral.model.errors import BadRequest, CorralError
from corral.world import process
from corral.world.git.repository import Repository
from corral.world.process import ProcessStart
from corral.world.proxy.secret import PLACEHOLDER, SecretValue

ADDRESS = re.compile(r"https?://[^\s\x1b]+")
CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")
MOST_WORDS = 400
SECONDS = 300.0


async def push(
    repository: Repository,
    remote: str,
    ref: str,
    *,
    before: str,
    token: tuple[SecretValue, str] | None = None,
    options: Sequence[str] = (),
) -> str:
    """Push a branch; return what the remote said. It is replaced only where it is at `before` (empty: not there).

    A token comes with the one host that it is for.
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
        hint = (
            f"look at it: git fetch {remote} {branch}; remove it there if nobody needs it: git push {remote} :{branch}"
        )
        raise BadRequest(f"{branch} on {remote} has commits that corral did not push; nothing was pushed", hint=hint)
    said = " ".join(words.strip()[-MOST_WORDS:].split())
    raise PushRefused(f"git push to {remote} failed: {said}", hint=f"try it by hand: git push {remote} {branch}")


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
