"""Which settings hold in a folder, and which files a person trusts."""

from __future__ import annotations

from pathlib import Path

from corral import config
from corral.world.trust import Trust


class Settings:
    """Settings as front ends ask for them."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def file(self, folder: Path) -> Path | None:
        """Return the repository's settings file that holds for `folder`."""
        for place in (folder.resolve(), *folder.resolve().parents):
            if (place / config.REPOSITORY_FILE).is_file():
                return place / config.REPOSITORY_FILE
            if (place / ".git").exists():
                return None
        return None

    def load(self, folder: Path) -> config.Config:
        """Return what holds for this person in a folder; what is not trusted there is left out."""
        file = self.file(folder)
        return config.load(file.parent if file else None)

    def trust(self, file: Path, content: bytes) -> None:
        """Remember that the person trusts this file with this content."""
        Trust(self._home).add(config.fingerprint(file, content))
