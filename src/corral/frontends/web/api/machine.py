"""The machine: agents, health, metrics."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from fastapi import APIRouter
from msgspec import Struct
from starlette.responses import PlainTextResponse, Response

from corral.engine.doctor import AgentReport, Doctor
from corral.engine.machine_reports import MachineReport
from corral.frontends.web.app_state import CurrentSite, Site
from corral.frontends.web.auth import Reader
from corral.frontends.web.bodies import OPEN, answer, gives
from corral.model.errors import CorralError
from corral.version import __version__

router = APIRouter(tags=["machine"])
open_router = APIRouter(tags=["machine"])  #: without a token: they say nothing that is anybody's


class Health(Struct, frozen=True, kw_only=True):
    """Whether the server can do its work, and what of it is not as it should be."""

    status: str  #: ok, degraded or down
    version: str
    parts: dict[str, str]  #: name to `ok`, or what is wrong


@router.get("/agents", responses=gives(list[AgentReport]))
async def agents(site: CurrentSite, _: Reader) -> Response:
    """List the available agents and their properties."""
    return answer(await site.engine.list_agents())


@router.get("/machines", responses=gives(list[MachineReport]))
async def machines(site: CurrentSite, _: Reader) -> Response:
    """List the machines on which attempts can run, each asked now."""
    return answer(await site.engine.list_machines())


@router.get("/doctor", responses=gives(Doctor))
async def doctor(site: CurrentSite, _: Reader) -> Response:
    """Report what can run here, and how to fix what cannot."""
    return answer(await site.engine.examine())


@router.get("/health", responses=gives(Health))
async def health(site: CurrentSite, _: Reader) -> Response:
    """Describe what is degraded."""
    return answer(_health(site))


@router.get("/metrics", responses={200: {"description": "Prometheus text.", "content": {"text/plain": {}}}})
async def show_metrics(site: CurrentSite, _: Reader) -> Response:
    """Return metrics in the format of Prometheus."""
    return PlainTextResponse(metrics_text(site), media_type="text/plain; version=0.0.4; charset=utf-8")


@open_router.get("/health/live", responses=gives(dict[str, str]), openapi_extra=OPEN)
async def live() -> Response:
    """Report that the process answers."""
    return answer({"status": "ok"})


@open_router.get(
    "/health/ready", openapi_extra=OPEN,
    responses={**gives(dict[str, str]), **gives(dict[str, str], 503, "Work cannot be taken up.")},
)  # fmt: skip
async def ready(site: CurrentSite) -> Response:
    """Report whether the server can start work; 503 if not."""
    status = _health(site).status
    return answer({"status": status}, 503 if status == "down" else 200)


def _health(site: Site) -> Health:
    parts: dict[str, str] = {}
    try:
        started = time.perf_counter()
        site.engine.check_writable()
        slow = time.perf_counter() - started > 1.0
        parts["store"] = "writing takes more than a second" if slow else "ok"
        parts["queue"] = "held: nothing is taken up" if site.engine.queue.is_held else "ok"
        parts["money"] = f"everything is halted ({where})" if (where := site.engine.money.halted_by()) else "ok"
    except CorralError as error:
        parts["store"] = f"down: {error}"
    parts["supervisor"] = site.supervisor.trouble() or "ok"
    down = parts["store"].startswith("down") or parts["supervisor"].startswith("down")
    good = all(words == "ok" for words in parts.values())
    return Health(status="down" if down else "ok" if good else "degraded", version=__version__, parts=parts)


def metrics_text(site: Site) -> str:
    """Return all numbers; those of runs and attempts are of the whole store."""
    engine = site.engine
    queue = engine.queue.state(1)
    runs = engine.history.run_counts()
    return "".join(
        (
            _gauge("corral_info", "What serves.", [({"version": __version__}, 1)]),
            _gauge("corral_runs", "Runs by status.", [({"status": key}, n) for key, n in runs.items()]),
            _gauge("corral_queue_waiting", "Runs that wait to be taken up.", [({}, queue.count)]),
            _gauge("corral_queue_held", "1 while nothing is taken up.", [({}, int(queue.held))]),
            _gauge("corral_queue_concurrency", "Runs at once, at most.", [({}, queue.concurrency)]),
            _gauge("corral_driven", "Runs that this process drives.", [({}, len(site.supervisor.active))]),
            _gauge("corral_viewers", "Who watches events.", [({}, site.hub.count)]),
            _gauge("corral_events", "Sequence number of the last event.", [({}, engine.history.last_sequence())]),
            _gauge("corral_delivered_total", "Events handed to viewers.", [({}, site.hub.delivered)], kind="counter"),
            engine.money.metrics(engine.settings.load(Path()).budget),
        )
    )  # fmt: skip


def _gauge(name: str, words: str, values: Iterable[tuple[dict[str, str], float]], kind: str = "gauge") -> str:
    lines = [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]
    lines += [f"{name}{_labels(labels)} {value:g}" for labels, value in values]
    return "\n".join(lines) + "\n"


def _labels(labels: dict[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
