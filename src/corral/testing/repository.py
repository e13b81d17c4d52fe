"""A small repository for a test, made with git alone."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

ENV = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "User",
    "GIT_AUTHOR_EMAIL": "user@example.org",
    "GIT_COMMITTER_NAME": "User",
    "GIT_COMMITTER_EMAIL": "user@example.org",
}


def git(folder: Path, *arguments: str) -> str:
    """Run git as a user would; return what it printed."""
    words = ["git", "-c", "safe.directory=*", *arguments]
    done = subprocess.run(words, cwd=folder, env=ENV, capture_output=True, check=False, timeout=120)
    if done.returncode != 0:
        raise AssertionError(f"git {' '.join(arguments)}: {done.stderr.decode()}")
    return done.stdout.decode(errors="replace").strip()


def make_repository(folder: Path, files: Mapping[str, str]) -> Path:
    """Make a repository with one commit."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    for name, text in files.items():
        (folder / name).write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "the base")
    return folder
