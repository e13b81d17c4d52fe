"""`compare`, `evidence`, `verify`: what attempts proved, how that was found, and whether their receipts still hold."""

from __future__ import annotations

import click
import msgspec

from corral.engine.verify import Verification
from corral.engine.views.compare import ComparedAttempt, ComparedCheck, ComparedNode, Comparison
from corral.frontends import evidence_text
from corral.frontends.cli import text
from corral.frontends.cli.look import engine, json_option, run_argument
from corral.model.flow import agent_and_model

HEAD = ("PLACE", "ATTEMPT", "AGENT", "STATUS", "EVIDENCE", "CHECKS", "BROKEN", "CHANGE", "VIOLATIONS", "COST", "TIME")
DROP = ("VIOLATIONS", "TIME", "BROKEN", "COST", "STATUS", "PLACE", "CHANGE")  #: where there is no room, in this order


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
    click.echo("\n".join(comparison(found)))


def comparison(found: Comparison) -> list[str]:
    """Put the attempts of each node into a table."""
    tables = [_table(node, named=len(found.nodes) > 1) for node in found.nodes]
    return [line for place, lines in enumerate(tables) for line in ([""] if place else []) + lines]


def _table(node: ComparedNode, *, named: bool) -> list[str]:
    rows = [
        (
            f"{each.place}{' *' if each.winner else ''}",
            each.attempt.rpartition("-")[2],
            agent_and_model(each.agent, each.model),
            each.status + (f" ({each.tries} tries)" if each.tries > 1 else ""),
            each.evidence.grade if each.evidence else "-",
            "; ".join(map(_check, each.checks)) or "-",
            str(each.new_failures),
            f"{each.files_changed} file{'' if each.files_changed == 1 else 's'} +{each.insertions} -{each.deletions}",
            str(len(each.outside)),
            text.money(each.cost),
            text.seconds(each.seconds),
        )
        for each in node.attempts
    ]
    head = [f"node {node.node}: {node.status}"] if named else []
    reasons = [f"{each.place}. {text.one_line(each.reason, 1000)}{_extra(each)}" for each in node.attempts]
    return [*head, *text.table(HEAD, rows, DROP), *reasons, f"{'winner' if node.winner else 'none'}: {node.why}"]


def _check(check: ComparedCheck) -> str:
    """Write `FAIL -> pass`, with counts of tests where they are known: `FAIL 3/4 -> pass 4/4`."""
    after = _state(check.after) + _count(check.tests_after)
    if check.before is None:
        return after
    return f"{_state(check.before)}{_count(check.tests_before)} -> {after}" + (" flaky" if check.flaky else "")


def _state(passed: bool) -> str:  # noqa: FBT001
    return "pass" if passed else "FAIL"


def _count(tests: text.Tally | None) -> str:
    return "" if tests is None or tests.passed is None else f" {tests.passed}/{tests.passed + tests.failed}"


def _extra(each: ComparedAttempt) -> str:
    scores = [f"{name} {value:g}" for name, value in sorted(each.scores.items())]
    return f" ({', '.join(scores)})" if scores else ""


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
