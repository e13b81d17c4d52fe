"""The command line: each command turns its arguments into Engine calls. Commands are loaded when they are used."""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import re
import sys
from pathlib import Path
from typing import Any, cast

import click

from corral.frontends.text import visible
from corral.model.errors import BadFlow, BadRequest, CorralError, concise, refusal_of, shorten_name
from corral.version import describe

#: section, most used first -> command -> (module of this package, its line: at most 66 characters, for 80 columns)
SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Start": {
        "run": ("run", "Run a task with an agent, and check the result."),
        "demo": ("demo", "Show the whole loop: no key, no config, no network."),
        "doctor": ("doctor", "Check what can run here, and how to fix what cannot."),
        "init": ("init", "Write your settings: default agent, checks, budget."),
        "flow": ("flow", "Check, draw, run and create flow files: graphs of tasks."),
        "plan": ("plan", "Have an agent write a flow for a task; run it if you approve."),
    },
    "Watch": {
        "ls": ("ls", "List runs, newest first."),
        "show": ("look", "Show one run: its attempts, checks, cost and branch."),
        "logs": ("look", "Show what the agents of a run said and did; -f follows."),
        "watch": ("watch", "Watch a run of another process live: graph, agents, cost."),
        "who": ("watch", "Show which agents work on which files."),
        "mail": ("mail", "Show the messages between the agents of a run."),
        "artifacts": ("artifacts", "List the named files that a run left, or print one."),
    },
    "Decide": {
        "inbox": ("inbox", "List what waits for you, with deadlines and default answers."),
        "answer": ("inbox", "Answer a question in the inbox."),
        "diff": ("look", "Show the change a run made, as a patch."),
        "compare": ("evidence", "Compare the attempts of a run: checks, change, cost and rank."),
        "evidence": ("evidence", "Show how a result was checked: its grade and the reasons."),
        "comment": ("review", "Comment on lines of what a run changed, or list comments."),
        "revise": ("review", "Send all open comments to the agent, for a new attempt."),
        "open": ("restore", "Make a folder in which to try a result."),
        "verify": ("evidence", "Verify the receipts of a run; --rerun repeats its checks."),
    },
    "Merge": {
        "merge": ("merge", "Merge the work of a run, after checking the merged tree."),
        "undo": ("merge", "Undo a merge: restore refs and files exactly."),
        "overlap": ("merge", "Predict conflicts of work that is not merged yet."),
        "follow": ("follow", "Look after the pull request of a run: red CI and comments."),
        "restore": ("restore", "Restore the work of an attempt, or one of its snapshots."),
        "checkpoint": ("restore", "Name the present state of a run, to restore it later."),
        "clean": ("restore", "Remove the leftovers of ended runs; no work is lost."),
    },
    "Control": {
        "stop": ("act", "Stop a run, from any terminal; its work is kept."),
        "retry": ("act", "Repeat what did not get done, or one node and those after it."),
        "resume": ("act", "Continue a run that was paused or whose process ended."),
        "pause": ("act", "Pause a run or one of its nodes."),
        "steer": ("act", "Send a message to the agents of a run while they work."),
        "attach": ("review", "Continue by hand in the agent's own program, in its box."),
        "rename": ("act", "Give a run a name."),
        "condense": ("act", "Continue agents in new sessions, from summaries of their work."),
        "halt": ("money", "Stop everything now."),
    },
    "Money": {
        "cost": ("money", "Show the cost by agent, model, day, repository or kind of task."),
        "budget": ("money", "Show and set money limits: for each run, a day, a month."),
        "quota": ("money", "Show the quotas of agents' accounts, and when they reset."),
    },
    "Agents and tools": {
        "agents": ("doctor", "List the available agents and their properties."),
        "explain": ("doctor", "Explain an agent, a role or a flow in plain words."),
        "memory": ("memory", "Show and edit what agents read about a repository."),
        "trust": ("act", "Trust this repository's corral.toml to start programs."),
        "code": ("code", "Run a program that calls tools, in a box of its own."),
        "tools": ("code", "Keep programs as tools: list, add, approve, run, remove."),
        "plugins": ("plugins", "List installed plug-ins of other packages."),
    },
    "Server and editors": {
        "serve": ("serve", "Serve the page and the HTTP API; run what is queued."),
        "token": ("serve", "Create, list and revoke tokens for the server."),
        "queue": ("queue", "Show, reorder, stop and start the queue."),
        "schedule": ("schedule", "Start tasks on a schedule, by a server."),
        "trigger": ("trigger", "Start tasks when the server is called or a branch moves."),
        "issues": ("issues", "Turn labelled issues into runs and pull requests."),
        "mcp": ("mcp", "Serve MCP on stdio, for your agent."),
        "acp": ("acp", "Serve ACP on stdio, for your editor."),
        "editors": ("editors", "Print or write your editor's configuration for Corral."),
    },
    "Machines and data": {
        "machines": ("machines", "Show the machines on which attempts can run."),
        "host": ("host", "Serve engines of other machines on stdio: the far end."),
        "store": ("store", "Check the store: soundness, version, size; or copy it."),
        "export": ("look", "Print all stored data as JSON lines."),
        "completion": ("doctor", "Print or install the completion script for your shell."),
    },
}
COMMANDS: dict[str, tuple[str, str]] = {name: found for section in SECTIONS.values() for name, found in section.items()}
NO_TEXT = re.compile("[\ud800-\udfff]")  #: bytes of an argument that are no text
MOST_NUMBER = 2**53  #: what JSON, SQLite and floating point hold alike


class LazyCommands(click.Group):
    """A group that imports a command only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"corral.frontends.cli.{COMMANDS[cmd_name][0]}")
        return with_limits(cast("click.Command", getattr(module, f"{cmd_name}_", None) or getattr(module, cmd_name)))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            import difflib  # noqa: PLC0415 -- rarely needed

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean `corral {near[0]}`?" if near else "see `corral --help`"
            raise BadRequest(f"No such command '{shorten_name(args[0])}'.", hint=hint)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        width = max(map(len, COMMANDS))
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(f"{name:<{width}}", words) for name, (_, words) in commands.items()])


def _print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 -- click calls it
    if wanted:
        click.echo(describe(), nl=False)
        context.exit()


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show version and extras.",
)
def corral() -> None:
    """Run any coding agent on any task: isolated, budgeted, proven, merged.

    Start with `corral demo`, then `corral doctor`, then `corral run "what is to be done" --check "pytest -q"`.
    """


def run_command_line(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code; every error ends up here, in one form."""
    heard = sys.stdout
    try:
        _refuse_bytes(sys.argv[1:] if arguments is None else arguments)
        result: Any = corral.main(args=arguments, prog_name="corral", standalone_mode=False)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.Abort:
        return 130
    except click.ClickException as error:
        return _usage_error(error)
    except BadFlow as error:
        click.echo(visible(str(error)), err=True)  # each line says where it is wrong
        return error.exit_code
    except CorralError as error:
        return complain(str(error), error.hint, error.exit_code)
    except KeyboardInterrupt:
        return 130
    except SystemExit:
        if sys.stdout is heard:
            raise
        return 0  # Click has put it aside, for its reader left: that is no failure
    except Exception as error:  # noqa: BLE001 -- our fault: say so in one line, show the rest on demand
        return _our_fault(error)
    return result if isinstance(result, int) else 0


def _refuse_bytes(arguments: list[str]) -> None:
    for argument in arguments:
        if not argument.isascii() and NO_TEXT.search(argument):
            raise BadRequest(f"the argument {shorten_name(argument)!a} is not UTF-8", hint="arguments are UTF-8 text")


def _our_fault(error: Exception) -> int:
    if os.environ.get("CORRAL_DEBUG"):
        import traceback  # noqa: PLC0415 -- rarely needed, and slow to load

        traceback.print_exc()
    refused = refusal_of(error)
    if refused is not None:
        return complain(str(refused), refused.hint, refused.exit_code)
    try:
        Path.cwd()
    except OSError:
        return complain("the folder you are in is gone", "go to one that is there, or name one with --repo", 2)
    from corral.engine.doctor import explain_machine_error  # noqa: PLC0415 -- slow to load, and only errors need it

    if known := explain_machine_error(error):
        return complain(str(known), known.hint, known.exit_code)
    return complain(
        f"corral itself failed: {type(error).__name__}: {error}",
        "CORRAL_DEBUG=1 shows where; nothing stored is lost",
        1,
    )


def _usage_error(error: click.ClickException) -> int:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):  # a bare `corral` lists the commands
        click.echo(error.format_message())
        return 0
    return complain(error.format_message(), _usage_hint(error), 2)


def complain(message: str, hint: str, code: int) -> int:
    with contextlib.suppress(BrokenPipeError):  # nobody reads it: the code tells it still
        click.echo(f"error: {visible(concise(message))}", err=True)
        if hint:
            click.echo(f"hint: {visible(hint)}", err=True)
    return code


def _usage_hint(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"see `{context.command_path} --help`" if context else "see `corral --help`"


class _Whole(click.types.IntParamType):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        number = super().convert(value, param, ctx)
        return number if abs(number) <= MOST_NUMBER else self.fail("the number is too large.", param, ctx)


class _Range(click.IntRange):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        number = super().convert(value, param, ctx)
        return number if abs(number) <= MOST_NUMBER else self.fail("the number is too large.", param, ctx)


class _Real(click.types.FloatParamType):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        number = super().convert(value, param, ctx)
        return (
            number
            if math.isfinite(number) and abs(number) <= MOST_NUMBER
            else self.fail("no usable number.", param, ctx)
        )


class _RealRange(click.FloatRange):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        number = super().convert(value, param, ctx)
        return (
            number
            if math.isfinite(number) and abs(number) <= MOST_NUMBER
            else self.fail("no usable number.", param, ctx)
        )


def with_limits(command: click.Command) -> click.Command:
    """Bound every number that a command, or one below it, takes."""
    for param in command.params:
        if type(param.type) is click.types.IntParamType:
            param.type = _Whole()
        elif type(param.type) is click.IntRange and param.type.max is None:
            param.type = _Range(param.type.min, min_open=param.type.min_open, clamp=param.type.clamp)
        elif type(param.type) is click.types.FloatParamType:
            param.type = _Real()
        elif type(param.type) is click.FloatRange:
            old = param.type
            param.type = _RealRange(old.min, old.max, min_open=old.min_open, max_open=old.max_open, clamp=old.clamp)
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        with_limits(inner)
    return command
