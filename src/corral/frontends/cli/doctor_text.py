"""What this machine offers, in words: the table of agents, the report of `doctor`, and explanations."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill

from corral.engine.doctor import AgentReport, Doctor
from corral.engine.planning.explain import Explanation
from corral.frontends import text as words

HEAD = ("AGENT", "VERSION", "LOGIN", "MODELS", "RESUMES", "COST", "MCP", "ACP")


def _row(agent: AgentReport) -> tuple[str, ...]:
    return (
        agent.name,
        agent.version or "-",
        agent.login,
        f":{agent.models}" if agent.models else "-",
        "yes" if agent.resumes else "no",
        "reported" if agent.reports_cost else "unknown",
        "yes" if agent.mcp else "no",
        "yes" if agent.acp else "no",
    )


def agents_table(found: Sequence[AgentReport]) -> list[str]:
    """Lay out the agents; what may be long, and must not be cut, is below the table."""
    lines = words.table(HEAD, [_row(agent) for agent in found], drop=("ACP", "MCP", "RESUMES", "MODELS", "COST"))
    usable = [(agent.name, agent.program) for agent in found if agent.program]
    lacking = [(agent.name, agent.remedy) for agent in found if agent.remedy]
    size = max(len(agent.name) for agent in found)
    for head, rows in (("their programs:", usable), ("what helps where one is missing or old:", lacking)):
        if rows:
            lines += ["", head, *(f"  {name:<{size}}  {text}" for name, text in rows)]
    return lines


def explanation_lines(found: Explanation) -> list[str]:
    """Lay out what an agent, a role or a flow is."""
    points = {"from": found.source, **found.points}
    size = max(map(len, points))
    lines = [words.printable(f"{found.kind} {found.name}: {found.what}")]
    lines += [f"{label:<{size}}  {words.printable(about)}" for label, about in points.items()]
    if found.text:
        lines += ["", *map(words.printable, found.text.splitlines())]
    return [*lines, "", f"use it: {words.printable(found.next)}"]


def report_lines(report: Doctor) -> list[str]:
    listed = [agent for agent in report.agents if agent.program or not agent.shipped]
    absent = [agent.name for agent in report.agents if agent not in listed]
    lines = [*agents_table(listed), ""]
    if absent:
        names = fill(f"not installed: {', '.join(absent)}", 78, subsequent_indent="  ", break_on_hyphens=False)
        lines += [*names.splitlines(), "  (how to get them: corral agents)", ""]
    size = max(len(part.name) for part in report.parts)
    indent = " " * (size + 6)
    for part in report.parts:
        lines.append(f"{'ok ' if part.ok else 'BAD'}  {part.name:<{size}} {part.found}")
        better = report.sandbox.wanting if part.name == "sandbox" else ()
        missing: dict[tuple[str, str], list[str]] = {}  # levels by what they lack
        for each in better:
            missing.setdefault((each.reason, each.remedy), []).append(each.level)
        for (reason, remedy), levels in missing.items():
            lines += [f"{indent}not {' or '.join(levels)}: {reason}", f"{indent}fix: {remedy}"]
        if part.remedy and part.remedy not in [each.remedy for each in better]:
            lines.append(f"{indent}fix: {part.remedy}")
    if report.ready:
        lines += ["", f"ready: {report.next}"]
    else:
        start = "not ready" if report.ok else "nothing can run here yet"
        lines += ["", f"{start}: {report.why}", f"next: {report.next}"]
    return lines
