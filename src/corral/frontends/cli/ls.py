"""`ls`: the list of runs, asked again and again, so it loads no more than it needs."""

from __future__ import annotations

from typing import Unpack

import click
import msgspec

from corral.frontends import run_rows
from corral.frontends.cli.run_argument import engine
from corral.frontends.run_filters import Filters, read_filter


@click.command()
@click.option("-n", "most", type=click.IntRange(min=1), help="Maximum number of runs.  [default: 30; all with --json]")
@click.option("--status", multiple=True, metavar="STATUS,..", help="Only runs with these statuses; repeatable.")
@click.option(
    "--label", multiple=True, metavar="KEY[=VALUE]", help="Only runs with this label; repeat to require several."
)
@click.option("--repo", metavar="DIR", help="Only runs of this repository.")
@click.option("--agent", metavar="NAME", help="Only runs in which this agent made an attempt.")
@click.option("--unmerged", is_flag=True, help="Only runs whose work is not merged.")
@click.option("--since", metavar="TIME", help="Only runs started since then: 2d, 12h, 2026-05-01.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def ls(*, most: int | None, as_json: bool, **filters: Unpack[Filters]) -> None:
    """List runs, newest first."""
    with engine() as opened:
        lines = opened.history.page(read_filter(most or (1_000_000 if as_json else run_rows.USUAL), filters))
    if as_json:
        click.echo(msgspec.json.encode(lines).decode())
    elif not lines:
        click.echo(run_rows.NONE_FITS if any(filters.values()) else run_rows.NONE, err=True)
    else:
        click.echo(run_rows.run_table(lines))
