"""Read the person's settings and a repository's, and make one of both."""

from __future__ import annotations

from pathlib import Path

from corral.config import policies
from corral.config.agents import accounts_of, agents_of, mcp_of
from corral.config.files import SettingsFile, convert
from corral.config.money import budget_of
from corral.config.paths import REPOSITORY_FILE, person_file
from corral.config.scopes import scopes_of
from corral.config.settings import Config, Notify, Telemetry
from corral.model.errors import BadRequest


def load(repo: Path | None, *, trusted: str | None = None) -> Config:
    """Read both files; the repository's adds and narrows, and its powerful keys need trust.

    `trusted` is the fingerprint by which the person trusts the repository's file; None: they do not.
    """
    mine = SettingsFile.read(person_file())
    theirs = SettingsFile.read(repo / REPOSITORY_FILE) if repo else SettingsFile(Path(), {}, "")
    agents, untrusted = agents_of(mine, theirs, trusted=trusted is not None)
    setup = policies.setup(mine)
    if "workspace" in theirs.tables:
        if trusted:
            setup = policies.setup(theirs)
        else:
            untrusted["workspace"] = theirs.where("workspace")
    hooks = policies.hooks(mine)
    if "hooks" in theirs.tables:
        if trusted:
            hooks += policies.hooks(theirs, trusted)
        else:
            untrusted["hooks"] = theirs.where("hooks")
    mcp = mcp_of(mine)
    if "mcp" in theirs.tables:
        if trusted:
            mcp |= mcp_of(theirs)
        else:
            untrusted["mcp"] = theirs.where("mcp")
    _refuse_private(theirs)
    retry = policies.retry(mine, theirs)
    return Config(
        defaults=policies.defaults(mine, theirs),
        agents=agents,
        accounts=accounts_of(mine, agents),
        retry=retry,
        retries_asked=retry.most if "most" in {*mine.table("retry"), *theirs.table("retry")} else None,
        setup=setup,
        condense=policies.condense(mine, theirs),
        hooks=hooks,
        scopes=(*scopes_of(mine, agents, narrows=False), *scopes_of(theirs, agents, narrows=True)),
        mcp=mcp,
        toolbox=policies.toolbox(mine, theirs),
        budget=budget_of(mine, theirs),
        limits=policies.slot_limits(mine, theirs),
        evidence=policies.evidence(mine, theirs),
        routing=(*policies.routing(mine), *policies.routing(theirs)),
        complexity=policies.complexity(mine, theirs),
        trusted=trusted is not None,
        untrusted=untrusted,
    )


def _refuse_private(theirs: SettingsFile) -> None:
    """Refuse what a repository has no say in."""
    for name in ("notify", "accounts", "telemetry"):
        if name in theirs.tables:
            raise BadRequest(f"{theirs.where(name)}: [{name}] is yours to say", hint=f"put it into {person_file()}")


def notify() -> Notify:
    """Read how the person wants to be told; a repository has no say in it."""
    mine = SettingsFile.read(person_file())
    ways = convert(mine.table("notify"), Notify, mine, "notify")
    if ways.webhook and not ways.webhook.startswith(("http://", "https://")):
        raise BadRequest(f"{mine.where('notify', 'webhook')}: a webhook begins with http:// or https://")
    return ways


def telemetry() -> Telemetry:
    """Read whom the person wants told of runs and attempts; a repository has no say in it."""
    mine = SettingsFile.read(person_file())
    told = convert(mine.table("telemetry"), Telemetry, mine, "telemetry")
    if told.otlp is not None and not told.otlp.startswith(("http://", "https://")):
        raise BadRequest(f"{mine.where('telemetry', 'otlp')}: a collector begins with http:// or https://")
    return told
