"""`artifacts`: named files that a run left."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from corral import amounts
from corral.frontends import text
from corral.frontends.cli.look import engine, json_option
from corral.frontends.cli.run_argument import run_argument
from corral.frontends.text import patch_sink
from corral.model.errors import BadRequest

NONE = "this run left no artifacts; a node of a flow names them: artifacts: {report: out/report.html}"


@click.command()
@run_argument
@click.argument("name", required=False)
@click.option("--out", metavar="FILE", help="Write the artifact to this new file instead of stdout.")
@json_option
def artifacts(run: str, name: str | None, out: str | None, *, as_json: bool) -> None:
    """List the named files that RUN left, or print the one called NAME (or NODE/NAME)."""
    if out is not None and name is None:
        raise BadRequest("--out needs the name of an artifact", hint="corral artifacts RUN NAME --out FILE")
    gone, until = frozenset[str](), None
    with engine() as opened:
        if name is None:
            found = opened.work.artifacts(run)
            gone, until = opened.work.gone_artifacts(run), opened.work.artifacts_kept_until(run)
        else:
            artifact, content = opened.work.artifact(run, name)
            found = (artifact,)
            if out is not None:
                _write(Path(out).expanduser(), content)
            elif not as_json:
                patch_sink()(content)
                return
    if as_json:
        click.echo(msgspec.json.encode(found if name is None else found[0]).decode())
    elif not found:
        click.echo(NONE, err=True)
    else:
        rows = [
            (each.name, each.node, "cleaned" if each.sha256 in gone else f"{each.size} B", each.sha256[:12], each.path)
            for each in found
        ]
        click.echo("\n".join(text.table(("ARTIFACT", "NODE", "SIZE", "SHA256", "PATH"), rows)))
        if len(gone) < len({each.sha256 for each in found}):
            when = f"{amounts.utc_time(until)[:10]}: [clean] older" if until else "`corral clean` removes the run"
            click.echo(f"kept until {when}", err=True)


def _write(file: Path, content: bytes) -> None:
    try:
        with file.open("xb") as written:
            written.write(content)
    except FileExistsError:
        raise BadRequest(f"--out {file}: the file exists already", hint="name a new one") from None
    except OSError as error:
        raise BadRequest(f"--out {file}: {error.strerror}", hint="name a new file in a folder that is there") from error
