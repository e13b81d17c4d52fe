"""`agents`, `doctor`, `completion`: what this machine offers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from click.shell_completion import get_completion_class

from corral.engine.doctor import AgentReport, Doctor
from corral.engine.engine import Engine
from corral.engine.first_settings import add, import_agents
from corral.frontends.cli import corral
from corral.frontends.cli import text as words
from corral.frontends.cli.look import json_option
from corral.model.errors import BadRequest

HEAD = ("AGENT", "VERSION", "LOGIN", "MODELS", "RESUMES", "COST", "MCP", "ACP")
INDENT = " " * 14


@click.command()
@json_option
@click.option(
    "--import", "file", type=click.Path(path_type=Path), help="Print the agents of an agents.yaml as settings."
)
@click.option("--like", default="claude", show_default=True, help="With --import: the agent that all of them use.")
@click.option("--write", is_flag=True, help="With --import: add them to your own config.toml.")
def agents(*, as_json: bool, file: Path | None, like: str, write: bool) -> None:
    """List the available agents, or import those of an agents.yaml."""
    if file:
        _import(file, like, write=write)
        return
    if write:
        raise click.UsageError("--write goes with --import FILE")
    found = asyncio.run(Engine().list_agents())
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    else:
        click.echo("\n".join(_table(found)))


def _import(file: Path, like: str, *, write: bool) -> None:
    found = import_agents(file, like)
    where = add(found) if write else None
    for what in found.left_out:
        click.echo(f"left out: {what}", err=True)
    if where:
        click.echo(f"added to {where}: {', '.join(found.names)}", err=True)
    click.echo(found.toml, nl=False)


@click.command()
@click.option("--new-store", is_flag=True, help="Create a new store if the old one is missing or empty.")
@json_option
def doctor(*, new_store: bool, as_json: bool) -> int:
    """Check what can run here, and how to fix what cannot. Exit code 1 if no agent can run."""
    if new_store:
        Engine().begin_store()
    report = asyncio.run(Engine().examine())
    if as_json:
        click.echo(msgspec.json.encode(report).decode())
    else:
        click.echo("\n".join(report_lines(report)))
    return 0 if report.ok else 1


def _row(agent: AgentReport) -> tuple[str, ...]:
    return (
        agent.name,
        agent.version or "-",
        agent.login,
        f":{agent.models}" if agent.models else "-",
        "yes" if agent.resumes else "no",
        "reported" if agent.reports_cost else "unknown",
        "yes" if agent.mcp else "no",
        "yes" if agent.acp else "no",
    )


def _table(found: Sequence[AgentReport]) -> list[str]:
    """Lay out the agents; what may be long, and must not be cut, stands below the table."""
    lines = words.table(HEAD, [_row(agent) for agent in found], drop=("ACP", "MCP", "RESUMES", "MODELS", "COST"))
    usable = [(agent.name, agent.program) for agent in found if agent.program]
    lacking = [(agent.name, agent.remedy) for agent in found if agent.remedy]
    size = max(len(agent.name) for agent in found)
    for head, rows in (("their programs:", usable), ("what helps where one is missing or old:", lacking)):
        if rows:
            lines += ["", head, *(f"  {name:<{size}}  {text}" for name, text in rows)]
    return lines


def report_lines(report: Doctor) -> list[str]:
    lines = [*_table(report.agents), ""]
    for part in report.parts:
        lines.append(f"{'ok ' if part.ok else 'BAD'}  {part.name:<9}{part.found}")
        better = report.sandbox.wanting if part.name == "sandbox" else ()
        missing: dict[tuple[str, str], list[str]] = {}  # levels by what they lack
        for each in better:
            missing.setdefault((each.reason, each.remedy), []).append(each.level)
        for (reason, remedy), levels in missing.items():
            lines += [f"{INDENT}not {' or '.join(levels)}: {reason}", f"{INDENT}fix: {remedy}"]
        if part.remedy and part.remedy not in [each.remedy for each in better]:
            lines.append(f"{INDENT}fix: {part.remedy}")
    if report.ready:
        lines += ["", f"ready: {report.next}"]
    else:
        start = "not ready" if report.ok else "nothing can run here yet"
        lines += ["", f"{start}: {report.why}", f"next: {report.next}"]
    return lines


SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS), required=False)
@click.option("--install", is_flag=True, help="Write the script to your files, so that new shells use it.")
def completion(shell: str | None, *, install: bool) -> None:
    """Print the completion script for SHELL, e.g. `eval "$(corral completion bash)"`; with --install, set it up.

    SHELL is bash, zsh or fish.  [default: with --install, the shell that you use]
    """
    if shell is None:
        shell = Path(os.environ.get("SHELL", "")).name if install else ""
        if shell not in SHELLS:
            raise BadRequest(
                "which shell?", hint=f"corral completion {'|'.join(SHELLS)}{' --install' if install else ''}"
            )
    kind = get_completion_class(shell)
    if kind is None:
        raise BadRequest(f"there is no completion for {shell}", hint=f"there is for {', '.join(SHELLS)}")
    script = kind(corral, {}, "corral", "_CORRAL_COMPLETE").source()
    click.echo("\n".join(_install_completion(shell, script)) if install else script)


def _install_completion(shell: str, script: str) -> list[str]:
    """Write the script, and for bash and zsh the line that reads it; done twice, it is the same."""
    home = Path.home()
    if shell == "fish":
        config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
        return [_write(config / "fish" / "completions" / "corral.fish", script), "new shells complete `corral`"]
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    file = data / "corral" / f"completion.{shell}"
    written = [_write(file, script)]
    start = home / f".{shell}rc"
    line = f'[ -r "{file}" ] && . "{file}"  # completion of corral\n'
    before = start.read_text() if start.exists() else ""
    if line not in before:
        written.append(_write(start, before + ("" if before.endswith("\n") or not before else "\n") + line))
    return [*written, "new shells complete `corral`"]


def _write(file: Path, text: str) -> str:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    except OSError as error:
        raise BadRequest(
            f"{file}: {error.strerror}", hint="print the script instead: corral completion SHELL"
        ) from error
    return f"written  {file}"
