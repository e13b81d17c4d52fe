"""What is installed, what is missing, and the command that fixes it."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, structs

from corral import agents
from corral.attempt.repositories import load_trusted_settings
from corral.config import loader
from corral.config.paths import user_file
from corral.config.settings import Config
from corral.engine.context import Context
from corral.machines import key_trial, programs
from corral.machines.resolved_agent import PLAYERS, ResolvedAgent, locate_agent, resolve_agent
from corral.model.agent_api import AgentFacts, AgentProfile
from corral.model.errors import BadRequest, CorralError, Untrusted
from corral.world import machine_limits
from corral.world.git.command import version as git_version
from corral.world.sandbox import program_files
from corral.world.sandbox.probe import ProbeResult, default_level, is_at_least, probe, try_start
from corral.world.workspace import kinds

NODE = "with a Node before 22, npm silently takes an old one"
DEFAULT_AGENT = "claude"  #: where settings name none
FIRST_RUN = 'corral run "..."'
BUILT_IN = "built in"  #: an agent that only plays a file
PLAYING = ("scripted", "replay")
UNTRUSTED = "not trusted yet: corral trust"


class AgentReport(Struct, frozen=True, kw_only=True):
    name: str
    program: str | None = None
    version: str | None = None
    login: str = "-"
    address: str | None = None  #: where its provider is, when that is not the usual place
    hosts: tuple[str, ...] = ()
    model: str | None = None  #: the one that settings name
    models: str = ""  #: what can be asked for, by example
    resumes: bool = False
    steers: str = "no"
    reports_cost: bool = False
    reports_tokens: bool = False
    mcp: bool = False
    acp: str = ""
    reads: tuple[str, ...] = ()
    remedy: str = ""
    shipped: bool = True  #: comes with Corral; the others come from settings and plug-ins


class DoctorPart(Struct, frozen=True, kw_only=True):
    name: str
    ok: bool
    found: str
    remedy: str = ""


class Doctor(Struct, frozen=True, kw_only=True):
    ok: bool
    ready: bool  #: the default agent can start: installed, starts in the box, and a key or login is seen
    next: str  #: the one command that helps, or the first run
    why: str = ""  #: it is not ready
    agents: tuple[AgentReport, ...]
    parts: tuple[DoctorPart, ...]
    sandbox: ProbeResult  #: the level that holds, and what each better one lacks


async def examine(context: Context) -> Doctor:
    """Look at everything a run needs."""
    found = await list_agents(context, strict=False)
    held = await _probe_sandbox(context)
    workspaces = await _workspaces(context)
    parts = [_sandbox(held), await _git(), _store(context), workspaces, _settings(context), _programs()]
    usable = [agent for agent in found if agent.program and agent.program != BUILT_IN]
    settings, name = _default(context)
    if not usable and not _plays_a_file(settings, name):
        parts.append(
            DoctorPart(
                name="agents",
                ok=False,
                found="no agent program was found",
                remedy="install one, e.g. npm install -g @anthropic-ai/claude-code",
            )
        )
    why, command = _first_step(context, found, parts)
    if not why:
        why, command = await _trial(context, found, held)
    return Doctor(
        ok=all(part.ok for part in parts),
        ready=not why,
        next=command,
        why=why,
        agents=tuple(found),
        parts=tuple(parts),
        sandbox=held,
    )


def _first_step(context: Context, found: list[AgentReport], parts: list[DoctorPart]) -> tuple[str, str]:
    """Return why the default agent cannot start, or nothing, and the one command that helps."""
    for part in parts:
        if not part.ok and part.name != "agents":
            return f"{part.name}: {part.found}", part.remedy
    settings, name = _default(context)
    report = next((each for each in found if each.name == name), None)
    if report is None:
        try:
            agents.find(name, settings.agents)
        except CorralError as error:
            return f"the default agent of your settings: {error}", f"{error.hint} correct agent = below [defaults]"
    report = report or AgentReport(name=name)
    if report.remedy == UNTRUSTED:
        return f"the default agent {name} comes from a file that you have not trusted", "corral trust"
    if report.program == BUILT_IN and not _plays_a_file(settings, name):
        return f"the default agent {name} plays a file, and none is named", f'corral run "..." --agent {name}:FILE'
    why = _not_ready(report)
    if not why:
        return "", FIRST_RUN
    others = [each.name for each in found if each.program != BUILT_IN and not _not_ready(each)]
    if others:
        return why, f'corral run "..." --agent {others[0]}'
    if report.program and report.login == "not seen":
        return why, Path(report.program).name
    return why, report.remedy or "corral agents"


def _default(context: Context) -> tuple[Config, str]:
    settings = _load(context, strict=False)
    return settings, (settings.defaults.agent or DEFAULT_AGENT).partition(":")[0]


def _plays_a_file(settings: Config, name: str) -> bool:
    """Say whether the default agent is one that plays a file, and which file is named."""
    profile = settings.agents.get(name)
    named = (settings.defaults.agent or "").partition(":")[2] or (profile and profile.model)
    return name in PLAYING and bool(named)


async def _trial(context: Context, found: list[AgentReport], held: ProbeResult) -> tuple[str, str]:
    """Start the default agent's program in the box, as a run would; return what it complains of, and what helps."""
    settings, name = _default(context)
    report, facts = next(each for each in found if each.name == name), locate_agent(name, settings)[0].facts
    if not facts.version or held.level == "none" or not report.program or report.program == BUILT_IN:
        return "", FIRST_RUN
    resolved = resolve_agent(name, settings)
    try:
        await key_trial.check((resolved,), context.home, anew=True)
    except BadRequest as error:
        return str(error), f"export {key_trial.key_variable(resolved)}=..."
    wrong = await try_start(Path(report.program), facts.version, held.level, context.home)
    if not wrong:
        return "", FIRST_RUN
    fix = f'name its file: [agents.{name}] program = "..." in {user_file()}; or install it again: {facts.install}'
    return f"{name} does not start in the box: {wrong}", fix


def _not_ready(report: AgentReport) -> str:
    """Return what keeps an agent from starting."""
    if not report.program:
        return f"the default agent {report.name} is not installed"
    if report.login == "not seen":
        return f"no key or login of {report.name} is seen"
    return ""


async def list_agents(context: Context, *, strict: bool = True) -> list[AgentReport]:
    """Report on every agent that can be asked for here; `strict` raises what is wrong with the settings."""
    settings = _load(context, strict=strict)
    named = agents.names(settings.agents)
    found = [await report_agent(name, settings) for name in named if not name.startswith("acp:")]
    versions = {report.program: report.version for report in found}
    spoken = [await report_agent(name, settings, versions) for name in named if name.startswith("acp:")]
    found += [report for report in spoken if report.program or report.name in settings.agents]
    held = [name.removeprefix("agents.") for name in settings.untrusted if name.startswith("agents.")]
    return [*found, *(AgentReport(name=name, remedy=UNTRUSTED, shipped=False) for name in held)]


def installed_logins(context: Context, folder: Path) -> dict[str, str]:
    """Return the agents whose programs lie on this machine, with their logins; no program is started to find out."""
    settings = context.settings.load(folder)
    found = {name: _installed_login(name, settings) for name in agents.names(settings.agents)}
    return {name: login for name, login in found.items() if login}


def _installed_login(name: str, settings: Config) -> str:
    try:
        agent, profile = locate_agent(name, settings)
        resolved, programs = ResolvedAgent(name, agent, profile, {}), agent.facts.programs
        if not programs or programs[0] in PLAYERS:
            return ""
        resolved.program(profile.program or programs[0])
    except CorralError:
        return ""
    return _login(resolved)


def _load(context: Context, *, strict: bool) -> Config:
    here = Path.cwd()
    file = context.settings.file(here)
    try:
        return load_trusted_settings(file.parent if file else here, context.home, trust=False)
    except Untrusted:
        return loader.load(file.parent if file else here)
    except CorralError:
        if strict:
            raise
        return Config()  # what is wrong is said under `settings`


async def report_agent(
    name: str, settings: Config, versions: Mapping[str | None, str | None] | None = None
) -> AgentReport:
    """Report on one agent; `versions` has the known ones, for several agents may be one program."""
    try:
        agent, profile = locate_agent(name, settings)
    except CorralError as error:
        return AgentReport(name=name, remedy=f"{error}; {error.hint}", shipped=False)
    facts = agent.facts
    report = AgentReport(
        name=name,
        login="none needed",
        address=_address(facts, profile),
        hosts=profile.hosts or facts.hosts,
        model=profile.model,
        models=facts.models,
        resumes=facts.resumes,
        steers=facts.steers,
        reports_cost=facts.reports_cost,
        mcp=facts.mcp,
        acp=facts.acp,
        reads=facts.reads,
        reports_tokens=facts.reports_tokens,
        shipped=name in agents.BUILT_IN,
    )
    if facts.programs and facts.programs[0] in PLAYERS:
        return structs.replace(report, program=BUILT_IN)
    resolved = ResolvedAgent(name, agent, profile, {})
    try:
        program = resolved.program(profile.program or facts.programs[0])
    except CorralError as error:
        return structs.replace(report, login="-", remedy=error.hint)
    known = versions or {}
    version = known[str(program)] if str(program) in known else await program_files.ask_version(program, facts.version)
    node = f" ({NODE})" if facts.install.startswith("npm ") else ""
    old = f"older than {facts.oldest}, the first that is known to work: {facts.install}@latest{node}"
    remedy = old if version and _is_older(version, facts.oldest) else ""
    return structs.replace(report, program=str(program), version=version, login=_login(resolved), remedy=remedy)


def _is_older(version: str, oldest: str) -> bool:
    """Compare as users do, number by number; what is no number is left out."""

    def numbers(text: str) -> list[int]:
        return [int(part) for part in re.findall(r"\d+", text.partition("-")[0])]

    return bool(oldest and numbers(version)) and numbers(version) < numbers(oldest)


async def version_of(name: str, settings: Config) -> str | None:
    """Ask an agent's program for its version; None where it cannot be asked."""
    return (await report_agent(name, settings)).version


def _address(facts: AgentFacts, profile: AgentProfile) -> str | None:
    given = {**os.environ, **profile.settings}
    return next((given[name] for name in facts.address if given.get(name)), None)


def _login(resolved: ResolvedAgent) -> str:
    facts = resolved.agent.facts
    keys = [key for key in facts.keys if key in os.environ or key in resolved.profile.settings]
    if keys:
        return keys[0]
    if any((Path.home() / name).is_file() for name in facts.login):
        return "logged in"
    if facts.keys or facts.login:
        return "not needed" if facts.name == "ollama" else "not seen"
    return "-"


async def _probe_sandbox(context: Context) -> ProbeResult:
    """Ask anew, whatever is remembered: something may just have been fixed, or broken."""
    with contextlib.suppress(OSError):  # then nothing is remembered; the store says why
        context.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    remembered, anew = context.home / "probe.json", context.home / f"probe-{os.getpid()}.json"
    held = await probe(anew)
    with contextlib.suppress(OSError):
        if anew.exists():
            anew.replace(remembered)
        else:  # not good enough to be remembered
            remembered.unlink(missing_ok=True)
    return held


def _sandbox(held: ProbeResult) -> DoctorPart:
    needed = default_level()
    ok = is_at_least(held.level, needed)
    found = f"{held.level} ({held.launcher} launcher)"
    if ok and held.level not in ("full", "container"):
        found += (
            "; memory of a box is counted twice a second, not limited by the kernel;"
            " small kernel objects (file locks, epoll entries, open files) are not counted: docs/security.md"
        )
    if ok:
        return DoctorPart(name="sandbox", ok=True, found=found)
    return DoctorPart(
        name="sandbox", ok=False, found=f"{found}, {needed} is asked for: {held.reason}", remedy=held.remedy
    )


async def _workspaces(context: Context) -> DoctorPart:
    kind = _load(context, strict=False).setup.kind
    with contextlib.suppress(OSError):
        return DoctorPart(name="workspaces", ok=True, found=await kinds.choice(kind, context.home))
    return DoctorPart(name="workspaces", ok=True, found="clone: the state folder cannot be written to")


def _programs() -> DoctorPart:
    """Look for the engines of code mode; without them all else works."""
    found: list[str] = []
    try:
        found += [
            str(programs.engine_program(*each)[0].name) for each in (("deno", "deno"), ("monty", "pydantic_monty"))
        ]
    except CorralError as error:
        return DoctorPart(name="programs", ok=True, found=f"{error}; `corral code` needs it", remedy=error.hint)
    return DoctorPart(name="programs", ok=True, found=", ".join(found))


async def _git() -> DoctorPart:
    try:
        return DoctorPart(name="git", ok=True, found=".".join(map(str, await git_version())))
    except CorralError as error:
        return DoctorPart(name="git", ok=False, found=str(error), remedy=error.hint)


def _store(context: Context) -> DoctorPart:
    try:
        sound = context.store.integrity()
    except CorralError as error:
        return DoctorPart(name="store", ok=False, found=str(error), remedy=error.hint)
    if not context.store.writable:
        refusal = context.store.refusal()
        return DoctorPart(
            name="store", ok=False, found=f"{context.home} ({sound}, read-only): {refusal}", remedy=refusal.hint
        )
    return DoctorPart(
        name="store",
        ok=sound == "ok",
        found=f"{context.home} ({sound}; Python {sys.version.split()[0]})",
        remedy="" if sound == "ok" else "corral export > backup.jsonl, then move the file away",
    )


def _settings(context: Context) -> DoctorPart:
    file = context.settings.file(Path.cwd())
    names = [str(path) for path in (user_file(), file) if path and path.is_file()]
    try:
        load_trusted_settings(file.parent if file else Path.cwd(), context.home, trust=False)
    except CorralError as error:
        return DoctorPart(name="settings", ok=False, found=str(error), remedy=error.hint)
    return DoctorPart(name="settings", ok=True, found=", ".join(names) or "none, the defaults apply")


def explain_machine_error(error: Exception) -> CorralError | None:
    """Return an error of the machine in words; None for a fault of our own."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return CorralError(f"what was to be written has no room: {error.strerror}", hint="nothing stored is lost")
    if isinstance(error, OSError) and error.errno in (errno.EROFS, errno.EACCES, errno.EPERM) and error.filename:
        hint = "make it writable for you, or set CORRAL_HOME to another folder"
        return BadRequest(f"{error.filename}: {error.strerror}", hint=hint)
    return machine_limits.of(error)
