"""What a user chooses for a session: strategy, agent, checks, merge and budget, as options and as modes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from corral.engine.engine import Engine
from corral.model import Request
from corral.model.errors import BadRequest

STRATEGIES = {
    "single": ("Single", "One agent does the task."),
    "multi": ("Team", "An architect plans, a developer does it, and a reviewer can follow."),
    "race": ("Race", "Two attempts at the same task; the better one wins."),
    "auto": ("Automatic", "Corral chooses by the task."),
}
MERGE = {"ask": ("Ask", "Show the change and ask before it is merged."), "never": ("Never", "Leave it on its branch.")}
CHECKS = {"settings": "Checks of the settings", "none": "No checks"}
BUDGETS = ("0.5", "1", "2", "5", "10")
NO_BUDGET = "none"


class Choices(Struct, frozen=True, kw_only=True):
    """What holds for the next prompt of a session."""

    strategy: str = "single"
    agent: str = ""
    checks: str = "settings"
    merge: str = "ask"
    budget: str = NO_BUDGET
    agents: tuple[str, ...] = ()  #: that can be chosen
    own_checks: tuple[str, ...] = ()  #: that the settings name

    def request(self, prompt: str, files: tuple[str, ...], folder: str) -> Request:
        """Return the request that a prompt means under these choices."""
        named = tuple(filter(None, (name.strip() for name in self.agent.split(","))))
        strategy = "race" if len(named) > 1 or "*" in self.agent else self.strategy
        if strategy == "race" and len(named) == 1 and "*" not in named[0]:
            named = (f"{named[0]}*2",)
        return Request(
            prompt=prompt,
            repo=folder,
            files=files,
            agents=named,
            strategy=strategy,
            no_checks=self.checks == "none",
            budget_usd=None if self.budget == NO_BUDGET else float(self.budget),
        )


def choices(engine: Engine, folder: str, chosen: Mapping[str, str]) -> Choices:
    """Return what holds in a folder, with what the user chose; no agent is started to find out."""
    settings = engine.settings.load(Path(folder))
    usual = settings.defaults.agent or "claude"
    found = tuple(dict.fromkeys([usual, *engine.installed_agents(Path(folder))]))
    known = {name: value for name, value in chosen.items() if name in IDS}
    return Choices(**{"agent": usual, **known}, agents=found, own_checks=settings.defaults.checks)  # pyright: ignore[reportArgumentType]


IDS = ("strategy", "agent", "checks", "merge", "budget")


def check(option: str, value: str, now: Choices) -> None:
    """Refuse a value that an option does not have."""
    if option not in IDS:
        raise BadRequest(f"there is no option `{option[:80]}`", hint=f"the options are {', '.join(IDS)}")
    allowed = {each.value for each in _option(option, now).values}
    if option == "agent":
        named = [name.strip().partition("*")[0] for name in value.split(",")]
        if all(name and name.partition(":")[0] for name in named):
            return  # of any name: who is asked for is looked up when a run starts
    elif option == "budget" and _is_amount(value):
        return
    if value not in allowed:
        raise BadRequest(f"`{value[:80]}` is no value of {option}", hint=f"one of {', '.join(sorted(allowed))}")


def _is_amount(value: str) -> bool:
    try:
        return 0 < float(value) <= 1_000_000
    except ValueError:
        return False


class _Value(Struct, frozen=True):
    value: str
    name: str
    description: str = ""


class _Option(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    description: str
    category: str
    current: str
    values: tuple[_Value, ...] = field(default_factory=tuple)


def config_options(now: Choices) -> list[dict[str, object]]:
    """Return the options as clients show them."""
    return [_wire(_option(name, now)) for name in IDS]


def modes(now: Choices) -> dict[str, object]:
    """Return the strategies as modes, for clients that know no options."""
    available = [{"id": name, "name": title, "description": text} for name, (title, text) in STRATEGIES.items()]
    return {"currentModeId": now.strategy, "availableModes": available}


def _option(name: str, now: Choices) -> _Option:
    match name:
        case "strategy":
            values = tuple(_Value(key, title, text) for key, (title, text) in STRATEGIES.items())
            return _Option(id=name, name="Strategy", description="How a task is done.", category="mode",
                           current=now.strategy, values=values)  # fmt: skip
        case "agent":
            every = dict.fromkeys([*now.agents, now.agent])
            return _Option(id=name, name="Agent", description="Who does it.", category="model",
                           current=now.agent, values=tuple(_Value(each, each) for each in every))  # fmt: skip
        case "checks":
            text = "; ".join(now.own_checks) or "none are set: `checks` of [defaults] in corral.toml"
            values = (_Value("settings", CHECKS["settings"], text[:500]), _Value("none", CHECKS["none"]))
            return _Option(id=name, name="Checks", description="Commands that must succeed on the result.",
                           category="_corral_checks", current=now.checks, values=values)  # fmt: skip
        case "merge":
            values = tuple(_Value(key, title, text) for key, (title, text) in MERGE.items())
            return _Option(id=name, name="Merge", description="What happens with a good result.",
                           category="_corral_merge", current=now.merge, values=values)  # fmt: skip
        case _:
            amounts = dict.fromkeys([NO_BUDGET, *BUDGETS, now.budget])
            values = tuple(_Value(each, "By your settings" if each == NO_BUDGET else f"${each}") for each in amounts)
            return _Option(id=name, name="Budget", description="Stop a run when it has cost this much.",
                           category="_corral_budget", current=now.budget, values=values)  # fmt: skip


def _wire(option: _Option) -> dict[str, object]:
    values: list[dict[str, object]] = [
        {"value": each.value, "name": each.name, **({"description": each.description} if each.description else {})}
        for each in option.values
    ]
    return {
        "id": option.id,
        "name": option.name,
        "description": option.description,
        "category": option.category,
        "type": "select",
        "currentValue": option.current,
        "options": values,
    }
