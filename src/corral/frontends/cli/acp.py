"""`corral acp`: the engine for editors, by ACP on stdio; and the choice of a default agent, on a terminal."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from corral.model.errors import BadRequest


@click.command()
@click.option(
    "--ask-seconds",
    type=click.FloatRange(min=0.1),
    metavar="N",
    help="Seconds for the editor to answer a question; after that it stays in the inbox.  [default: 600]",
)
@click.option("--setup", is_flag=True, help="Check what can run here, and choose a default agent, on a terminal.")
def acp(*, ask_seconds: float | None, setup: bool) -> int:
    """Serve ACP on stdin and stdout. Your editor starts it.

    Zed: "agent_servers": {"Corral": {"type": "custom", "command": "corral", "args": ["acp"]}}
    """
    if setup:
        return choose_agent()
    if sys.stdin.isatty():
        from corral.engine.editors import NAMES  # noqa: PLC0415

        click.echo("this command speaks ACP on stdin and stdout; an editor starts it", err=True)
        click.echo(f"hint: corral editors NAME --write sets one up: {', '.join(NAMES)}", err=True)
    from corral.frontends.acp.start import serve  # noqa: PLC0415 -- it takes a while to load

    return serve(ask_seconds)


def choose_agent() -> int:
    """Show what can run here, and ask which agent is the usual one."""
    from corral.engine.engine import Engine  # noqa: PLC0415 -- an editor waits: it is loaded when it is needed
    from corral.frontends.cli.doctor_text import report_lines  # noqa: PLC0415

    if not sys.stdin.isatty():
        raise BadRequest("--setup asks questions, and there is no terminal", hint="corral doctor shows the same")
    engine = Engine()
    report = asyncio.run(engine.examine())
    click.echo("\n".join(report_lines(report)))
    names = list(engine.installed_agents(Path.cwd()))
    if not names:
        return 1
    usual = engine.settings.load(Path.cwd()).defaults.agent
    chosen = click.prompt("\nDefault agent", type=click.Choice(names), default=usual if usual in names else names[0])
    click.echo(f"{chosen} is the default agent now: {engine.settings.set_default_agent(chosen)}")
    return 0 if report.ok else 1
