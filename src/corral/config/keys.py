"""Every key that a settings file may hold: the fields of the struct that its table is read into.

The meaning of a key stands beside its field, as a `#:` comment above it; the reference is made of these.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct, structs

from corral.config.settings import Defaults, NotifySettings, TelemetrySettings
from corral.model import (
    ComplexityTable,
    CondensePolicy,
    EvidenceRules,
    RetryPolicy,
    RoutingRule,
    ScopeTable,
    Setup,
    SlotLimits,
    ToolboxRules,
)
from corral.model.agent_api import AccountProfile, AgentProfile, Hook, McpProfile
from corral.model.memory import MemoryRules
from corral.model.money import BudgetTable

#: What each table is read into; `*` stands for a name of the user's.
TABLES: dict[str, type[Struct]] = {
    "evidence": EvidenceRules,
    "routing": RoutingRule,
    "complexity": ComplexityTable,
    "limits": SlotLimits,
    "toolbox": ToolboxRules,
    "budget": BudgetTable,
    "notify": NotifySettings,
    "telemetry": TelemetrySettings,
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
CHANNELS = Path(__file__).parents[1] / "world" / "notify" / "channels"


def channels() -> tuple[str, ...]:
    """Return the channels of `[notify]` that have no field of their own: a file each, called as their key."""
    return tuple(sorted({file.stem for file in CHANNELS.glob("[a-z]*.py")} - {*NotifySettings.__struct_fields__}))


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
