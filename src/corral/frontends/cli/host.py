"""`corral host`: the far end of a machine, on stdin and stdout."""

from __future__ import annotations

import asyncio
import sys

import click

from corral.config.paths import home
from corral.machines.far_end.server import run_host
from corral.model.errors import BadRequest


@click.command()
def host() -> int:
    """Serve engines of other machines on stdin and stdout. An engine starts it, e.g. by `ssh box1 corral host`.

    One process of a machine holds all attempts there; a second one passes on to it. Attempts whose engine is gone end
    by their lease.
    """
    if sys.stdin.isatty():
        raise BadRequest(
            "this command speaks with a corral engine on stdin and stdout",
            hint='[machines.NAME] command = ["ssh", "NAME", "corral", "host"] in the config.toml of the engine',
        )
    return asyncio.run(run_host(home() / "host"))
