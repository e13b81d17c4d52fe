"""What is known of the machines of the user's settings: asked now, all at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from corral.config import loader
from corral.config.settings import MachineProfile
from corral.engine.context import Context
from corral.machines.calls import MachineFacts, RayNode
from corral.machines.remote.link import MachineLink, current_links
from corral.model import Level
from corral.model.errors import BadRequest, CorralError

ASK_SECONDS, CLUSTER_SECONDS = 20.0, 120.0


class MachineReport(Struct, frozen=True, kw_only=True):
    """One machine: whether attempts can run there, and what it has."""

    name: str
    ok: bool  #: attempts can run there now
    reachable: bool
    error: str | None = None  #: why they cannot
    hint: str | None = None
    command: tuple[str, ...]
    ray: str | None = None  #: the address of its Ray cluster
    nodes: tuple[RayNode, ...] = ()  #: of that cluster
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    slots: int
    slots_used: int
    version: str | None = None
    python: str | None = None
    platform: str | None = None
    arch: str | None = None
    cores: int | None = None
    memory_mb: int | None = None
    sandbox: Level | None = None  #: the level there
    sandbox_reason: str | None = None  #: why it is not higher
    programs: Mapping[str, str] = field(default_factory=dict[str, str])  #: agent -> where its program is


async def list_machines(context: Context, names: Sequence[str] = ()) -> list[MachineReport]:
    """Report on all machines, or on those that are named."""
    profiles = loader.load(None).machines
    for name in names:
        if name not in profiles:
            known = ", ".join(profiles) or "none; [machines.NAME] in your config.toml makes one"
            raise BadRequest(f"there is no machine `{name}`", hint=f"known: {known}")
    used = context.store.slots.by_machine()
    links = current_links(context.home)
    wanted = {name: each for name, each in profiles.items() if not names or name in names}
    asked = (_report(links.link(name, each), each, used.get(name, 0)) for name, each in wanted.items())
    return list(await asyncio.gather(*asked))


async def _report(link: MachineLink, profile: MachineProfile, used: int) -> MachineReport:
    facts: MachineFacts | None = None
    error = hint = None
    try:
        async with asyncio.timeout(CLUSTER_SECONDS if profile.ray else ASK_SECONDS):
            await link.connect()
        facts = link.facts
        if facts:
            link.check(facts)
    except TimeoutError:
        error = f"the machine `{link.name}` did not answer within {ASK_SECONDS:.0f} s"
    except CorralError as trouble:
        error, hint = str(trouble), trouble.hint or None
    return MachineReport(
        name=link.name,
        ok=error is None,
        reachable=facts is not None,
        error=error,
        hint=hint,
        command=profile.command,
        ray=profile.ray,
        nodes=facts.nodes if facts else (),
        labels=profile.labels,
        slots=profile.slots,
        slots_used=used,
        version=facts.version if facts else None,
        python=facts.python if facts else None,
        platform=facts.platform if facts else None,
        arch=facts.arch if facts else None,
        cores=facts.cores or None if facts else None,
        memory_mb=facts.memory_mb or None if facts else None,
        sandbox=facts.level if facts and not profile.ray else None,
        sandbox_reason=(facts.reason or None) if facts else None,
        programs=facts.programs if facts else {},
    )
