"""`code` and `tools`: programs that call tools, and those that are kept."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from corral import amounts
from corral.engine.programs import ProgramOrder, declarations, granted_tools, read_program, shown_record
from corral.engine.tools import NO_EXAMPLE, NewTool, ToolView
from corral.frontends import text as words
from corral.frontends.cli.look import engine, json_option
from corral.model.errors import BadRequest
from corral.model.program import Program, ProgramLimits, ProgramRecord

F = TypeVar("F", bound=Callable[..., Any])
MOST_INPUT = 4 << 20
NONE = "no tool is kept here; keep a program: corral tools add FILE --name NAME"
repo_option = click.option("--repo", metavar="DIR", default=".", help="Repository, or a folder in it.  [default: .]")
tool_option = click.option("--tool", "tools", multiple=True, metavar="NAME", help="Tool to grant; repeatable.")
input_option = click.option("--input", "given", metavar="JSON", help="Input of `main`; `-` reads it from stdin.")


def _limits(command: F) -> F:
    options = (
        click.option(
            "--calls", type=click.IntRange(0, 100_000), default=1000, show_default=True, help="Most calls of tools."
        ),
        click.option("--timeout", type=click.FloatRange(0.1, 3600), default=60.0, show_default=True, help="Seconds."),
        click.option(
            "--cpu-seconds", type=click.IntRange(1, 3600), default=30, show_default=True, help="Processor time."
        ),
        click.option("--memory-mb", type=click.IntRange(16, 4096), default=128, show_default=True, help="Memory."),
    )
    for option in options:
        command = option(command)
    return command


def _read_limits(options: Mapping[str, Any]) -> ProgramLimits:
    return ProgramLimits(
        memory_mb=options["memory_mb"],
        cpu_seconds=options["cpu_seconds"],
        timeout_seconds=options["timeout"],
        calls=options["calls"],
    )


@click.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@input_option
@tool_option
@repo_option
@click.option("--read", multiple=True, metavar="GLOB", help="Files it may read.  [default: by your scope]")
@click.option("--write", multiple=True, metavar="GLOB", help="Files it may write.  [default: by your scope]")
@click.option("--net", default="", metavar="HOST,..", help="Hosts that its `http` reaches.  [default: by your scope]")
@click.option(
    "--replay", metavar="ID", help="Run the program of this id again, or FILE instead, with the answers it had."
)
@_limits
@click.option("--declarations", type=click.Choice(["typescript", "python"]), help="Print types of the tools instead.")
@json_option
def code(file: Path | None, given: str | None, tools: tuple[str, ...], **options: Any) -> int:  # noqa: ANN401
    """Run a program in a box of its own: JavaScript or TypeScript (Deno), or Python (Monty).

    It sees no file, network, environment or process. It can call the tools that you grant, and nothing else:
    `export default async function main(input, tools)` or `async def main(input)`.
    """
    if options["declarations"]:
        click.echo(declarations(options["declarations"], tools), nl=False)
        return 0
    if options["replay"] is not None:
        return _replay(options["replay"], file, as_json=options["as_json"])
    granted = granted_tools(tools)
    if file is None:
        raise BadRequest("name the file of a program", hint="corral code FILE --tool read_file")
    language, source = read_program(file)
    limits = _read_limits(options)
    program = Program(name=file.name, language=language, source=source, tools=granted, limits=limits)
    order = ProgramOrder(
        program=program,
        folder=Path(options["repo"]),
        input=read_input(given),
        read=options["read"],
        write=options["write"],
        net=tuple(each.strip() for each in options["net"].split(",") if each.strip()),
    )
    with engine() as opened:
        record = asyncio.run(opened.programs.run(order, lambda text: click.echo(words.visible(text), err=True)))
    return print_result(record, as_json=options["as_json"])


def _replay(name: str, file: Path | None, *, as_json: bool) -> int:
    """Print what a program does otherwise than before; 1 where there is anything."""
    with engine() as opened:
        found = asyncio.run(opened.programs.replay(name, read_program(file) if file else None))
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    else:
        for each in found.differences:
            click.echo(words.visible(each))
        click.echo(f"{amounts.count(len(found.differences), 'difference')}", err=True)
    return 1 if found.differences else 0


def read_input(given: str | None) -> object:
    """Return the input of a program."""
    if given is None:
        return None
    text = sys.stdin.read(MOST_INPUT + 1) if given == "-" else given
    if len(text) > MOST_INPUT:
        raise BadRequest(
            f"--input: {MOST_INPUT >> 20} MB are the most", hint="read larger data from a file of the workspace"
        )
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"--input is not JSON: {error}", hint="""--input '{"name": "value"}'""") from error


def print_result(record: ProgramRecord, *, as_json: bool) -> int:
    """Print what came of a program; return the exit code."""
    result = record.result
    if as_json:
        click.echo(msgspec.json.encode(shown_record(record)).decode())
        return 0 if result.status == "done" else 1
    if result.printed:
        click.echo(words.visible(result.printed.rstrip("\n")), err=True)
    if result.error:
        click.echo(f"error: {result.error.kind}: {words.visible(result.error.message)}", err=True)
        return 1
    click.echo(json.dumps(result.result, indent=2, ensure_ascii=False))
    click.echo(f"{record.id}: {result.calls} calls, {result.seconds:.1f} s", err=True)
    return 0


@click.group()
def tools() -> None:
    """Keep programs as tools: for a repository (`.corral/tools`), or for yourself.

    A tool runs only as you approved it, in the place where you approved it.
    """


@tools.command("ls")
@repo_option
@json_option
def list_(repo: str, *, as_json: bool) -> None:
    """List the tools of a repository and your own."""
    with engine() as opened:
        _print(asyncio.run(opened.tools.list(Path(repo))), as_json=as_json)


@tools.command()
@click.argument("name")
@repo_option
@json_option
def show(name: str, repo: str, *, as_json: bool) -> None:
    """Show one tool: what it declares, how often it was used, and its program."""
    with engine() as opened:
        found = asyncio.run(opened.tools.show(Path(repo), name))
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
        return
    rate = f", {100 * found.success_rate:.0f}% succeeded" if found.success_rate is not None else ""
    click.echo(f"{found.name} {found.version}  {found.language}, {found.place}, {_state(found)}")
    if found.description:
        click.echo(words.printable(found.description))
    click.echo(f"tools    {', '.join(found.tools) or 'none'}")
    most = found.limits
    times = f"{most.cpu_seconds} s of processor, {most.timeout_seconds:g} s"
    click.echo(f"limits   {most.memory_mb} MB, {times}, {most.calls} calls")
    click.echo(f"hash     {found.hash}")
    click.echo(f"created  {found.created} by {words.printable(found.created_by)}")
    click.echo(f"used     {found.uses} times{rate}")
    click.echo("")
    click.echo(words.visible(found.source.rstrip("\n")))


@tools.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--name", required=True, help="Name: a-z, 0-9 and -, a letter first.")
@click.option("--program", metavar="ID", help="Keep a program that ran, by its id, instead of a file.")
@tool_option
@click.option("--description", default="", help="One line about what it does.")
@click.option("--input-schema", type=click.Path(path_type=Path), metavar="FILE", help="JSON Schema of its input.")
@click.option("--output-schema", type=click.Path(path_type=Path), metavar="FILE", help="JSON Schema of its result.")
@click.option("--example", metavar="JSON", help="Input to run it with now; the run is recorded, and replayed later.")
@_limits
@click.option("--user", is_flag=True, help="Keep it for yourself instead of for the repository.")
@repo_option
@json_option
def add(file: Path | None, name: str, repo: str, *, as_json: bool, **options: Any) -> None:  # noqa: ANN401
    """Keep a program as a tool, and approve it as it is now."""
    wanted = NewTool(
        name=name,
        file=file,
        program=options["program"],
        tools=granted_tools(options["tools"]),
        description=options["description"],
        input_schema=options["input_schema"],
        output_schema=options["output_schema"],
        place="user" if options["user"] else None,
        limits=_read_limits(options),
        example=NO_EXAMPLE if options["example"] is None else read_input(options["example"]),
    )
    with engine() as opened:
        _print([asyncio.run(opened.tools.add(Path(repo), wanted, _say))], as_json=as_json)


@tools.command()
@click.argument("name")
@input_option
@repo_option
@json_option
def run(name: str, given: str | None, repo: str, *, as_json: bool) -> int:
    """Run a tool that you approved."""
    with engine() as opened:
        record = asyncio.run(opened.tools.run(Path(repo), name, read_input(given), _say))
    return print_result(record, as_json=as_json)


@tools.command()
@click.argument("name")
@repo_option
@json_option
def approve(name: str, repo: str, *, as_json: bool) -> None:
    """Approve a tool as it is now; its example is replayed first."""
    with engine() as opened:
        _print([asyncio.run(opened.tools.approve(Path(repo), name))], as_json=as_json)


@tools.command()
@click.argument("name")
@click.option("--into", type=click.Path(path_type=Path), default=".", metavar="DIR", help="Folder.  [default: .]")
@repo_option
@json_option
def export(name: str, into: Path, repo: str, *, as_json: bool) -> None:
    """Write a tool's two files into a folder: its program, and its declaration with schemas, limits and example.

    In `.corral/tools` of another repository they are the same tool, to be approved there.
    """
    with engine() as opened:
        files = [str(each) for each in asyncio.run(opened.tools.export(Path(repo), name, into))]
    click.echo(msgspec.json.encode({"files": files}).decode() if as_json else "\n".join(files))


@tools.command()
@click.argument("name")
@repo_option
@json_option
def rm(name: str, repo: str, *, as_json: bool) -> None:
    """Remove a tool: its files, and what is known of its uses."""
    with engine() as opened:
        removed = asyncio.run(opened.tools.remove(Path(repo), name))
    click.echo(msgspec.json.encode({"removed": [removed.name]}).decode() if as_json else f"removed  {removed.name}")


def _say(text: str) -> None:
    click.echo(words.visible(text), err=True)


def _state(tool: ToolView) -> str:
    return "approved" if tool.approved else "not approved"


def _print(found: Sequence[ToolView], *, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    elif not found:
        click.echo(NONE, err=True)
    else:
        rows = [
            (
                each.name,
                str(each.version),
                each.language,
                each.place,
                _state(each),
                str(each.uses),
                ", ".join(each.tools),
            )
            for each in found
        ]
        click.echo("\n".join(words.table(("TOOL", "VERSION", "LANGUAGE", "PLACE", "STATE", "USED", "CALLS"), rows)))
