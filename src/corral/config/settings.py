"""What settings say, read and put together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from corral.model import (
    ComplexityTable,
    CondensePolicy,
    EvidenceRules,
    Level,
    PolicyRules,
    RetryPolicy,
    RoutingRule,
    ScopeSource,
    Setup,
    SlotLimits,
    ToolboxRules,
)
from corral.model.agent_api import AccountProfile, AgentProfile, Hook, McpProfile
from corral.model.errors import Untrusted
from corral.model.forge import ForgeSettings
from corral.model.memory import MemoryRules
from corral.model.money import Budget

READ_AND_TRUST = "read it, then `corral trust`, or run with --trust"


class Defaults(Struct, frozen=True, kw_only=True):
    #: the agent of `corral run` without `--agent`; without this: `claude`
    agent: str | None = None
    #: checks of `corral run` without `--check`
    checks: tuple[str, ...] = ()
    #: stop a task when it has cost this much; of two files and `--budget` the lowest applies
    budget_usd: float | None = None
    #: wall clock for each try, as `--timeout`: `90s`, `20m`, `2h`
    timeout: str | None = None
    #: how long an agent may be silent, as `--idle`
    idle: str | None = None


class NotifySettings(Struct, frozen=True, kw_only=True):
    """How a user learns that something waits for them; `[notify]` of config.toml."""

    #: ring the terminal's bell when something waits for you in the inbox
    bell: bool = True  #: of the terminal
    #: show it on the desktop (`notify-send`)
    desktop: bool = True
    #: a shell command of yours; it gets the entry as JSON on stdin, and `CORRAL_INBOX`, `CORRAL_RUN`
    command: str | None = None
    #: an address the entry is posted to, as JSON
    webhook: str | None = None
    #: the address of `corral serve` as your phone reaches it; ntfy and mail then have buttons and links that answer
    answer_url: str | None = None
    #: members of Slack who may answer by its buttons, as `["U024BE7LH"]`; needs `SLACK_SIGNING_SECRET`
    slack_users: tuple[str, ...] = ()
    #: users of Telegram who may answer in the chat, by their numbers, as `["42"]`; `corral serve` asks for answers
    telegram_users: tuple[str, ...] = ()
    others: Mapping[str, str] = field(default_factory=dict[str, str])  #: of further channels, by their names


class TelemetrySettings(Struct, frozen=True, kw_only=True):
    """Where traces and metrics of runs and attempts are sent; `[telemetry]` of config.toml. Unset: nowhere."""

    #: an OpenTelemetry collector (OTLP over HTTP): its address; needs `corral[otel]`
    otlp: str | None = None  #: the address of an OpenTelemetry collector


class MachineProfile(Struct, frozen=True, kw_only=True):
    """A machine on which attempts may run; `[machines.NAME]` of config.toml."""

    #: any program that gives us stdin and stdout of `corral host`, as `["ssh", "box1", "corral", "host"]`; of a Ray
    #: cluster: what is started on its nodes, `["corral", "host"]` unless set
    command: tuple[str, ...] = ()
    #: the address of a Ray cluster: `ray://HEAD:10001`; from one of its nodes also `HEAD:6379` or `auto`; needs
    #: `corral[ray]`
    ray: str | None = None
    #: what Ray counts for each attempt there, as `{ claude = 1 }`
    resources: Mapping[str, float] = field(default_factory=dict[str, float])
    #: attempts at once, of all your runs
    slots: int = 4
    #: what a node may ask for: `machine: {arch: arm64}`; of a Ray cluster, `"*"` is compared with its nodes' labels
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    #: `never`: keys stay here and requests to the provider are relayed; `send`: an agent whose provider cannot be
    #: relayed gets its key there
    keys: Literal["never", "send"] = "never"
    #: `copy`: an agent that works by a login gets a copy of it there, for the time of its attempt
    logins: Literal["never", "copy"] = "never"
    #: the least sandbox level there
    sandbox: Level = "strict"
    #: how long attempts there continue without a word from here, as `60s`, `5m`
    lease_seconds: float = 60.0


class CleanSettings(Struct, frozen=True, kw_only=True):
    """What a server cleans by itself, once an hour; `[clean]` of config.toml. Unset: nothing."""

    #: runs that ended longer ago, as `12h`, `30d`, `4w`; attempts whose work no branch has stay
    older: str | None = None
    #: the oldest runs, while workspaces and logs take more than this, as `500MB`, `5GB`; the same stay
    disk: str | None = None


class StoreSettings(Struct, frozen=True, kw_only=True):
    """Where runs are stored; `[store]` of config.toml."""

    #: a PostgreSQL database: `postgresql://USER@HOST/DATABASE`; needs `corral[postgres]`; `CORRAL_STORE` comes first
    url: str | None = None  #: without it: SQLite in the state folder


class Config(Struct, frozen=True, kw_only=True):
    """What holds for this user in this repository."""

    defaults: Defaults = Defaults()
    agents: Mapping[str, AgentProfile] = field(default_factory=dict[str, AgentProfile])
    accounts: Mapping[str, AccountProfile] = field(default_factory=dict[str, AccountProfile])
    retry: RetryPolicy = RetryPolicy()
    retries_asked: int | None = None  #: [retry] most, when a file says it
    setup: Setup = Setup()
    condense: CondensePolicy = CondensePolicy()
    memory: MemoryRules = MemoryRules()
    hooks: tuple[Hook, ...] = ()
    scopes: tuple[ScopeSource, ...] = ()  #: the user's, then the repository's, which may only narrow
    mcp: Mapping[str, McpProfile] = field(default_factory=dict[str, McpProfile])
    toolbox: ToolboxRules = ToolboxRules()
    policy: tuple[PolicyRules, ...] = ()  #: of each file that says any
    budget: Budget = Budget()
    limits: SlotLimits = SlotLimits()
    evidence: EvidenceRules = EvidenceRules()
    routing: tuple[RoutingRule, ...] = ()  #: the user's, then the repository's
    complexity: ComplexityTable = ComplexityTable()
    forge: ForgeSettings = ForgeSettings()
    trusted: bool = False  #: the user trusts the repository's file and what it starts
    changed: tuple[str, ...] = ()  #: what it starts, if that alone changed since the user trusted it
    machines: Mapping[str, MachineProfile] = field(default_factory=dict[str, MachineProfile])  #: the user's file only
    untrusted: Mapping[str, str] = field(default_factory=dict[str, str])  #: what -> where, left out until trusted

    def refusal(self, what: str, otherwise: str) -> Untrusted:
        """Say why something that the repository's file defines does not count."""
        if not self.changed:
            return Untrusted(f"{self.untrusted[what]}: {otherwise}", hint=READ_AND_TRUST)
        named = ", ".join(self.changed[:5]) + (" and more" if len(self.changed) > 5 else "")
        return Untrusted(
            f"{self.untrusted[what]}: files that it starts have changed since you trusted it",
            hint=f"read {named}, then `corral trust`, or run with --trust",
        )
