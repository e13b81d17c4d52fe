"""`code`: a program that calls tools."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from corral.engine.programs import ProgramOrder, declarations, granted_tools, read_program, shown_record
from corral.frontends import safe_text
from corral.frontends.cli.look import engine, json_option
from corral.model.errors import BadRequest
from corral.model.program import Program, ProgramLimits, ProgramRecord

MOST_INPUT = 4 << 20
repo_option = click.option("--repo", metavar="DIR", default=".", help="Repository, or a folder in it.  [default: .]")
tool_option = click.option("--tool", "tools", multiple=True, metavar="NAME", help="Tool to grant; repeatable.")
input_option = click.option("--input", "given", metavar="JSON", help="Input of `main`; `-` reads it from stdin.")


@click.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@input_option
@tool_option
@repo_option
@click.option("--read", multiple=True, metavar="GLOB", help="Files it may read.  [default: by your scope]")
@click.option("--write", multiple=True, metavar="GLOB", help="Files it may write.  [default: by your scope]")
@click.option("--memory-mb", type=click.IntRange(16, 4096), default=128, show_default=True, help="Memory.")
@click.option("--cpu-seconds", type=click.IntRange(1, 3600), default=30, show_default=True, help="Processor time.")
@click.option("--timeout", type=click.FloatRange(0.1, 3600), default=60.0, show_default=True, help="Seconds.")
@click.option("--calls", type=click.IntRange(0, 100_000), default=1000, show_default=True, help="Most calls of tools.")
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
    granted = granted_tools(tools)
    if file is None:
        raise BadRequest("name the file of a program", hint="corral code FILE --tool read_file")
    language, source = read_program(file)
    limits = ProgramLimits(
        memory_mb=options["memory_mb"],
        cpu_seconds=options["cpu_seconds"],
        timeout_seconds=options["timeout"],
        calls=options["calls"],
    )
    program = Program(name=file.name, language=language, source=source, tools=granted, limits=limits)
    order = ProgramOrder(
        program=program,
        folder=Path(options["repo"]),
        input=read_input(given),
        read=options["read"],
        write=options["write"],
    )
    with engine() as opened:
        record = asyncio.run(opened.programs.run(order, lambda text: click.echo(safe_text.visible(text), err=True)))
    return print_result(record, as_json=options["as_json"])


def read_input(given: str | None) -> object:
    """Return the input of a program."""
    if given is None:
        return None
    text = sys.stdin.read(MOST_INPUT + 1) if given == "-" else given
    if len(text) > MOST_INPUT:
        raise BadRequest(f"--input: {MOST_INPUT >> 20} MB are the most")
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
        click.echo(safe_text.visible(result.printed.rstrip("\n")), err=True)
    if result.error:
        click.echo(f"error: {result.error.kind}: {safe_text.visible(result.error.message)}", err=True)
        return 1
    click.echo(json.dumps(result.result, indent=2, ensure_ascii=False))
    click.echo(f"{record.id}: {result.calls} calls, {result.seconds:.1f} s", err=True)
    return 0
