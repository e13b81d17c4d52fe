"""What an agent is told besides its task: a role, instructions, skills; all from files that a person can override."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from corral.config.paths import user_file
from corral.machines.machine import Machine
from corral.model.errors import BadRequest, shorten_name
from corral.world import files_without_links
from corral.world.files_without_links import LinkRefused

BUILT_IN = Path(__file__).parents[1] / "roles"
MOST_SKILL = 256 << 10
GUIDE = "AGENTS.md"
MOST_GUIDE = 64 << 10
MOST_OFFERED, MOST_HEAD, MOST_DESCRIPTION = 50, 8 << 10, 500


class Skill(Struct, frozen=True):
    """A folder with a SKILL.md; what else lies in it is brought along and read only when needed."""

    name: str
    folder: str
    text: str


def role(name: str, repo: Path, *, theirs_first: bool) -> str:
    """Return a role's words: the repository's, the person's, or ours.

    The repository's come first only where the person named the role or trusts the repository. Otherwise they count
    only if nobody else has a role of that name: a clone cannot replace a built-in role.
    """
    theirs = repo.resolve() / ".corral" / "roles" / f"{name}.md"
    if _is_name(name):
        content = files_without_links.read(theirs, MOST_SKILL + 1) if theirs_first else None
        for folder in (user_file().parent / "roles", BUILT_IN):
            file = folder / f"{name}.md"
            content = file.read_bytes() if content is None and file.is_file() else content
        content = files_without_links.read(theirs, MOST_SKILL + 1) if content is None else content
        if content is not None and len(content) > MOST_SKILL:
            raise BadRequest(f"the role `{name}` is longer than 256 KB", hint="put material into a skill")
        if content is not None:
            return content.decode(errors="replace").strip()
    raise BadRequest(f"no role is called `{shorten_name(name)}`", hint="known: " + ", ".join(role_names(repo)))


def role_names(repo: Path | None = None) -> list[str]:
    """List the roles that can be asked for in a repository, or in any."""
    named = files_without_links.names(repo.resolve() / ".corral" / "roles") if repo else []
    found = {Path(name).stem for name in named if name.endswith(".md")}
    folders = (user_file().parent / "roles", BUILT_IN)
    return sorted(found | {file.stem for folder in folders if folder.is_dir() for file in folder.glob("*.md")})


def skills(names: Sequence[str], repo: Path, *, theirs_first: bool) -> tuple[Skill, ...]:
    """Find skills by name: the repository's, where it has them or where Claude Code keeps them, or the person's.

    The repository's come first on the same terms as roles.
    """
    return tuple(_skill(name, repo, theirs_first=theirs_first) for name in names)


def offered_skills(named: Sequence[str], repo: Path) -> tuple[Skill, ...]:
    """List the repository's skills that nobody asked for: the text of each is its description alone.

    One that is a link, or lies behind one, is not offered.
    """
    found: dict[str, Skill] = {}
    for place in _their_skills(repo):
        for name in files_without_links.names(place):
            if not _is_name(name) or name in (*named, *found) or len(found) == MOST_OFFERED:
                continue
            with contextlib.suppress(LinkRefused):
                content = files_without_links.read(place / name / "SKILL.md", MOST_HEAD)
                if content is not None:
                    found[name] = Skill(name, str(place / name), _description(content.decode(errors="replace")))
    return tuple(found.values())


def guide(machine: Machine, workspace: str, reads: Sequence[str]) -> str:
    """Return the AGENTS.md of a workspace for an agent that reads neither it nor a file in its place by itself."""
    if GUIDE in reads or any(machine.has(workspace, name) for name in reads):
        return ""
    content = machine.read(workspace, GUIDE, MOST_GUIDE) or b""
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
            content = files_without_links.read(place / name / "SKILL.md", MOST_SKILL + 1)
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
