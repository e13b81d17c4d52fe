"""`follow`: look after the pull request of a run."""

from __future__ import annotations

import click

from corral.config.times import duration
from corral.engine.engine import Engine
from corral.frontends.cli.foreground import in_foreground
from corral.frontends.cli.look import engine, json_option, run_argument
from corral.frontends.cli.progress import Plain
from corral.frontends.user_name import current_user
from corral.model import Run, document
from corral.model.forge import FollowRecord

LEAST_SECONDS = 0.1


@click.command()
@run_argument
@click.option("--once", is_flag=True, help="Look once, do what follows from it, and return.")
@click.option("--every", default="60s", metavar="TIME", help="Time between two looks.  [default: 60s]")
@click.option("--most", type=click.IntRange(0, 20), default=3, help="Maximum number of revisions.  [default: 3]")
@click.option("--stop", is_flag=True, help="Look after it no longer, here or by the server.")
@click.option("-q", "--quiet", is_flag=True, help="No progress, only the result.")
@json_option
def follow(  # noqa: PLR0913 -- what Click hands over
    run: str, *, once: bool, every: str, most: int, stop: bool, quiet: bool, as_json: bool
) -> int:
    """Look after the pull request of RUN: red CI and review comments become revisions on the same branch.

    Comments count if their author may push. It ends when the pull request is approved, merged or closed, or after the
    maximum number of revisions. It is stored: a server continues it, also after a restart.

    Exit codes: 0 approved, merged, or still open (--once); 1 closed, or more to do than revisions are left.
    """
    if stop:
        with engine() as opened:
            opened.follows.stop(run, current_user())
            shown = opened.show(run)
        click.echo(document(shown).decode() if as_json else f"{shown.run} is not looked after any more")
        return 0
    every_seconds = max(LEAST_SECONDS, duration(every, "--every"))
    ended: list[FollowRecord] = []

    async def work(engine: Engine, shown: Plain) -> Run:
        engine.follows.begin(run, current_user(), every_seconds=every_seconds, most=most)
        look = engine.follows.look if once else engine.follows.look_until_over
        ended.append(await look(run, shown.hear, shown.say))
        return engine.show(run)

    in_foreground(work, quiet=quiet, as_json=as_json)
    record = ended[0]
    if record.state == "following":
        return 0 if once else 130
    return 0 if record.good else 1
