"""`corral init`: three questions, two commented settings files."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click
import msgspec

from corral import amounts
from corral.engine.first_settings import FoundSettings, SettingsAnswers
from corral.frontends.cli.look import engine, json_option
from corral.model.errors import BadRequest

USUAL_BUDGET_USD = 5.0


@click.command()
@click.option("--repo", default=".", metavar="DIR", help="Repository.  [default: .]")
@click.option("--agent", metavar="NAME", help="Default agent; see `corral agents`.  [default: the first that is ready]")
@click.option(
    "--check", "checks", multiple=True, metavar="CMD", help="Default check; repeatable.  [default: those found]"
)
@click.option("--no-checks", is_flag=True, help="No default check.")
@click.option(
    "--budget", "budget_usd", type=click.FloatRange(min=0, min_open=True), metavar="USD", help="Limit for each task."
)
@json_option
def init(
    *, repo: str, agent: str | None, checks: tuple[str, ...], no_checks: bool, budget_usd: float | None, as_json: bool
) -> None:
    """Write your settings and those of this repository: default agent, checks, budget.

    On a terminal, it asks for every missing option. Existing keys stay: it adds missing keys and refuses a
    different value. Without a terminal, it uses the checks found in the repository.
    """
    if checks and no_checks:
        raise BadRequest("--check and --no-checks contradict each other", hint="leave one of them out")
    folder = Path(repo)
    if not folder.is_dir():
        raise BadRequest(f"{repo}: there is no such folder", hint="name a repository with --repo DIR")
    answers = SettingsAnswers(agent=agent, checks=checks or (() if no_checks else None), budget_usd=budget_usd)
    with engine() as opened:
        found = asyncio.run(opened.look_for_settings(folder))
        asks = sys.stdin.isatty() and sys.stderr.isatty() and not as_json
        answers = _ask(found, answers) if asks else _fill(found, answers)
        written = opened.write_settings(folder, answers)
    if as_json:
        click.echo(msgspec.json.encode({**msgspec.to_builtins(written), "next": "corral doctor"}).decode())
        return
    if not found.repository:
        click.echo("this folder is no git repository: agents work on a copy of it, and nothing can be merged", err=True)
        click.echo("hint: git init && git add --all && git commit -m 'First commit'", err=True)
    click.echo(f"agent     {written.agent or 'none is installed; corral agents says how to get one'}")
    click.echo(f"checks    {'; '.join(written.checks) or 'none found; add them to corral.toml, or say --check CMD'}")
    click.echo(f"budget    {f'{amounts.usd(written.budget_usd)} for each task' if written.budget_usd else 'no limit'}")
    if written.missing:
        click.echo(f"not found here: {', '.join(written.missing)}; without it that check fails", err=True)
        click.echo("hint: install it, or change checks in corral.toml", err=True)
    for file in written.files:
        click.echo(f"{file.state:<10}{file.path}")
    click.echo("next      corral doctor")


def _fill(found: FoundSettings, answers: SettingsAnswers) -> SettingsAnswers:
    """Take what was found for what nobody answered."""
    return SettingsAnswers(
        agent=answers.agent or (None if found.set_agent else found.agent),
        checks=answers.checks if answers.checks is not None or found.set_checks else found.checks or None,
        budget_usd=answers.budget_usd,
    )


def _ask(found: FoundSettings, answers: SettingsAnswers) -> SettingsAnswers:
    agent, checks, budget_usd = answers.agent, answers.checks, answers.budget_usd
    if agent is None and found.set_agent is None:
        click.echo(f"Installed agents: {', '.join(found.agents) or 'none'}", err=True)
        agent = click.prompt("Default agent", default=found.agent or "claude", err=True)
    if checks is None and not found.set_checks:
        typed: str = click.prompt("Checks, separated by ;", default="; ".join(found.checks) or "none", err=True)
        checks = () if typed == "none" else tuple(part.strip() for part in typed.split(";") if part.strip())
    if budget_usd is None and found.set_budget_usd is None:
        limit: float = click.prompt(
            "Budget for each task in USD (0: no limit)",
            type=click.FloatRange(min=0),
            default=USUAL_BUDGET_USD,
            err=True,
        )
        budget_usd = limit or None
    return SettingsAnswers(agent=agent, checks=checks, budget_usd=budget_usd)
