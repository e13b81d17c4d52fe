"""Keys of agents, tried at their provider before anything starts, where it has a call that costs nothing."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from corral.machines.network import provider_url
from corral.machines.resolved_agent import ResolvedAgent
from corral.model.errors import BadRequest
from corral.world import http_client

FILE = "keys.json"  #: of the state folder: what was tried, by a hash; never a key
GOOD_SECONDS = 3600.0  #: a key that was taken is not tried again for so long
SILENT_SECONDS = 300.0  #: the same where no answer said anything
ANSWER_SECONDS = 3.0
MOST_ANSWER = 4000
LOGIN_TOKEN = "sk-ant-oat"  # noqa: S105 -- how the tokens of a subscription begin


class KeyTrial(Struct, frozen=True, kw_only=True):
    """One request that tells whether a key is good."""

    agent: str
    variable: str
    place: str  #: the provider's address
    url: str
    headers: dict[str, str]

    @property
    def digest(self) -> str:
        return hashlib.sha256(msgspec.json.encode((self.url, sorted(self.headers.items())))).hexdigest()


async def check(agents: Sequence[ResolvedAgent], state: Path, *, anew: bool = False) -> None:
    """Refuse a key that its provider refuses; what is silent, or answers anything else, is left to the agent."""
    for resolved in agents:
        trial = trial_of(resolved)
        if trial is None or (not anew and _is_known(state, trial.digest)):
            continue
        answer = await _ask(trial)
        if answer is not None and _refuses(answer):
            raise BadRequest(
                f"{trial.place} refuses the key of the agent `{trial.agent}` in {trial.variable} ({answer.status})",
                hint=f"set another one; if the key is good: [agents.{trial.agent}] try_key = false",
            )
        _remember(state, trial.digest, GOOD_SECONDS if answer and answer.status == 200 else SILENT_SECONDS)


def trial_of(resolved: ResolvedAgent) -> KeyTrial | None:
    """Return how to try the key of an agent; None where it has none, is logged in, or its provider has no free call."""
    provider = resolved.agent.facts.provider
    variable = key_variable(resolved)
    if provider is None or variable is None:
        return None
    base = provider_url(provider.address, resolved.env.get(provider.address) or provider.standard).rstrip("/")
    key = resolved.env[variable]
    asked: tuple[str, dict[str, str]] | None = None
    if provider.address == "ANTHROPIC_BASE_URL":
        named = {"authorization": f"Bearer {key}"} if variable == "ANTHROPIC_AUTH_TOKEN" else {"x-api-key": key}
        asked = "/v1/models?limit=1", {**named, "anthropic-version": "2023-06-01"}
    elif provider.address == "OPENAI_BASE_URL":
        asked = "/models", {"authorization": f"Bearer {key}"}
    elif provider.address == "GOOGLE_GEMINI_BASE_URL":
        asked = "/v1beta/models?pageSize=1", {"x-goog-api-key": key}
    if asked is None or not base:
        return None
    return KeyTrial(agent=resolved.name, variable=variable, place=base, url=base + asked[0], headers=asked[1])


def key_variable(resolved: ResolvedAgent) -> str | None:
    """Return the variable whose key an agent's provider gets; None for a login, and where settings say not to try."""
    provider = resolved.agent.facts.provider
    if provider is None or not resolved.profile.try_key:
        return None
    variable = next((name for name in provider.keys if resolved.env.get(name)), None)
    return None if variable is None or resolved.env[variable].startswith(LOGIN_TOKEN) else variable


async def _ask(trial: KeyTrial) -> http_client.HttpAnswer | None:
    asking = asyncio.to_thread(
        http_client.exchange, "GET", trial.url, trial.headers, most=MOST_ANSWER, seconds=ANSWER_SECONDS
    )
    try:
        return await asyncio.wait_for(asking, 2 * ANSWER_SECONDS)
    except TimeoutError:
        return None


def _refuses(answer: http_client.HttpAnswer) -> bool:
    """Tell whether an answer is about the key as such: one that may not list models may still ask them."""
    words = answer.body.decode(errors="replace").lower()
    if answer.status == 401:
        return "scope" not in words and "permission" not in words
    return answer.status == 400 and "api_key_invalid" in words  # Google's


def _is_known(state: Path, digest: str) -> bool:
    return _tried_keys(state).get(digest, 0.0) > time.time()


def _tried_keys(state: Path) -> dict[str, float]:
    """Return until when each key need not be tried again."""
    try:
        found = msgspec.json.decode((state / FILE).read_bytes(), type=dict[str, float])
    except (OSError, msgspec.DecodeError):
        return {}
    now = time.time()
    return {digest: until for digest, until in found.items() if now < until <= now + GOOD_SECONDS}


def _remember(state: Path, digest: str, seconds: float) -> None:
    known = {**_tried_keys(state), digest: time.time() + seconds}
    part = state / f"{FILE}.{os.getpid()}"
    with contextlib.suppress(OSError):  # it is tried again
        part.touch(mode=0o600)
        part.write_bytes(msgspec.json.encode(known))
        part.replace(state / FILE)
