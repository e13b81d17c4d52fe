"""What this machine says of itself to engines."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

from corral import agents
from corral.machines.calls import MachineFacts
from corral.machines.resolved_agent import BRIDGE
from corral.model.agent_api import AgentProfile
from corral.model.errors import CorralError
from corral.version import __version__
from corral.world.sandbox import program_files
from corral.world.sandbox.probe import probe


async def gather_facts(state: Path, attempts: int) -> MachineFacts:
    """Look at this machine: its sandbox, its programs, its size."""
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    held = await probe(state / "probe.json")
    pages, page = (os.sysconf(name) if name in os.sysconf_names else 0 for name in ("SC_PHYS_PAGES", "SC_PAGE_SIZE"))
    return MachineFacts(
        version=__version__,
        python=platform.python_version(),
        interpreter=os.path.realpath(sys.executable),
        bridge=str(BRIDGE),
        platform=sys.platform,
        arch=platform.machine(),
        level=held.level,
        reason=held.reason,
        programs=_programs(),
        memory_mb=pages * page >> 20,
        cores=os.cpu_count() or 1,
        attempts=attempts,
    )


def _programs() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in agents.names({}):
        try:
            programs = agents.find(name, {name: AgentProfile()}).facts.programs
        except CorralError:
            continue
        paths = [program_files.find(program, os.environ) for program in programs]
        if first := next((path for path in paths if path), None):
            found[name] = str(first)
    return found
