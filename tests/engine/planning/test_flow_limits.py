"""Limits of a node: what the node says counts most, then the flow's `defaults`, then the request, then the settings."""

from pathlib import Path

import pytest

from corral.config.settings import Config, Defaults
from corral.engine.planning.build_flow import build
from corral.engine.planning.preflight import Findings
from corral.model import Request
from corral.model.flow import IDLE_SECONDS, TIMEOUT_SECONDS

SETTINGS = Config(defaults=Defaults(timeout="10m", idle="5m"))


def limits(
    text: str, settings: Config, folder: Path, timeout: str | None = None, idle: str | None = None
) -> tuple[float | None, float | None]:
    file = str(folder / "flow.yaml")
    asked = Request(flow=text, flow_file=file, repo=str(folder), timeout=timeout, idle=idle)
    findings = Findings("flow.yaml")
    (node,) = build(asked, settings, (folder, folder / "state"), lambda _: (), findings).nodes
    findings.tell()
    return node.task.idle_seconds, node.task.timeout_seconds


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("nodes: {a: {run: x, idle: 15m, timeout: 60m}}", (900.0, 3600.0)),
        ("nodes: {a: {run: x, idle: 16m, timeout: 61m}}", (960.0, 3660.0)),
        ("nodes: {a: {run: x}}", (300.0, 600.0)),
        ("nodes: {a: {run: x, idle: 15m}}", (900.0, 600.0)),
        ("defaults: {idle: 15m, timeout: 60m}\nnodes: {a: {run: x, timeout: 7m}}", (900.0, 420.0)),
        ("defaults: {agent: claude, idle: 15m, timeout: 60m}\nnodes: {a: {task: x, idle: 2m}}", (120.0, 3600.0)),
    ],
)
def test_a_node_keeps_what_it_says_over_settings(text: str, found: tuple[float, float], tmp_path: Path) -> None:
    assert limits(text, SETTINGS, tmp_path) == found


def test_the_request_counts_more_than_settings_and_less_than_the_file(tmp_path: Path) -> None:
    text = "nodes: {a: {run: x, idle: 15m}}"
    assert limits(text, SETTINGS, tmp_path, timeout="3m", idle="1m") == (900.0, 180.0)


def test_without_a_word_the_standard_limits_hold(tmp_path: Path) -> None:
    assert limits("nodes: {a: {run: x}}", Config(), tmp_path) == (IDLE_SECONDS, TIMEOUT_SECONDS)
