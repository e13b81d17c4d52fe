"""Policies as settings files name them: defaults, retries, slots, routing, hooks, scopes, budgets and prices."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import structs

from corral.config.files import KEYS, SettingsFile, convert, inner_scope
from corral.config.paths import is_file, user_file
from corral.config.settings import Defaults
from corral.config.times import duration
from corral.model import (
    GRADES,
    ComplexityTable,
    CondensePolicy,
    EvidenceRules,
    PolicyRules,
    RetryPolicy,
    RoutingRule,
    ScopeSource,
    ScopeTable,
    Setup,
    SlotLimits,
    ToolboxRules,
)
from corral.model.agent_api import AgentProfile, Hook
from corral.model.errors import BadRequest
from corral.model.forge import ForgeSettings
from corral.model.memory import MemoryRules
from corral.model.money import Budget, BudgetTable, Limit, PriceFile, PriceList, Window
from corral.model.plan import PolicyWord
from corral.model.values import MOST_RETRIES

MOST_REMEMBERED = 20_000  #: characters of remembered facts in one prompt, whatever settings say
MOST_PATTERN = 500  #: characters of a rule for tools
MOST_FAMILY = 100  #: children of a run, and how deep they go, whatever settings say


def defaults(mine: SettingsFile, theirs: SettingsFile) -> Defaults:
    own = convert(mine.table("defaults"), Defaults, mine, "defaults")
    repository = convert(theirs.table("defaults"), Defaults, theirs, "defaults")
    limits = [limit for limit in (own.budget_usd, repository.budget_usd) if limit is not None]
    for file, limit in ((mine, own.budget_usd), (theirs, repository.budget_usd)):
        if limit is not None and not limit > 0:
            raise BadRequest(
                f"{file.where('defaults', 'budget_usd')}: a budget is more than 0", hint="leave it out: no limit"
            )
    chosen: dict[str, Any] = {
        name: getattr(repository, name) or getattr(own, name) for name in Defaults.__struct_fields__
    }
    chosen["budget_usd"] = min(limits) if limits else None  # a repository narrows, never widens
    return Defaults(**chosen)


def forge(mine: SettingsFile, theirs: SettingsFile | None) -> ForgeSettings:
    file = theirs or mine
    found = convert({**mine.table("forge"), **(theirs.table("forge") if theirs else {})}, ForgeSettings, file, "forge")
    if found.url is not None and not found.url.startswith(("http://", "https://")):
        raise BadRequest(
            f"{file.where('forge', 'url')}: an address begins with http:// or https://",
            hint='url = "https://git.example.org"',
        )
    return found


def retry(mine: SettingsFile, theirs: SettingsFile) -> RetryPolicy:
    table = {**mine.table("retry"), **theirs.table("retry")}
    policy = convert(table, RetryPolicy, theirs if theirs.table("retry") else mine, "retry")
    for name in ("most", "delay_seconds", "max_wait_seconds", "total_seconds"):
        if not 0 <= getattr(policy, name) < float("inf"):
            file = theirs if name in theirs.table("retry") else mine
            raise BadRequest(
                f"{file.where('retry', name)}: [retry] {name} is 0 or more", hint="remove the key to get the default"
            )
    if policy.most > MOST_RETRIES:
        where = (theirs if "most" in theirs.table("retry") else mine).where("retry", "most")
        raise BadRequest(f"{where}: [retry] most is at most {MOST_RETRIES}", hint=f"most = {MOST_RETRIES}")
    return policy


def condense(mine: SettingsFile, theirs: SettingsFile) -> CondensePolicy:
    table = {**mine.table("condense"), **theirs.table("condense")}
    file = theirs if theirs.table("condense") else mine
    policy = convert(table, CondensePolicy, file, "condense")
    if not 0 <= policy.at <= 1:
        raise BadRequest(
            f"{file.where('condense', 'at')}: [condense] at is a share from 0 to 1", hint="0: never by itself"
        )
    if policy.most < 0 or any(tokens < 1 for tokens in policy.windows.values()):
        raise BadRequest(
            f"{file.where('condense')}: [condense] counts are whole numbers, not below 0",
            hint="remove the key to get the default",
        )
    return policy


def memory(mine: SettingsFile, theirs: SettingsFile) -> MemoryRules:
    """Make one of what both say of memory: what a repository says holds only where it allows less."""
    own, repository = (convert(file.table("memory"), MemoryRules, file, "memory") for file in (mine, theirs))
    for file, rules in ((mine, own), (theirs, repository)):
        if not 0 <= rules.most_characters <= MOST_REMEMBERED:
            raise BadRequest(
                f"{file.where('memory', 'most_characters')}: [memory] most_characters is 0 to {MOST_REMEMBERED}",
                hint="remove the key to get the default",
            )
    most = own.most_characters
    if "most_characters" in theirs.table("memory"):
        most = min(most, repository.most_characters)
    return MemoryRules(enabled=own.enabled and repository.enabled, most_characters=most)


def toolbox(mine: SettingsFile, theirs: SettingsFile) -> ToolboxRules:
    """Make one of what both say of toolboxes: what a repository says holds only where it allows less."""
    own, repository = (convert(file.table("toolbox"), ToolboxRules, file, "toolbox") for file in (mine, theirs))
    for file, rules in ((mine, own), (theirs, repository)):
        for name in ("depth", "children"):
            if not 0 <= getattr(rules, name) <= MOST_FAMILY:
                raise BadRequest(
                    f"{file.where('toolbox', name)}: [toolbox] {name} is 0 to {MOST_FAMILY}",
                    hint="remove the key to get the default",
                )
    givers = {*own.delegate, *repository.delegate}
    return ToolboxRules(
        enabled=own.enabled and repository.enabled,
        depth=min(own.depth, repository.depth) if "depth" in theirs.table("toolbox") else own.depth,
        children=min(own.children, repository.children) if "children" in theirs.table("toolbox") else own.children,
        agents=own.agents,
        delegate={giver: _allowed_receivers(giver, own.delegate, repository.delegate) for giver in sorted(givers)},
    )


def tool_rules(*files: SettingsFile) -> tuple[PolicyRules, ...]:
    """Return the rules for tools of each file that says any; a repository's can only refuse more."""
    found: list[PolicyRules] = []
    for file in files:
        if not file.table("policy"):
            continue
        rules = convert(file.table("policy"), PolicyRules, file, "policy")
        seen: dict[str, str] = {}
        for key in get_args(PolicyWord):
            for pattern in getattr(rules, key):
                where = f"{file.where('policy', key)}: [policy] {key}"
                if not pattern.strip() or len(pattern) > MOST_PATTERN or not pattern.isprintable():
                    raise BadRequest(
                        f"{where}: {pattern[:80]!r} is no pattern",
                        hint='the words of a call, as in deny = ["git push*"]',
                    )
                if seen.setdefault(pattern, key) != key:
                    raise BadRequest(
                        f"{where}: `{pattern}` is in `{seen[pattern]}` too", hint=f"leave it in one: {seen[pattern]}"
                    )
        found.append(rules)
    return tuple(found)


def _allowed_receivers(giver: str, *tables: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return whom a role may hand work to by every table that says anything."""
    lists = [table.get(giver, table.get("*", ())) for table in tables if table]
    named = [set(each) for each in lists if "*" not in each]
    return tuple(sorted(named[0].intersection(*named[1:]))) if named else ("*",)


REQUIRABLE = "held-out, proven, unharmed or unchecked"


def evidence(mine: SettingsFile, theirs: SettingsFile) -> EvidenceRules:
    """Make one of what both say of evidence: a repository may ask for more, never for less."""
    for file in (mine, theirs):
        word = file.table("evidence").get("require", "unchecked")
        if isinstance(word, str) and word not in GRADES:
            raise BadRequest(
                f"{file.where('evidence', 'require')}: [evidence] require: there is no grade `{word}`", hint=REQUIRABLE
            )
    own, repository = (convert(_evidence_table(file), EvidenceRules, file, "evidence") for file in (mine, theirs))
    if repository.held_out is not None:
        raise BadRequest(
            f"{theirs.where('evidence', 'held_out')}: [evidence] held_out is yours to say: agents see a repository",
            hint=f"put it into {mine.path}",
        )
    for file, rules in ((mine, own), (theirs, repository)):
        if rules.require == "doubtful":
            raise BadRequest(
                f"{file.where('evidence', 'require')}: [evidence] require: doubtful work is never done",
                hint=REQUIRABLE,
            )
        for name in ("held_out", "judge"):
            if getattr(rules, name) is not None and not getattr(rules, name).strip():
                raise BadRequest(f"{file.where('evidence', name)}: [evidence] {name} is empty", hint="leave it out")
    folder = None if own.held_out is None else str(mine.path.parent / Path(own.held_out).expanduser())
    return EvidenceRules(
        require=GRADES[min(GRADES.index(own.require), GRADES.index(repository.require))],
        held_out=folder,
        judge=own.judge or repository.judge,
        choice_deadline_seconds=(
            repository if "choice_deadline" in theirs.table("evidence") else own
        ).choice_deadline_seconds,
    )


def _evidence_table(file: SettingsFile) -> dict[str, object]:
    table = dict(file.table("evidence"))
    if "choice_deadline" in table:
        table["choice_deadline_seconds"] = duration(str(table.pop("choice_deadline")), "[evidence] choice_deadline")
    return table


def slot_limits(mine: SettingsFile, theirs: SettingsFile) -> SlotLimits:
    """Make one of what both say of how many run at once: the smaller number holds."""
    own, repository = (convert(file.table("limits"), SlotLimits, file, "limits") for file in (mine, theirs))
    for file, limits in ((mine, own), (theirs, repository)):
        for name, number in (("parallel", limits.parallel), ("per_repository", limits.per_repository)):
            if number is not None and number < 1:
                raise BadRequest(
                    f"{file.where('limits', name)}: [limits] {name} is 1 or more",
                    hint="remove the key to get the default",
                )
        if any(number < 1 for number in limits.per_agent.values()):
            raise BadRequest(
                f"{file.where('limits', 'per_agent')}: [limits] per_agent has numbers of 1 or more",
                hint="per_agent = { claude = 2 }",
            )
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


def _least(*numbers: int | None) -> int | None:
    return min((number for number in numbers if number is not None), default=None)


def routing(file: SettingsFile) -> tuple[RoutingRule, ...]:
    found: list[RoutingRule] = []
    for table in file.entries("routing"):
        lists = ("type", "grade", "words", "files", "role")  # one word stands for a list of one
        given = {key: [value] if key in lists and isinstance(value, str) else value for key, value in table.items()}
        found.append(convert(given, RoutingRule, file, "routing"))
    return tuple(found)


def complexity(mine: SettingsFile, theirs: SettingsFile) -> ComplexityTable:
    """Take the points of both; where both say something, the user's count."""
    own, repository = (
        convert(file.table("complexity"), ComplexityTable, file, "complexity") for file in (mine, theirs)
    )
    return ComplexityTable(
        types={**repository.types, **own.types},
        words={word.lower(): points for word, points in {**repository.words, **own.words}.items()},
        other_type=repository.other_type if own.other_type is None else own.other_type,
    )


def setup(file: SettingsFile) -> Setup:
    table = dict(file.table("workspace"))
    if "setup" in table:
        table["command"] = table.pop("setup")
    if "setup_net" in table:
        table["net"] = table.pop("setup_net")
    if "snapshot" in table:
        table["snapshot_seconds"] = duration(str(table.pop("snapshot")), "[workspace] snapshot")
    if "collect" in table:
        table["collect_seconds"] = duration(str(table.pop("collect")), "[workspace] collect")
    return convert(table, Setup, file, "workspace")


def hooks(file: SettingsFile, fingerprint: str = "") -> tuple[Hook, ...]:
    """Read the hooks of a file; those of a repository remember by which fingerprint it was trusted."""
    found: list[Hook] = []
    for table in file.entries("hooks"):
        hook = convert(table, Hook, file, "hooks")
        if bool(hook.run) == bool(hook.python):
            raise BadRequest(f"{file.where('hooks')}: a hook has either `run` or `python`", hint="remove one of them")
        found.append(structs.replace(hook, file=str(file.path), fingerprint=fingerprint) if fingerprint else hook)
    return tuple(found)


def scope_file(path: Path) -> ScopeSource:
    """Read a file of a scope's keys, at the top or in a table `[scope]`: the user's own word for one run."""
    if not is_file(path):
        raise BadRequest(f"--scope: {path} is not there", hint="a TOML file with keys like those of [scope]")
    file = SettingsFile.read(path, keys=False)
    prefix = ("scope",) if isinstance(file.tables.get("scope"), dict) else ()
    table = file.table("scope") if prefix else file.tables
    file.check(table, prefix, KEYS["scope"])
    return _scope_source(file, table, prefix)


def scopes_of(file: SettingsFile, agents: Mapping[str, AgentProfile], *, narrows: bool) -> list[ScopeSource]:
    found = [_scope_source(file, file.table("scope"), ("scope",))] if "scope" in file.tables else []
    written = file.table("agents")
    for name in dict.fromkeys((*written, *agents)):
        like = agents[name].like if name in agents else None
        for each in (like, name):  # another name for an agent is no way out of its scope
            table = inner_scope(file, each) if each in written else {}
            found += [_scope_source(file, table, ("agents", str(each), "scope"), agent=name)] if table else []
    return [msgspec.structs.replace(source, narrows=narrows, many=not narrows) for source in found]


def _scope_source(
    file: SettingsFile, table: dict[str, Any], path: tuple[str, ...], agent: str | None = None
) -> ScopeSource:
    converted = convert(table, ScopeTable, file, ".".join(path) or "scope")
    return ScopeSource(table=converted, where={key: file.where(*path, key) for key in table}, agent=agent)


def budget_of(mine: SettingsFile, theirs: SettingsFile) -> Budget:
    """Take the limits of both: a repository's may only be besides the user's, so it narrows."""
    own, limits = _budget_table(mine), [*_budget_limits(mine), *_budget_limits(theirs)]
    _budget_table(theirs)
    if unheard := {"zone", "unknown_cost_usd", "max_unpriced_requests", "ceiling_usd", "cheaper", "mcp_over_budget"} & {
        *theirs.table("budget")
    }:
        key = min(unheard)
        raise BadRequest(f"{theirs.where('budget', key)}: [budget] {key} is yours to say", hint=f"in {user_file()}")
    charge = 1.0 if own.unknown_cost_usd is None else own.unknown_cost_usd
    return Budget(
        limits=tuple(limits),
        unknown_cost_usd=charge,
        max_unpriced_requests=own.max_unpriced_requests,
        zone=own.zone or "",
        cheaper=own.cheaper,
        mcp_over_budget=own.mcp_over_budget,
    )


def _budget_table(file: SettingsFile) -> BudgetTable:
    table = convert(file.table("budget"), BudgetTable, file, "budget")
    for key in BudgetTable.__struct_fields__:
        value = getattr(table, key)
        if isinstance(value, float) and not 0 < value < float("inf"):
            raise BadRequest(
                f"{file.where('budget', key)}: [budget] {key} is more than 0", hint="leave it out: no limit"
            )
    if table.max_unpriced_requests is not None and table.max_unpriced_requests < 1:
        where = file.where("budget", "max_unpriced_requests")
        raise BadRequest(f"{where}: [budget] max_unpriced_requests is 1 or more", hint="leave it out: 50")
    return table


def _budget_limits(file: SettingsFile) -> list[Limit]:
    table = convert(file.table("budget"), BudgetTable, file, "budget")
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
    """Read the prices that are ours: the user's prices.toml beside config.toml, and the file we ship."""
    own = user_file().with_name("prices.toml")
    return PriceList(own=_prices(own) if own.exists() else PriceFile(), shipped=_shipped_prices())


@functools.cache
def _shipped_prices() -> PriceFile:
    return _prices(Path(__file__).parent.with_name("prices.toml"))


def _prices(path: Path) -> PriceFile:
    file = SettingsFile.read(path, keys=False)
    read = convert(file.tables, PriceFile, file, "models")
    for name, price in read.models.items():
        for rate in (price, *price.tiers):
            for key in ("input", "output", "cache_read", "cache_write"):
                usd = getattr(rate, key)
                if usd is not None and not 0 <= usd < float("inf"):
                    raise BadRequest(
                        f"{file.where('models', name, key)}: a price is 0 or more",
                        hint="dollars for a million tokens, as 2.5",
                    )
    for name, about in read.attempts.items():
        if not 0 <= about.low <= about.high < float("inf"):
            raise BadRequest(
                f"{file.where('attempts', name)}: a range is 0 or more, the lower end first",
                hint="low = 0.1, high = 0.5",
            )
    return read
