"""From a request to a flow: a strategy or a flow file, with every agent, role and skill in it found by its name."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from corral import agents
from corral.attempt import briefing
from corral.attempt.toolbox.stored_tools import StoredTools
from corral.config import paths
from corral.config.paths import MOST_SETTINGS, is_file
from corral.config.settings import Config
from corral.config.times import duration
from corral.engine import recordings
from corral.engine.planning.preflight import Findings
from corral.engine.planning.routing import History, route_agents
from corral.machines.resolved_agent import resolve_agent
from corral.model import Request
from corral.model.agent_api import AgentProfile
from corral.model.errors import BadRequest, NotFound
from corral.model.flow import (
    IDLE_SECONDS,
    TIMEOUT_SECONDS,
    AgentChoice,
    Flow,
    Node,
    PlanSpec,
    ProgramSpec,
    Task,
    TaskImage,
)
from corral.model.program import MOST_SOURCE_BYTES, ApprovedTool
from corral.model.values import MOST_RETRIES, MOST_TOKENS
from corral.rules.flows import planned_flow, short_schema, strategies
from corral.rules.flows.reader import KeptProgram, KnownNames, read_flow
from corral.rules.flows.routing import AUTO
from corral.rules.flows.strategies import weights_of
from corral.world import untrusted_files

MOST_DIGITS = 24  #: of a number that is shown
MOST_TASK = 10 << 20
MOST_RIVALS = 16
MOST_IMAGES = 10
MOST_IMAGE_BYTES = 5 << 20
#: What a file of each kind begins with.
IMAGE_KINDS = {
    "png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "jpeg": re.compile(rb"\xff\xd8\xff"),
    "gif": re.compile(rb"GIF8[79]a"),
    "webp": re.compile(rb"RIFF....WEBP", re.DOTALL),
}
MOST_QUESTION = 300
TEMPLATES = Path(__file__).parents[2] / "templates"
SHAPE_HINT = """'{"verdict": ["accept", "reject"], "notes": "string"}', a JSON Schema, or a file with either"""
OWN_SHAPES = ("architect", "reviewer")  #: whose part of a strategy has a shape of its own
SHELL = AgentChoice("shell")


def build(request: Request, settings: Config, where: tuple[Path, Path], history: History, findings: Findings) -> Flow:
    """Return the flow that a request means, ready to be carried out unless something was found.

    `where` is the top folder of the repository, and the state folder.
    """
    repo = where[0]
    from_file = request.flow is not None
    if from_file and request.images:
        raise BadRequest(
            "--image: a flow has tasks of its own", hint="images go with a task: corral run TASK --image FILE"
        )
    flow = read_flow_file(request, settings, where, findings) if from_file else _by_strategy(request, settings)
    if request.flow is not None:
        flow = structs.replace(flow, nodes=tuple(_with_default_agent(node, request, settings) for node in flow.nodes))
    left_open = frozenset(node.id for node in flow.nodes if node.agent.name == AUTO and not node.fallback)
    try:
        flow = route_agents(flow, settings, history, lambda text: _choice(text, settings))
    except BadRequest:
        findings.tell()
        raise
    if request.judge and not any(node.rivals for node in flow.nodes):
        raise BadRequest("--judge: there is no race, so nothing to compare", hint="name several agents: --agent a,b")
    limits = [limit for limit in (flow.budget_usd, _budget(request, settings)) if limit is not None]
    flow = structs.replace(flow, budget_usd=min(limits) if limits else None)
    if request.flow is not None:
        named = dict[str, Node]()
        for node in flow.nodes:
            with findings.at(node.id, "agent"):
                named[node.id] = _resolve_agents(node, request, settings, ours=node.id in left_open)
        flow = structs.replace(flow, nodes=tuple(named.get(node.id, node) for node in flow.nodes))
    ready = dict[str, Node]()
    for node in flow.nodes:
        with findings.at(node.id, "skills"):
            ready[node.id] = (
                make_ready(node, flow, request, settings, repo) if findings.has_known_agents(node.id) else node
            )
    flow = structs.replace(flow, nodes=tuple(ready.get(node.id, node) for node in flow.nodes))
    if request.approve is None:
        return flow
    question = " ".join((request.question or f"Start this? {flow.title}").split())[:MOST_QUESTION].replace("{{", "{ {")
    return strategies.with_approval(flow, duration(request.approve, "approve"), question)


def _with_default_agent(node: Node, request: Request, settings: Config) -> Node:
    """Put the user's agent in where a flow file names none and theirs is to be found yet."""
    asked = request.agents or (settings.defaults.agent,)
    left_open = node.kind == "task" and not node.agent.name and tuple(asked) == (AUTO,)
    return structs.replace(node, agent=AgentChoice(AUTO)) if left_open else node


def template(name: str) -> str:
    """Return the text of a built-in flow."""
    file = TEMPLATES / f"{name}.yaml"
    if name not in template_names():
        raise BadRequest(f"there is no template `{name}`", hint="known: " + ", ".join(template_names()))
    return file.read_text(encoding="utf-8")


def template_names() -> list[str]:
    return sorted(file.stem for file in TEMPLATES.glob("*.yaml"))


def named_flow(name: str, repo: Path) -> str:
    """Return the text of a flow in `.corral/flows` of a repository, or of a built-in one."""
    text = _nested_text(name, (repo.resolve() / ".corral" / "flows",))
    if text is None:
        raise NotFound(
            f"there is no flow `{name[:100]}`", hint="a file in .corral/flows, or one of " + ", ".join(template_names())
        )
    return text


# --- from a file


def read_flow_file(request: Request, settings: Config, where: tuple[Path, Path], findings: Findings) -> Flow:
    """Return the flow of a file, without what it gets from settings; `findings` takes its mistakes."""
    if request.prompt.strip() or request.tasks or request.strategy:
        raise BadRequest(
            "a flow file says itself what is to be done", hint="give values to its inputs: --input NAME=.."
        )
    repo = where[0]
    folder = Path(request.flow_file).parent if request.flow_file else repo
    names = frozenset((*agents.names(settings.agents), AUTO))
    known = KnownNames(
        agents=names,
        roles=frozenset(briefing.role_names(repo)),
        nested=lambda name: _nested_text(name, (folder.resolve(), repo.resolve() / ".corral" / "flows")),
        program=lambda name: _program_text(name, (folder.resolve(), repo.resolve() / ".corral" / "programs")),
        tool=lambda name: _kept_tool(name, StoredTools(*where)),
        draft=request.draft,
    )
    found = read_flow(request.flow or "", known, request.inputs)
    findings.read(found)
    if not found.flow.nodes:
        findings.tell()
    if found.mistakes:  # what is not understood is left out: it would only be reported twice
        sound = [node for node in found.flow.nodes if all(each.name in names or not each.name for each in
                 (node.agent, *node.rivals, *node.fallback, *((node.judge,) if node.judge else ())))]  # fmt: skip
        return structs.replace(found.flow, nodes=tuple(structs.replace(node, needs=()) for node in sound))
    return found.flow


def _program_text(name: str, folders: Iterable[Path]) -> str | None:
    """Return the text of a program: beside the flow that names it, or in the repository. Links are not followed."""
    if name.startswith("/") or ".." in Path(name).parts:
        return None
    for folder in folders:
        content = untrusted_files.read(folder / name, MOST_SOURCE_BYTES + 1)
        if content is not None and len(content) <= MOST_SOURCE_BYTES:
            return content.decode(errors="replace")
    return None


def _kept_tool(name: str, stored: StoredTools) -> KeptProgram | str:
    """Return a tool that the user keeps and has approved, or why a flow cannot have it."""
    try:
        tool = stored.find_approved(name)
    except BadRequest as error:
        return str(error)
    about = tool.declaration
    kept = ApprovedTool(
        name=name, folder=tool.folder, hash=tool.hash, input_schema=about.input_schema, limits=about.limits
    )
    program = tool.program
    spec = ProgramSpec(
        name=program.name, language=program.language, source=program.source, tools=program.tools, kept=kept
    )
    return KeptProgram(spec=spec, output=about.output_schema)


def _nested_text(name: str, folders: Iterable[Path]) -> str | None:
    """Return the text of another flow file: beside the one that names it, in the repository, or ours.

    Links are not followed, except in our own folder: a repository could show any file of the user in a prompt.
    """
    if name.startswith("/") or ".." in Path(name).parts:
        return None
    for folder in folders:
        for file in (folder / name, folder / f"{name}.yaml"):
            content = untrusted_files.read(file, MOST_TASK + 1)
            if content is not None and len(content) <= MOST_TASK:
                return content.decode(errors="replace")
    own = name.removesuffix(".yaml")
    return template(own) if own in template_names() else None


# --- by strategy


def _by_strategy(request: Request, settings: Config) -> Flow:
    texts = [text for text in (request.prompt, *request.tasks) if text.strip()]
    if not texts:
        raise BadRequest("the task is empty", hint='say what is to be done: corral run "fix the flaky test"')
    tasks = [_task(request, settings, text) for text in texts]
    choices = _choices(request, settings)
    fallback = _fallbacks(request, settings, choices[0])
    strategy = request.strategy or ("parallel" if len(tasks) > 1 else "race" if len(choices) > 1 else "single")
    if len(tasks) > 1 and strategy not in ("parallel", "auto"):
        raise BadRequest(
            f"--strategy {strategy} takes one task, and there are {len(tasks)}", hint="--strategy parallel"
        )
    if len(choices) > 1 and strategy not in ("race", "auto"):
        raise BadRequest(
            f"--strategy {strategy} takes one agent, and there are {len(choices)}", hint="several agents are a race"
        )
    match strategy:
        case "auto":
            return strategies.auto(tasks, choices, fallback, weights_of(settings.complexity))
        case "race":
            return strategies.race(tasks[0], choices, fallback)
        case "multi":
            return strategies.multi(tasks[0], choices[0], fallback, review=request.review)
        case "parallel":
            return strategies.parallel(tasks, choices[0], fallback)
        case _:
            return strategies.single(tasks[0], choices[0], fallback)


def _task(request: Request, settings: Config, prompt: str) -> Task:
    prompt = prompt.strip()
    if "\0" in prompt:
        raise BadRequest("the task holds a NUL byte", hint="a task is plain text")
    if len(prompt.encode()) > MOST_TASK:
        raise BadRequest("the task is longer than 10 MB", hint="put material into files of the repository")
    if request.max_tokens is not None and not 0 < request.max_tokens <= MOST_TOKENS:
        asked = str(request.max_tokens)[:MOST_DIGITS]
        raise BadRequest(f"--max-tokens {asked}: more than 0, at most 2^53", hint="leave it out for no limit")
    if request.retries is not None and not 0 <= request.retries <= MOST_RETRIES:
        words = f"--retries {str(request.retries)[:MOST_DIGITS]}: 0 to {MOST_RETRIES}"
        raise BadRequest(words, hint="0: it is tried once")
    return Task(
        prompt=prompt,
        type=request.type,
        files=request.files,
        images=_images(request.images),
        checks=request.checks or (() if request.no_checks else settings.defaults.checks),
        role=request.role,
        skills=tuple((name, "") for name in request.skills),
        read_only=request.read_only,
        budget_usd=_budget(request, settings),
        max_tokens=request.max_tokens,
        retries=request.retries if request.retries is not None else settings.retries_asked,
    )


def _images(given: Sequence[TaskImage]) -> tuple[TaskImage, ...]:
    """Return the images of a task, each named by its place and by what it is."""
    if len(given) > MOST_IMAGES:
        raise BadRequest(f"{len(given)} images; {MOST_IMAGES} are the most", hint="leave some out")
    found: list[TaskImage] = []
    for number, image in enumerate(given, 1):
        shown = image.name[:200] or f"image {number}"
        try:
            content = base64.b64decode(image.data, validate=True)
        except ValueError as error:
            raise BadRequest(f"--image {shown}: its content is not base64", hint="corral run --image FILE") from error
        if len(content) > MOST_IMAGE_BYTES:
            raise BadRequest(f"--image {shown}: {MOST_IMAGE_BYTES >> 20} MB are the most", hint="make it smaller")
        kind = next((kind for kind, pattern in IMAGE_KINDS.items() if pattern.match(content)), None)
        if kind is None:
            raise BadRequest(f"--image {shown}: this is no image", hint="PNG, JPEG, GIF and WebP are")
        found.append(TaskImage(f"{number}.{kind}", image.data))
    return tuple(found)


def _budget(request: Request, settings: Config) -> float | None:
    if request.budget_usd is not None and not 0 < request.budget_usd <= MOST_TOKENS:
        words = f"--budget {request.budget_usd:g}: a budget is more than 0, at most 2^53"
        raise BadRequest(words, hint="leave it out for no limit")
    limits = [limit for limit in (request.budget_usd, settings.defaults.budget_usd) if limit is not None]
    return min(limits) if limits else None


def _shape(request: Request) -> dict[str, Any] | None:
    """Read the shape that the output must have; a schema that could not be enforced is refused."""
    if request.output is None:
        return None
    text = request.output
    if not text.lstrip().startswith(("{", "[", '"')):
        file = Path(text).expanduser()
        if not is_file(file):
            raise BadRequest(f"--output {text}: neither JSON nor a file", hint=SHAPE_HINT)
        text = paths.read_file(file, MOST_SETTINGS, f"--output {file}", SHAPE_HINT).decode(errors="replace")
    try:
        return short_schema.schema(msgspec.json.decode(text))
    except RecursionError:
        raise BadRequest("--output: it is nested too deeply", hint=SHAPE_HINT) from None
    except (msgspec.DecodeError, ValueError) as error:
        raise BadRequest(f"--output: {error}", hint=SHAPE_HINT) from error


# --- agents by name


def _choices(request: Request, settings: Config) -> list[AgentChoice]:
    """Read `--agent a,b:MODEL,c*3`, given once or several times."""
    named = [name.strip() for text in request.agents for name in text.split(",") if name.strip()]
    if request.agents and not named:
        raise BadRequest("--agent names no agent", hint="see `corral agents`; left out, it is your usual one")
    found: list[AgentChoice] = []
    for text in named or [settings.defaults.agent or "claude"]:
        counted = re.fullmatch(r"(.+)\*(\d+)", text)
        if "*" in text and not (counted and 1 <= int(counted.group(2)) <= MOST_RIVALS):
            raise BadRequest(f"--agent {text}: how many?", hint=f"NAME*3: at most {MOST_RIVALS} of one")
        name, count = (counted.group(1), int(counted.group(2))) if counted else (text, 1)
        found += [_choice(name, settings)] * count
    if len(found) > MOST_RIVALS:
        raise BadRequest(f"--agent: {len(found)} agents in one race", hint=f"at most {MOST_RIVALS}")
    return found


def _choice(text: str, settings: Config) -> AgentChoice:
    """Read `NAME`, `NAME:MODEL`, `NAME@ACCOUNT`, `acp:NAME` or `acp:NAME:MODEL`."""
    read = AgentChoice.read(text)
    if text.endswith(":"):
        raise BadRequest(f"{text}: no model is named after the colon", hint="NAME:MODEL, or the name alone")
    return structs.replace(read, model=_model(read.name, read.model or "", settings, None))


def _fallbacks(request: Request, settings: Config, choice: AgentChoice) -> tuple[AgentChoice, ...]:
    """Return who steps in, within the family of the agent: others behave too differently to be swapped unasked."""
    profile = settings.agents.get(choice.name, AgentProfile())
    named = [name.strip() for text in request.fallback for name in text.split(",") if name.strip()] or profile.fallback
    return tuple(_kin(choice, _choice(text, settings), settings) for text in named)


def _kin(choice: AgentChoice, other: AgentChoice, settings: Config) -> AgentChoice:
    mine, theirs = _family(choice.name, settings), _family(other.name, settings)
    if mine != theirs:
        raise BadRequest(
            f"--fallback {other.name}: `{other.name}` ({theirs}) is not of the family of `{choice.name}` ({mine})",
            hint=f'if they may stand in for each other: [agents.{other.name}] family = "{mine}"',
        )
    return other


def _family(name: str, settings: Config) -> str:
    return settings.agents.get(name, AgentProfile()).family or resolve_agent(name, settings).agent.facts.family


def _model(name: str, named: str, settings: Config, folder: Path | None) -> str | None:
    """Return the model asked for, or the file to play: found now, for the run may be resumed from another folder."""
    if name not in ("scripted", "replay"):
        return named or None
    profile = settings.agents.get(name, AgentProfile())
    if not named and not profile.model:
        return None
    path = Path(named) if named else Path(profile.folder) / str(profile.model)
    if not path.is_absolute():
        path = (folder or Path()).absolute() / path
    path = Path(os.path.normpath(path))
    if not is_file(path):
        raise BadRequest(
            f"--agent {name}:{path}: there is no such file",
            hint=f"give the path of a file, from {'the folder of the flow file' if folder else 'the present folder'}",
        )
    if name == "replay":
        recordings.check(path)
    return str(path)


# --- a node, ready to be carried out


def make_ready(node: Node, flow: Flow, request: Request, settings: Config, repo: Path) -> Node:
    """Return a node with its limits, its briefing and how the best of several is found."""
    if node.kind not in ("task", "run"):
        return node
    node = structs.replace(node, machine=node.machine if node.machine is not None else request.machine)
    task = _with_limits(node.task, request, settings)
    if flow.budget_usd is not None and node.share is not None:
        own = [limit for limit in (task.budget_usd, node.share * flow.budget_usd) if limit is not None]
        task = structs.replace(task, budget_usd=min(own))
    if node.kind == "run":
        return structs.replace(node, task=structs.replace(task, unchanged_ok=True), agent=SHELL)
    if (
        request.flow is None
        and request.output is not None
        and (node.task.role == request.role or node.task.role not in OWN_SHAPES)
    ):
        node = structs.replace(node, output=_shape(request))
    if node.planning:
        node, task = _with_planner_rules(node, task, settings, repo)
    profile = settings.agents.get(node.agent.name, AgentProfile())
    task = structs.replace(task, checks=task.checks or _recorded_checks(node))
    # A flow file is the user's word, and so is --role; a role that a strategy or an agent's table names is not.
    theirs = settings.trusted or (bool(task.role) and (request.flow is not None or task.role == request.role))
    return structs.replace(
        _with_selection(node, request, settings),
        task=_with_briefing(task, profile, repo, theirs_first=theirs, trusted=settings.trusted),
    )


def _with_planner_rules(node: Node, task: Task, settings: Config, repo: Path) -> tuple[Node, Task]:
    """Say to an agent that plans what a plan is, and keep whom it may name."""
    named = {*settings.agents, node.agent.name, *filter(None, [settings.defaults.agent])} - {AUTO}
    roles = tuple(sorted(briefing.role_names(repo)))
    spec = structs.replace(node.planning or PlanSpec(), agents=tuple(sorted(named)), roles=roles)
    words = (*task.briefing, planned_flow.planner_rules(spec))
    return structs.replace(node, planning=spec), structs.replace(task, briefing=words)


def _recorded_checks(node: Node) -> tuple[str, ...]:
    """Return the checks that judged what is played: who lied then is found out again."""
    played = [each.model for each in (node.agent, *node.rivals) if each.name == "replay" and each.model]
    return tuple(dict.fromkeys(check for file in played for check in recordings.check(Path(file)).checks))


def _with_selection(node: Node, request: Request, settings: Config) -> Node:
    """Put in how the best of several is found, where the user says it."""
    judge = _choice(request.judge, settings) if request.judge else node.judge
    return structs.replace(
        node,
        select=request.select or node.select,
        scorers=(*node.scorers, *request.scorers),
        judge=judge,
        reader=_reader(node, settings),
    )


def _reader(node: Node, settings: Config) -> AgentChoice | None:
    """Return who reads the work of a node once more: only work that is checked has a grade to lower."""
    named = settings.evidence.judge
    if named is None or node.kind != "task" or node.task.read_only:
        return None
    try:
        return _choice(named, settings)
    except BadRequest as error:
        raise BadRequest(f"[evidence] judge: {error}", hint=error.hint) from error


def _resolve_agents(node: Node, request: Request, settings: Config, *, ours: bool) -> Node:
    """Find the agents that a flow file names; where it names none, the user's. Whom we chose are no family."""
    if node.kind != "task":
        return node
    folder = Path(request.flow_file).parent if request.flow_file else None

    def resolve(choice: AgentChoice) -> AgentChoice:
        return structs.replace(choice, model=_model(choice.name, choice.model or "", settings, folder))

    mine = resolve(node.agent) if node.agent.name else _choices(request, settings)[0]
    named = tuple(resolve(choice) for choice in node.fallback) or _fallbacks(request, settings, mine)
    rivals = tuple(resolve(choice) for choice in node.rivals)
    kin = named if ours else tuple(_kin(mine, each, settings) for each in named)
    judge = resolve(node.judge) if node.judge else None
    return structs.replace(node, agent=mine, rivals=rivals, fallback=kin, judge=judge)


def _with_limits(task: Task, request: Request, settings: Config) -> Task:
    """Put in the limits that hold where a task says nothing itself."""
    timeout, idle = request.timeout or settings.defaults.timeout, request.idle or settings.defaults.idle
    timeout_seconds, idle_seconds = task.timeout_seconds, task.idle_seconds
    if timeout and timeout_seconds is None:
        timeout_seconds = duration(timeout, "--timeout")
    if idle and idle_seconds is None:
        idle_seconds = duration(idle, "--idle")
    return structs.replace(
        task,
        timeout_seconds=TIMEOUT_SECONDS if timeout_seconds is None else timeout_seconds,
        idle_seconds=IDLE_SECONDS if idle_seconds is None else idle_seconds,
    )


def _with_briefing(task: Task, profile: AgentProfile, repo: Path, *, theirs_first: bool, trusted: bool) -> Task:
    """Add role, instructions and skills: the user's word first, then what settings say of the agent."""
    role = task.role or profile.role
    asked = [name for name, _ in task.skills]
    names = list(dict.fromkeys((*asked, *profile.skills)))
    skills = briefing.skills(asked, repo, theirs_first=True)
    skills += briefing.skills(names[len(dict.fromkeys(asked)) :], repo, theirs_first=trusted)
    words = [briefing.role(role, repo, theirs_first=theirs_first)] if role else []
    words += [profile.instructions] if profile.instructions else []
    words += [f"# Skill: {skill.name}\n\nIts files lie in ~/skills/{skill.name}.\n\n{skill.text}" for skill in skills]
    offered = briefing.offered_skills(names, repo)
    if offered:
        listed = "".join(f"\n- ~/skills/{skill.name}/SKILL.md: {skill.text or skill.name}" for skill in offered)
        words.append(f"Skills you may read when they help:\n{listed}")
    found = tuple((skill.name, skill.folder) for skill in (*skills, *offered))
    return structs.replace(task, role=role, briefing=(*task.briefing, *words), skills=found)
