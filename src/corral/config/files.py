"""Settings files: every key that they may hold, the tables of one file, and where a key is in it."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct, structs

from corral.config import paths
from corral.config.settings import (
    CleanSettings,
    Defaults,
    MachineProfile,
    NotifySettings,
    StoreSettings,
    TelemetrySettings,
)
from corral.model import (
    ComplexityTable,
    CondensePolicy,
    EvidenceRules,
    PolicyRules,
    RetryPolicy,
    RoutingRule,
    ScopeTable,
    Setup,
    SlotLimits,
    ToolboxRules,
)
from corral.model.agent_api import AccountProfile, AgentProfile, Hook, McpProfile
from corral.model.errors import BadRequest
from corral.model.forge import ForgeSettings
from corral.model.memory import MemoryRules
from corral.model.money import BudgetTable

T = TypeVar("T")
MOST_DEEP = 100
#: kinds of values, as msgspec calls them and in words
KINDS = {
    "array": "a list",
    "str": "text in quotes",
    "float": "a number",
    "int": "a whole number",
    "bool": "true or false",
    "object": "a table",
}
ALL_KEYS = "all keys with their types: docs/reference/configuration.md"
YOUNG_NS = 1_000_000_000  #: a file that changed so lately can change again without a new time of its own
#: What each table is read into; `*` stands for a name of the user's.
TABLES: dict[str, type[Struct]] = {
    "evidence": EvidenceRules,
    "forge": ForgeSettings,
    "routing": RoutingRule,
    "complexity": ComplexityTable,
    "limits": SlotLimits,
    "toolbox": ToolboxRules,
    "policy": PolicyRules,
    "budget": BudgetTable,
    "notify": NotifySettings,
    "telemetry": TelemetrySettings,
    "machines.*": MachineProfile,
    "store": StoreSettings,
    "clean": CleanSettings,
    "mcp.*": McpProfile,
    "hooks": Hook,
    "defaults": Defaults,
    "agents.*": AgentProfile,
    "accounts.*": AccountProfile,
    "retry": RetryPolicy,
    "condense": CondensePolicy,
    "memory": MemoryRules,
    "workspace": Setup,
    "scope": ScopeTable,
}
#: Fields whose key has another name.
CALLED = {
    "workspace": {
        "command": "setup", "net": "setup_net", "snapshot_seconds": "snapshot", "collect_seconds": "collect",
    },
    "evidence": {"choice_deadline_seconds": "choice_deadline"},
    "machines.*": {"lease_seconds": "lease"},
}  # fmt: skip
#: Fields that no file sets: the loader fills them in.
NOT_SET = {
    "hooks": ("file", "fingerprint"),
    "agents.*": ("folder",),
    "accounts.*": ("base",),
    "mcp.*": ("folder",),
    "notify": ("others",),
    "retry": ("longest_seconds",),
}
NOTIFIERS = "corral.notifiers"  #: the entry points of channels that other packages bring
CHANNELS = Path(__file__).parents[1] / "world" / "notify" / "channels"


def _is_too_deep(value: object) -> bool:
    """Tell whether tables and lists are nested deeper than any setting is; their readers recurse."""
    waiting: list[tuple[object, int]] = [(value, 0)]
    while waiting:
        each, depth = waiting.pop()
        if depth > MOST_DEEP:
            return True
        if isinstance(each, dict):
            waiting += [(inner, depth + 1) for inner in cast("dict[str, Any]", each).values()]
        elif isinstance(each, list):
            waiting += [(inner, depth + 1) for inner in cast("list[Any]", each)]
    return False


def file_signs(*paths: Path) -> tuple[object, ...] | None:
    """Return what changes whenever one of these files does; None where one changed so lately that it may not."""
    signs: list[object] = []
    for path in paths:
        try:
            about = path.stat()
        except OSError as error:
            signs.append(error.errno)
            continue
        if time.time_ns() - max(about.st_ctime_ns, about.st_mtime_ns) < YOUNG_NS:
            return None
        signs.append((str(path), about.st_ctime_ns, about.st_mtime_ns, about.st_size, about.st_ino, about.st_dev))
    return tuple(signs)


class SettingsFile:
    """One settings file: its tables, and where in it a key is."""

    def __init__(self, path: Path, tables: dict[str, Any], text: str) -> None:
        self.path, self.tables, self.text = path, tables, text

    @classmethod
    def read(cls, path: Path, *, keys: bool = True) -> SettingsFile:
        try:
            text = paths.read_settings(path).decode()
        except UnicodeDecodeError as error:
            raise BadRequest(f"{path}: cannot be read: {error}", hint="settings are UTF-8 text in TOML") from error
        except BadRequest as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return cls(path, {}, "")
            raise
        import tomllib  # noqa: PLC0415

        try:
            tables = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise BadRequest(f"{path}: not TOML: {error}", hint="correct that line, then: corral doctor") from error
        except RecursionError:
            tables = None
        if tables is None or _is_too_deep(tables):
            raise BadRequest(f"{path}: nested more than {MOST_DEEP} deep", hint="no setting is nested like that")
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
        header = re.compile(rf"^\s*\[+{_key_pattern(path)}\]")
        parent = re.compile(rf"^\s*\[+{_key_pattern(path[:-1])}\]") if rest else None
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
        for kind in ("agents", "mcp", "accounts", "machines"):
            for name, table in self.table(kind).items():
                if not isinstance(table, dict):
                    raise BadRequest(
                        f"{self.where(kind, name)}: `{kind}.{name}` is a table", hint=f"write it as [{kind}.{name}]"
                    )
                self.check(cast("dict[str, Any]", table), (kind, name), KEYS[f"{kind}.*"])
        for name in self.table("agents"):
            self.check(inner_scope(self, name), ("agents", name, "scope"), KEYS["scope"])

    def check(self, table: dict[str, Any], path: tuple[str, ...], known: tuple[str, ...]) -> None:
        for key in table:
            if key not in known and (path != ("notify",) or key not in plugin_channels()):
                import difflib  # noqa: PLC0415

                near = difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean `{near[0]}`?" if near else "known here: " + ", ".join(known)
                raise BadRequest(f"{self.where(*(*path, key))}: unknown key `{'.'.join((*path, key))}`", hint=hint)


def inner_scope(file: SettingsFile, agent: str) -> dict[str, Any]:
    table = file.table("agents")[agent].get("scope", {})
    if not isinstance(table, dict):
        raise BadRequest(
            f"{file.where('agents', agent, 'scope')}: `agents.{agent}.scope` is a table",
            hint=f"write it as [agents.{agent}.scope]",
        )
    return cast("dict[str, Any]", table)


def _key_pattern(path: tuple[str, ...]) -> str:
    return r"\s*\.\s*".join(rf"[\"']?{re.escape(part)}[\"']?" for part in path)


def convert(table: dict[str, Any], kind: type[T], file: SettingsFile, name: str) -> T:
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        key = re.search(r"`\$\.([A-Za-z_]+)", str(error))
        first, *rest = (*name.split("."), key.group(1)) if key else name.split(".")
        words, hint = _wrong_kind(str(error))
        raise BadRequest(f"{file.where(first, *rest)}: [{name}] {words}", hint=hint) from error


def _wrong_kind(text: str) -> tuple[str, str]:
    """Return in plain words that a key has a value of the wrong kind, and what helps."""
    found = re.fullmatch(r"Expected `(\w+)(?: \| null)?`, got `(\w+)` - at `\$\.([A-Za-z_]+)((?:\[.*\])?)`", text)
    if found is None or found[1] not in KINDS:
        return text, ALL_KEYS
    key = f"`{found[3]}`" if not found[4] else f"each entry of `{found[3]}`"
    example = f'write {found[3]} = ["..."]; ' if found[1] == "array" else ""
    return f"{key} must be {KINDS[found[1]]}, not {KINDS.get(found[2], found[2])}", example + ALL_KEYS


def channels() -> tuple[str, ...]:
    """Return the channels of `[notify]` that have no field of their own: a file each, called as their key."""
    return tuple(sorted({file.stem for file in CHANNELS.glob("[a-z]*.py")} - {*NotifySettings.__struct_fields__}))


def plugin_channels() -> tuple[str, ...]:
    """Return the channels of `[notify]` that other packages bring."""
    from importlib.metadata import entry_points  # noqa: PLC0415 -- asked for where a key is unknown alone

    return tuple(sorted(point.name for point in entry_points(group=NOTIFIERS)))


#: Keys that are read apart from their table's struct.
APART = {"agents.*": ("scope",), "notify": channels()}


LISTS = ("hooks", "routing")  #: of tables


def _keys(table: str) -> tuple[str, ...]:
    called, left_out = CALLED.get(table, {}), NOT_SET.get(table, ())
    fields = [each for each in structs.fields(TABLES[table]) if each.name not in left_out]
    return (*(called.get(each.name, each.encode_name) for each in fields), *APART.get(table, ()))


KEYS: dict[str, tuple[str, ...]] = {
    "": tuple(table.removesuffix(".*") for table in TABLES),
    **{table: _keys(table) for table in TABLES},
}


#: What can send a key somewhere, start a program or choose an agent's role or skills.
#: From a repository it counts only once its file is trusted.
POWERFUL = (
    "method", "program", "command", "env", "settings", "hosts", "paths", "account", "rotate", "role", "skills",
)  # fmt: skip


#: How the cost of an agent's attempts is found. From a repository it could make money vanish from every limit.
COUNTING = ("cost", "cost_unit", "tokens", "output")
