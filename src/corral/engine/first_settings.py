"""The first settings of a user and of a repository, and agents imported from another program's agents.yaml."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct, structs

from corral import agents
from corral.attempt import briefing
from corral.config import loader, paths
from corral.config.paths import MOST_TEXT, REPOSITORY_FILE, user_file
from corral.engine import doctor
from corral.engine.context import Context
from corral.model.agent_api import AgentProfile
from corral.model.errors import BadRequest
from corral.rules.flows.tree import MOST_CHARACTERS, UnreadableYaml
from corral.rules.text import agents_yaml
from corral.rules.text.agents_yaml import AgentList
from corral.world.git.discovery import top_folder

SHELL_WORDS = ("cd", "if", "for", "while", "set", "export", "eval", "exec", "ulimit", "umask")
MOST_BYTES = 200_000  #: of a file that is read to tell checks
TABLE = re.compile(r"^\s*\[\s*defaults\s*\][^\n]*\n?", re.MULTILINE)
YOURS = """\
# Your own settings of Corral. They apply in every repository.
# All keys: docs/reference/configuration.md of Corral.

[defaults]
{values}

# [agents.claude]             # settings of an agent; `corral agents` lists them
# model = "claude-sonnet-4-5"

# [budget]                    # limits over several runs; `corral budget` shows what is used
# per_day_usd = 10.0
"""
REPOSITORY = """\
# Settings of Corral for this repository. Commit this file: everybody who works here then has the same checks.
# It may add defaults and checks, and narrow what agents may do, never widen it.

[defaults]
{values}

# [workspace]                 # what each new workspace needs
# copy = [".env.test"]        # ignored files that agents and checks need
# setup = "make deps"         # run once in each new workspace; needs `corral trust`

# [scope]                     # what agents may do here
# write = ["src/**", "tests/**"]
"""
#: The line of each key: as it is written, and as a remark where nothing was answered.
LINES = {
    "agent": "the agent of `corral run` without --agent",
    "budget_usd": "stop a task when it has cost this much",
    "checks": "commands that must succeed on the result; `--check` of `corral run` replaces them",
}
EXAMPLES: Mapping[str, object] = {"agent": "claude", "budget_usd": 5.0, "checks": ["pytest -q"]}
#: What is read of a repository to tell its checks; other names count by being there.
READ = ("Makefile", "makefile", "GNUmakefile", "package.json", "pyproject.toml", "setup.cfg", "tox.ini")
_BY_FILE = (
    ("Cargo.toml", "cargo test"),
    ("go.mod", "go test ./..."),
    ("mix.exs", "mix test"),
    ("pom.xml", "mvn -q test"),
    ("gradlew", "./gradlew test"),
)
_TEST_TARGET = re.compile(r"^test\s*:(?!=)", re.MULTILINE)
_PYTEST = re.compile(r"^\[(tool\.pytest\b.*|tool:pytest|pytest)\]", re.MULTILINE)


class FoundSettings(Struct, frozen=True, kw_only=True):
    """What a repository and a machine suggest, and what is set already."""

    agents: tuple[str, ...]  #: installed, those with a login first
    agent: str | None
    checks: tuple[str, ...]
    repository: bool  #: the folder is in a git repository
    set_agent: str | None = None
    set_budget_usd: float | None = None
    set_checks: tuple[str, ...] = ()


class SettingsAnswers(Struct, frozen=True, kw_only=True):
    """What goes into the two files; None leaves a key as it is."""

    agent: str | None = None
    checks: tuple[str, ...] | None = None
    budget_usd: float | None = None


class WrittenFile(Struct, frozen=True):
    path: str
    state: Literal["written", "merged", "unchanged"]


class FirstSettings(Struct, frozen=True, kw_only=True):
    agent: str | None
    checks: tuple[str, ...]
    budget_usd: float | None
    files: tuple[WrittenFile, ...]
    missing: tuple[str, ...] = ()  #: programs that the checks start and that are not on PATH


async def look(context: Context, folder: Path) -> FoundSettings:
    """Find out what suits a repository on this machine."""
    top = top_folder(folder)
    mine, theirs = _defaults(user_file()), _defaults(top / REPOSITORY_FILE)
    reports = [each for each in await doctor.list_agents(context) if each.program and each.program != doctor.BUILT_IN]
    ready = [each.name for each in reports if each.login != "not seen"]
    names = tuple(dict.fromkeys([*ready, *(each.name for each in reports)]))
    return FoundSettings(
        agents=names,
        agent=names[0] if names else None,
        checks=find_checks(folder),
        repository=(top / ".git").exists(),
        set_agent=mine.get("agent"),
        set_budget_usd=mine.get("budget_usd"),
        set_checks=tuple(theirs.get("checks", ())),
    )


def find_checks(folder: Path) -> tuple[str, ...]:
    """Return the checks that the files of a repository suggest."""
    return usual_checks(_files(top_folder(folder)))


def write(folder: Path, answers: SettingsAnswers) -> FirstSettings:
    """Write both files, or add to them; refuse what would change a value that is there, before anything is written."""
    if answers.agent is not None:
        agents.find(answers.agent.partition(":")[0], loader.load(None).agents)  # raises if there is none
    mine, theirs = user_file(), top_folder(folder) / REPOSITORY_FILE
    texts = [
        (mine, _with_values(mine, YOURS, {"agent": answers.agent, "budget_usd": answers.budget_usd})),
        (theirs, _with_values(theirs, REPOSITORY, {"checks": answers.checks})),
    ]
    files: list[WrittenFile] = []
    for path, text in texts:
        before = path.read_text(encoding="utf-8") if path.exists() else None
        if text != before:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        files.append(
            WrittenFile(str(path), "unchanged" if text == before else "written" if before is None else "merged")
        )
    yours, shared = _defaults(mine), _defaults(theirs)
    return FirstSettings(
        agent=yours.get("agent"),
        checks=tuple(shared.get("checks", ())),
        budget_usd=yours.get("budget_usd"),
        files=tuple(files),
        missing=_missing_programs(shared.get("checks", ())),
    )


def _missing_programs(checks: Sequence[str]) -> tuple[str, ...]:
    """Return what checks start that is not there; what is no plain word is left to the shell."""
    first = [check.split()[0] for check in checks if check.split()]
    plain = dict.fromkeys(word for word in first if re.fullmatch(r"[A-Za-z][\w.+-]*", word))
    return tuple(word for word in plain if word not in SHELL_WORDS and shutil.which(word) is None)


def _files(top: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted(top.iterdir()):
        if path.is_dir():
            found[f"{path.name}/"] = ""
        elif path.is_file():
            with path.open("rb") as file:
                found[path.name] = file.read(MOST_BYTES).decode(errors="replace") if path.name in READ else ""
    return found


def _defaults(path: Path) -> dict[str, Any]:
    return _parse(path, path.read_text(encoding="utf-8")).get("defaults", {}) if path.is_file() else {}


def _parse(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadRequest(f"{path}: {error}", hint="correct it first; nothing was written") from error


def _with_values(path: Path, template: str, values: Mapping[str, object]) -> str:
    """Return the text of a file with these values of `[defaults]`; what is there stays, word for word."""
    if not path.exists():
        lines = [_line(key, value) for key, value in values.items()]
        return template.format(values="\n".join(lines))
    before = path.read_text(encoding="utf-8")
    there = _parse(path, before).get("defaults", {})
    for key, value in values.items():
        if value is not None and key in there and msgspec.to_builtins(value) != there[key]:
            raise BadRequest(
                f"{path} says {key} = {_toml(there[key])} already", hint=f"change it there to {key} = {_toml(value)}"
            )
    new = [_line(key, value) for key, value in values.items() if value is not None and key not in there]
    if not new:
        return before
    block = "\n".join(new) + "\n"
    if head := TABLE.search(before):
        start = before[: head.end()]
        after = (start if start.endswith("\n") else start + "\n") + block + before[head.end() :]
    else:
        after = before.rstrip("\n") + ("\n\n" if before.strip() else "") + f"[defaults]\n{block}"
    expected = {**there, **{key: msgspec.to_builtins(value) for key, value in values.items() if value is not None}}
    try:
        merged = tomllib.loads(after).get("defaults")
    except tomllib.TOMLDecodeError:
        merged = None
    if merged != expected:
        raise BadRequest(f"{path}: nothing can be added to it safely", hint=f"add below [defaults]: {'; '.join(new)}")
    return after


def _line(key: str, value: object) -> str:
    text = f"{key} = {_toml(EXAMPLES[key] if value is None else value)}"
    return f"{'# ' if value is None else ''}{text:<28}  # {LINES[key]}"


def _toml(value: object) -> str:
    """Write a value as TOML; for texts, numbers and lists that is JSON."""
    return (
        msgspec.json.encode(value).decode().replace(",", ", ")
        if isinstance(value, list | tuple)
        else (msgspec.json.encode(value).decode())
    )


def usual_checks(files: Mapping[str, str]) -> tuple[str, ...]:
    """Return the checks of a repository with these files at its top; folders end with a slash, their text is empty."""
    if any(_TEST_TARGET.search(files.get(name, "")) for name in READ[:3]):
        return ("make test",)
    found = ["pytest -q"] if _has_pytest(files) else []
    found += ["npm test"] if _has_npm_test(files.get("package.json", "")) else []
    return (*found, *(command for name, command in _BY_FILE if name in files))


def _has_pytest(files: Mapping[str, str]) -> bool:
    if "pytest.ini" in files or "conftest.py" in files:
        return True
    if any(_PYTEST.search(files.get(name, "")) for name in READ[4:]):
        return True
    python = "pyproject.toml" in files or any(name.endswith(".py") for name in files)
    return python and ("tests/" in files or any(re.fullmatch(r"test_\w+\.py", name) for name in files))


def _has_npm_test(text: str) -> bool:
    try:
        package: Any = json.loads(text) if text else {}
    except ValueError:
        return False
    scripts: Any = cast("dict[str, Any]", package).get("scripts") if isinstance(package, dict) else None
    command: Any = cast("dict[str, Any]", scripts).get("test") if isinstance(scripts, dict) else None
    return isinstance(command, str) and "no test specified" not in command


class ImportedAgents(Struct, frozen=True):
    """Tables for a settings file, and what could not be said in them."""

    names: tuple[str, ...]
    toml: str
    left_out: tuple[str, ...] = ()


def import_agents(path: Path, like: str) -> ImportedAgents:
    """Read an agents.yaml; each agent becomes the known one `like`, with a role, a model and words of its own."""
    found, known = _read(path), agents.names({})
    for agent in found.agents:
        if agent.name in known:
            where = f"{path}:{agent.place.line}:{agent.place.column}"
            raise BadRequest(f"{where}: `{agent.name}` is a built-in agent", hint="give yours another name")
    names = tuple(agent.name for agent in found.agents)
    base = loader.load(None).agents.get(like, AgentProfile())
    if base.like:
        raise BadRequest(f"--like {like}: it is itself like another agent", hint=f"--like {base.like}")
    agents.find(names[0], {names[0]: structs.replace(base, like=like)})  # raises if there is none
    return ImportedAgents(names, agents_yaml.toml(found.agents, like), found.left_out)


def add(imported: ImportedAgents) -> Path:
    """Append them to the user's settings, if none is there already; return that file."""
    path = user_file()
    taken = [name for name in imported.names if name in loader.load(None).agents]
    if taken:
        raise BadRequest(
            f"{path}: there already: {', '.join(f'[agents.{name}]' for name in taken)}",
            hint="take them out of one of the files, or leave out --write and choose",
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    try:
        tomllib.loads(f"{before}{gap}{imported.toml}")
    except tomllib.TOMLDecodeError as error:
        raise BadRequest(
            f"{path}: the agents cannot be added at its end: {error}",
            hint="leave out --write and put them in by hand",
        ) from error
    with path.open("a", encoding="utf-8") as file:
        file.write(gap + imported.toml)
    return path


def _read(path: Path) -> AgentList:
    try:
        text = paths.read_file(path, MOST_TEXT, f"{path}: cannot be read", "an agents.yaml is UTF-8 text").decode()
    except UnicodeDecodeError as error:
        raise BadRequest(f"{path}: cannot be read: {error}", hint="an agents.yaml is UTF-8 text") from error
    if len(text) > MOST_CHARACTERS:
        raise BadRequest(f"{path}: it is longer than 512 KB", hint="put long instructions into roles or skills")
    try:
        return agents_yaml.read(text, briefing.role_names())
    except UnreadableYaml as error:
        wrong = error.mistake
        raise BadRequest(f"{path}:{wrong.line}:{wrong.column}: {wrong.message}", hint=wrong.hint) from error
