"""Every key that a settings file may hold."""

from __future__ import annotations

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
        "evidence",
    ),
    "evidence": ("require", "held_out", "judge", "choice_deadline"),
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
        "max_unpriced_requests",
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
        "method",
        "program",
        "model",
        "models",
        "env",
        "settings",
        "hosts",
        "paths",
        "command",
        "prompt",
        "output",
        "result",
        "success",
        "cost",
        "cost_unit",
        "tokens",
        "cost_usd",
        "errors",
        "authenticate",
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
    "workspace": ("collect", "copy", "setup", "setup_net", "snapshot"),
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


#: What can send a key somewhere, start a program or choose an agent's role.
#: From a repository it counts only once its file is trusted.
POWERFUL = ("method", "program", "command", "env", "settings", "hosts", "paths", "account", "rotate", "role")

#: How the cost of an agent's attempts is found. From a repository it could make money vanish from every limit.
COUNTING = ("cost", "cost_unit", "tokens", "output")
