"""What an agent gets besides its task: a role, instructions, skills, and what is remembered of its repository."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from corral.attempt.events import AttemptEvents
from corral.attempt.repositories import common_dir
from corral.config.paths import user_file
from corral.machines.host import Host
from corral.machines.machine import Machine
from corral.model import AttemptRecord, Grade, RunPlan
from corral.model.errors import BadRequest, CorralError, shorten_name
from corral.model.events import Noted
from corral.model.flow import Node
from corral.model.memory import Fact
from corral.rules.context import memory
from corral.rules.context.tools import Remember
from corral.rules.race import llm_judge, second_reader
from corral.rules.text.names import hidden_ref
from corral.world import untrusted_files
from corral.world.untrusted_files import LinkRefused

BUILT_IN = Path(__file__).parents[1] / "roles"
MOST_SKILL = 256 << 10
GUIDE = "AGENTS.md"
MOST_GUIDE = 64 << 10
MOST_OFFERED, MOST_HEAD, MOST_DESCRIPTION = 50, 8 << 10, 500
MOST_PROPOSED = 20  #: by one attempt
MOST_FOUND = 20  #: by one search
PROVEN = ("proven", "held-out")


class Skill(Struct, frozen=True):
    """A folder with a SKILL.md; what else lies in it is brought along and read only when needed."""

    name: str
    folder: str
    text: str


def role(name: str, repo: Path, *, theirs_first: bool) -> str:
    """Return a role's words: the repository's, the user's, or ours.

    The repository's come first only where the user named the role or trusts the repository. Otherwise they count
    only if nobody else has a role of that name: a clone cannot replace a built-in role.
    """
    theirs = repo.resolve() / ".corral" / "roles" / f"{name}.md"
    if _is_name(name):
        content = untrusted_files.read(theirs, MOST_SKILL + 1) if theirs_first else None
        for folder in (user_file().parent / "roles", BUILT_IN):
            file = folder / f"{name}.md"
            content = file.read_bytes() if content is None and file.is_file() else content
        content = untrusted_files.read(theirs, MOST_SKILL + 1) if content is None else content
        if content is not None and len(content) > MOST_SKILL:
            raise BadRequest(f"the role `{name}` is longer than 256 KB", hint="put material into a skill")
        if content is not None:
            return content.decode(errors="replace").strip()
    raise BadRequest(f"no role is called `{shorten_name(name)}`", hint="known: " + ", ".join(role_names(repo)))


def role_names(repo: Path | None = None) -> list[str]:
    """List the roles that can be asked for in a repository, or in any."""
    named = untrusted_files.names(repo.resolve() / ".corral" / "roles") if repo else []
    found = {Path(name).stem for name in named if name.endswith(".md")}
    folders = (user_file().parent / "roles", BUILT_IN)
    return sorted(found | {file.stem for folder in folders if folder.is_dir() for file in folder.glob("*.md")})


def skills(names: Sequence[str], repo: Path, *, theirs_first: bool) -> tuple[Skill, ...]:
    """Find skills by name: the repository's, where it has them or where Claude Code keeps them, or the user's.

    The repository's come first on the same terms as roles.
    """
    return tuple(_skill(name, repo, theirs_first=theirs_first) for name in names)


def offered_skills(named: Sequence[str], repo: Path) -> tuple[Skill, ...]:
    """List the repository's skills that nobody asked for: the text of each is its description alone.

    One that is a link, or lies behind one, is not offered.
    """
    found: dict[str, Skill] = {}
    for place in _their_skills(repo):
        for name in untrusted_files.names(place):
            if not _is_name(name) or name in (*named, *found) or len(found) == MOST_OFFERED:
                continue
            with contextlib.suppress(LinkRefused):
                content = untrusted_files.read(place / name / "SKILL.md", MOST_HEAD)
                if content is not None:
                    found[name] = Skill(name, str(place / name), _description(content.decode(errors="replace")))
    return tuple(found.values())


async def guide(machine: Machine, workspace: str, reads: Sequence[str]) -> str:
    """Return the AGENTS.md of a workspace for an agent that reads neither it nor a file in its place by itself."""
    if GUIDE in reads or any([await machine.has(workspace, name) for name in reads]):
        return ""
    content = await machine.read(workspace, GUIDE, MOST_GUIDE) or b""
    return content.decode(errors="replace").strip()


def _description(text: str) -> str:
    head = re.match(r"---\n(.*?)\n---", text, flags=re.DOTALL)
    found = re.search(r"^description:\s*(.+)$", head.group(1), flags=re.MULTILINE) if head else None
    return found.group(1).strip().strip("\"'")[:MOST_DESCRIPTION] if found else ""


def _skill(name: str, repo: Path, *, theirs_first: bool) -> Skill:
    own = user_file().parent / "skills" / name
    if _is_name(name):
        if not theirs_first and (own / "SKILL.md").is_file():
            return _own_skill(name, own)
        for place in _their_skills(repo):
            content = untrusted_files.read(place / name / "SKILL.md", MOST_SKILL + 1)
            if content is not None:
                return _read_skill(name, place / name, content)
        if (own / "SKILL.md").is_file():
            return _own_skill(name, own)
    hint = f"make one: .corral/skills/{name}/SKILL.md" if _is_name(name) else "letters, digits, . - _"
    raise BadRequest(f"no skill is called `{shorten_name(name)}`", hint=hint)


def _own_skill(name: str, folder: Path) -> Skill:
    return _read_skill(name, folder.resolve(), (folder / "SKILL.md").read_bytes())


def _read_skill(name: str, folder: Path, content: bytes) -> Skill:
    if len(content) > MOST_SKILL:
        raise BadRequest(
            f"{folder / 'SKILL.md'}: a SKILL.md is shorter than 256 KB", hint="put material into files beside it"
        )
    return Skill(name, str(folder), _without_head(content.decode(errors="replace")))


def _their_skills(repo: Path) -> tuple[Path, Path]:
    top = repo.resolve()
    return top / ".corral" / "skills", top / ".claude" / "skills"


def _is_name(name: str) -> bool:
    return re.fullmatch(r"[\w.-]{1,60}", name) is not None and name.strip(".") != ""


def _without_head(text: str) -> str:
    """Drop the metadata between `---` lines: it is for choosing a skill, not for doing it."""
    return re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL).strip()


class AttemptMemory:
    """The memory of a repository as one attempt reads and adds to it."""

    def __init__(self, attempt_events: AttemptEvents, plan: RunPlan) -> None:
        self._events, self._rules = attempt_events, plan.memory
        self._store = attempt_events.store.memory
        self._repo = str(common_dir(Path(plan.git_dir)))
        self._proposed = 0

    def section(self, node: Node) -> str:
        """Return what the prompt says of the memory; a judge compares work and gets nothing of it."""
        record = self._events.record
        if not self._rules.enabled or node.kind == "run" or record.candidates:
            return ""
        best = self._store.best(self._repo, memory.MOST_IN_PROMPT)
        if not best:
            return ""
        words = memory.search_words("\n".join((node.task.prompt, *node.task.files)))
        matching = self._store.search(self._repo, words, memory.MOST_IN_PROMPT)
        chosen = memory.choose(matching, best, self._rules.most_characters)
        record.facts = tuple(fact.id for fact in chosen)
        self._store.use(self._repo, record.facts, time.time())
        if chosen:
            self._events.emit(Noted(f"its prompt has what is remembered of this repository: {', '.join(record.facts)}"))
        return memory.section(chosen)

    def remember(self, asked: Remember) -> dict[str, Any]:
        """Store what its agent proposes; nobody reads it before the user approves it."""
        self._require_enabled()
        self._proposed += 1
        if self._proposed > MOST_PROPOSED:
            raise BadRequest(
                f"{MOST_PROPOSED} facts are the most that one attempt may propose",
                hint="propose fewer, and those that apply to later tasks",
            )
        if self._store.count(self._repo) >= memory.MOST_FACTS:
            raise BadRequest(
                f"{memory.MOST_FACTS} facts are remembered already: the user has to remove some",
                hint="corral memory rm FACT",
            )
        record = self._events.record
        text = memory.clean_text(self._events.redactor.text(asked.text))
        fact = Fact(id="", text=text, source=record.run, files=memory.check_files(asked.files), created=time.time())
        stored = self._store.add(self._repo, fact)
        self._events.emit(Noted(f"its agent proposes to remember ({stored.id}): {text}"))
        return {"id": stored.id, "state": stored.state}

    def search(self, words: str) -> dict[str, Any]:
        """Return the approved facts that match, best first."""
        self._require_enabled()
        found = self._store.search(self._repo, memory.search_words(words), MOST_FOUND)
        return {"facts": [{"id": fact.id, "text": fact.text, "files": fact.files} for fact in found]}

    def _require_enabled(self) -> None:
        if not self._rules.enabled:
            raise BadRequest(
                "memory is off in this repository ([memory] enabled)", hint="[memory] enabled = true in corral.toml"
            )


def confirm(attempt_events: AttemptEvents, grade: Grade) -> None:
    """Count the facts that an attempt's prompt named, if its work is proven."""
    if grade in PROVEN and attempt_events.record.facts:
        attempt_events.store.memory.confirm(attempt_events.record.facts)


# --- judges and readers of others' work


async def brief_judge(node: Node, host: Host, own: AttemptRecord, others: Sequence[AttemptRecord]) -> Node:
    """Return a judge's node with the changes it is to compare, in the order it is shown them; a reader's has one."""
    patches = [await _patch(host, name) for name in own.candidates]
    if own.lane <= second_reader.FIRST_READER_PLACE:
        read = next(each for each in others if each.attempt.id == own.candidates[0])
        prompt, files = second_reader.brief(node.task.prompt, patches[0], read.attempt.evidence, read.evidence)
    else:
        prompt, files = llm_judge.brief(node.task.prompt, patches)
    host.task = structs.replace(node.task, prompt=prompt, handed=files)
    return structs.replace(node, task=host.task)


async def _patch(host: Host, attempt: str) -> str:
    commit = await host.repository.commit_of(hidden_ref(attempt))
    if commit is None:
        raise CorralError(f"the work of {attempt} is not in the repository any more")
    parts: list[bytes] = []
    size = 0

    def take(part: bytes) -> None:
        nonlocal size
        if size <= llm_judge.MOST_PATCH:
            parts.append(part)
        size += len(part)

    await host.repository.patch(host.base, commit, take)
    return b"".join(parts).decode(errors="replace")
