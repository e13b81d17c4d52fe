"""The workspace, and which paths a model may name in it."""

from __future__ import annotations

import os
from pathlib import Path

from corral.boxed.loop.programs import CommandResult, run

MOST_FILES = 20_000


class ToolRefused(Exception):
    """A model asked for something that it may not have; the words go back to it."""


class LoopWorkspace:
    """A workspace: everything the tools touch lies in it."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))

    def inside(self, name: str) -> Path:
        """Return the real path that `name` leads to; refuse whatever leads out, by `..`, absolutely or by a symlink."""
        try:
            path = Path(os.path.realpath(self.root / name))
        except (ValueError, OSError) as error:
            raise ToolRefused(f"{name!r}: {error}") from error
        if not name or not path.is_relative_to(self.root):
            raise ToolRefused(f"{name!r} is not in the workspace: name files relative to it")
        return path

    def writable_path(self, name: str) -> Path:
        """Return the real path of a file that may be written: git's own are not for that."""
        path = self.inside(name)
        if path == self.root or path.is_dir():
            raise ToolRefused(f"{name!r} is a folder")
        if any(part.lower() == ".git" for part in path.relative_to(self.root).parts):
            raise ToolRefused(f"{name!r} belongs to git: use git itself")
        return path

    def strict_path(self, name: str) -> Path:
        """Return the path of a file named in an answer: relative, without `..`, through no symlink."""
        if name.startswith(("/", "~", "\\")) or "\\" in name or name[1:2] == ":" or ".." in name.split("/"):
            raise ToolRefused(f"{name!r} is not in the workspace: name files relative to it")
        path = self.writable_path(name)
        if path != Path(os.path.normpath(self.root / name)):
            raise ToolRefused(f"{name!r} leads through a symlink")
        return path

    def name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def write(self, path: Path, text: str) -> None:
        """Write a file, and the folders above it; what UTF-8 cannot hold becomes `?`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "replace"))

    def files(self) -> list[str]:
        """List the files that git would keep, or all where there is no git; never what lies in .git."""
        listed = self.git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
        if listed.code == 0 and not listed.cut:
            names = [name for name in listed.output.split("\0") if name and (self.root / name).is_file()]
            return sorted(names)[:MOST_FILES]
        return self._walk()

    def git(self, *arguments: str, most: int = 8 << 20) -> CommandResult:
        # A workspace may belong to another user; quoting of odd names would hide them.
        words = ["git", "-c", "safe.directory=*", "-c", "core.quotePath=false", *arguments]
        return run(words, self.root, timeout=120, most=most)

    def _walk(self) -> list[str]:
        found: list[str] = []
        for root, folders, names in os.walk(self.root):
            folders[:] = sorted(folder for folder in folders if folder not in {".git", "node_modules", ".venv"})
            found += [self.name(Path(root, name)) for name in sorted(names)]
            if len(found) > MOST_FILES:
                break
        return found[:MOST_FILES]
