"""From a request to a plan: everything that can be wrong is found here, before anything is started or changed."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from corral import config
from corral.adapter import AgentProfile, AgentTask
from corral.config import Config
from corral.engine import briefing, recording, scoping
from corral.engine.outfit import outfit
from corral.errors import BadRequest, Untrusted
from corral.flow import AgentChoice, Task
from corral.model import Net, Request, RunPlan, ScopeSource, ScopeTable
from corral.rules import strategies
from corral.rules.explain import Explained
from corral.rules.flows import shapes
from corral.world import git, plain_folder
from corral.world.git import Found
from corral.world.sandbox import visible
from corral.world.sandbox.probe import at_least, probe, usual
from corral.world.scope import Machine, agentignore
from corral.world.trust import Trust

MOST_TASK = 10 << 20
SHAPE_HINT = """'{"verdict": ["accept", "reject"], "notes": "string"}', a JSON Schema, or a file with either"""
SHELL_WORDS = {
    "!", "{", "(", "[", "[[", ".", ":", "cd", "test", "if", "for", "while", "case", "exit", "set", "export", "true",
    "false", "echo", "printf", "exec", "eval", "command", "source", "time", "until", "trap", "umask", "unset", "read",
}  # fmt: skip


class Submission(Struct, frozen=True):
    """A plan that can be started, and what the person should know about it."""

    plan: RunPlan
    notes: tuple[str, ...]
    explained: Explained


async def prepare(request: Request, state: Path) -> Submission:
    """Check a request against this machine and turn it into a plan."""
    looking: list[asyncio.Task[Any]] = []
    try:
        return await _prepare(request, state, looking)
    finally:  # a program that is cancelled while it starts can hang us: what was begun ends by itself
        await asyncio.gather(*looking, return_exceptions=True)


async def _prepare(request: Request, state: Path, looking: list[asyncio.Task[Any]]) -> Submission:
    prompt = request.prompt.strip()
    if not prompt:
        raise BadRequest("the task is empty", hint='say what is to be done: corral run "fix the flaky test"')
    if "\0" in prompt:
        raise BadRequest("the task holds a NUL byte", hint="a task is plain text")
    if len(request.prompt.encode()) > MOST_TASK:
        raise BadRequest("the task is longer than 10 MB", hint="put material into files of the repository")
    await git.version()
    folder = Path(request.repo).expanduser()
    if not folder.is_dir():
        raise BadRequest(f"--repo {request.repo}: there is no such folder")
    folder = folder.resolve()
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise BadRequest(f"--repo {str(folder)!a}: the path is not UTF-8", hint="rename the folder") from None
    found = await git.discover(folder)
    uncommitted = asyncio.create_task(_uncommitted(found, request.base))  # git looks while we do
    hidden = asyncio.create_task(agentignore(found.repository, request.base or found.head)) if found else None
    looking += [uncommitted, *([hidden] if hidden else [])]
    top = found.repository.folder if found else folder
    settings = load(top, state, trust=request.trust)
    choice = _agent(request, settings)
    task = _briefed(_task(request, settings, prompt), request, settings.agents.get(choice.name, AgentProfile()), top)
    fallbacks = _fallbacks(request, settings, choice)
    for each in (choice, *fallbacks):
        _try_agent(each, task, settings, request)
    _try_checks(task, settings, top)
    held = await probe(state / "probe.json")
    required = request.require or usual()
    level = "none" if request.unsandboxed and required == "none" else held.level
    if not at_least(level, required) and not request.unsandboxed:
        wanting = held.lacks(required)
        raise BadRequest(
            f"the sandbox level `{required}` does not hold here: {wanting.reason}",
            hint=f"{wanting.remedy}; or, for agents you trust with this machine: --allow-unsandboxed",
        )
    notes: list[str] = []
    deaf = [] if not settings.mcp or outfit(choice.name, settings).agent.facts.mcp else [choice.name]
    if found is None:
        if request.base:
            raise BadRequest(f"--base {request.base}: {folder} is not a git repository", hint="`git init` there")
        repository, base = await plain_folder.folder_as_repository(folder, state)
        into = None
    else:
        repository = found.repository
        base, into = await _base(found, request.base)
        notes = await uncommitted
    ignore = await hidden if hidden else ""
    scopes = (*settings.scopes, *_asked_scope(request))
    fitted = await scoping.fit(
        scoping.of_agent(scopes, choice.name, ignore), Machine(tree=top, state=state, checkout=top)
    )
    plan = RunPlan(
        flow=strategies.single(task, choice, fallbacks, output=_shape(request)),
        repo=str(repository.folder),
        git_dir=str(repository.git_dir),
        base=base,
        into=into,
        identity=await repository.identity(),
        retry=settings.retry,
        setup=settings.setup,
        condense=settings.condense,
        level=level,
        scopes=scopes,
        ignore=ignore,
    )
    notes += [f"the agent `{name}` takes no MCP servers: it works without [mcp]" for name in deaf]
    return Submission(plan, tuple(notes), scoping.explained(fitted, level))


def _shape(request: Request) -> dict[str, Any] | None:
    """Read the shape that the output must have; what could not be held against it is refused."""
    if request.output is None:
        return None
    text = request.output
    if not text.lstrip().startswith(("{", "[", '"')):
        file = Path(text).expanduser()
        if not file.is_file():
            raise BadRequest(f"--output {text}: neither JSON nor a file", hint=SHAPE_HINT)
        text = file.read_text(encoding="utf-8", errors="replace")
    try:
        return shapes.schema(msgspec.json.decode(text))
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise BadRequest(f"--output: {error}", hint=SHAPE_HINT) from error


def _asked_scope(request: Request) -> list[ScopeSource]:
    """Return what the command line says of the scope: the person's own word, so it comes last."""
    found = [config.scope_file(Path(request.scope).expanduser())] if request.scope else []
    net: Net | None = None
    if request.net is not None:
        words = tuple(word.strip() for word in request.net.split(",") if word.strip())
        net = "on" if words == ("on",) else "off" if words == ("off",) else words
    table = ScopeTable(read=request.read or None, write=request.write or None, env=request.env or None, net=net)
    where = {name: f"--{name}" for name in ("read", "write", "env", "net")}
    return [*found, ScopeSource(table=table, where=where)] if table != ScopeTable() else found


def load(folder: Path, state: Path, *, trust: bool) -> Config:
    """Read the settings; a repository's powerful ones count if its file is trusted, now or before."""
    file = folder / config.REPOSITORY_FILE
    trusts = Trust(state)
    if trust and file.is_file():
        trusts.add(config.fingerprint(file))
    trusted = file.is_file() and trusts.has(config.fingerprint(file))
    settings = config.load(folder, trusted=trusted)
    for table in ("workspace", "hooks", "mcp"):
        if table not in settings.untrusted:
            continue
        raise Untrusted(
            f"{settings.untrusted[table]}: [{table}] can start programs, and you have not trusted this file",
            hint="read it, then `corral trust`, or run with --trust",
        )
    return settings


def _agent(request: Request, settings: Config) -> AgentChoice:
    named = [name.strip() for text in request.agents for name in text.split(",") if name.strip()]
    if len(named) > 1 or any("*" in name for name in named):
        raise BadRequest("a race of several agents is not built yet", hint="name one: --agent claude")
    text = named[0] if named else settings.defaults.agent or "claude"
    return _choice(text, settings)


def _choice(text: str, settings: Config) -> AgentChoice:
    """Read `NAME`, `NAME:MODEL`, `acp:NAME` or `acp:NAME:MODEL`."""
    name, _, model = text.partition(":")
    if name == "acp":
        spoken, _, model = model.partition(":")
        name = f"acp:{spoken}"
    return AgentChoice(name, _model(name, model, settings))


def _fallbacks(request: Request, settings: Config, choice: AgentChoice) -> tuple[AgentChoice, ...]:
    """Return who steps in, within the family of the agent: others behave too differently to be swapped unasked."""
    profile = settings.agents.get(choice.name, AgentProfile())
    named = [name.strip() for text in request.fallback for name in text.split(",") if name.strip()] or profile.fallback
    found: list[AgentChoice] = []
    for text in named:
        other = _choice(text, settings)
        name = other.name
        mine, theirs = _family(choice.name, settings), _family(name, settings)
        if mine != theirs:
            raise BadRequest(
                f"--fallback {name}: `{name}` ({theirs}) is not of the family of `{choice.name}` ({mine})",
                hint=f'if they may stand in for each other: [agents.{name}] family = "{mine}"',
            )
        found.append(other)
    return tuple(found)


def _family(name: str, settings: Config) -> str:
    return settings.agents.get(name, AgentProfile()).family or outfit(name, settings).agent.facts.family


def _model(name: str, named: str, settings: Config) -> str | None:
    """Return the model asked for, or the file to play: found now, for the run may be resumed from another folder."""
    if name not in ("scripted", "replay"):
        return named or None
    profile = settings.agents.get(name, AgentProfile())
    path = Path(named).absolute() if named else Path(profile.folder) / profile.model if profile.model else None
    if path is None:
        return None
    path = Path(os.path.normpath(path))
    if not path.is_file():
        raise BadRequest(f"--agent {name}:{path}: there is no such file")
    if name == "replay":
        recording.check(path)
    return str(path)


def _task(request: Request, settings: Config, prompt: str) -> Task:
    limits = [limit for limit in (request.budget_usd, settings.defaults.budget_usd) if limit is not None]
    if request.budget_usd is not None and not 0 < request.budget_usd < float("inf"):
        raise BadRequest(f"--budget {request.budget_usd:g}: a budget is more than 0", hint="leave it out for no limit")
    if request.retries is not None and request.retries < 0:
        raise BadRequest(f"--retries {request.retries}: not less than 0")
    timeout, idle = request.timeout or settings.defaults.timeout, request.idle or settings.defaults.idle
    standard = Task(prompt="")
    return Task(
        prompt=prompt,
        type=request.type,
        files=request.files,
        checks=request.checks or settings.defaults.checks,
        read_only=request.read_only,
        budget_usd=min(limits) if limits else None,
        timeout_seconds=config.duration(timeout, "--timeout") if timeout else standard.timeout_seconds,
        idle_seconds=config.duration(idle, "--idle") if idle else standard.idle_seconds,
        retries=request.retries if request.retries is not None else settings.retries_asked,
    )


def _briefed(task: Task, request: Request, profile: AgentProfile, repo: Path) -> Task:
    """Add role, instructions and skills: the person's word first, then what settings say of the agent."""
    role = request.role or profile.role
    skills = briefing.skills(request.skills, repo)
    words = [briefing.role(role, repo)] if role else []
    words += [profile.instructions] if profile.instructions else []
    words += [f"# Skill: {skill.name}\n\nIts files lie in ~/skills/{skill.name}.\n\n{skill.text}" for skill in skills]
    offered = briefing.offered(request.skills, repo)
    if offered:
        listed = "".join(f"\n- ~/skills/{skill.name}/SKILL.md: {skill.text or skill.name}" for skill in offered)
        words.append(f"Skills you may read when they help:\n{listed}")
    found = tuple((skill.name, skill.folder) for skill in (*skills, *offered))
    return structs.replace(task, role=role, briefing=tuple(words), skills=found)


def _try_agent(choice: AgentChoice, task: Task, settings: Config, request: Request) -> None:
    """Ask the agent's file for its command now: what it refuses is refused before anything is made."""
    dressed = outfit(choice.name, settings)
    trial = AgentTask(
        prompt=task.prompt,
        workspace=str(request.repo),
        home="/",
        model=choice.model,
        read_only=task.read_only,
        mcp=dressed.servers(),
    )
    dressed.resolve(dressed.agent.start(trial))


def _try_checks(task: Task, settings: Config, folder: Path) -> None:
    """Refuse a check whose program is nowhere; what a setup might install, or a path, is left to the run."""
    _, path = visible.toolchains(os.environ, Path.home())
    for check in task.checks:
        try:
            words = shlex.split(check)
        except ValueError as error:
            raise BadRequest(f"--check {check}: {error}", hint="it is a shell command; mind the quotes") from error
        if not words:
            raise BadRequest("--check is empty", hint='name a command: --check "pytest -q"')
        first = next((word for word in words if not re.fullmatch(r"\w+=.*", word)), ":")
        plain = re.fullmatch(r"[\w.+-]+", first) and first not in SHELL_WORDS
        if plain and not settings.setup.command and not (folder / first).exists():
            searched = os.pathsep.join([*path, *visible.SYSTEM_PATH])
            if visible.find(first, {"PATH": searched}) is None:
                raise BadRequest(
                    f"--check {check}: there is no program `{first}`",
                    hint="install it, activate its environment, or have [workspace] setup install it",
                )


async def _base(found: Found, named: str | None) -> tuple[str | None, str | None]:
    """Return the commit to start from, and the branch to land on."""
    repository = found.repository
    if named is None:
        if found.head is None and found.branch is None:
            raise BadRequest(f"{repository.folder}: HEAD names no commit", hint="check a branch out, or say --base")
        return found.head, found.branch
    base = await repository.commit_of(named)
    if base is None:
        raise BadRequest(f"--base {named}: the repository has no such commit", hint="a branch, a tag or a commit id")
    listed = await repository.git("show-ref", "--verify", "--quiet", f"refs/heads/{named}", fine=(0, 1, 128))
    return base, named if listed.code == 0 else found.branch


async def _uncommitted(found: Found | None, named: str | None) -> list[str]:
    if found is None or named is not None or not (found.repository.folder / ".git").exists():
        return []
    listed, _ = await asyncio.gather(
        found.repository.git("status", "--porcelain=v1", "-z", fine=(0, 128)), found.repository.identity()
    )
    count = sum(1 for row in listed.out.split(b"\0") if row[2:3] == b" ")
    files = "1 file is" if count == 1 else f"{count} files are"
    return [f"{files} not committed: agents start from the last commit and do not see that"] if count else []
