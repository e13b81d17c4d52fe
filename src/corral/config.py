"""The only reader of settings: the person's config.toml, a repository's corral.toml, and the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import msgspec
from msgspec import Struct, field

from corral.adapter import AccountProfile, AgentProfile, Hook, McpProfile
from corral.errors import BadRequest
from corral.model import (
    ComplexityTable,
    CondensePolicy,
    RetryPolicy,
    RoutingRule,
    ScopeSource,
    ScopeTable,
    Setup,
    SlotLimits,
    ToolboxRules,
)
from corral.money import Budget, BudgetTable, Limit, PriceFile, PriceList, Window

T = TypeVar("T")

REPOSITORY_FILE = "corral.toml"
MOST_FAMILY = 100  #: children of a run, and how deep they go, whatever settings say

#: Every key a settings file may hold. A key that nothing reads yet is not here: silence would be a lie.
KEYS: dict[str, tuple[str, ...]] = {
    "": (
        "defaults",
        "agents",
        "accounts",
        "retry",
        "scope",
        "workspace",
        "hooks",
        "mcp",
        "notify",
        "condense",
        "toolbox",
        "budget",
        "limits",
        "routing",
        "complexity",
        "telemetry",
    ),
    "routing": ("type", "grade", "words", "files", "role", "agent", "reason"),
    "complexity": ("types", "words", "other_type"),
    "limits": ("parallel", "per_agent", "per_repository"),
    "toolbox": ("enabled", "depth", "children", "agents", "delegate"),
    "budget": (
        "per_run_usd",
        "per_day_usd",
        "per_month_usd",
        "ceiling_usd",
        "unknown_cost_usd",
        "zone",
        "cheaper",
        "mcp_over_budget",
    ),
    "notify": ("bell", "desktop", "command", "webhook"),
    "telemetry": ("otlp",),
    "mcp.*": ("command", "env", "settings"),
    "hooks": ("on", "run", "python", "agent", "model", "type"),
    "defaults": ("agent", "checks", "budget_usd", "timeout", "idle"),
    "agents.*": (
        "like",
        "program",
        "model",
        "models",
        "env",
        "settings",
        "hosts",
        "command",
        "prompt",
        "output",
        "result",
        "success",
        "cost",
        "cost_unit",
        "tokens",
        "cost_usd",
        "fallback",
        "family",
        "role",
        "instructions",
        "permissions",
        "requests_per_minute",
        "account",
        "rotate",
        "scope",
    ),
    "accounts.*": ("agent", "folder", "key_env", "key_as", "settings"),
    "retry": ("most", "delay_seconds", "exponential", "max_wait_seconds", "on_limit", "total_seconds", "from"),
    "condense": ("at", "most", "agent", "windows"),
    "workspace": ("copy", "setup", "setup_net", "snapshot"),
    "scope": (
        "read",
        "write",
        "readonly",
        "env",
        "net",
        "memory_mb",
        "processes",
        "cpu_seconds",
        "disk_mb",
        "file_mb",
        "timeout",
    ),
}

LISTS = ("hooks", "routing")  #: of tables

#: What can send a key somewhere or start a program: from a repository it counts only once its file is trusted.
POWERFUL = ("program", "command", "env", "settings", "hosts", "account", "rotate")


class Defaults(Struct, frozen=True, kw_only=True):
    agent: str | None = None
    checks: tuple[str, ...] = ()
    budget_usd: float | None = None
    timeout: str | None = None
    idle: str | None = None


class Notify(Struct, frozen=True, kw_only=True):
    """How a person learns that something waits for them; `[notify]` of config.toml."""

    bell: bool = True  #: of the terminal
    desktop: bool = True
    command: str | None = None
    webhook: str | None = None


class Telemetry(Struct, frozen=True, kw_only=True):
    """Who is told what runs and attempts came to; `[telemetry]` of config.toml. Nobody, unless it is said."""

    otlp: str | None = None  #: the address of an OpenTelemetry collector


class Config(Struct, frozen=True, kw_only=True):
    """What holds for this person in this repository."""

    defaults: Defaults = Defaults()
    agents: Mapping[str, AgentProfile] = field(default_factory=dict[str, AgentProfile])
    accounts: Mapping[str, AccountProfile] = field(default_factory=dict[str, AccountProfile])
    retry: RetryPolicy = RetryPolicy()
    retries_asked: int | None = None  #: [retry] most, when a file says it
    setup: Setup = Setup()
    condense: CondensePolicy = CondensePolicy()
    hooks: tuple[Hook, ...] = ()
    scopes: tuple[ScopeSource, ...] = ()  #: the person's, then the repository's, which may only narrow
    mcp: Mapping[str, McpProfile] = field(default_factory=dict[str, McpProfile])
    toolbox: ToolboxRules = ToolboxRules()
    budget: Budget = Budget()
    limits: SlotLimits = SlotLimits()
    routing: tuple[RoutingRule, ...] = ()  #: the person's, then the repository's
    complexity: ComplexityTable = ComplexityTable()
    untrusted: Mapping[str, str] = field(default_factory=dict[str, str])  #: what -> where, left out until trusted


def home() -> Path:
    """Where state lives: `$CORRAL_HOME`, or the XDG state folder."""
    named = os.environ.get("CORRAL_HOME")
    if named:
        return Path(named).expanduser().absolute()
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "corral"


def person_file() -> Path:
    """Return the path of the person's own settings."""
    folder = os.environ.get("XDG_CONFIG_HOME")
    return (Path(folder) if folder else Path.home() / ".config") / "corral" / "config.toml"


def notify() -> Notify:
    """Read how the person wants to be told; a repository has no say in it."""
    mine = _File.read(person_file())
    ways = _convert(mine.table("notify"), Notify, mine, "notify")
    if ways.webhook and not ways.webhook.startswith(("http://", "https://")):
        raise BadRequest(f"{mine.where('notify', 'webhook')}: a webhook begins with http:// or https://")
    return ways


def telemetry() -> Telemetry:
    """Read whom the person wants told of runs and attempts; a repository has no say in it."""
    mine = _File.read(person_file())
    told = _convert(mine.table("telemetry"), Telemetry, mine, "telemetry")
    if told.otlp is not None and not told.otlp.startswith(("http://", "https://")):
        raise BadRequest(f"{mine.where('telemetry', 'otlp')}: a collector begins with http:// or https://")
    return told


def fingerprint(path: Path, content: bytes | None = None) -> str:
    """Return what is remembered when a person trusts a file: where it lies and every byte in it."""
    import hashlib  # noqa: PLC0415 -- as below: commands that only look at runs start without it

    return hashlib.sha256(str(path).encode() + b"\0" + (path.read_bytes() if content is None else content)).hexdigest()


def load(repo: Path | None, *, trusted: bool = False) -> Config:
    """Read both files; the repository's adds and narrows, and its powerful keys need trust."""
    mine = _File.read(person_file())
    theirs = _File.read(repo / REPOSITORY_FILE) if repo else _File(Path(), {}, "")
    agents, untrusted = _agents(mine, theirs, trusted=trusted)
    setup = _setup(mine)
    if "workspace" in theirs.tables:
        if trusted:
            setup = _setup(theirs)
        else:
            untrusted["workspace"] = theirs.where("workspace")
    hooks = _hooks(mine)
    if "hooks" in theirs.tables:
        if trusted:
            hooks += _hooks(theirs)
        else:
            untrusted["hooks"] = theirs.where("hooks")
    mcp = _mcp(mine)
    if "mcp" in theirs.tables:
        if trusted:
            mcp |= _mcp(theirs)
        else:
            untrusted["mcp"] = theirs.where("mcp")
    _refuse_private(theirs)
    retry_table = {**mine.table("retry"), **theirs.table("retry")}
    retry = _convert(retry_table, RetryPolicy, theirs if theirs.table("retry") else mine, "retry")
    for name in ("most", "delay_seconds", "max_wait_seconds", "total_seconds"):
        if not 0 <= getattr(retry, name) < float("inf"):
            file = theirs if name in theirs.table("retry") else mine
            raise BadRequest(f"{file.where('retry', name)}: [retry] {name} is 0 or more")
    return Config(
        defaults=_defaults(mine, theirs),
        agents=agents,
        accounts=_accounts(mine, agents),
        retry=retry,
        retries_asked=retry.most if "most" in retry_table else None,
        setup=setup,
        condense=_condense(mine, theirs),
        hooks=hooks,
        scopes=(*_scopes(mine, agents, narrows=False), *_scopes(theirs, agents, narrows=True)),
        mcp=mcp,
        toolbox=_toolbox(mine, theirs),
        budget=_budget(mine, theirs),
        limits=_slot_limits(mine, theirs),
        routing=(*_routing(mine), *_routing(theirs)),
        complexity=_complexity(mine, theirs),
        untrusted=untrusted,
    )


def _refuse_private(theirs: _File) -> None:
    """Refuse what a repository has no say in."""
    for name in ("notify", "accounts", "telemetry"):
        if name in theirs.tables:
            raise BadRequest(f"{theirs.where(name)}: [{name}] is yours to say", hint=f"put it into {person_file()}")


class _File:
    """One settings file: its tables, and where in it a key stands."""

    def __init__(self, path: Path, tables: dict[str, Any], text: str) -> None:
        self.path, self.tables, self.text = path, tables, text

    @classmethod
    def read(cls, path: Path, *, keys: bool = True) -> _File:
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return cls(path, {}, "")
        except (OSError, UnicodeDecodeError) as error:
            raise BadRequest(f"{path}: cannot be read: {error}", hint="settings are UTF-8 text in TOML") from error
        import tomllib  # noqa: PLC0415

        try:
            tables = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise BadRequest(f"{path}: not TOML: {error}", hint="mend that line; see `corral run --help`") from error
        file = cls(path, tables, text)
        if keys:
            file.check_keys()
        return file

    def table(self, name: str) -> dict[str, Any]:
        value = self.tables.get(name, {})
        if not isinstance(value, dict):
            raise BadRequest(f"{self.where(name)}: `{name}` is a table", hint=f"write it as [{name}]")
        return cast("dict[str, Any]", value)

    def entries(self, name: str) -> list[dict[str, Any]]:
        value = self.tables.get(name, [])
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in cast("list[Any]", value)):
            raise BadRequest(f"{self.where(name)}: `{name}` is a list of tables", hint=f"write each as [[{name}]]")
        return cast("list[dict[str, Any]]", value)

    def where(self, first: str, *rest: str) -> str:
        """Name file and line of a key or a table, as far as the text shows it."""
        path = (first, *rest)
        header = re.compile(rf"^\s*\[+{_dotted(path)}\]")
        parent = re.compile(rf"^\s*\[+{_dotted(path[:-1])}\]") if rest else None
        key = re.compile(rf"^\s*[\"']?{re.escape(path[-1])}[\"']?\s*=")
        inside = parent is None
        for number, line in enumerate(self.text.splitlines(), 1):
            if header.match(line) or (inside and key.match(line)):
                return f"{self.path}:{number}"
            inside = inside or bool(parent and parent.match(line))
        return self.where(*path[:-1]) if rest else str(self.path)  # an inline table: at least where it begins

    def check_keys(self) -> None:
        self.check(self.tables, (), KEYS[""])
        for name in KEYS[""]:
            if name in KEYS and name not in LISTS:
                self.check(self.table(name), (name,), KEYS[name])
        for name in LISTS:
            for table in self.entries(name):
                self.check(table, (name,), KEYS[name])
        for kind in ("agents", "mcp", "accounts"):
            for name, table in self.table(kind).items():
                if not isinstance(table, dict):
                    raise BadRequest(f"{self.where(kind, name)}: `{kind}.{name}` is a table")
                self.check(cast("dict[str, Any]", table), (kind, name), KEYS[f"{kind}.*"])
        for name in self.table("agents"):
            self.check(_inner_scope(self, name), ("agents", name, "scope"), KEYS["scope"])

    def check(self, table: dict[str, Any], path: tuple[str, ...], known: tuple[str, ...]) -> None:
        for key in table:
            if key not in known:
                import difflib  # noqa: PLC0415

                near = difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean `{near[0]}`?" if near else "known here: " + ", ".join(known)
                raise BadRequest(f"{self.where(*(*path, key))}: unknown key `{'.'.join((*path, key))}`", hint=hint)


def _dotted(path: tuple[str, ...]) -> str:
    return r"\s*\.\s*".join(rf"[\"']?{re.escape(part)}[\"']?" for part in path)


def _convert(table: dict[str, Any], kind: type[T], file: _File, name: str) -> T:
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        key = re.search(r"`\$\.([A-Za-z_]+)", str(error))
        first, *rest = (*name.split("."), key.group(1)) if key else name.split(".")
        raise BadRequest(f"{file.where(first, *rest)}: [{name}] {error}", hint="see docs: configuration") from error


def _defaults(mine: _File, theirs: _File) -> Defaults:
    own = _convert(mine.table("defaults"), Defaults, mine, "defaults")
    repository = _convert(theirs.table("defaults"), Defaults, theirs, "defaults")
    limits = [limit for limit in (own.budget_usd, repository.budget_usd) if limit is not None]
    for file, limit in ((mine, own.budget_usd), (theirs, repository.budget_usd)):
        if limit is not None and not limit > 0:
            raise BadRequest(
                f"{file.where('defaults', 'budget_usd')}: a budget is more than 0", hint="leave it out: no limit"
            )
    return Defaults(
        agent=repository.agent or own.agent,
        checks=repository.checks or own.checks,
        budget_usd=min(limits) if limits else None,  # a repository narrows, never widens
        timeout=repository.timeout or own.timeout,
        idle=repository.idle or own.idle,
    )


def _condense(mine: _File, theirs: _File) -> CondensePolicy:
    table = {**mine.table("condense"), **theirs.table("condense")}
    file = theirs if theirs.table("condense") else mine
    policy = _convert(table, CondensePolicy, file, "condense")
    if not 0 <= policy.at <= 1:
        raise BadRequest(
            f"{file.where('condense', 'at')}: [condense] at is a share from 0 to 1", hint="0: never by itself"
        )
    if policy.most < 0 or any(tokens < 1 for tokens in policy.windows.values()):
        raise BadRequest(f"{file.where('condense')}: [condense] counts are whole numbers, not below 0")
    return policy


def _toolbox(mine: _File, theirs: _File) -> ToolboxRules:
    """Make one of what both say of toolboxes: what a repository says holds only where it allows less."""
    own, repository = (_convert(file.table("toolbox"), ToolboxRules, file, "toolbox") for file in (mine, theirs))
    for file, rules in ((mine, own), (theirs, repository)):
        for name in ("depth", "children"):
            if not 0 <= getattr(rules, name) <= MOST_FAMILY:
                raise BadRequest(f"{file.where('toolbox', name)}: [toolbox] {name} is 0 to {MOST_FAMILY}")
    givers = {*own.delegate, *repository.delegate}
    return ToolboxRules(
        enabled=own.enabled and repository.enabled,
        depth=min(own.depth, repository.depth) if "depth" in theirs.table("toolbox") else own.depth,
        children=min(own.children, repository.children) if "children" in theirs.table("toolbox") else own.children,
        agents=own.agents,
        delegate={giver: _allowed(giver, own.delegate, repository.delegate) for giver in sorted(givers)},
    )


def _slot_limits(mine: _File, theirs: _File) -> SlotLimits:
    """Make one of what both say of how many run at once: the smaller number holds."""
    own, repository = (_convert(file.table("limits"), SlotLimits, file, "limits") for file in (mine, theirs))
    for file, limits in ((mine, own), (theirs, repository)):
        for name, number in (("parallel", limits.parallel), ("per_repository", limits.per_repository)):
            if number is not None and number < 1:
                raise BadRequest(f"{file.where('limits', name)}: [limits] {name} is 1 or more")
        if any(number < 1 for number in limits.per_agent.values()):
            raise BadRequest(f"{file.where('limits', 'per_agent')}: [limits] per_agent has numbers of 1 or more")
    agents = {*own.per_agent, *repository.per_agent}
    return SlotLimits(
        parallel=_least(own.parallel, repository.parallel),
        per_agent={
            name: least
            for name in sorted(agents)
            if (least := _least(own.per_agent.get(name), repository.per_agent.get(name))) is not None
        },
        per_repository=_least(own.per_repository, repository.per_repository),
    )


def _routing(file: _File) -> tuple[RoutingRule, ...]:
    found: list[RoutingRule] = []
    for table in file.entries("routing"):
        lists = ("type", "grade", "words", "files", "role")  # one word stands for a list of one
        given = {key: [value] if key in lists and isinstance(value, str) else value for key, value in table.items()}
        found.append(_convert(given, RoutingRule, file, "routing"))
    return tuple(found)


def _complexity(mine: _File, theirs: _File) -> ComplexityTable:
    """Take the points of both; where both say something, the person's count."""
    own, repository = (
        _convert(file.table("complexity"), ComplexityTable, file, "complexity") for file in (mine, theirs)
    )
    return ComplexityTable(
        types={**repository.types, **own.types},
        words={word.lower(): points for word, points in {**repository.words, **own.words}.items()},
        other_type=repository.other_type if own.other_type is None else own.other_type,
    )


def _least(*numbers: int | None) -> int | None:
    return min((number for number in numbers if number is not None), default=None)


def _allowed(giver: str, *tables: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return whom a role may hand work to by every table that says anything."""
    lists = [table.get(giver, table.get("*", ())) for table in tables if table]
    named = [set(each) for each in lists if "*" not in each]
    return tuple(sorted(named[0].intersection(*named[1:]))) if named else ("*",)


def _budget(mine: _File, theirs: _File) -> Budget:
    """Take the limits of both: a repository's may only be besides the person's, so it narrows."""
    own, limits = _budget_table(mine), [*_limits(mine), *_limits(theirs)]
    _budget_table(theirs)
    if unheard := {"zone", "unknown_cost_usd", "ceiling_usd", "cheaper", "mcp_over_budget"} & {*theirs.table("budget")}:
        key = min(unheard)
        raise BadRequest(f"{theirs.where('budget', key)}: [budget] {key} is yours to say", hint=f"in {person_file()}")
    charge = 1.0 if own.unknown_cost_usd is None else own.unknown_cost_usd
    return Budget(
        limits=tuple(limits),
        unknown_cost_usd=charge,
        zone=own.zone or "",
        cheaper=own.cheaper,
        mcp_over_budget=own.mcp_over_budget,
    )


def _budget_table(file: _File) -> BudgetTable:
    table = _convert(file.table("budget"), BudgetTable, file, "budget")
    for key in KEYS["budget"]:
        value = getattr(table, key)
        if isinstance(value, float) and not 0 < value < float("inf"):
            raise BadRequest(
                f"{file.where('budget', key)}: [budget] {key} is more than 0", hint="leave it out: no limit"
            )
    return table


def _limits(file: _File) -> list[Limit]:
    table = _convert(file.table("budget"), BudgetTable, file, "budget")
    said: tuple[tuple[Window, str, float | None], ...] = (
        ("run", "per_run_usd", table.per_run_usd),
        ("day", "per_day_usd", table.per_day_usd),
        ("month", "per_month_usd", table.per_month_usd),
        ("ceiling", "ceiling_usd", table.ceiling_usd),
    )
    return [
        Limit(window=window, usd=usd, where=file.where("budget", key)) for window, key, usd in said if usd is not None
    ]


def price_list() -> PriceList:
    """Read the prices that are ours: the person's prices.toml beside config.toml, and the file we ship."""
    shipped = Path(__file__).with_name("prices.toml")
    return PriceList(own=_prices(person_file().with_name("prices.toml")), shipped=_prices(shipped))


def _prices(path: Path) -> PriceFile:
    file = _File.read(path, keys=False)
    read = _convert(file.tables, PriceFile, file, "models")
    for name, price in read.models.items():
        for rate in (price, *price.tiers):
            for key in ("input", "output", "cache_read", "cache_write"):
                usd = getattr(rate, key)
                if usd is not None and not 0 <= usd < float("inf"):
                    raise BadRequest(f"{file.where('models', name, key)}: a price is 0 or more")
    for name, about in read.attempts.items():
        if not 0 <= about.low <= about.high < float("inf"):
            raise BadRequest(f"{file.where('attempts', name)}: a range is 0 or more, the lower end first")
    return read


def _setup(file: _File) -> Setup:
    table = dict(file.table("workspace"))
    if "setup" in table:
        table["command"] = table.pop("setup")
    if "setup_net" in table:
        table["net"] = table.pop("setup_net")
    if "snapshot" in table:
        table["snapshot_seconds"] = duration(str(table.pop("snapshot")), "[workspace] snapshot")
    return _convert(table, Setup, file, "workspace")


def _hooks(file: _File) -> tuple[Hook, ...]:
    found: list[Hook] = []
    for table in file.entries("hooks"):
        hook = _convert(table, Hook, file, "hooks")
        if bool(hook.run) == bool(hook.python):
            raise BadRequest(f"{file.where('hooks')}: a hook has either `run` or `python`")
        found.append(hook)
    return tuple(found)


def scope_file(path: Path) -> ScopeSource:
    """Read a file of a scope's keys, at the top or in a table `[scope]`: the person's own word for one run."""
    if not path.is_file():
        raise BadRequest(f"--scope: {path} is not there", hint="a TOML file with keys like those of [scope]")
    file = _File.read(path, keys=False)
    prefix = ("scope",) if isinstance(file.tables.get("scope"), dict) else ()
    table = file.table("scope") if prefix else file.tables
    file.check(table, prefix, KEYS["scope"])
    return _source(file, table, prefix)


def _scopes(file: _File, agents: Mapping[str, AgentProfile], *, narrows: bool) -> list[ScopeSource]:
    found = [_source(file, file.table("scope"), ("scope",))] if "scope" in file.tables else []
    written = file.table("agents")
    for name in dict.fromkeys((*written, *agents)):
        like = agents[name].like if name in agents else None
        for each in (like, name):  # another name for an agent is no way out of its scope
            table = _inner_scope(file, each) if each in written else {}
            found += [_source(file, table, ("agents", str(each), "scope"), agent=name)] if table else []
    return [msgspec.structs.replace(source, narrows=narrows, many=not narrows) for source in found]


def _source(file: _File, table: dict[str, Any], path: tuple[str, ...], agent: str | None = None) -> ScopeSource:
    converted = _convert(table, ScopeTable, file, ".".join(path) or "scope")
    return ScopeSource(table=converted, where={key: file.where(*path, key) for key in table}, agent=agent)


def _inner_scope(file: _File, agent: str) -> dict[str, Any]:
    table = file.table("agents")[agent].get("scope", {})
    if not isinstance(table, dict):
        raise BadRequest(f"{file.where('agents', agent, 'scope')}: `agents.{agent}.scope` is a table")
    return cast("dict[str, Any]", table)


class _Layer(NamedTuple):
    """What one file says of an agent."""

    file: _File
    table: dict[str, Any]


def _mcp(file: _File) -> dict[str, McpProfile]:
    found: dict[str, McpProfile] = {}
    for name, table in file.table("mcp").items():
        profile = _convert({**table, "folder": str(file.path.parent)}, McpProfile, file, f"mcp.{name}")
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}", name):
            raise BadRequest(
                f"{file.where('mcp', name)}: `{name}` is no name for a server", hint="letters, digits, - _"
            )
        if not profile.command:
            raise BadRequest(f"{file.where('mcp', name)}: [mcp.{name}] has no command", hint='command = ["program"]')
        found[name] = profile
    return found


def _accounts(file: _File, agents: Mapping[str, AgentProfile]) -> dict[str, AccountProfile]:
    found: dict[str, AccountProfile] = {}
    for name, table in file.table("accounts").items():
        where = file.where("accounts", name)
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,40}", name):
            raise BadRequest(f"{where}: `{name}` is no name for an account", hint="letters, digits, . - _")
        if "agent" not in table:
            raise BadRequest(f"{where}: [accounts.{name}] names no agent", hint='agent = "claude"')
        found[name] = _convert({**table, "base": str(file.path.parent)}, AccountProfile, file, f"accounts.{name}")
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


def _agents(mine: _File, theirs: _File, *, trusted: bool) -> tuple[dict[str, AgentProfile], dict[str, str]]:
    own = cast("dict[str, dict[str, Any]]", mine.table("agents"))
    layers = {name: [_Layer(mine, table)] for name, table in own.items()}
    untrusted: dict[str, str] = {}
    for name, table in cast("dict[str, dict[str, Any]]", theirs.table("agents")).items():
        # `like` starts nothing new, but could hand the variables of an agent of the person's to another program.
        powerful = any(key in table for key in POWERFUL) or ("like" in table and name in own)
        if not trusted and table != own.get(name) and powerful:
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


def _like(said: Sequence[_Layer]) -> str | None:
    named = [layer.table["like"] for layer in said if "like" in layer.table]
    return named[-1] if named and isinstance(named[-1], str) else None


def _profile(name: str, said: Sequence[_Layer]) -> AgentProfile:
    """Make one of what was said of an agent, later words before earlier ones."""
    file = said[-1].file
    merged = {key: value for layer in said for key, value in layer.table.items() if key != "scope"}
    if any(layer.table.get("permissions") == "ask" for layer in said):
        merged["permissions"] = "ask"  # whoever wants a person to be asked is not overruled
    rates = [layer.table["requests_per_minute"] for layer in said if "requests_per_minute" in layer.table]
    if rates and all(isinstance(rate, int) for rate in rates):
        merged["requests_per_minute"] = min(rates)
    # A relative path means the folder of the file that names it, not of one that only adds a price.
    paths = ("program", "command", "model") if name == "scripted" else ("program", "command")
    naming = [layer.file for layer in said if any(key in layer.table for key in paths)]
    folder = (naming or [file])[-1].path.parent
    profile = _convert({**merged, "folder": str(folder)}, AgentProfile, file, f"agents.{name}")
    if profile.cost_usd is not None and not 0 <= profile.cost_usd < float("inf"):
        raise BadRequest(f"{file.where('agents', name, 'cost_usd')}: a price is 0 or more")
    if profile.requests_per_minute is not None and profile.requests_per_minute < 1:
        raise BadRequest(f"{file.where('agents', name, 'requests_per_minute')}: it is 1 or more")
    if any("like" in layer.table and "command" in layer.table for layer in said):
        raise BadRequest(f"{file.where('agents', name, 'like')}: an agent has either `like` or `command`")
    return profile


def duration(text: str, name: str) -> float:
    """Read `90`, `90s`, `20m` or `2h` as seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|h)?", text.strip())
    if not match or float(match.group(1)) <= 0:
        raise BadRequest(f"{name}: `{text}` is not a length of time", hint="write it like 90s, 20m or 2h")
    return float(match.group(1)) * {"s": 1, "m": 60, "h": 3600, None: 1}[match.group(2)]
