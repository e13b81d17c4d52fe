"""Read the user's settings and a repository's, and make one of both."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from corral.config import policies
from corral.config.files import COUNTING, POWERFUL, SettingsFile, convert, file_signs
from corral.config.paths import REPOSITORY_FILE, user_file
from corral.config.policies import budget_of, scopes_of
from corral.config.settings import (
    CleanSettings,
    Config,
    MachineProfile,
    NotifySettings,
    StoreSettings,
    TelemetrySettings,
)
from corral.config.times import duration
from corral.model.agent_api import AccountProfile, AgentProfile, McpProfile
from corral.model.errors import BadRequest, shorten_name

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
PATH = re.compile(r"(?P<method>[A-Z]+) /[!\"$->@-~]*")  #: no `?` and no `#`
Found = tuple[dict[str, AgentProfile], dict[str, str]]  #: the agents, and what is left out -> where it is
#: names that mean something else where an agent is asked for
RESERVED = {
    "auto": "`--agent auto` has corral choose one",
    "shell": "it runs the commands of flows",
}
ERRORS_PARSER: Any = importlib.import_module("re._parser")  #: of the standard library; it has no public name
ERROR_CODES: Any = importlib.import_module("re._constants")
#: what a program can tell of itself; the others are the engine's own findings
ERROR_CLASSES = (
    "rate_limit", "overloaded", "network", "auth", "not_found", "context_too_long", "refused", "denied", "tls",
    "bad_output", "crash",
)  # fmt: skip
MOST_PATTERN = 500
RAY_ADDRESS = re.compile(r"auto|(?:ray://)?(?:[A-Za-z0-9_.-]+|\[[0-9a-fA-F:]+\]):[0-9]{1,5}")
MOST_LOADED = 50  #: pairs of files whose settings are remembered
NO_MACHINES = ("any", "here", "local")  #: words that mean others where a machine is asked for
ERROR_LINE = 200  #: characters of a line that are looked at
MOST_WAYS = 100_000  #: in which a pattern may try to fit at one place of a line; two open repeats need 40,000


class _Layer(NamedTuple):
    """What one file says of an agent."""

    file: SettingsFile
    table: dict[str, Any]


def agents_of(mine: SettingsFile, theirs: SettingsFile, *, trusted: bool) -> Found:
    """Put together what both files say of each agent."""
    for file in (mine, theirs):
        _refuse_names(file)
    own = cast("dict[str, dict[str, Any]]", mine.table("agents"))
    layers = {name: [_Layer(mine, table)] for name, table in own.items()}
    untrusted: dict[str, str] = {}
    for name, table in cast("dict[str, dict[str, Any]]", theirs.table("agents")).items():
        # `like` starts nothing new, but could hand the variables of an agent of the user's to another program.
        powerful = any(key in table for key in POWERFUL) or ("like" in table and name in own)
        powerful = powerful or _lowers_cost(table, _before(name, table, own))
        if not trusted and table == own.get(name):
            continue  # it says nothing new, and what it starts is the user's
        if not trusted and powerful:
            untrusted[f"agents.{name}"] = theirs.where("agents", name)
        else:
            layers.setdefault(name, []).append(_Layer(theirs, table))
    found: dict[str, AgentProfile] = {}
    for name, said in layers.items():
        known = _like(said)
        if known and f"agents.{known}" in untrusted:
            untrusted.setdefault(f"agents.{name}", untrusted[f"agents.{known}"])
        elif known and _like(layers.get(known, [])):
            raise BadRequest(
                f"{said[-1].file.where('agents', name, 'like')}: `{known}` is itself like another agent",
                hint="name that one",
            )
        else:
            found[name] = _profile(name, [*layers.get(known or "", []), *said])
    return found, untrusted


def _before(name: str, theirs: Mapping[str, Any], own: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return what the user's own file says of an agent that a repository's file speaks of."""
    mine = own.get(name, {})
    known = mine.get("like", theirs.get("like"))
    return {**own.get(known, {}), **mine} if isinstance(known, str) else mine


def _lowers_cost(theirs: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Return whether a repository's table could make attempts count for less: a fixed price replaces the meter.

    It may raise a price that the user has set, and give one to a plain program, which costs nothing otherwise.
    """
    if any(key in theirs for key in COUNTING):
        return True
    if "cost_usd" not in theirs:
        return False
    price, known = theirs["cost_usd"], before.get("cost_usd")
    if known is None:
        costs = before.get("output") in ("claude", "acp") or any(before.get(key) for key in ("hosts", "cost", "tokens"))
        return "command" not in before or costs
    return not (isinstance(price, int | float) and isinstance(known, int | float) and price >= known)


def _refuse_names(file: SettingsFile) -> None:
    """Refuse tables that nobody could ever ask for by name."""
    for name in file.table("agents"):
        where = file.where("agents", name)
        if name in RESERVED:
            raise BadRequest(
                f"{where}: no agent can be called `{name}`: {RESERVED[name]}", hint="give yours another name"
            )
        if not re.fullmatch(r"[^\x00-\x1f\x7f-\x9f]{1,100}", name):
            raise BadRequest(
                f"{where}: `{shorten_name(name)}` cannot be the name of an agent",
                hint="at most 100 characters, in a line",
            )


def _like(said: Sequence[_Layer]) -> str | None:
    named = [layer.table["like"] for layer in said if "like" in layer.table]
    return named[-1] if named and isinstance(named[-1], str) else None


def _profile(name: str, said: Sequence[_Layer]) -> AgentProfile:
    """Make one of what was said of an agent, later words before earlier ones."""
    file = said[-1].file
    merged = {key: value for layer in said for key, value in layer.table.items() if key != "scope"}
    if any(layer.table.get("permissions") == "ask" for layer in said):
        merged["permissions"] = "ask"  # a setting that asks the user is not overruled
    rates = [layer.table["requests_per_minute"] for layer in said if "requests_per_minute" in layer.table]
    if rates and all(isinstance(rate, int) for rate in rates):
        merged["requests_per_minute"] = min(rates)
    # A relative path means the folder of the file that names it, not of one that only adds a price.
    paths = ("program", "command", "model") if name == "scripted" else ("program", "command")
    naming = [layer.file for layer in said if any(key in layer.table for key in paths)]
    folder = (naming or [file])[-1].path.parent
    profile = convert({**merged, "folder": str(folder)}, AgentProfile, file, f"agents.{name}")
    if profile.cost_usd is not None and not 0 <= profile.cost_usd < float("inf"):
        raise BadRequest(f"{file.where('agents', name, 'cost_usd')}: a price is 0 or more", hint="cost_usd = 0.5")
    if profile.requests_per_minute is not None and profile.requests_per_minute < 1:
        raise BadRequest(
            f"{file.where('agents', name, 'requests_per_minute')}: it is 1 or more", hint="requests_per_minute = 10"
        )
    _check_paths(profile, file.where("agents", name, "paths"))
    for key in ("errors", "authenticate"):
        if key in merged and not profile.command:
            raise BadRequest(
                f"{file.where('agents', name, key)}: `{key}` is for an agent with a `command`",
                hint="add `command`, or remove the key",
            )
    if wrong := wrong_pattern(profile.errors):
        raise BadRequest(f"{file.where('agents', name, 'errors')}: {wrong[0]}", hint=wrong[1])
    if any("like" in layer.table and "command" in layer.table for layer in said):
        raise BadRequest(
            f"{file.where('agents', name, 'like')}: an agent has either `like` or `command`", hint="remove one of them"
        )
    return profile


def _check_paths(profile: AgentProfile, where: str) -> None:
    for word in profile.paths:
        found = PATH.fullmatch(word)
        if not found or found["method"] not in METHODS:
            hint = 'a method and a path below its base URL, without a query: paths = ["GET /v1/files"]'
            raise BadRequest(f"{where}: `{word}` is no method and path", hint=hint)


def accounts_of(file: SettingsFile, agents: Mapping[str, AgentProfile]) -> dict[str, AccountProfile]:
    found: dict[str, AccountProfile] = {}
    for name, table in file.table("accounts").items():
        where = file.where("accounts", name)
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,40}", name):
            raise BadRequest(f"{where}: `{name}` is no name for an account", hint="letters, digits, . - _")
        if "agent" not in table:
            raise BadRequest(f"{where}: [accounts.{name}] names no agent", hint='agent = "claude"')
        found[name] = convert({**table, "base": str(file.path.parent)}, AccountProfile, file, f"accounts.{name}")
        if not (found[name].folder or found[name].key_env):
            hint = 'folder = "~/.claude-work", or key_env = "WORK_KEY": a variable that holds its key'
            raise BadRequest(f"{where}: [accounts.{name}] has neither a folder nor a key", hint=hint)
    for name, profile in agents.items():
        if profile.account is not None and profile.account not in found:
            known = ", ".join(found) or "none"
            raise BadRequest(
                f"[agents.{name}] account: no account is called `{profile.account}`", hint=f"known: {known}"
            )
    return found


def mcp_of(file: SettingsFile) -> dict[str, McpProfile]:
    found: dict[str, McpProfile] = {}
    for name, table in file.table("mcp").items():
        profile = convert({**table, "folder": str(file.path.parent)}, McpProfile, file, f"mcp.{name}")
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}", name):
            raise BadRequest(
                f"{file.where('mcp', name)}: `{name}` is no name for a server", hint="letters, digits, - _"
            )
        if not profile.command:
            raise BadRequest(f"{file.where('mcp', name)}: [mcp.{name}] has no command", hint='command = ["program"]')
        found[name] = profile
    return found


def machines_of(file: SettingsFile) -> dict[str, MachineProfile]:
    """Read the machines on which attempts may run."""
    found: dict[str, MachineProfile] = {}
    for name, table in cast("dict[str, dict[str, Any]]", file.table("machines")).items():
        where = file.where("machines", name)
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,40}", name) or name in NO_MACHINES:
            raise BadRequest(f"{where}: `{name}` is no name for a machine", hint="letters, digits, . - _; not `any`")
        known = dict(table)
        if "lease" in table:
            lease = duration(str(table["lease"]), f"[machines.{name}] lease")
            known["lease_seconds"] = lease
            del known["lease"]
        found[name] = convert(known, MachineProfile, file, f"machines.{name}")
        _check_machine(found[name], file, name)
        if found[name].slots < 1:
            raise BadRequest(f"{file.where('machines', name, 'slots')}: slots is 1 or more", hint="slots = 2")
    return found


def _check_machine(profile: MachineProfile, file: SettingsFile, name: str) -> None:
    where = file.where("machines", name)
    if profile.ray is not None:
        if not RAY_ADDRESS.fullmatch(profile.ray):
            where = file.where("machines", name, "ray")
            raise BadRequest(
                f"{where}: `{profile.ray}` is no address of a Ray cluster", hint='ray = "ray://head:10001"'
            )
        if bad := [key for key, value in profile.resources.items() if not 0 < value < 1e9]:
            where = file.where("machines", name, "resources")
            raise BadRequest(f"{where}: {bad[0]} is counted by more than 0", hint=f"resources = {{ {bad[0]} = 1 }}")
    if not all(profile.command) or not (profile.command or profile.ray):
        hint = 'command = ["ssh", "box1", "corral", "host"]'
        raise BadRequest(f"{where}: [machines.{name}] has no command", hint=hint)
    if profile.ray is None and (profile.resources or "*" in profile.labels.values()):
        raise BadRequest(f"{where}: only a Ray cluster counts resources and chooses by labels", hint='ray = "auto"')


_loaded: dict[tuple[object, ...], Config] = {}  #: by the signs of both files


def load(repo: Path | None, *, trusted: str | None = None) -> Config:
    """Read both files; the repository's adds and narrows, and its powerful keys need trust.

    `trusted` is the fingerprint by which the user trusts the repository's file; None: they do not. As long as neither
    file changes, what was read of them holds.
    """
    signs = file_signs(user_file(), *([repo / REPOSITORY_FILE] if repo else []))
    key = (user_file(), repo, trusted, signs)
    if signs is None or (known := _loaded.get(key)) is None:
        known = _load(repo, trusted)
        if signs is not None:
            if len(_loaded) >= MOST_LOADED:
                _loaded.clear()
            _loaded[key] = known
    return known


def _load(repo: Path | None, trusted: str | None) -> Config:
    mine = SettingsFile.read(user_file())
    theirs = SettingsFile.read(repo / REPOSITORY_FILE) if repo else SettingsFile(Path(), {}, "")
    agents, untrusted = agents_of(mine, theirs, trusted=trusted is not None)
    setup = policies.setup(mine)
    if "workspace" in theirs.tables:
        if trusted:
            setup = policies.setup(theirs)
        else:
            untrusted["workspace"] = theirs.where("workspace")
    hooks = policies.hooks(mine)
    if "hooks" in theirs.tables:
        if trusted:
            hooks += policies.hooks(theirs, trusted)
        else:
            untrusted["hooks"] = theirs.where("hooks")
    mcp = mcp_of(mine)
    if "mcp" in theirs.tables:
        if trusted:
            mcp |= mcp_of(theirs)
        else:
            untrusted["mcp"] = theirs.where("mcp")
    forge = policies.forge(mine, None)
    if "forge" in theirs.tables:
        if trusted:
            forge = policies.forge(mine, theirs)
        else:
            untrusted["forge"] = theirs.where("forge")
    _refuse_private(theirs)
    retry = policies.retry(mine, theirs)
    return Config(
        defaults=policies.defaults(mine, theirs),
        agents=agents,
        accounts=accounts_of(mine, agents),
        retry=retry,
        retries_asked=retry.most if "most" in {*mine.table("retry"), *theirs.table("retry")} else None,
        setup=setup,
        condense=policies.condense(mine, theirs),
        memory=policies.memory(mine, theirs),
        hooks=hooks,
        scopes=(*scopes_of(mine, agents, narrows=False), *scopes_of(theirs, agents, narrows=True)),
        mcp=mcp,
        toolbox=policies.toolbox(mine, theirs),
        policy=policies.tool_rules(mine, theirs),
        budget=budget_of(mine, theirs),
        limits=policies.slot_limits(mine, theirs),
        evidence=policies.evidence(mine, theirs),
        routing=(*policies.routing(mine), *policies.routing(theirs)),
        complexity=policies.complexity(mine, theirs),
        forge=forge,
        machines=machines_of(mine),
        trusted=trusted is not None,
        untrusted=untrusted,
    )


def _refuse_private(theirs: SettingsFile) -> None:
    """Refuse what a repository has no say in."""
    for name in ("notify", "accounts", "telemetry", "machines", "store", "clean"):
        if name in theirs.tables:
            raise BadRequest(f"{theirs.where(name)}: [{name}] is yours to say", hint=f"put it into {user_file()}")


def notify() -> NotifySettings:
    """Read how to notify the user; a repository cannot set it."""
    mine = SettingsFile.read(user_file())
    table = mine.table("notify")
    fields = {*NotifySettings.__struct_fields__} - {"others"}
    others = {name: value for name, value in table.items() if name not in fields}
    own = {key: value for key, value in table.items() if key not in others}
    ways = convert({**own, "others": others}, NotifySettings, mine, "notify")
    for key, address in (("webhook", ways.webhook), ("answer_url", ways.answer_url)):
        if address and not address.startswith(("http://", "https://")):
            raise BadRequest(
                f"{mine.where('notify', key)}: {_A[key]} begins with http:// or https://",
                hint=f'{key} = "https://example.org{"/hook" if key == "webhook" else ""}"',
            )
    return ways


_A = {"webhook": "a webhook", "answer_url": "an answer_url"}


def stored_at() -> str | None:
    """Return the address of the store that the user's own settings name."""
    mine = SettingsFile.read(user_file(), keys=False)
    return convert(mine.table("store"), StoreSettings, mine, "store").url


def cleaning() -> CleanSettings:
    """Read what a server is to clean; a repository cannot set it."""
    mine = SettingsFile.read(user_file())
    return convert(mine.table("clean"), CleanSettings, mine, "clean")


def telemetry() -> TelemetrySettings:
    """Read where to send traces and metrics; a repository cannot set it."""
    mine = SettingsFile.read(user_file())
    settings = convert(mine.table("telemetry"), TelemetrySettings, mine, "telemetry")
    if settings.otlp is not None and not settings.otlp.startswith(("http://", "https://")):
        raise BadRequest(
            f"{mine.where('telemetry', 'otlp')}: a collector begins with http:// or https://",
            hint='otlp = "http://127.0.0.1:4318"',
        )
    return settings


def wrong_pattern(errors: Mapping[str, str]) -> tuple[str, str] | None:
    """Return what is wrong with a table of patterns, and what helps; None if nothing is."""
    for kind, pattern in errors.items():
        if kind not in ERROR_CLASSES:
            return f"`{kind}` is not a class of failures", "known: " + ", ".join(ERROR_CLASSES)
        try:
            re.compile(pattern)
            ways = _ways(ERRORS_PARSER.parse(pattern))
        except (re.error, RecursionError, OverflowError) as error:
            return f"the pattern of `{kind}` is none: {error}", 'as in {rate_limit = "429|rate limit"}'
        if not pattern or len(pattern) > MOST_PATTERN:
            return f"the pattern of `{kind}` is empty or longer than {MOST_PATTERN} characters", "name a few words"
        if ways > MOST_WAYS:
            return f"the pattern of `{kind}` could take for ever", "at most two of * and +, none inside another"
    return None


def _ways(parsed: Iterable[Any]) -> int:
    """Bound the ways in which a pattern may try to fit at one place: repeats multiply, alternatives add."""
    found = 1
    for code, given in parsed:
        if code in (ERROR_CODES.MAX_REPEAT, ERROR_CODES.MIN_REPEAT):
            most = min(int(given[1]), ERROR_LINE)
            inner = min(_ways(given[2]), MOST_WAYS + 1)
            found *= (most - min(int(given[0]), most) + 1) * inner**most
        elif code is ERROR_CODES.BRANCH:
            found *= sum(_ways(each) for each in given[1])
        else:
            parts = cast("tuple[Any, ...]", given) if isinstance(given, tuple) else (given,)
            for part in parts:
                found *= _ways(part) if isinstance(part, ERRORS_PARSER.SubPattern) else 1
        found = min(found, MOST_WAYS + 1)
    return found
