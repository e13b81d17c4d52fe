"""Stores as older versions wrote them, kept as text: made by `tools/make_golden.py`, opened by tests."""

import json
import os
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

from tests.rig.repository import GIT_ENV

FOLDER = Path(__file__).parent.parent / "golden"
DATES = {"GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z"}
OWNER = "elsewhere/boot/1/1"  #: who drove the run that was cut off; nobody any more


def repository(folder: Path) -> Path:
    """Make the repository that all of them work on: the same commit, by name, wherever it is made."""
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("one\n")
    for arguments in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "begin"]):
        subprocess.run(["git", *arguments], cwd=folder, env={**GIT_ENV, **DATES}, check=True, timeout=60)
    return folder


def dump(home: Path, repo: Path) -> str:
    """Return a store as text, without the folders and the machine it was made on."""
    with sqlite3.connect(home / "corral.db") as database:
        schema = [row[0] for row in database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")]
        version = database.execute("PRAGMA user_version").fetchone()[0]
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        database.execute("UPDATE runs SET owner = ? WHERE owner IS NOT NULL", (OWNER,))
        rows = {
            name: [[_text(value, home, repo) for value in row] for row in database.execute(f"SELECT * FROM {name}")]
            for name in tables
            if not name.startswith("sqlite_")
        }
    kept = [sql for sql in schema if "sqlite_sequence" not in sql]
    return json.dumps({"version": version, "schema": kept, "rows": rows}, indent=1, ensure_ascii=False) + "\n"


def restore(name: str, home: Path, repo: Path) -> None:
    """Make a store from a text, for these folders."""
    told = json.loads((FOLDER / name).read_text())
    home.mkdir(parents=True)
    with sqlite3.connect(home / "corral.db") as database:
        triggers = [sql for sql in told["schema"] if sql.startswith("CREATE TRIGGER")]
        for sql in told["schema"]:
            if sql not in triggers:
                database.execute(sql)
        for table, rows in told["rows"].items():
            for row in rows:
                values = [_value(value, home, repo) for value in row]
                database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)
        for sql in triggers:  # they make rows that are in the text
            database.execute(sql)
        database.execute(f"PRAGMA user_version = {told['version']}")


def _text(value: Any, home: Path, repo: Path) -> Any:
    if isinstance(value, bytes):
        return {"blob": _text(value.decode(), home, repo)}
    if isinstance(value, str):
        value = (
            value.replace(str(home), "@HOME@").replace(str(repo), "@REPO@").replace(os.uname().nodename, "elsewhere")
        )
    return value


def _value(value: Any, home: Path, repo: Path) -> Any:
    if isinstance(value, dict):
        return _value(value["blob"], home, repo).encode()
    return value.replace("@HOME@", str(home)).replace("@REPO@", str(repo)) if isinstance(value, str) else value
