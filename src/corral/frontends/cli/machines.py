"""`machines`: where attempts can run besides here."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import click
import msgspec

from corral.engine.engine import Engine
from corral.engine.machine_reports import MachineReport
from corral.frontends import text
from corral.frontends.cli.look import json_option

NONE = 'no machine is set up; [machines.NAME] command = ["ssh", "NAME", "corral", "host"] in your config.toml makes one'
HEAD = ("MACHINE", "STATE", "VERSION", "SANDBOX", "SLOTS", "AGENTS", "LABELS")


@click.group(invoke_without_command=True)
@click.pass_context
def machines(context: click.Context) -> None:
    """Show the machines of your settings on which attempts can run."""
    if context.invoked_subcommand is None:
        context.invoke(list_, as_json=False)


@machines.command("ls")
@json_option
def list_(*, as_json: bool) -> None:
    """List all machines: reachable or not, version, sandbox level, slots in use, agents."""
    found = _ask(())
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
        return
    if not found:
        click.echo(NONE, err=True)
        return
    click.echo("\n".join(text.table(HEAD, [_row(each) for each in found])))
    for each in found:
        if each.error:
            click.echo(text.visible(f"{each.name}: {each.error}"), err=True)


@machines.command()
@click.argument("name", required=False)
@json_option
def check(name: str | None, *, as_json: bool) -> int:
    """Reach NAME, or every machine, and say what is missing. Exit code 1 if attempts cannot run there."""
    found = _ask((name,) if name else ())
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    elif not found:
        click.echo(NONE, err=True)
    for each in found if not as_json else ():
        click.echo("\n".join(text.visible(line) for line in _lines(each)))
    return 0 if all(each.ok for each in found) else 1


def _ask(names: tuple[str, ...]) -> list[MachineReport]:
    engine = Engine()
    try:
        return asyncio.run(engine.list_machines(names))
    finally:
        engine.close()


def _row(each: MachineReport) -> tuple[str, ...]:
    labels = ", ".join(f"{key}={value}" for key, value in each.labels.items())
    return (
        each.name,
        "ready" if each.ok else "reached" if each.reachable else "not reached",
        each.version or "-",
        each.sandbox or "-",
        f"{each.slots_used} of {each.slots}",
        ", ".join(each.programs) or "-",
        labels or "-",
    )


def _offer_words(counted: Mapping[str, float], labelled: Mapping[str, str]) -> str:
    """Return what a node of a cluster offers, without what Ray counts for itself."""
    resources = {key: value for key, value in counted.items() if not key.startswith(("node:", "object_store"))}
    labels = {key: value for key, value in labelled.items() if not key.startswith("ray.io/")}
    found = [f"{key} = {value:g}" for key, value in resources.items()] + [
        f"{key}={value}" for key, value in labels.items()
    ]
    return ", ".join(found) or "nothing counted"


def _lines(each: MachineReport) -> list[str]:
    found = [f"{each.name}: {'ready' if each.ok else each.error}"]
    if each.hint:
        found.append(f"  hint      {each.hint}")
    if each.ray and each.reachable:
        found.append(f"  cluster   {each.python} at {each.ray}, {len(each.nodes)} nodes")
        found += [f"  node      {node.name}: {_offer_words(node.resources, node.labels)}" for node in each.nodes]
    elif each.reachable:
        found += [
            f"  corral    {each.version}, Python {each.python}, {each.platform} {each.arch}",
            f"  sandbox   {each.sandbox}" + (f" ({each.sandbox_reason})" if each.sandbox_reason else ""),
            f"  size      {each.cores} cores, {each.memory_mb} MB",
            f"  agents    {', '.join(each.programs) or 'none'}",
        ]
    return [*found, f"  slots     {each.slots_used} of {each.slots} in use"]
