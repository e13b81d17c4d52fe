"""A PostgreSQL server of the tests' own: an ordinary user's, on a socket in a temporary folder."""

import contextlib
import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path

import psycopg

from corral.store.postgres.store import Store

QUICK = ("fsync=off", "full_page_writes=off", "shared_buffers=16MB", "max_connections=200", "autovacuum=off")


class Server:
    """A server that is up; each test has a database of its own in it."""

    def __init__(self, folder: Path, settings: tuple[str, ...] = QUICK) -> None:
        self.folder, self._settings = folder, settings
        self._numbers, self._made = itertools.count(1), False

    def make(self) -> None:
        self._run("initdb", "-D", "data", "-U", "corral", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N")

    def start(self) -> None:
        words = " ".join(f"-c {each}" for each in self._settings)
        options = f"-c listen_addresses= -c unix_socket_directories={self.folder} {words}"
        self._run("pg_ctl", "-D", "data", "-l", "log", "-w", "-t", "60", "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        self._run("pg_ctl", "-D", "data", "-w", "-m", mode, "stop")

    def url(self, database: str) -> str:
        return f"postgresql://corral@/{database}?host={self.folder}"

    def database(self, *, empty: bool = False) -> str:
        """Make a database, with a new store in it unless it is to be empty; return its address."""
        name = f"store{next(self._numbers)}"
        if not empty and not self._made:
            self.ask("postgres", "CREATE DATABASE made")
            Store(self.folder / "home", self.url("made")).close()
            self._made = True
        self.ask("postgres", f"CREATE DATABASE {name} TEMPLATE {'template0' if empty else 'made'}")
        return self.url(name)

    def ask(self, database: str, query: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(query)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def _run(self, program: str, *words: str) -> None:
        as_user = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups") if os.getuid() == 0 else ()
        ran = subprocess.run(
            [*as_user, str(_programs() / program), *words],
            cwd=self.folder,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
        assert ran.returncode == 0, ran


def _programs() -> Path:
    """Return where Debian has the programs of a server; its `pg_config` is that of another package."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    named = shutil.which("initdb")
    assert named, "there is no PostgreSQL: apt-get install postgresql"
    return Path(named).parent


@contextlib.contextmanager
def server() -> Generator[Server]:
    with tempfile.TemporaryDirectory(prefix="corral-pg-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        if os.getuid() == 0:
            os.chown(folder, 65534, 65534)
        made = Server(folder)
        made.make()
        made.start()
        try:
            yield made
        finally:
            made.stop()
