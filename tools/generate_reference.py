"""Write what the code knows best: parts of docs/reference, the schema of flows for editors; `--check` says if stale."""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from pathlib import Path

import agents_page
import click
import http_page
import msgspec

from corral.config.files import APART, CALLED, CHANNELS, COUNTING, KEYS, POWERFUL, TABLES
from corral.frontends.cli import COMMANDS, SECTIONS, corral
from corral.rules.flows.json_schema import schema

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
SCHEMA = Path(__file__).parents[1] / "editors" / "vscode" / "schemas" / "flow.schema.json"
BEGIN, END = "<!-- generated: keys -->", "<!-- end of generated -->"


# --- commands


def commands() -> str:
    """Return the page of all commands."""
    context = click.Context(corral, info_name="corral")
    parts = [
        "# Commands",
        "<!-- Written by tools/generate_reference.py from the commands themselves; do not edit. -->",
        "A RUN is an id, the beginning of a unique one, or `@last`. stdout is data, stderr is talk.",
        "Exit codes: [exit codes](exit-codes.md).",
    ]
    for section, listed in SECTIONS.items():
        rows = [f"| [`corral {name}`](#corral-{name}) | {_cell(words)} |" for name, (_, words) in listed.items()]
        parts.append("\n".join([f"**{section}**\n\n| command | does |\n|---|---|", *rows]))
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
    if table == "notify" and key in APART[table]:
        meaning = ast.get_docstring(ast.parse((CHANNELS / f"{key}.py").read_text())) or ""
        return f"| `{key}` | text | - | {_cell(meaning.splitlines()[0])} |"
    if key in APART.get(table, ()):
        return f"| `{key}` | table | - | what applies to it alone: the keys of `[{key}]` |"
    names = {called: name for name, called in CALLED.get(table, {}).items()}
    fields = {each.encode_name: each for each in msgspec.structs.fields(TABLES[table])}
    field = fields[names.get(key, key)]
    powerful = (key in (*POWERFUL, *COUNTING) and table == "agents.*") or table in ("workspace", "hooks", "mcp.*")
    trust = " **(trust)**" if powerful else ""
    meaning = _cell(meaning_of(TABLES[table], field.name))
    return f"| `{key}` | {_cell(_type(field.type))} | {_default(field.default)} | {meaning}{trust} |"


def meaning_of(kind: type[msgspec.Struct], name: str) -> str:
    """Return what stands in `#:` comments above a field; a field without any fails the generator."""
    found: list[str] = []
    for line in inspect.getsource(kind).splitlines():
        text = line.strip()
        if text.startswith("#: "):
            found.append(text.removeprefix("#: "))
        elif text.startswith(f"{name}:"):
            break
        else:
            found = []
    if not found:
        raise SystemExit(f"{kind.__name__}.{name}: its meaning is missing, as a `#:` comment above it")
    return " ".join(found)


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
        REFERENCE / "cli.md": commands(),
        REFERENCE / "configuration.md": configuration(),
        REFERENCE / "agents.md": agents_page.page(),
        REFERENCE / "http-api.md": http_page.page(),
        SCHEMA: json.dumps(schema()) + "\n",
    }
    for path, text in pages.items():
        if path.exists() and path.read_text() == text:
            continue
        stale.append(path.name)
        if "--check" not in sys.argv:
            path.write_text(text)
    if "--check" in sys.argv and stale:
        print(f"stale: {', '.join(stale)}; run python tools/generate_reference.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
