"""`agents`, `explain`, `doctor`, `completion`: what this machine offers."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import click
import msgspec
from click.shell_completion import get_completion_class

from corral.engine.engine import Engine
from corral.engine.first_settings import add, import_agents
from corral.engine.planning.explain import ExplainedKind
from corral.frontends.cli import corral
from corral.frontends.cli.doctor_text import agents_table, explanation_lines, report_lines
from corral.frontends.cli.look import engine, json_option
from corral.model.errors import BadRequest


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
        click.echo("\n".join(agents_table(found)))


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


@click.group()
def explain() -> None:
    """Explain an agent, a role or a flow in plain words: what it is, where it comes from, what it would do.

    Nothing is changed, and no agent works: of an agent's program, only its version is asked for.
    """


def _explaining(kind: ExplainedKind, about: str) -> None:
    @click.argument("name")
    @click.option("--repo", default=".", metavar="DIR", help="Repository, or a folder in it.  [default: .]")
    @json_option
    def command(name: str, repo: str, *, as_json: bool) -> None:
        with engine() as opened:
            found = asyncio.run(opened.explain(kind, name, Path(repo)))
        click.echo(msgspec.json.encode(found).decode() if as_json else "\n".join(explanation_lines(found)))

    explain.command(kind, help=about)(command)


_explaining("agent", "Explain an agent: its program, login, network, cost, and who uses it.")
_explaining("role", "Explain a role: its instructions, and which file they come from.")
_explaining("flow", "Explain a flow, by its file or name: its graph, and what each node does.")


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
