"""`comment` and `revise`: review what a run changed, and send it back to its agent."""

from __future__ import annotations

import asyncio

import click
import msgspec

from corral.engine.engine import Engine
from corral.frontends.cli import text as words
from corral.frontends.cli.foreground import EXIT_CODES, in_foreground
from corral.frontends.cli.look import engine, json_option, run_argument
from corral.frontends.cli.progress import Plain
from corral.frontends.cli.user_name import current_user
from corral.model import Run
from corral.model.errors import BadRequest
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
        click.echo("\n".join(words.comment_line(each) for each in shown))
    else:
        click.echo("no comment yet", err=True)


@click.command()
@run_argument
@click.argument("text", default="")
@click.option(
    "--attempt", metavar="N", help="Which attempt to revise.  [the one that the comments are about, or the winner]"
)
@click.option("--quiet", is_flag=True, help="No progress, only the result.")
@json_option
def revise(run: str, text: str, *, attempt: str | None, quiet: bool, as_json: bool) -> int:
    """Send all open comments of RUN, and TEXT, to the agent that did the work; it starts from its commit.

    The result is a new attempt, checked as before. It becomes the winner if its checks pass; else the winner stays.
    """
    revisions: list[str] = []

    async def work(engine: Engine, shown: Plain) -> Run:
        known = {each.id for node in engine.show(run).nodes for each in node.attempts}
        found = await engine.revise(run, text, attempt, current_user(), shown.hear, patient=shown.patient)
        revisions.extend(
            each.status for node in found.nodes for each in node.attempts if each.id not in known and each.revises
        )
        return found

    code = in_foreground(work, quiet=quiet, as_json=as_json)
    return code or (EXIT_CODES.get(revisions[-1], 1) if revisions else 0)
