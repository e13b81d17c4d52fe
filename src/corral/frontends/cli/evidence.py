"""`compare`, `evidence`, `verify`: what attempts proved, how that was found, and whether their receipts still hold."""

from __future__ import annotations

import click
import msgspec

from corral.engine.verify import Verification
from corral.frontends import evidence_text
from corral.frontends.cli.comparison_table import comparison_lines
from corral.frontends.cli.look import engine, json_option, run_argument


@click.command()
@run_argument
@json_option
def compare(run: str, *, as_json: bool) -> None:
    """Compare the attempts of a run: checks at the base and now, change, cost, time and rank.

    `corral diff RUN N` shows one change; N is the number at the end of the attempt's id.
    """
    with engine() as opened:
        found = opened.work.compare(run)
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
        return
    if not found.nodes:
        click.echo(f"run {found.run} has no attempt yet", err=True)
    click.echo("\n".join(comparison_lines(found)))


@click.command()
@run_argument
@click.argument("attempt", required=False)
@json_option
def evidence(run: str, attempt: str | None, *, as_json: bool) -> None:
    """Show how the result of RUN was checked: grade and reasons, trees, runs, tests before and after, doubts.

    ATTEMPT is an id, the number at its end, or an agent. [default: the winner, or the last attempt with work]
    """
    with engine() as opened:
        found = opened.work.evidence(run, attempt)
    click.echo(msgspec.json.encode(found).decode() if as_json else "\n".join(evidence_text.lines(found)))


@click.command()
@run_argument
@click.option("--rerun", is_flag=True, help="Repeat the checks on the same commit, in the box.")
@json_option
def verify(run: str, *, rerun: bool, as_json: bool) -> int:
    """Verify the receipts of a run: commit, tree, diff, note, record and seal.

    Exit codes: 0 all are valid, 1 one is not, or the run has none.
    """
    import asyncio  # noqa: PLC0415 -- only this command of the module needs it

    with engine() as opened:
        found = asyncio.run(opened.work.verify(run, rerun=rerun))
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    else:
        click.echo("\n".join(_lines(found)))
    return 0 if found.holds else 1


def _lines(found: Verification) -> list[str]:
    if not found.receipts:
        return [f"run {found.run} has no receipt: nothing of it is proven"]
    lines: list[str] = []
    for each in found.receipts:
        good = ", ".join(point.what for point in each.points if point.holds)
        lines.append(f"{'holds' if each.holds else 'BROKEN'}  {each.attempt} ({each.agent})  {good}")
        lines += [f"  {point.what}: {point.words}" for point in each.points if not point.holds]
        lines += [f"  {note}" for note in each.notes]
    return lines
