"""Which settings hold in a folder, and which files a user trusts."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from corral.config import loader
from corral.config.paths import REPOSITORY_FILE, file_mark, fingerprint, is_file, is_folder, user_file
from corral.config.settings import Config
from corral.model.errors import BadRequest
from corral.world.trust import Trust

AGENT_KEY = re.compile(r"\s*agent\s*=")


class Settings:
    """Settings as front ends ask for them."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def file(self, folder: Path) -> Path | None:
        """Return the repository's settings file that holds for `folder`."""
        if not is_folder(folder):
            raise BadRequest(f"{folder}: there is no such folder", hint="a repository, or a folder in one")
        for place in (folder.resolve(), *folder.resolve().parents):
            if is_file(place / REPOSITORY_FILE):
                return place / REPOSITORY_FILE
            if (place / ".git").exists():
                return None
        return None

    def load(self, folder: Path) -> Config:
        """Return what holds for this user in a folder; what is not trusted there is left out."""
        file = self.file(folder)
        return loader.load(file.parent if file else None)

    def set_default_agent(self, name: str) -> Path:
        """Make an agent the usual one in the user's own settings; return that file."""
        file = user_file()
        lines = file.read_text(encoding="utf-8").splitlines() if is_file(file) else []
        head = next((place for place, line in enumerate(lines) if line.strip() == "[defaults]"), None)
        if head is None:
            lines += [*([""] if lines else []), "[defaults]"]
            head = len(lines) - 1
        table = [place for place, line in enumerate(lines) if place > head and line.startswith("[")]
        ours = range(head + 1, table[0] if table else len(lines))
        kept = [line for place, line in enumerate(lines) if place not in ours or not AGENT_KEY.match(line)]
        kept.insert(head + 1, f'agent = "{name}"')
        text = "\n".join(kept) + "\n"
        tomllib.loads(text)
        file.parent.mkdir(parents=True, exist_ok=True)
        whole = file.with_suffix(".new")
        whole.write_text(text, encoding="utf-8")
        whole.replace(file)
        return file

    def trust(self, file: Path, content: bytes) -> None:
        """Remember that the user trusts this file with this content, and what it starts as that is now."""
        Trust(self._home).add(fingerprint(file, content), of=file_mark(file, content))

    def started_files(self, file: Path, content: bytes) -> tuple[list[str], bool]:
        """Return the files of the repository that this content of its settings starts, and whether these are all."""
        from corral.config.started_files import started_files  # noqa: PLC0415 -- rarely needed

        started = started_files(file.parent, content)
        return [str(path.relative_to(file.parent.resolve())) for path in started.files], started.whole
