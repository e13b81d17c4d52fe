"""From a request to a plan: everything that can be wrong is found here, before anything is started or changed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from corral.attempt.repositories import load_forge_settings, load_trusted_settings
from corral.config.paths import depth, is_folder
from corral.config.policies import scope_file
from corral.config.settings import Config
from corral.engine.planning import build_flow, hidden_programs, preflight
from corral.engine.planning.git_state_cache import GitState, GitStateCache
from corral.engine.planning.preflight import Findings
from corral.engine.planning.routing import History
from corral.machines import scope
from corral.machines.resolved_agent import ResolvedAgent, resolve_agent
from corral.machines.scope import FittedScope, MachinePaths, agentignore
from corral.model import ENCODER, EvidenceRules, Level, Net, Request, RunPlan, ScopeSource, ScopeTable
from corral.model.errors import BadRequest
from corral.model.flow import Flow
from corral.model.plan import AS_REQUESTED
from corral.model.run import check_labels, check_name
from corral.rules.scope.scope import ScopeExplanation
from corral.world import http_client
from corral.world.git import checkout_state, command, discovery, merge_commits, ref_files
from corral.world.git.discovery import DiscoveredRepository
from corral.world.git.repository import Repository
from corral.world.sandbox.probe import default_level, is_at_least, probe
from corral.world.sandbox.program_files import SYSTEM
from corral.world.workspace import held_out

if TYPE_CHECKING:
    from corral.engine.planning.issues import IssueTask

MOST_DEPTH = 1  #: attempts, one in another, in which a run may still be started


class RunSubmission(Struct, frozen=True):
    """A plan that can be started, and what the user should know about it."""

    plan: RunPlan
    notes: tuple[str, ...]
    explained: ScopeExplanation
    keyed: tuple[ResolvedAgent, ...] = ()  #: agents that ask their provider with a key


async def prepare(
    request: Request,
    state: Path,
    history: History,
    glances: GitStateCache | None = None,
    pinned: str | None = None,
) -> RunSubmission:
    """Check a request against this machine and turn it into a plan.

    `glances` remember what git said a moment ago; `pinned` is the commit that the base stands for, already held.
    """
    looking: list[asyncio.Task[Any]] = []
    issue = await _read_issue(request, state)
    request = issue.request if issue else request
    name = check_name(request.name) if request.name is not None else None
    if depth() > MOST_DEPTH:
        raise BadRequest(
            f"this is the work of an agent of corral, {depth()} deep: it may start no further runs",
            hint="give the task to that agent itself",
        )
    if request.callback is not None:
        http_client.check_address(request.callback, "--callback")
    request = structs.replace(request, name=name, labels=check_labels(request.labels))
    try:
        found = await _prepare(request, state, history, looking, (glances, pinned))
    finally:  # a program that is cancelled while it starts can hang us: what was begun ends by itself
        await asyncio.gather(*looking, return_exceptions=True)
    if issue is None:
        return found
    plan = structs.replace(found.plan, flow=issue.put_into(found.plan.flow), issue=issue.reference)
    return structs.replace(found, plan=plan, notes=(*issue.notes, *found.notes))


class _GitLook(Struct, kw_only=True):
    """What git says of the folder of a request, and what it is still asked."""

    folder: Path
    found: DiscoveredRepository | None  #: None: no repository
    pinned: str | None
    remembers: GitStateCache | None
    glance: GitState | None
    signs: tuple[object, ...]
    notes: asyncio.Task[list[str]] | None = None
    ignore: asyncio.Task[str] | None = None
    prefix: asyncio.Task[None] | None = None

    @property
    def top(self) -> Path:
        return self.found.repository.folder if self.found else self.folder


class _Base(Struct, frozen=True, kw_only=True):
    """Where a run starts."""

    repository: Repository
    commit: str | None
    into: str | None
    notes: tuple[str, ...]
    ignore: str
    identity: tuple[str, str] | None


async def _prepare(
    request: Request,
    state: Path,
    history: History,
    looking: list[asyncio.Task[Any]],
    known: tuple[GitStateCache | None, str | None],
) -> RunSubmission:
    look = await _begin_look(request, looking, known)
    top = look.top
    settings = load_trusted_settings(top, state, trust=request.trust)
    findings = Findings((request.flow_file or "flow") if request.flow is not None else None)
    flow = build_flow.build(request, settings, (top, state), history, findings)
    keyed = await _preflight(flow, settings, request, findings, (top, state))
    here = [node for node in flow.nodes if node.machine is None and node.kind in ("task", "run")]
    level = await _level(request, state, needed=bool(here))
    names = dict.fromkeys(
        choice.name for node in flow.nodes if node.kind == "task" for choice in (node.agent, *node.rivals)
    )
    start = await _end_look(look, request, state)
    notes = [*start.notes]
    scopes = (*settings.scopes, *_asked_scope(request))
    boxes = dict.fromkeys((*(names or ("",)), *_others(flow)) if level != "none" else (next(iter(names), ""),))
    fits = await _fits(
        tuple(boxes),
        (scopes, start.ignore),
        MachinePaths(tree=top, state=state, checkout=top),
        (look.folder, look.remembers if look.glance else None),
    )
    if level != "none":
        own = await _files_in_commit(start.repository, start.commit, hidden_programs.of_workspace(flow, settings))
        around = {name: hidden_programs.surroundings(settings, top, each, own) for name, each in fits.items()}
        notes += hidden_programs.check(structs.replace(flow, nodes=tuple(here)), settings, around, findings)
        findings.tell()
    rules = await _evidence(request, settings, flow, (state, level), (start.repository, fits.values()), notes)
    plan = structs.replace(_plan(request, settings, start, flow), level=level, scopes=scopes, evidence=rules)
    notes += _without_mcp(names, settings)
    return RunSubmission(plan, tuple(notes), scope.explain_scope(next(iter(fits.values())), level), keyed)


async def _begin_look(
    request: Request, looking: list[asyncio.Task[Any]], known: tuple[GitStateCache | None, str | None]
) -> _GitLook:
    """Find the repository, and ask git what else is needed while the rest of the request is looked at."""
    await command.version()
    folder = folder_of(request)
    remembers = known[0] if request.base is None and not request.with_changes else None
    glance, signs = remembers.recall(folder) if remembers else (None, ())
    found = glance.found if glance else await discovery.discover(folder)
    pinned = await _commit_changes(request, found) or known[1]
    look = _GitLook(folder=folder, found=found, pinned=pinned, remembers=remembers, glance=glance, signs=signs)
    if glance is None and found is not None:
        look.notes = asyncio.create_task(_uncommitted_note(found, request))
        look.ignore = asyncio.create_task(agentignore(found.repository, pinned or request.base or found.head))
        look.prefix = asyncio.create_task(_check_branch_prefix(found.repository))
        looking += [look.notes, look.ignore, look.prefix]
    return look


async def _end_look(look: _GitLook, request: Request, state: Path) -> _Base:
    """Return where the run starts; a folder without a repository is copied into a hidden one."""
    found, glance = look.found, look.glance
    if found is None:
        if request.base:
            raise BadRequest(f"--base {request.base}: {look.folder} is not a git repository", hint="`git init` there")
        copied = await discovery.folder_as_repository(look.folder, state)
        repository, base, into, notes = copied.repository, copied.commit, None, [copied.words]
    else:
        repository = found.repository
        base, into = await _base(found, request.base, look.pinned)
        if look.prefix:
            await look.prefix
        notes = list(glance.notes) if glance else await look.notes if look.notes else []
    ignore = glance.ignore if glance else await look.ignore if look.ignore else ""
    identity = glance.identity if glance else await repository.identity()
    if look.remembers and glance is None and found is not None:
        seen = GitState(found=found, notes=tuple(notes), ignore=ignore, identity=identity)
        look.remembers.keep(look.folder, seen, look.signs)
    return _Base(repository=repository, commit=base, into=into, notes=tuple(notes), ignore=ignore, identity=identity)


def _plan(request: Request, settings: Config, start: _Base, flow: Flow) -> RunPlan:
    return RunPlan(
        repo=str(start.repository.folder),
        git_dir=str(start.repository.git_dir),
        base=start.commit,
        into=start.into,
        identity=start.identity,
        ignore=start.ignore,
        retry=structs.replace(settings.retry, start="last") if request.from_last else settings.retry,
        setup=settings.setup,
        condense=settings.condense,
        memory=settings.memory,
        go_on=request.yes,
        toolbox=settings.toolbox,
        policy=settings.policy,
        limits=settings.limits,
        composition="planned" if request.planned else "written" if _is_own(request) else "template",
        calls_back=request.callback is not None,
        **{name: getattr(request, name) for name in AS_REQUESTED},
        flow=flow,
    )


async def _read_issue(request: Request, state: Path) -> IssueTask | None:
    if request.issue is None:
        return None
    from corral.engine.planning.issues import read_task  # noqa: PLC0415 -- most requests name none

    folder = folder_of(request)
    found = await discovery.discover(folder)
    load_trusted_settings(found.repository.folder if found else folder, state, trust=request.trust)
    settings = load_forge_settings(found.repository.folder if found else folder, state)
    return await read_task(request, settings, found.repository if found else None)


async def _preflight(
    flow: Flow, settings: Config, request: Request, findings: Findings, folders: tuple[Path, Path]
) -> tuple[ResolvedAgent, ...]:
    """Find out what could not start, here and on the machines that are asked for; return agents with a key."""
    top, state = folders
    keyed = preflight.agents(flow, settings, request, findings)
    preflight.checks(flow, settings, top, findings)
    if any(node.machine is not None for node in flow.nodes):
        await preflight.check(flow, settings, state, findings, connect=not request.draft)
    findings.tell()
    preflight.writer(settings)
    return keyed


def _is_own(request: Request) -> bool:
    """Tell whether a flow was written by its user, and is not one of our templates as it is."""
    return request.flow is not None and all(
        request.flow != build_flow.template(name) for name in build_flow.template_names()
    )


def folder_of(request: Request) -> Path:
    folder = Path(request.repo).expanduser()
    if not is_folder(folder):
        raise BadRequest(f"--repo {request.repo}: there is no such folder", hint="a repository, or a folder in one")
    folder = folder.resolve()
    if "\n" in str(folder):  # git cannot borrow objects from such a path
        raise BadRequest(f"--repo {str(folder)!r}: there is a line break in the path", hint="rename the folder")
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise BadRequest(f"--repo {str(folder)!a}: the path is not UTF-8", hint="rename the folder") from None
    return folder


async def _evidence(
    request: Request,
    settings: Config,
    flow: Flow,
    here: tuple[Path, Level],
    seen: tuple[Repository, Iterable[FittedScope]],
    notes: list[str],
) -> EvidenceRules:
    """Keep the files that no agent is to see; return what a plan says of evidence."""
    rules = structs.replace(settings.evidence, held_out=None)
    named = request.held_out if request.held_out is not None else settings.evidence.held_out
    checked = any(node.task.checks for node in flow.nodes)
    if request.held_out is not None and not checked:
        raise BadRequest(
            "--held-out: there is no check that could be run with these files", hint="name one: --check 'pytest -q'"
        )
    if request.held_out is not None and not request.held_out.strip():
        raise BadRequest("--held-out: no folder is named", hint="--held-out DIR")
    if named is None or not checked or request.draft:
        return rules
    where = f"--held-out {named}" if request.held_out is not None else f"[evidence] held_out ({named})"
    (state, level), (repository, fits) = here, seen
    shown = [mask.path for fitted in fits for mask in fitted.resolved.elsewhere if mask.mode != "hidden"]
    apart = [repository.folder, repository.git_dir, *dict.fromkeys(shown), *map(Path, SYSTEM)]
    kept = await asyncio.to_thread(held_out.keep, Path(named).expanduser(), where, state, apart)
    if level == "none":
        notes.append(f"{where}: without a sandbox an agent can read these files if it finds them")
    return structs.replace(rules, held_out=kept)


def _without_mcp(agents: Iterable[str], settings: Config) -> list[str]:
    deaf = [name for name in agents if settings.mcp and not resolve_agent(name, settings).agent.facts.mcp]
    return [f"the agent `{name}` takes no MCP servers: it works without [mcp]" for name in deaf]


def _others(flow: Flow) -> list[str]:
    """Return the agents that start after others, and those of plain commands."""
    later = [choice.name for node in flow.nodes if node.kind == "task" for choice in node.fallback]
    return [*later, *(node.agent.name for node in flow.nodes if node.kind == "run")]


async def _fits(
    agents: tuple[str, ...],
    said: tuple[tuple[ScopeSource, ...], str],
    machine: MachinePaths,
    kept: tuple[Path, GitStateCache | None],
) -> dict[str, FittedScope]:
    """Hold what was said of each agent's scope against the machine, unless that was just done."""
    scopes, ignore = said
    folder, remembers = kept
    fits: dict[str, FittedScope] = {}
    for agent in agents:
        asked = scope.of_agent(scopes, agent, ignore)
        key = ENCODER.encode((scopes, agent, ignore))
        same = next((each for each in fits.values() if each.effective == asked.effective), None)
        fitted = same or (remembers.scope(folder, key) if remembers else None)
        if fitted is None:
            fitted = await scope.fit(asked, machine)
            if remembers:
                remembers.keep_scope(folder, key, fitted)
        fits[agent] = fitted
    return fits


async def _files_in_commit(repository: Repository, base: str | None, paths: list[str]) -> list[str]:
    """Return those of some paths that are files of the commit to start from."""
    if base is None or not paths:
        return []
    words = ("ls-tree", "-r", "-z", "--full-tree", "--name-only", base, "--", *paths)
    listed = await repository.git(*words, fine=(0, 128))
    return os.fsdecode(listed.out).split("\0")


async def _level(request: Request, state: Path, *, needed: bool) -> Level:
    """Return the level of this machine; refuse one that does not suffice where anything is to run here."""
    held = await probe(state / "probe.json")
    required = request.require or default_level()
    level = "none" if request.unsandboxed and required == "none" else held.level
    if needed and not is_at_least(level, required) and not request.unsandboxed:
        wanting = held.lacks(required)
        raise BadRequest(
            f"the sandbox level `{required}` does not hold here: {wanting.reason}",
            hint=f"{wanting.remedy}; or, for agents you trust with this machine: --allow-unsandboxed",
        )
    return level


def _asked_scope(request: Request) -> list[ScopeSource]:
    """Return what the command line says of the scope: the user's own word, so it comes last."""
    found = [scope_file(Path(request.scope).expanduser())] if request.scope else []
    net: Net | None = None
    if request.net is not None:
        words = tuple(word.strip() for word in request.net.split(",") if word.strip())
        if not words:
            raise BadRequest("--net names no host", hint="off, on, or hosts: --net docs.example.org,@registries")
        net = "on" if words == ("on",) else "off" if words == ("off",) else words
    table = ScopeTable(read=request.read or None, write=request.write or None, env=request.env or None, net=net)
    where = {name: f"--{name}" for name in ("read", "write", "env", "net")}
    return [*found, ScopeSource(table=table, where=where)] if table != ScopeTable() else found


async def _base(found: DiscoveredRepository, named: str | None, pinned: str | None) -> tuple[str | None, str | None]:
    """Return the commit to start from, and the branch to merge on."""
    repository = found.repository
    if named is None:
        if found.head is None and found.branch is None:
            raise BadRequest(f"{repository.folder}: HEAD names no commit", hint="check a branch out, or say --base")
        return pinned or found.head, found.branch
    base = pinned or await repository.commit_of(named)
    if base is None:
        raise BadRequest(f"--base {named}: the repository has no such commit", hint="a branch, a tag or a commit id")
    listed = await repository.git("show-ref", "--verify", "--quiet", f"refs/heads/{named}", fine=(0, 1, 128))
    return base, named if listed.code == 0 else found.branch


async def _commit_changes(request: Request, found: DiscoveredRepository | None) -> str | None:
    """Return a commit of the checkout as it is, if the run is to start from that; a plain folder is always so taken."""
    if not request.with_changes or found is None:
        return None
    if request.base:
        raise BadRequest("--with-changes and --base contradict each other", hint="leave one of them out")
    return await checkout_state.commit_checkout(found.repository, found.head)


async def _check_branch_prefix(repository: Repository) -> None:
    """Look that branches corral/... can be made: one that is called just that is in their way."""
    objects = repository.git_dir / "objects"
    if objects.is_dir() and not os.access(objects, os.W_OK):
        raise BadRequest(
            f"{repository.git_dir} cannot be written to: work could not be kept there",
            hint="clone it, or have its owner run corral",
        )
    if ref_files.is_absent(repository.git_dir, "refs/heads/corral"):
        return
    listed = await repository.git("show-ref", "--verify", "--quiet", "refs/heads/corral", fine=(0, 1, 128))
    if listed.code == 0:
        raise BadRequest(
            "the branch `corral` leaves no room for branches corral/...", hint="rename it: git branch -m corral NAME"
        )


async def _uncommitted_note(found: DiscoveredRepository | None, request: Request) -> list[str]:
    if found is None or request.base is not None or not (found.repository.folder / ".git").exists():
        return []
    repository = found.repository
    quiet, _ = await asyncio.gather(merge_commits.neutral_environment(repository), repository.identity())
    listed = await repository.git("status", "--porcelain=v1", "-z", env=quiet, fine=(0, 128))
    count = sum(1 for row in listed.out.split(b"\0") if row[2:3] == b" ")
    files = "1 file is" if count == 1 else f"{count} files are"
    if request.with_changes:
        meaning = "agents start from them"
    elif found.head is None:
        meaning = "there is no commit here yet, so agents start from nothing; commit them first, or use --with-changes"
    else:
        meaning = "agents start from the last commit and do not see that (--with-changes)"
    return [f"{files} not committed: {meaning}"] if count else []
