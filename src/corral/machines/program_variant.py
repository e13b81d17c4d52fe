"""Which of two programs of one name is installed: asked once, remembered for that very file."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec
from msgspec import structs

from corral import agents
from corral.machines.resolved_agent import ResolvedAgent
from corral.model.errors import CorralError
from corral.world import process
from corral.world.process import ProcessStart

SECONDS = 30.0


async def resolve_variant(resolved: ResolvedAgent, state: Path) -> ResolvedAgent:
    """Return the agent, set up for the program that is really there."""
    form = resolved.agent.facts.form
    if form is None or form.otherwise[0] in resolved.profile.settings:
        return resolved
    program = resolved.program(resolved.profile.program or resolved.agent.facts.programs[0])
    if await _has_sign(program, form.ask, form.sign, state / "forms.json"):
        return resolved
    profile = structs.replace(
        resolved.profile, settings={**resolved.profile.settings, form.otherwise[0]: form.otherwise[1]}
    )
    return structs.replace(resolved, agent=agents.find(resolved.name, {resolved.name: profile}), profile=profile)


async def _has_sign(program: Path, ask: tuple[str, ...], sign: str, cache: Path) -> bool:
    key = f"{program.resolve()} {program.stat().st_mtime_ns} {sign}"
    known: dict[str, bool] = {}
    with contextlib.suppress(OSError, msgspec.DecodeError):
        known = msgspec.json.decode(cache.read_bytes(), type=dict[str, bool])
    if key in known:
        return known[key]
    try:
        env = {"PATH": os.environ.get("PATH", ""), "HOME": str(cache.parent), "NO_COLOR": "1"}
        told = await process.run(ProcessStart(argv=[str(program), *ask], env=env), timeout=SECONDS)
    except CorralError:
        return True  # it cannot say: it is taken for the usual one, and its own failure will tell
    answer = sign.encode() in told.out + told.err
    with contextlib.suppress(OSError):
        cache.write_bytes(msgspec.json.encode({**known, key: answer}))
    return answer
