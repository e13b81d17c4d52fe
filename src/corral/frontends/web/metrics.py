"""Numbers of one server as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from corral.frontends.web.app_state import Site
from corral.version import __version__


def text(site: Site) -> str:
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
            _gauge("corral_driven", "Runs that this process drives.", [({}, len(site.foreman.active))]),
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
