"""What an agent is told besides its task: a role, instructions, skills; all from files that a person can override."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from corral.config.places import person_file
from corral.errors import BadRequest
from corral.world import workspace

BUILT_IN = Path(__file__).parents[2] / "roles"
MOST_SKILL = 256 << 10
GUIDE = "AGENTS.md"
MOST_GUIDE = 64 << 10
MOST_OFFERED, MOST_HEAD, MOST_DESCRIPTION = 50, 8 << 10, 500


class Skill(Struct, frozen=True):
    """A folder with a SKILL.md; what else lies in it is brought along and read only when needed."""

    name: str
    folder: str
    text: str


def role(name: str, repo: Path) -> str:
    """Return a role's words: the repository's, the person's, or ours."""
    for folder in (repo / ".corral" / "roles", person_file().parent / "roles", BUILT_IN):
        file = folder / f"{name}.md"
        if re.fullmatch(r"[\w-]+", name) and file.is_file():
            return file.read_text(encoding="utf-8", errors="replace").strip()
    raise BadRequest(f"no role is called `{name}`", hint="known: " + ", ".join(role_names(repo)))


def role_names(repo: Path | None = None) -> list[str]:
    """List the roles that can be asked for in a repository, or in any."""
    folders = (*([repo / ".corral" / "roles"] if repo else []), person_file().parent / "roles", BUILT_IN)
    return sorted({file.stem for folder in folders if folder.is_dir() for file in folder.glob("*.md")})


def skills(names: Sequence[str], repo: Path) -> tuple[Skill, ...]:
    """Find skills by name: in the repository, in the person's settings, or where Claude Code keeps them."""
    return tuple(_skill(name, repo) for name in names)


def offered(named: Sequence[str], repo: Path) -> tuple[Skill, ...]:
    """List the repository's skills that nobody asked for: the text of each is its description alone."""
    found: dict[str, Skill] = {}
    for place in (repo / ".corral" / "skills", repo / ".claude" / "skills"):
        for file in sorted(place.glob("*/SKILL.md")):
            name = file.parent.name
            if re.fullmatch(r"[\w.-]+", name) and name not in (*named, *found) and len(found) < MOST_OFFERED:
                with file.open(encoding="utf-8", errors="replace") as opened:
                    found[name] = Skill(name, str(file.parent.resolve()), _description(opened.read(MOST_HEAD)))
    return tuple(found.values())


def guide(tree: Path, reads: Sequence[str]) -> str:
    """Return the AGENTS.md of a workspace for an agent that reads neither it nor a file in its place by itself."""
    if GUIDE in reads or any((tree / name).is_file() for name in reads):
        return ""
    content = workspace.read_below(tree, GUIDE, MOST_GUIDE) or b""
    return content.decode(errors="replace").strip()


def _description(text: str) -> str:
    head = re.match(r"---\n(.*?)\n---", text, flags=re.DOTALL)
    found = re.search(r"^description:\s*(.+)$", head.group(1), flags=re.MULTILINE) if head else None
    return found.group(1).strip().strip("\"'")[:MOST_DESCRIPTION] if found else ""


def _skill(name: str, repo: Path) -> Skill:
    places = (repo / ".corral" / "skills", repo / ".claude" / "skills", person_file().parent / "skills")
    for place in places:
        file = place / name / "SKILL.md"
        if re.fullmatch(r"[\w.-]+", name) and file.is_file():
            text = file.read_text(encoding="utf-8", errors="replace")
            if len(text) > MOST_SKILL:
                raise BadRequest(f"{file}: a SKILL.md is shorter than 256 KB", hint="put material into files beside it")
            return Skill(name, str(file.parent.resolve()), _without_head(text))
    raise BadRequest(f"no skill is called `{name}`", hint=f"make one: .corral/skills/{name}/SKILL.md")


def _without_head(text: str) -> str:
    """Drop the metadata between `---` lines: it is for choosing a skill, not for doing it."""
    return re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL).strip()
