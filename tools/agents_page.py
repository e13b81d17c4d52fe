"""The page docs/reference/agents.md: what is known of each agent, from the facts in its own file."""

from __future__ import annotations

from corral import agents
from corral.model.agent_api import AgentFacts

#: How each is tried in the tests. An agent without a row here fails the generator.
TESTED = {
    "aider": "its recorded lines",
    "anthropic": "real (our own loop)",
    "auto-claude": "stand-in written from its documents",
    "claude": "real, recorded",
    "codex": "real, recorded",
    "copilot": "real, recorded",
    "gemini": "real, recorded",
    "google": "real (our own loop)",
    "ollama": "real (our own loop)",
    "openai": "real (our own loop)",
    "opencode": "real, recorded; the old program from its documents",
    "pi": "its recorded lines",
    "qwen": "real, recorded",
    "replay": "real",
    "scripted": "real",
}
#: agent -> its exit code as seen, in the order of the table; `-` was not seen.
EXIT_CODES = {
    "claude": ("0", "1", "1", "1", "0: it asks again without a stream", "143", "0 when a tool was denied"),
    "codex": ("0", "1", "1", "1", "1", "ended by it", "0 when every command failed"),
    "gemini": ("0", "145", "173", "244", "**0**", "**0**", "otherwise the HTTP status modulo 256"),
    "opencode": ("0", "1", "1", "1", "**0**", "ended by it", "0 when it took half an answer for a whole one"),
    "qwen": ("0", "1", "1", "1", "1", "ended by it; a child lives on", "little"),
    "copilot": ("0", "1", "-", "1", "-", "ended by it; a child lives on", "0 when a tool was denied"),
    "pi": ("0", "**0**", "**0**", "**0**", "**0**", "143", "anything"),
    "aider": ("0", "**0**", "-", "-", "-", "-", "anything"),
    "auto-claude": ("0", "-", "-", "-", "-", "-", "0 when its own review was not done"),
}
SCHEMAS = {"table": "of a table", "strict": "if every field must be there", "no": "by the prompt"}
STEERS = {"live": "while it works", "turn": "when its turn ends", "no": "at the next start"}
TEXT = """\
# Agents

<!-- Written by tools/generate_reference.py from the agents' own files; do not edit. -->

What is known of each agent before it is asked; `corral doctor` adds what is installed here. How to use them:
[the agents, one by one](../guides/agents.md); how to add one: [writing an agent](../guides/writing-an-agent.md).

## What each can do

{abilities}

- *resumes*: continues its own session after a crash or a limit. *steers*: when it takes in `corral steer`.
- *schema*: whether its program takes the shape of [an output](../guides/structured-output.md) itself.
- *tested*: *real* is the program itself, in the box, against a scripted model; *recorded* means that a recording of it
  is played in the tests too. Cost and tokens are what the program itself tells.

## How each is found and let in

{access}

## What exit codes mean, and do not mean

corral takes no exit code for a verdict: only what a program says of its own ending counts, and then checks and a
diff. This is why (`-`: not seen):

{codes}
"""


def page() -> str:
    """Return the whole page."""
    facts = [agents.find(name, {}).facts for name in agents.names({}) if name in agents.BUILT_IN]
    missing = [each.name for each in facts if each.name not in TESTED]
    if missing:
        raise SystemExit(f"tools/agents_page.py does not say how these are tested: {', '.join(missing)}")
    head = ("agent", "family", "resumes", "steers", "MCP", "ACP", "schema", "cost", "tokens", "tested")
    access = ("agent", "program", "known to work from", "key", "login", "address", "hosts", "install")
    codes = ("agent", "well", "wrong key", "limit", "provider down", "stream cut", "SIGTERM", "what it does not tell")
    return TEXT.format(
        abilities=_table(head, [_abilities(each) for each in facts]),
        access=_table(access, [_access(each) for each in facts]),
        codes=_table(codes, [(f"`{name}`", *row) for name, row in EXIT_CODES.items()]),
    )


def _abilities(facts: AgentFacts) -> tuple[str, ...]:
    return (
        f"`{facts.name}`",
        facts.family,
        _yes(facts.resumes),
        STEERS[facts.steers],
        _yes(facts.mcp),
        f"`{facts.acp}`" if facts.acp else "no",
        SCHEMAS[facts.schema],
        "reported" if facts.reports_cost else "not reported",
        "reported" if facts.reports_tokens else "not reported",
        TESTED[facts.name],
    )


def _access(facts: AgentFacts) -> tuple[str, ...]:
    return (
        f"`{facts.name}`",
        "built in" if facts.programs[0].startswith("corral:") else _codes(facts.programs),
        facts.oldest or "-",
        _codes(facts.keys),
        _codes(tuple(f"~/{name}" for name in facts.login)),
        _codes(facts.address),
        _codes(facts.hosts),
        f"`{facts.install}`" if facts.install.startswith(("npm", "uv ")) else facts.install or "-",
    )


def _yes(holds: bool) -> str:  # noqa: FBT001
    return "yes" if holds else "no"


def _codes(words: tuple[str, ...]) -> str:
    return ", ".join(f"`{word}`" for word in words) or "-"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
