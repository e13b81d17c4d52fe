"""Real repositories, and a fingerprint that shows whether anybody touched a checkout."""

import atexit
import functools
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

GIT_ENV = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "Person",
    "GIT_AUTHOR_EMAIL": "person@example.org",
    "GIT_COMMITTER_NAME": "Person",
    "GIT_COMMITTER_EMAIL": "person@example.org",
}
OPEN = ("-c", "protocol.file.allow=always", "-c", "safe.directory=*")


def git(folder: Path, *arguments: str) -> str:
    """Run git as the person would; return what it printed."""
    done = subprocess.run(
        ["git", *OPEN, *arguments], cwd=folder, env=GIT_ENV, capture_output=True, check=False, timeout=120
    )
    assert done.returncode == 0, f"git {' '.join(arguments)}: {done.stderr.decode()}"
    return done.stdout.decode(errors="replace").strip()


@functools.cache
def _template(files: tuple[tuple[str, str], ...], bare: bool) -> Path:
    """Return a repository to copy: most tests start from the same few."""
    folder = Path(tempfile.mkdtemp(prefix="corral-template-"))
    atexit.register(shutil.rmtree, folder)
    repo = Repo(folder / "repo")
    repo.folder.mkdir()
    repo.git("init", "--quiet", "--initial-branch=main", *(["--bare"] if bare else []))
    if files:
        repo.commit(dict(files))
    return repo.folder


class Repo:
    """A repository in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def make(cls, folder: Path, files: dict[str, str] | None = None, *, bare: bool = False) -> "Repo":
        """Make a repository with one commit; without any when `files` is empty."""
        if files is None:
            files = {"a.txt": "one\n", "src/b.txt": "two\n"}
        shutil.copytree(_template(tuple(files.items()), bare), folder, symlinks=True)
        repo = cls(folder)
        if files:
            repo.git("update-index", "--refresh")  # the copies are other files than those that the index knows
        return repo

    def git(self, *arguments: str) -> str:
        return git(self.folder, *arguments)

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def commit(self, files: dict[str, str], message: str = "a change") -> str:
        self.write(files)
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", message)
        return self.head

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def refs(self, *patterns: str) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname)", *patterns).splitlines()

    def read(self, commit: str, path: str) -> str:
        """Return a file as it is in a commit."""
        return self.git("show", f"{commit}:{path}")

    def files(self, commit: str) -> list[str]:
        return self.git("ls-tree", "-r", "--name-only", commit).splitlines()

    def receipt(self, commit: str) -> dict[str, Any]:
        return json.loads(self.git("notes", "--ref=refs/notes/corral", "show", commit))

    def fingerprint(self) -> dict[str, str]:
        """Return every file of the checkout by mode and content, and of .git what a person works with."""
        found: dict[str, str] = {}
        for root, folders, names in os.walk(self.folder):
            if Path(root) == self.folder and ".git" in folders:
                folders.remove(".git")
            for name in (*names, *folders):
                path = Path(root, name)
                about = path.lstat()
                content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
                key = str(path.relative_to(self.folder))
                found[key] = f"{about.st_mode:o} {about.st_uid} {hashlib.sha256(content).hexdigest()}"
        git_dir = Path(self.git("rev-parse", "--absolute-git-dir"))
        for name in ("HEAD", "index", "config", "FETCH_HEAD", "ORIG_HEAD", "logs/HEAD"):
            path = git_dir / name
            found[f".git/{name}"] = hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "none"
        refs = self.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        own = ("refs/heads/corral/", "refs/corral/", "refs/notes/corral ")
        found["refs"] = "\n".join(ref for ref in refs if not ref.startswith(own))
        return found
