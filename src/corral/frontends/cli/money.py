"""`budget`, `cost`, `quota`, `halt`: money and what agents may use up."""

from __future__ import annotations

import asyncio
import csv
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast, get_args

import click
import msgspec

from corral import amounts
from corral.engine.budget import money
from corral.frontends import text
from corral.frontends.cli.look import engine, json_option
from corral.frontends.user_name import current_user
from corral.model import moment
from corral.model.flow import known_as
from corral.model.money import By, CostTable, HaltReport, Limit, LimitStatus, Quota, QuotaWindow, Window, notional_words

WINDOWS: dict[Window, str] = {
    "run": "each run",
    "day": "a day",
    "month": "a month",
    "ceiling": "ceiling",
    "halt": "halted",
}
BAR = 30


@click.command()
@click.argument("action", type=click.Choice(["show", "set", "reset"]), default="show", required=False)
@click.option("--per-run", "run", type=float, metavar="USD", help="Limit for each run.")
@click.option("--per-day", "day", type=float, metavar="USD", help="Limit for a day.")
@click.option("--per-month", "month", type=float, metavar="USD", help="Limit for a month.")
@click.option(
    "--ceiling", type=float, metavar="USD", help="Hard limit for a month; neither --yes nor an answer exceeds it."
)
@click.option("--agent", default="", metavar="NAME", help="Only for this agent.")
@click.option("--repo", default="", metavar="DIR", help="Only for this repository.")
@click.option("--all", "whole", is_flag=True, help="With `reset`: also remove the ceiling.")
@json_option
def budget(action: str, *, agent: str, repo: str, whole: bool, as_json: bool, **usd: float | None) -> None:
    """Show money limits and their use; `set` some; `reset` removes what was set, with --all the ceiling too.

    Limits apply to all your agents, processes and runs together, in addition to those of [budget] in settings files.
    """
    named: list[tuple[Window, float]] = [
        (window, amount) for window in WINDOWS if (amount := usd.get(window)) is not None
    ]
    place = str(Path(repo).resolve()) if repo else ""
    with engine() as opened:
        if action == "set":
            _refuse_none(named)
            limits = [Limit(window=window, usd=amount, agent=agent, repo=place) for window, amount in named]
            asyncio.run(opened.money.set_limits(limits, current_user()))
        elif action == "reset":
            place = asyncio.run(opened.money.repository_folder(place))
            gone = opened.money.reset(agent, place, current_user(), ceiling=whole)
            click.echo(f"taken away: {gone}", err=True)
            for kept in () if whole else opened.money.ceilings():
                click.echo(f"the ceiling of {amounts.usd(kept)} stays: corral budget reset --all", err=True)
        for run in opened.inbox.over_budget() if action != "show" else ():
            click.echo(f"run {run} was stopped by a budget; where there is room now: corral resume {run}", err=True)
        settings = opened.settings.load(Path()).budget
        found = opened.money.standings(settings)
        spent = opened.money.spending(settings)
    zone = money.zone_name(settings)
    if as_json:
        click.echo(msgspec.json.encode(_budget_document(found, spent, zone)).decode())
        return
    for window, (paid, held) in spent.items():
        held_words = f", {amounts.usd(held)} reserved for agents at work and unknown cost" if held else ""
        click.echo(f"this {window:5}  {amounts.usd(paid)} spent{held_words}  ({zone})")
    if found:
        click.echo(
            "\n"
            + "\n".join(text.table(("LIMIT", "USD", "SPENT", "RESERVED", "LEFT", "BY"), [_row(each) for each in found]))
        )
    else:
        click.echo("no limit is set; e.g.: corral budget set --per-day 10 --per-run 2", err=True)


def _refuse_none(named: Sequence[object]) -> None:
    if not named:
        raise click.UsageError("name a limit: corral budget set --per-day 10")


def _row(status: LimitStatus) -> tuple[str, ...]:
    limit = status.limit
    name = WINDOWS.get(limit.window, limit.window) + (f" of {limit.agent}" if limit.agent else "")
    place = f"{limit.where} ({limit.repo})" if limit.repo else limit.where
    if status.spent is None or status.reserved is None:
        return name, f"{limit.usd:.2f}", "-", "-", "-", place
    left = max(0.0, limit.usd - status.spent - status.reserved)
    return name, f"{limit.usd:.2f}", f"{status.spent:.2f}", f"{status.reserved:.2f}", f"{left:.2f}", place


def _budget_document(found: list[LimitStatus], spent: dict[str, tuple[float, float]], zone: str) -> dict[str, Any]:
    limits = [
        {
            "window": each.limit.window,
            "agent": each.limit.agent or None,
            "repo": each.limit.repo or None,
            "usd": each.limit.usd,
            "spent": each.spent,
            "reserved": each.reserved,
            "until": None if each.until is None else moment(each.until),
            "by": each.limit.where,
        }
        for each in found
    ]
    sums = {window: {"spent": paid, "reserved": held} for window, (paid, held) in spent.items()}
    return {"zone": zone, **sums, "limits": limits}


@click.command()
@click.option(
    "--by",
    type=click.Choice(get_args(By)),
    default="agent",
    show_default=True,
    help="Group by.",
)
@click.option("--days", type=click.IntRange(min=1), metavar="N", help="Only the last N days.  [default: all]")
@click.option("--repo", default="", metavar="DIR", help="Only this repository.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.option("--prometheus", is_flag=True, help="Print all totals in the format of Prometheus.")
@json_option
def cost(*, by: str, days: int | None, repo: str, as_csv: bool, prometheus: bool, as_json: bool) -> None:
    """Show the cost of attempts: as a table with bars, JSON or CSV. Money reserved for unknown cost is separate."""
    since = time.time() - days * 86400 if days else 0.0
    with engine() as opened:
        if prometheus:
            click.echo(opened.money.metrics(opened.settings.load(Path()).budget), nl=False)
            return
        place = str(Path(repo).resolve()) if repo else ""
        settings = opened.settings.load(Path()).budget
        found = opened.money.overview(settings, since=since, repo=place).by(cast("By", by))
        windows = opened.money.windows(found.accounts)
    rows = [msgspec.to_builtins(row) for row in found.rows]
    if as_json:
        saved = None if found.saved_usd is None else {"usd": found.saved_usd, "against": found.saved_against}
        total: dict[str, Any] = {"usd": found.usd, "source": found.source, "reserved_usd": found.reserved_usd}
        shown: dict[str, Any] = {"total": total, "by": by, "rows": rows, "saved": saved}
        if found.notional_usd:
            total |= {"notional": True, "notional_usd": found.notional_usd}
            shown["windows"] = [{"account": each.agent, **_window(each)} for each in windows]
        click.echo(msgspec.json.encode(shown).decode())
    elif as_csv:
        names = ["key", "usd", "reserved_usd", "tokens", "attempts", "done", "seconds", "unknown", "notional_usd"]
        writer = csv.DictWriter(sys.stdout, names, restval=0.0, lineterminator=os.linesep)
        writer.writeheader()
        writer.writerows(rows)
    elif not rows:
        click.echo("nothing was spent yet", err=True)
    else:
        click.echo("\n".join(_plot(found, windows)))


def _plot(found: CostTable, windows: Sequence[QuotaWindow]) -> list[str]:
    most = max((row.usd for row in found.rows), default=0.0)
    rows = [
        (
            text.one_line(row.key, 40),
            amounts.usd(row.usd),
            amounts.usd(row.reserved_usd) if row.reserved_usd else "-",
            f"{row.tokens}",
            f"{row.attempts}",
            f"{row.done}",
            "█" * round(BAR * row.usd / most) if most else "",
        )
        for row in found.rows
    ]
    lines = text.table((found.by.upper(), "SPENT", "RESERVED", "TOKENS", "ATTEMPTS", "DONE", ""), rows)
    known = f" ({found.source})" if found.source != "unknown" else ""
    lines.append(f"\n{text.spent_and_reserved(found.usd, found.reserved_usd)}{known}")
    if found.notional_usd:
        lines.append(f"{amounts.usd(found.notional_usd)} of it is notional: {notional_words(windows)}")
    unknown = sum(row.unknown for row in found.rows)
    if unknown:
        lines.append(f"attempts of unknown cost: {unknown}; what is reserved for them counts against limits")
    if found.saved_usd is not None:
        lines.append(
            f"about {amounts.usd(found.saved_usd)} less than the same tokens of {found.saved_against} would have cost"
        )
    return lines


@click.command()
@json_option
def quota(*, as_json: bool) -> None:
    """Show the quotas of agents' accounts, as reported by agents and providers, and when they reset."""
    with engine() as opened:
        found = opened.money.known_quotas()
    if as_json:
        click.echo(msgspec.json.encode([_quota(each) for each in found]).decode())
    elif not found:
        click.echo("no agent ran into a limit yet", err=True)
    else:
        head = ("ACCOUNT", "NOW", "BACK AT", "SEEN", "TIMES", "IT SAID")
        click.echo("\n".join(text.table(head, [row for each in found for row in _quota_rows(each)])))


def _quota_rows(each: Quota) -> list[tuple[str, ...]]:
    """Show one account: the limit it ran into last, then its windows."""
    name, rows = known_as(each.agent, each.account), list[tuple[str, ...]]()
    if each.times:
        back = each.cooling_until or each.until
        now = "limited" if each.cooling_until else "may be asked"
        at = text.local_time(back) if back else "it did not say"
        rows.append((name, now, at, text.age(each.at), f"{each.times}", each.message))
    for window in each.windows:
        resets = text.local_time(window.resets) if window.resets else "-"
        used = "-" if window.used is None else f"{100 * window.used:.0f} % used"
        rows.append((name, used, resets, text.age(window.at), "-", f"window: {window.name}"))
    return rows


def _quota(each: Quota) -> dict[str, Any]:
    return {
        "agent": each.agent,
        "account": each.account,
        "model": each.model,
        "limited": each.cooling_until is not None,
        "until": None if each.until is None else moment(each.until),
        "seen": moment(each.at),
        "times": each.times,
        "message": each.message,
        "windows": [_window(window) for window in each.windows],
    }


def _window(window: QuotaWindow) -> dict[str, Any]:
    return {
        "name": window.name,
        "used": window.used,
        "resets": None if window.resets is None else moment(window.resets),
        "seen": moment(window.at),
    }


@click.command()
@click.option("--off", is_flag=True, help="Allow runs to start again.")
@json_option
def halt(*, off: bool, as_json: bool) -> int:
    """Stop all your runs now, in any process, and save their work; nothing starts until `corral halt --off`.

    It waits at most 30 s, then lists what has not stopped (exit 1) and how to force it.
    """
    with engine() as opened:
        if off:
            was = opened.money.unhalt()
            click.echo("{}" if as_json else "runs may start again" if was else "nothing was halted")
            return 0
        report = asyncio.run(opened.control.halt(current_user()))
    click.echo(msgspec.json.encode(report).decode() if as_json else "\n".join(_halt_lines(report)))
    return 1 if report.not_stopped else 0


def _halt_lines(report: HaltReport) -> list[str]:
    lines = [f"halted: {_runs(len(report.stopped))} stopped; to start again: corral halt --off"]
    if report.idle:
        lines.append(f"{_runs(len(report.idle))} had nothing running: to end one, corral stop RUN")
    lines += [f"not stopped: {each.run}: {each.why}; to force it: {each.hint}" for each in report.not_stopped]
    return lines


def _runs(count: int) -> str:
    return f"{amounts.count(count, 'run')}"
