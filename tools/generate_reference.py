"""Write the parts of docs/reference that the code knows best: commands, settings, agents; `--check` says if stale."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import agents_page
import click
import http_page
import msgspec

from corral.config.keys import COUNTING, KEYS, POWERFUL
from corral.config.settings import Defaults, Notify, Telemetry
from corral.frontends.cli import COMMANDS, corral
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
from corral.model.money import BudgetTable

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
BEGIN, END = "<!-- generated: keys -->", "<!-- end of generated -->"

#: table -> key -> what it means. A key without words here fails the generator.
MEANINGS: dict[str, dict[str, str]] = {
    "hooks": {
        "on": "the moment",
        "run": "a shell command of yours",
        "python": "a function of yours, `module:function`",
        "agent": "only for agents of this name (`*` fits all)",
        "model": "only for this model",
        "type": "only for tasks of this type",
    },
    "defaults": {
        "agent": "the agent of `corral run` without `--agent`; without this: `claude`",
        "checks": "checks of `corral run` without `--check`",
        "budget_usd": "stop a task when it has cost this much; of two files and `--budget` the lowest holds",
        "timeout": "wall clock for each try, as `--timeout`: `90s`, `20m`, `2h`",
        "idle": "how long an agent may be silent, as `--idle`",
    },
    "agents.*": {
        "method": "how a known agent is driven: by its own command line, by the Agent Client Protocol (as "
        "`acp:NAME`), or only its models, by our own loop (`claude` as `anthropic`, `codex` as `openai`, `gemini` as "
        "`google`)",
        "like": "an agent of your own that is this known one, with what is said here besides; its table holds too",
        "program": "where the program of a built-in agent lies; else it is looked for on `PATH`",
        "model": "the model to ask for; for `scripted` the script to play",
        "env": "names of variables that are passed on from your environment; nothing else is",
        "settings": "variables set here, name = value",
        "hosts": "hosts it talks to besides those known of it: reachable from its box",
        "paths": "methods and paths of its provider's API that pass with its key besides those an agent needs, as "
        "`GET /v1/files`; `*` is one step of a path",
        "command": "any program as an agent; `{prompt}`, `{file}`, `{model}`, `{workspace}` are filled in",
        "prompt": "how it gets the task: as an argument, on stdin, or in a file",
        "output": "how what it prints is read",
        "result": "the field (json, jsonl) or pattern (regex) that holds its answer",
        "success": "a field that must be true or `field=value` (json, jsonl); a pattern that must occur (text, regex)",
        "cost": "the field or pattern that holds its cost",
        "cost_unit": "what that is counted in",
        "tokens": "the field or pattern that holds its tokens",
        "cost_usd": "a fixed price for each attempt; a repository's file may only raise yours, else it needs trust",
        "errors": 'for a `command`: what its words say of a failure, `errors = {rate_limit = "429|rate limit"}`; '
        "retries and fallbacks go by it",
        "authenticate": "for an ACP `command`: the id of the method to authenticate by, where it asks for that",
        "models": 'where `auto` chose it: a model by grade, `models = {complex = "opus", simple = "haiku"}`',
        "fallback": "who tries next when it cannot, in this order; of its family",
        "family": "agents of one family may stand in for each other",
        "role": "its role when none is asked for",
        "instructions": "told to it before every task",
        "permissions": "who allows what it asks leave for (ACP): the `box` alone, or `ask` a person besides",
        "requests_per_minute": "requests to its provider on each account, of all runs together; the lowest holds",
        "account": "which of `[accounts]` it uses unless asked otherwise; else whatever it is logged in with",
        "rotate": "when its account is limited, the next of its accounts goes on",
        "scope": "what holds for it alone: the keys of `[scope]`",
    },
    "accounts.*": {
        "agent": "whose account it is; `--agent AGENT@NAME` asks for it",
        "folder": "where its login lies: the agent's config folder of that account",
        "key_env": "the variable of yours that holds its key",
        "key_as": "the variable in which the agent looks for that key; else the first of its own",
        "settings": "variables set for it, name = value",
    },
    "mcp.*": {
        "command": "the server's program and its arguments; a relative one is looked for beside the file",
        "env": "names of variables that are passed on from your environment",
        "settings": "variables set here, name = value",
    },
    "budget": {
        "per_run_usd": "at most so much for each run, and what it spawns",
        "per_day_usd": "at most so much a day, of all runs together",
        "per_month_usd": "at most so much a month",
        "ceiling_usd": "of a month: neither `--yes` nor an answer goes past it; your own file only",
        "unknown_cost_usd": "what an attempt is charged whose cost nobody knows; not set: 1.0; your own file only",
        "max_unpriced_requests": "an attempt is stopped after so many requests that the meter cannot price; not set: "
        "50 as soon as any limit in dollars is set, else no limit; your own file only",
        "zone": "the time zone of days and months, e.g. `Europe/Berlin`; not set: this machine's; your own file only",
        "cheaper": "too little is left for an agent: the cheapest of its `fallback` that fits goes on; your file only",
        "mcp_over_budget": "an MCP client that cannot ask its person: `refuse`, or `warn` and go on up to the ceiling",
    },
    "telemetry": {
        "otlp": "an OpenTelemetry collector (OTLP over HTTP): its address; needs `corral[otel]`",
    },
    "notify": {
        "bell": "ring the terminal's bell when something waits for you in the inbox",
        "desktop": "show it on the desktop (`notify-send`)",
        "command": "a shell command of yours; it gets the entry as JSON on stdin, and `CORRAL_INBOX`, `CORRAL_RUN`",
        "webhook": "an address the entry is posted to, as JSON",
    },
    "retry": {
        "most": "further tries after a failure; set here, it also holds for failed checks",
        "delay_seconds": "the wait before the second try",
        "exponential": "double the wait with every try, up to 5 minutes",
        "max_wait_seconds": "a quota that comes back within this time is waited for; later, the run is parked (exit 5)",
        "on_limit": "`wait` for a quota, `switch` to the fallback at once, or `ask`: the run waits for you (exit 3)",
        "from": "where a further try starts: from a `clean` state, or from the files of the `last` one",
        "total_seconds": "no further try begins once all have taken this long; time parked does not count",
    },
    "toolbox": {
        "enabled": "agents at work have a toolbox; of two files both must say so",
        "depth": "how deep children of children go; 0: no children",
        "children": "how many a run that you started may have, at all depths",
        "agents": "agents that a child may be, besides those of the run; only in your own file",
        "delegate": "which role may hand work to which: a list for each role, `*` for all others; not set: all to all",
    },
    "evidence": {
        "require": "the least grade that counts as done; a repository may only raise it",
        "held_out": "a folder of files that no agent sees, laid over work that is checked; your own file only",
        "judge": "agent that reads each result once more; its word can only lower a grade",
        "choice_deadline": "how long a race in which none is proven better waits for you, as `90s`, `20m`, `48h`",
    },
    "limits": {
        "parallel": "attempts at work at once, of all your runs in all processes; not set: 8 of each run",
        "per_agent": "the same for an agent, as `per_agent = {claude = 2}`",
        "per_repository": "the same for all runs in one repository",
    },
    "routing": {
        "agent": "who gets it, `NAME` or `NAME:MODEL`; a rule whose agent is not installed is passed over",
        "type": "of the task, one or a list",
        "grade": "how much it asks for: `trivial`, `simple`, `moderate`, `complex`, `architectural`",
        "words": "any of these stands in the task, as a whole word",
        "files": "patterns; a file of the task (`--file`) fits one",
        "role": "who it is to be",
        "reason": "what is said of the choice",
    },
    "complexity": {
        "types": "points of a type of task, e.g. `types = {bugfix = 20}`; see `corral run --strategy auto`",
        "words": "points of a word of the task, e.g. `words = {kernel = 15, add = 0}`; 0 takes one out",
        "other_type": "points of a task without a type",
    },
    "condense": {
        "at": "share of the window at which an agent goes on from a summary; 0: only when it is too long, or asked for",
        "most": "so often in one attempt",
        "agent": "who is asked for the summary, `NAME` or `NAME:MODEL`; not set: it is made by rules",
        "windows": "tokens that models take in, by how their names begin; comes before corral's own table",
    },
    "workspace": {
        "copy": "patterns of ignored files that are copied into each workspace",
        "setup": "a shell command that runs in each new workspace, in the box",
        "snapshot": "how often what an agent has so far is kept, as `90s`, `5m`",
        "collect": "how long taking an agent's work out of its workspace may take, after the agent has ended",
        "setup_net": "hosts that `setup` may reach, as `net` of `[scope]`; not set: none",
    },
    "scope": {
        "read": "what may be read: patterns of paths in the workspace, or absolute ones",
        "write": "what may be written; in the workspace only where it may also be read",
        "readonly": "what may be read but not written, against a broader pattern of `write`",
        "env": "names of variables that are passed on from your environment, besides the agent's own",
        "net": "hosts that may be reached besides the agent's own provider; `off`: none; `on`: the open network",
        "memory_mb": "memory of all its processes together; not set: 4096",
        "processes": "processes at a time; not set: 512",
        "cpu_seconds": "time on the processor, for each process",
        "disk_mb": "what its workspace, home and temporary folder may grow to; not set: 20480",
        "file_mb": "the largest file it may write",
        "timeout": "wall clock for each try, as `--timeout`; the lower of the two holds",
    },
}
TYPES: dict[str, type[msgspec.Struct]] = {
    "evidence": EvidenceRules,
    "hooks": Hook,
    "defaults": Defaults,
    "agents.*": AgentProfile,
    "accounts.*": AccountProfile,
    "mcp.*": McpProfile,
    "budget": BudgetTable,
    "notify": Notify,
    "telemetry": Telemetry,
    "retry": RetryPolicy,
    "condense": CondensePolicy,
    "toolbox": ToolboxRules,
    "limits": SlotLimits,
    "routing": RoutingRule,
    "complexity": ComplexityTable,
    "workspace": Setup,
    "scope": ScopeTable,
}
FIELD_OF = {
    "setup": "command",
    "setup_net": "net",
    "snapshot": "snapshot_seconds",
    "collect": "collect_seconds",
    "choice_deadline": "choice_deadline_seconds",
    "from": "start",
}  #: keys whose field in the code has another name


# --- commands


def commands() -> str:
    """Return the page of all commands."""
    context = click.Context(corral, info_name="corral")
    parts = [
        "# Commands",
        "<!-- Written by tools/generate_reference.py from the commands themselves; do not edit. -->",
        "A RUN is an id, the beginning of one that fits no other, or `@last`. stdout is data, stderr is talk.",
        "Exit codes: [exit codes](exit-codes.md).",
        "| command | does |\n|---|---|\n"
        + "\n".join(f"| [`corral {name}`](#corral-{name}) | {_cell(words)} |" for name, (_, words) in COMMANDS.items()),
    ]
    for name in COMMANDS:
        command = corral.get_command(context, name)
        if command is None:
            raise SystemExit(f"{name} is listed but cannot be loaded")
        parts.append(_command(command, click.Context(command, info_name=name, parent=context)))
    return "\n\n".join(parts) + "\n"


def _command(command: click.Command, context: click.Context) -> str:
    usage = " ".join(["corral", str(context.info_name), *command.collect_usage_pieces(context)])
    records = [parameter.get_help_record(context) for parameter in command.params]
    rows = [record for record in records if record and record[1]]
    options = "\n".join(f"| `{_cell(name)}` | {_cell(words)} |" for name, words in rows)
    parts = [f"## corral {context.info_name}", f"```text\n{usage}\n```", _prose(command.help or "")]
    return "\n\n".join([*parts, f"| option | |\n|---|---|\n{options}"] if rows else parts)


def _prose(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


# --- settings


def keys() -> str:
    """Return a table of keys for each table of a settings file."""
    parts: list[str] = []
    for table, known in KEYS.items():
        if table:
            head = f"### `[{table.replace('*', 'NAME')}]`\n\n| key | type | default | meaning |\n|---|---|---|---|"
            parts.append("\n".join([head, *(_key(table, key) for key in known)]))
    return "\n\n".join(parts)


def _key(table: str, key: str) -> str:
    if (table, key) == ("agents.*", "scope"):  # kept apart from the profile: of two files, one may only narrow
        return f"| `{key}` | table | - | {MEANINGS[table][key]} |"
    fields = {field.name: field for field in msgspec.structs.fields(TYPES[table])}
    field = fields[FIELD_OF.get(key, key)]
    powerful = (key in (*POWERFUL, *COUNTING) and table == "agents.*") or table in ("workspace", "hooks", "mcp.*")
    trust = " **(trust)**" if powerful else ""
    return (
        f"| `{key}` | {_cell(_type(field.type))} | {_default(field.default)} | {_cell(MEANINGS[table][key])}{trust} |"
    )


def _type(kind: object) -> str:
    names = {str: "text", float: "number", int: "whole number", bool: "true or false"}
    for plain, word in names.items():
        if kind is plain:
            return word
    text = str(kind)
    if "Literal" in text:
        words = [f"`{word}`" for word in re.findall(r"'([\w-]+)'", text)]
        return " or ".join([*words, "list of text"] if "tuple" in text else words)
    signs = {
        "tuple": "list of text",
        "Mapping": "table of text",
        "str": "text",
        "float": "number",
        "int": "whole number",
    }
    for sign, word in signs.items():
        if sign in text:
            return word
    raise SystemExit(f"no word for the type {text}")


def _default(value: object) -> str:
    if value is msgspec.NODEFAULT or value is None or value == ():
        return "-"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def configuration() -> str:
    """Return the page of settings with its generated part renewed."""
    page = (REFERENCE / "configuration.md").read_text()
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{keys()}\n\n{END}{after}"


def main() -> int:
    """Write the pages, or with `--check` only compare."""
    stale: list[str] = []
    pages = {
        "cli.md": commands(),
        "configuration.md": configuration(),
        "agents.md": agents_page.page(),
        "http-api.md": http_page.page(),
    }
    for name, text in pages.items():
        path = REFERENCE / name
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv:
            path.write_text(text)
    if "--check" in sys.argv and stale:
        print(f"stale: {', '.join(stale)}; run python tools/generate_reference.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
