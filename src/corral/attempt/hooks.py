"""Hooks: the user's programs at a moment of an attempt. A failing one before the start blocks, with its words."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from corral.attempt.events import AttemptEvents
from corral.config.paths import fingerprint
from corral.machines.host import Host
from corral.model import ENCODER
from corral.model.agent_api import Hook
from corral.model.errors import Blocked, CorralError
from corral.model.flow import Node
from corral.world import process
from corral.world.process import ProcessStart

SECONDS = 120.0


async def run(moment: str, hooks: Sequence[Hook], about: Mapping[str, str | None]) -> None:
    """Run the hooks of a moment in order; the first that fails raises `Blocked`."""
    for hook in hooks:
        fits = all(fnmatchcase(about.get(key) or "", getattr(hook, key)) for key in ("agent", "model", "type"))
        if hook.on != moment or not fits:
            continue
        try:
            await _ask(hook, moment, about)
        except Blocked as error:
            error.moment = moment
            raise


async def _ask(hook: Hook, moment: str, about: Mapping[str, str | None]) -> None:
    if hook.fingerprint and await asyncio.to_thread(fingerprint, Path(hook.file)) != hook.fingerprint:
        raise Blocked(
            f"the hook `{hook.run or hook.python}` or a file that it starts has changed since you trusted it",
            hint="read it, then `corral trust`",
        )
    if hook.run:
        await _shell(hook, hook.run, moment, about)
    elif hook.python:
        await asyncio.to_thread(_python, hook.python, moment, about)


async def _shell(hook: Hook, command: str, moment: str, about: Mapping[str, str | None]) -> None:
    variables = {f"CORRAL_{key.upper()}": value for key, value in about.items() if value and key != "prompt"}
    start = ProcessStart(
        argv=["/bin/sh", "-c", command],
        env={**os.environ, **variables, "CORRAL_HOOK": moment},
        cwd=str(Path(hook.file).parent) if hook.file else None,
        stdin=ENCODER.encode({"hook": moment, **about}) + b"\n",
    )
    try:
        finished = await process.run(start, timeout=SECONDS)
    except CorralError as error:
        raise Blocked(f"the hook `{command}`: {error}", hint="see [hooks] in your settings") from error
    if finished.code != 0:
        words = (finished.err or finished.out).decode(errors="replace").strip().splitlines()
        raise Blocked(
            f"the hook `{command}` says no" + (f": {words[-1]}" if words else f" (it ended with {finished.code})"),
            hint="its last line says why; see [hooks] in your settings",
        )


def _python(name: str, moment: str, about: Mapping[str, str | None]) -> None:
    module, _, function = name.partition(":")
    try:
        getattr(importlib.import_module(module), function)({"hook": moment, **about})
    except Exception as error:  # whatever a user's function raises is its way of saying no
        raise Blocked(f"the hook `{name}` says no: {error}", hint="see [hooks] in your settings") from error


def about(attempt_events: AttemptEvents, node: Node, host: Host) -> dict[str, str | None]:
    """Return the facts that a hook gets."""
    plan, attempt = host.plan, attempt_events.attempt
    return {
        "run": attempt_events.record.run,
        "attempt": attempt.id,
        "agent": attempt.agent,
        "model": attempt.model,
        "type": node.task.type,
        "repo": plan.repo,
        "branch": attempt.branch,
    }
