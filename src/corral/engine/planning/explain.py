"""What an agent, a role or a flow is, where it comes from, and what it would do: for users, in plain words."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Literal

from msgspec import Struct

from corral import agents, amounts
from corral.attempt import briefing
from corral.config.paths import REPOSITORY_FILE, is_folder, user_file
from corral.config.settings import Config
from corral.engine import doctor
from corral.engine.context import Context
from corral.engine.planning import build_flow
from corral.engine.planning.preflight import Findings
from corral.machines.resolved_agent import locate_agent
from corral.model import Request
from corral.model.errors import BadRequest
from corral.model.flow import Node
from corral.rules.flows import drawing
from corral.world import untrusted_files
from corral.world.git.discovery import top_folder

MOST_FLOW = 1 << 20
ExplainedKind = Literal["agent", "role", "flow"]
STEERING = {
    "live": "they reach it at its next step",
    "turn": "they reach it when its turn ends",
    "no": "it takes none while it works",
}
WAYS = {
    "hook": "its hook asks your [policy] before each call of a tool",
    "permissions": "your [policy] answers what it asks leave for",
    "no": "your [policy] does not reach its own tools",
}


class Explanation(Struct, frozen=True, kw_only=True):
    """A name of a user's words, explained."""

    kind: ExplainedKind
    name: str
    what: str
    source: str  #: where it comes from
    points: dict[str, str]  #: label -> words
    text: str = ""  #: of a role its instructions, of a flow its graph
    next: str = ""  #: a command that uses it


async def explain_agent(context: Context, name: str, folder: Path) -> Explanation:
    """Say what an agent is, and how it would be started."""
    folder = _top(folder)
    settings = context.settings.load(folder)
    if f"agents.{name}" in settings.untrusted:
        raise settings.refusal(f"agents.{name}", f"the agent `{name}` comes from a file you have not trusted")
    agent, profile = locate_agent(name, settings)
    facts, report = agent.facts, await doctor.report_agent(name, settings)
    like = profile.like or (facts.name if facts.name != name else "")
    points = {
        "program": f"{report.program} {report.version or ''}".strip() if report.program else "not installed",
        "missing": report.remedy,
        "command": " ".join(profile.command),
        "like": like,
        "login": report.login if report.program else "",
        "model": profile.model or "its own default",
        "models": f"--agent {name}:{facts.models}" if facts.models else "",
        "network": ", ".join(report.hosts) or "no host of its own",
        "role": profile.role or "",
        "fallback": ", then ".join(profile.fallback),
        "cost": _cost(profile.cost_usd, reports=facts.reports_cost, local=facts.local),
        "resumes": "yes, its own conversation" if facts.resumes else "no: a new conversation, from a summary",
        "messages": STEERING[facts.steers],
        "tools": "Corral's toolbox and your MCP servers" if facts.mcp else "its own only; it takes no MCP servers",
        "rules": WAYS[facts.rules],
        "images": "yes" if facts.images else "no",
        "reads": ", ".join(facts.reads),
        "used by": ", ".join(_users(name, settings, folder)),
    }
    return Explanation(
        kind="agent",
        name=name,
        what=f"a program of the family `{profile.family or facts.family}` that works on tasks in a box",
        source=_agent_source(name, settings),
        points={label: words for label, words in points.items() if words},
        next=f'corral run "TASK" --agent {name}',
    )


def explain_role(context: Context, name: str, folder: Path) -> Explanation:
    """Say what a role tells an agent, and which of several files counts."""
    folder = _top(folder)
    settings = context.settings.load(folder)
    text = briefing.role(name, folder, theirs_first=True)
    ours = briefing.role(name, folder, theirs_first=False)
    places = [place for place in (folder / ".corral" / "roles", user_file().parent / "roles") if
              untrusted_files.read(place / f"{name}.md", briefing.MOST_SKILL) is not None]  # fmt: skip
    files = [str(place / f"{name}.md") for place in places]
    built_in = (briefing.BUILT_IN / f"{name}.md").is_file()
    sources = [*files, *(["built in"] if built_in else [])]
    used = [f"agent {each}" for each, profile in settings.agents.items() if profile.role == name]
    used += [f"flow {each}" for each in build_flow.template_names()
             if f"role: {name}\n" in build_flow.template(each)]  # fmt: skip
    points = {
        "hides": ", ".join(sources[1:]),
        "trust": "an untrusted repository's file never replaces one of the same name" if text != ours else "",
        "used by": ", ".join(used),
    }
    return Explanation(
        kind="role",
        name=name,
        what="instructions that an agent reads before its task; it changes neither agent nor scope",
        source=sources[0],
        points={label: words for label, words in points.items() if words},
        text=text,
        next=f'corral run "TASK" --role {name}',
    )


def explain_flow(context: Context, name: str, folder: Path) -> Explanation:
    """Say what a flow would do, node by node; its agents need not be installed."""
    top = _top(folder)
    text, source, file = _flow_text(name, folder, top)
    findings = Findings(file or name)
    request = Request(flow=text, flow_file=file, repo=str(top), draft=True)
    flow = build_flow.read_flow_file(request, context.settings.load(top), (top, context.home), findings)
    findings.tell()
    inputs = [f"{key} (default: {value})" if value is not None else key for key, value in flow.inputs.items()]
    points = {
        "nodes": str(len(flow.nodes)),
        "inputs": ", ".join(inputs),
        "budget": amounts.usd(flow.budget_usd) if flow.budget_usd is not None else "your own limits only",
        "failure": "the rest stops" if flow.on_failure == "stop" else "what does not need the failed node continues",
        **{node.id: _node_words(node) for node in flow.nodes},
    }
    return Explanation(
        kind="flow",
        name=name,
        what=f"a graph of {len(flow.nodes)} nodes: `{flow.name}`",
        source=source,
        points={label: words for label, words in points.items() if words},
        text="\n".join(drawing.text(flow)),
        next=f"corral flow run {shlex.quote(file)} --dry-run" if file else f"corral flow new {name}",
    )


def _top(folder: Path) -> Path:
    """Return the top of the repository that holds a folder: what runs there reads settings, roles and flows there."""
    if not is_folder(folder):
        raise BadRequest(f"{folder}: there is no such folder", hint="a repository, or a folder in one")
    return top_folder(folder)


def _flow_text(name: str, folder: Path, top: Path) -> tuple[str, str, str | None]:
    """Return the text of a flow, where it comes from, and its file: a path, a flow of the repository or our own."""
    flows = top / ".corral" / "flows"
    for file in (folder / name, Path(name), flows / name, flows / f"{name}.yaml"):
        content = untrusted_files.read(file.absolute(), MOST_FLOW)
        if content is not None:
            return content.decode(errors="replace"), str(file.absolute()), str(file.absolute())
    if name in build_flow.template_names():
        return build_flow.template(name), "built in", None
    known = ", ".join(build_flow.template_names())
    raise BadRequest(f"there is no flow `{name[:100]}`", hint=f"a file, a name in .corral/flows, or one of {known}")


def _agent_source(name: str, settings: Config) -> str:
    profile = settings.agents.get(name)
    if profile is None or name in agents.BUILT_IN:
        made = "built in" if name in agents.BUILT_IN or name.startswith("acp:") else "a plug-in: corral plugins ls"
        return f"{made}; settings: {profile.folder or user_file().parent}" if profile else made
    own = user_file().parent
    file = user_file() if profile.folder in ("", str(own)) else Path(profile.folder) / REPOSITORY_FILE
    return f"[agents.{name}] in {file}"


def _users(name: str, settings: Config, folder: Path) -> list[str]:
    """Return what would break if the agent were removed."""
    found = ["[defaults]"] if settings.defaults.agent == name else []
    for other, profile in settings.agents.items():
        if other != name and (profile.like == name or name in profile.fallback):
            found.append(f"agent {other}")
    place = folder / ".corral" / "flows"
    for file in untrusted_files.names(place):
        content = untrusted_files.read(place / file, MOST_FLOW) or b""
        words = content.decode(errors="replace").replace(",", " ").replace("[", " ").replace("]", " ").split()
        if {name, f'"{name}"'} & {*words}:
            found.append(f"flow {file}")
    return found


def _cost(fixed_usd: float | None, *, reports: bool, local: bool) -> str:
    if fixed_usd is not None:
        return f"{amounts.usd(fixed_usd)} for each attempt"
    if local:
        return "nothing: its models run on your machine"
    return "reported by the agent, and metered" if reports else "metered where its provider is, else unknown"


def _node_words(node: Node) -> str:
    """Say what a node does, and what holds for it."""
    task, parts = node.task, [drawing.what(node)]
    if node.kind == "task" and task.prompt:
        parts.append(" ".join(task.prompt.split())[:120])
    parts += [f"after {', '.join(edge.node for edge in node.needs)}"] if node.needs else []
    parts += ["changes nothing"] if task.read_only else []
    parts += [f"checked by {', '.join(f'`{check}`' for check in task.checks)}"] if task.checks else []
    parts += [f"at most {amounts.usd(task.budget_usd)}"] if task.budget_usd is not None else []
    return "; ".join(parts)
