"""`serve`, `token`: the HTTP API and the page, and who may use them."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from corral.config.paths import is_folder
from corral.frontends import text
from corral.frontends.cli.look import engine, json_option
from corral.model.errors import BadRequest
from corral.model.server import SCOPES

if TYPE_CHECKING:
    from corral.frontends.web.server import ServerAddress

PORT = 4747


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="Port; 0 is any free port."
)
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="Address to listen on.  [default: 127.0.0.1]")
@click.option(
    "--root", "roots", multiple=True, metavar="DIR", help="Folder whose repositories requests may use; repeatable."
)
@click.option(
    "--host-name", "names", multiple=True, metavar="NAME", help="Public host name, such as that of a proxy; repeatable."
)
@click.option("--tls-cert", "certificate", type=click.Path(exists=True, path_type=Path), help="Certificate for TLS.")
@click.option("--tls-key", "key", type=click.Path(exists=True, path_type=Path), help="Key of the certificate.")
@click.option("--behind-tls", "secure", is_flag=True, help="A proxy handles TLS: send cookies only over TLS.")
@click.option("--plain-http", is_flag=True, help="Allow other addresses without TLS.")
@click.option(
    "--rate",
    type=click.FloatRange(min=0),
    default=100.0,
    help="Maximum requests per second of each token; 0 is no limit.  [default: 100]",
)
@click.option(
    "--body-bytes", type=click.IntRange(min=1000), default=1 << 20, help="Maximum size of a body.  [default: 1 MiB]"
)
@click.option(
    "--body-seconds",
    type=click.FloatRange(min=0.1),
    default=30.0,
    help="Maximum seconds to receive a body.  [default: 30]",
)
@click.option("--resume/--no-resume", default=True, help="Continue runs whose process is gone.  [default: --resume]")
@click.option(
    "--log",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Format of the log on stderr.  [default: text]",
)
@click.option("-v", "--verbose", is_flag=True, help="Log every request.")
def serve(  # noqa: PLR0913 -- what Click hands over
    *,
    port: int,
    host: str,
    roots: tuple[str, ...],
    names: tuple[str, ...],
    certificate: Path | None,
    key: Path | None,
    form: str,
    verbose: bool,
    **more: object,
) -> int:
    """Serve the HTTP API and the page, and run what is queued, until stopped.

    It prints its address, at the first start a token, and a link that opens the page once. When it ends, its runs
    are as after a crash: the next `corral serve` continues them.
    """
    from corral.frontends.web import server  # noqa: PLC0415
    from corral.frontends.web.app_state import ServerSettings  # noqa: PLC0415
    from corral.frontends.web.logs import set_up  # noqa: PLC0415 -- only this command needs the web

    set_up(as_json=form == "json", level=logging.INFO if verbose or form == "json" else logging.WARNING)
    settings = ServerSettings(
        roots=_roots(roots),
        hosts=names,
        secure=bool(more["secure"]),
        rate_per_second=float(str(more["rate"])),
        body_bytes=int(str(more["body_bytes"])),
        body_seconds=float(str(more["body_seconds"])),
    )
    listening = server.ListenOptions(
        host=host,
        port=port,
        certificate=certificate,
        key=key,
        plain_http=bool(more["plain_http"]),
        resume=bool(more["resume"]),
    )
    return server.serve(listening, settings, _announce)


def _announce(what: ServerAddress) -> None:
    sys.stdout.write(f"{what.address}\n")
    if what.token:
        sys.stdout.write(f"token: {what.token}\n")
    sys.stdout.flush()
    if what.token:
        click.echo("keep the token: it is not shown again (corral token new makes others)", err=True)
    click.echo(f"open the page, once: {what.link}", err=True)


def _roots(named: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the folders below which requests may use repositories: those named, or the repository we are in."""
    found: list[Path] = []
    for name in named or (".",):
        folder = Path(name).expanduser().resolve()
        if not is_folder(folder):
            raise BadRequest(f"--root {name}: there is no such folder", hint="name a folder that exists")
        found.append(folder if named else _top(folder))
    return tuple(found)


def _top(folder: Path) -> Path:
    return next((place for place in (folder, *folder.parents) if (place / ".git").exists()), folder)


# --- tokens


@click.group()
def token() -> None:
    """Create, list and revoke tokens for the server."""


@token.command("new")
@click.option("--name", default="", metavar="TEXT", help="What it is for.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(SCOPES),
    help="What it may do; repeatable.  [default: read, run]",
)
@json_option
def new(name: str, scopes: tuple[str, ...], *, as_json: bool) -> None:
    """Make a token, and print its secret: it is not shown again."""
    with engine() as opened:
        made = opened.access.create(name or "unnamed", scopes or ("read", "run"))
    click.echo(msgspec.json.encode(made).decode() if as_json else made.secret)


@token.command("callback")
def show_callback_secret() -> None:
    """Print the secret that signs callbacks of runs (`corral run --callback`)."""
    with engine() as opened:
        click.echo(opened.callbacks.secret())


@token.command("ls")
@json_option
def list_(*, as_json: bool) -> None:
    """List tokens; their secrets are not kept."""
    with engine() as opened:
        found = opened.access.tokens()
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
        return
    rows = [
        (each.id, each.name, ",".join(each.scopes), text.age(each.created), _last_used(each.used), _state(each.revoked))
        for each in found
    ]
    click.echo("\n".join(text.table(("TOKEN", "NAME", "SCOPES", "AGE", "USED", "STATE"), rows)))


def _last_used(at: float | None) -> str:
    return "never" if at is None else f"{text.age(at)} ago" if time.time() - at > 60 else "just now"


def _state(revoked: float | None) -> str:
    return "counts" if revoked is None else "revoked"


@token.command("revoke")
@click.argument("name", metavar="TOKEN")
def revoke(name: str) -> None:
    """Revoke a token; browsers that logged in with it are out as well."""
    with engine() as opened:
        opened.access.revoke(name)
    click.echo(f"revoked: {name}")
