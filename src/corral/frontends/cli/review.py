"""`comment`, `revise` and `attach`: review what a run changed, send it back to its agent, or continue by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import click
import msgspec

from corral.engine.engine import Engine
from corral.frontends import run_text
from corral.frontends.cli.foreground import EXIT_CODES, in_foreground
from corral.frontends.cli.look import engine, json_option, run_argument
from corral.frontends.cli.progress import Plain
from corral.frontends.user_name import current_user
from corral.model import Run
from corral.model.errors import BadRequest
from corral.model.events import BY_HAND, Ended, RunEvent
from corral.model.review import SIDES, NewComment, Side, read_place


@click.command()
@run_argument
@click.argument("place", metavar="[FILE[:LINE[-LINE]]]", required=False)
@click.argument("text", required=False)
@click.option(
    "--side", type=click.Choice(SIDES), default="new", help="Lines of the result, or of what it changed.  [new]"
)
@click.option("--attempt", metavar="N", help="Which attempt it is about.  [the winner]")
@click.option("--reply", metavar="ID", help="Answer this comment: corral comment RUN --reply ID TEXT.")
@click.option(
    "--resolve", multiple=True, metavar="ID", help="Mark a comment as resolved; `all` for every one; repeatable."
)
@click.option("--reopen", multiple=True, metavar="ID", help="Open a comment again; repeatable.")
@json_option
def comment(  # noqa: PLR0913 -- what Click hands over
    run: str,
    place: str | None,
    text: str | None,
    *,
    side: Side,
    attempt: str | None,
    reply: str | None,
    resolve: tuple[str, ...],
    reopen: tuple[str, ...],
    as_json: bool,
) -> None:
    """Comment on what RUN changed: on a file, or on lines of it. Without FILE, list its comments.

    `corral revise RUN` sends all open comments to the agent.
    """
    with engine() as opened:
        if resolve or reopen:
            opened.review.move(run, reopen, "open")
            opened.review.move(run, resolve, "resolved")
            shown = opened.review.comments(run)
        elif reply is not None:
            if place is None or text is not None:
                raise BadRequest("--reply takes the text alone", hint=f'corral comment {run} --reply {reply} "…"')
            shown = asyncio.run(opened.review.comment(run, [NewComment(text=place, reply_to=reply)], current_user()))
        elif place is None:
            shown = opened.review.comments(run)
        elif text is None:
            raise BadRequest("there is nothing to say", hint=f'corral comment {run} {place} "use the helper"')
        else:
            file, line, last = read_place(place)
            made = NewComment(text=text, file=file, line=line, last_line=last, side=side, attempt=attempt)
            shown = asyncio.run(opened.review.comment(run, [made], current_user()))
    if as_json:
        click.echo(msgspec.json.encode(shown).decode())
    elif shown:
        click.echo("\n".join(run_text.comment_line(each) for each in shown))
    else:
        click.echo("no comment yet", err=True)


@click.command()
@run_argument
@click.argument("text", default="")
@click.option(
    "--attempt", metavar="N", help="Which attempt to revise.  [the one that the comments are about, or the winner]"
)
@click.option("-q", "--quiet", is_flag=True, help="No progress, only the result.")
@json_option
def revise(run: str, text: str, *, attempt: str | None, quiet: bool, as_json: bool) -> int:
    """Send all open comments of RUN, and TEXT, to the agent that did the work; it starts from its commit.

    The result is a new attempt, checked as before. It becomes the winner if its checks pass; else the winner stays.
    """

    async def work(engine: Engine, shown: Plain) -> Run:
        return await engine.revise(run, text, attempt, current_user(), shown.hear, patient=shown.patient)

    return _revise_in_foreground(run, work, quiet=quiet, as_json=as_json)


@click.command()
@run_argument
@click.argument("attempt", required=False)
@json_option
def attach(run: str, attempt: str | None, *, as_json: bool) -> int:
    """Continue ATTEMPT of RUN by hand, in the agent's own program, on this terminal; without it, the winner.

    The program starts in the attempt's box, at its commit, in its conversation where the agent can resume one. When you
    leave it, your work is collected as a new attempt and checked. That becomes the winner if its checks pass.
    """

    async def work(engine: Engine, _: Plain) -> Run:
        def hear(event: RunEvent) -> None:
            if isinstance(event.event, Ended) and event.event.text == BY_HAND:
                click.echo("you have left it: your work is collected and checked", err=True)

        return await engine.attach(run, attempt, current_user(), hear)

    return _revise_in_foreground(run, work, quiet=True, as_json=as_json)


def _revise_in_foreground(
    run: str, work: Callable[[Engine, Plain], Awaitable[Run]], *, quiet: bool, as_json: bool
) -> int:
    """Carry out a revision; return the exit code of the run, or of a revision that was not accepted."""
    revisions: list[str] = []

    async def revise_and_compare(engine: Engine, shown: Plain) -> Run:
        known = {each.id for node in engine.show(run).nodes for each in node.attempts}
        found = await work(engine, shown)
        revisions.extend(
            each.status for node in found.nodes for each in node.attempts if each.id not in known and each.revises
        )
        return found

    code = in_foreground(revise_and_compare, quiet=quiet, as_json=as_json)
    return code or (EXIT_CODES.get(revisions[-1], 1) if revisions else 0)
