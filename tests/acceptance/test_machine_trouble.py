"""A machine that is not as it should be: git missing or old, a state folder or database that cannot be used."""

import contextlib
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from corral.model.errors import CorralError
from corral.world import machine_limits
from tests.acceptance.test_bad_requests import refused
from tests.rig.command import PROGRAM, Corral, Outcome
from tests.rig.levels import BOXED
from tests.rig.mounts import in_private_mounts
from tests.rig.person import Person
from tests.rig.repository import Repo
from tests.rig.tries import BY_NIGHT

pytestmark = pytest.mark.slow  # left out of `make quick`


@pytest.fixture
def ready(corral: Corral) -> Corral:
    corral.agent("mine", "echo x > x; echo words")
    return corral


@pytest.fixture
def repo(ready: Corral) -> Repo:
    return ready.repo()


def troubled(outcome: Outcome, *words: str) -> None:
    """Assert that a trouble was told in one line with a way out, and no traceback."""
    assert outcome.code in (1, 2), outcome
    lines = outcome.err.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    assert len(errors) == 1, outcome
    assert any(line.startswith("hint: ") for line in lines), outcome
    assert "corral itself failed" not in outcome.err
    assert "Traceback" not in outcome.err
    assert all(word in outcome.err for word in words), outcome


def without_git(ready: Corral, repo: Repo, *fake: str) -> Outcome:
    """Run in private mounts where /usr/bin/git is not git."""
    hidden = ready.root / "git"
    hidden.write_text("\n".join(fake))
    hidden.chmod(0o755 if fake else 0o644)
    with in_private_mounts(f"mount --bind {hidden} /usr/bin/git", ready.program) as program:
        return Corral(ready.root / "other", program)("run", "t", "--repo", repo.folder, env=ready.env)


def test_git_is_missing(ready: Corral, repo: Repo) -> None:
    refused(without_git(ready, repo), "git", hint="install")


def test_git_is_too_old(ready: Corral, repo: Repo) -> None:
    outcome = without_git(ready, repo, "#!/bin/sh", "echo git version 2.20.1")
    refused(outcome, "2.20.1", "too old", hint="2.38")


def test_a_git_that_says_nothing_useful(ready: Corral, repo: Repo) -> None:
    outcome = without_git(ready, repo, "#!/bin/sh", "echo segmentation fault >&2; exit 139")
    refused(outcome, "git")


def test_a_git_on_the_persons_path_is_not_asked(ready: Corral, repo: Repo) -> None:
    fake = ready.root / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho git version 1.0; touch asked\n")
    fake.chmod(0o755)
    path = f"{fake.parent}:{ready.env['PATH']}"
    outcome = ready.run(repo, "t", "--agent", "mine", env={"PATH": path})
    assert outcome.code == 0, outcome
    assert not (repo.folder / "asked").exists()


def test_a_state_folder_that_is_a_file(ready: Corral, repo: Repo) -> None:
    ready.home.write_text("")
    for outcome in (ready.run(repo, "t", "--agent", "mine"), ready("ls"), ready("show", "@last")):
        troubled(outcome, "CORRAL_HOME")


def test_a_state_folder_on_a_read_only_disk(ready: Corral, repo: Repo) -> None:
    ready.home.mkdir()
    steps = f"mount -t tmpfs -o ro none {ready.home}"
    with in_private_mounts(steps, ready.program) as program:
        outcome = Corral(ready.root / "other", program)("run", "t", "--repo", repo.folder, env=ready.env)
    troubled(outcome, str(ready.home))
    assert repo.refs("refs/corral", "refs/heads/corral") == []


READING = ("ls", "show @last", "logs @last", "diff @last", "cost", "inbox", "export", "budget", "compare @last")
WRITING = ("run t --agent mine", "retry @last", "budget set --per-day 3", "merge @last", "halt")
#: By day every command is tried on the folder that is hardest to read, and some of them on the others.
SOME = ("logs @last", "cost", "run t --agent mine")


@pytest.mark.parametrize("kind", ["closed", "logged", "logged without an index", "older"])
def test_a_state_folder_that_became_read_only_can_be_looked_at(ready: Corral, repo: Repo, kind: str) -> None:
    ready.run(repo, "t", "--agent", "mine")
    home = ready.home.rename(ready.root / "before")
    with contextlib.closing(sqlite3.connect(home / "corral.db", isolation_level=None)) as database:
        if kind == "older":
            for column in ("epoch", "clock", "seconds"):
                database.execute(f"ALTER TABLE runs DROP COLUMN {column}")
            database.execute("ALTER TABLE attempts DROP COLUMN epoch")
            database.execute("DELETE FROM migrations WHERE number = 18")
        elif kind != "closed":
            database.execute("UPDATE runs SET reason = 'only in the log'")
            assert (home / "corral.db-wal").stat().st_size
        shutil.copytree(home, ready.home)
    if kind == "logged without an index":
        (ready.home / "corral.db-shm").unlink()
    steps = f"mount --bind {ready.home} {ready.home} && mount -o remount,ro,bind {ready.home}"
    tried = READING + WRITING if kind == "logged without an index" or BY_NIGHT else SOME
    with in_private_mounts(steps, ready.program) as program:
        other = Corral(ready.root / "other", program)
        for command in (each for each in READING if each in tried):
            outcome = other(*command.split(), cwd=repo.folder, env=ready.env)
            assert outcome.code == 0, outcome
        shown = other("show", "@last", "--json", env=ready.env).json
        assert (shown["reason"] == "only in the log") == kind.startswith("logged")
        for command in (each for each in WRITING if each in tried):
            outcome = other(*command.split(), cwd=repo.folder, env=ready.env)
            troubled(outcome, str(ready.home))
            assert outcome.code == 2, outcome
        store = next(part for part in other("doctor", "--json", env=ready.env).json["parts"] if part["name"] == "store")
        assert (store["ok"], "read-only" in store["found"]) == (False, True)
    assert len(ready("ls", "--json").json) == 1


def test_an_ordinary_user_looks_at_a_state_folder_they_may_not_write(person: Person) -> None:
    person.agent("mine", "echo x > x")
    repo = person.repo()
    person.run(repo, "t", "--agent", "mine")
    person.home.chmod(0o500)
    try:
        assert person("show", "@last", "--json").json["status"] == "done"
        outcome = person.run(repo, "t", "--agent", "mine")
    finally:
        person.home.chmod(0o700)
    troubled(outcome, str(person.home))
    assert outcome.code == 2


def test_a_database_written_by_a_newer_corral(ready: Corral, repo: Repo) -> None:
    ready.run(repo, "t", "--agent", "mine")
    with contextlib.closing(sqlite3.connect(ready.home / "corral.db")) as database:
        database.execute("PRAGMA user_version = 9999")
    before = (ready.home / "corral.db").read_bytes()
    for outcome in (ready.run(repo, "t", "--agent", "mine"), ready("ls"), ready("export")):
        troubled(outcome, "newer", "9999", "upgrade")
    assert (ready.home / "corral.db").read_bytes() == before


def test_a_file_that_is_no_database(ready: Corral, repo: Repo) -> None:
    ready.home.mkdir()
    (ready.home / "corral.db").write_bytes(b"rubbish " * 1000)
    for outcome in (ready.run(repo, "t", "--agent", "mine"), ready("ls"), ready("doctor")):
        assert "not a database" in outcome.out + outcome.err, outcome
        assert outcome.code == 1
    assert (ready.home / "corral.db").read_bytes() == b"rubbish " * 1000


@pytest.fixture
def damaged(ready: Corral, repo: Repo) -> Corral:
    ready.run(repo, "t", "--agent", "mine")
    file = ready.home / "corral.db"
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        pages = [row[0] for row in database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'events'")]
        size = database.execute("PRAGMA page_size").fetchone()[0]
    content = bytearray(file.read_bytes())
    content[(pages[0] - 1) * size : pages[0] * size] = b"\xff" * size
    file.write_bytes(content)
    return ready


def test_a_damaged_database_is_told_with_a_way_out(damaged: Corral) -> None:
    troubled(damaged("logs", "@last"), "export")
    doctor = damaged("doctor", "--json")
    assert doctor.code == 1
    assert [part["name"] for part in doctor.json["parts"] if not part["ok"]] == ["store"]


def test_export_saves_what_can_be_read_of_a_damaged_database(damaged: Corral) -> None:
    outcome = damaged("export")
    assert "damaged" in outcome.err
    assert outcome.json_lines[0]["task"] == "t"
    assert "corral itself failed" not in outcome.err


@pytest.mark.slow
def test_a_database_that_another_program_locks(ready: Corral, repo: Repo) -> None:
    ready.run(repo, "t", "--agent", "mine")
    with contextlib.closing(sqlite3.connect(ready.home / "corral.db", isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        outcome = ready.run(repo, "t", "--agent", "mine")
        assert len(ready("ls", "--json").json) == 1  # looking needs no lock
        database.execute("ROLLBACK")
    troubled(outcome, "locked", "try again")
    assert ready.run(repo, "t", "--agent", "mine").code == 0


def test_state_of_other_users_is_private(ready: Corral, repo: Repo) -> None:
    ready.run(repo, "t", "--agent", "mine")
    assert ready.home.stat().st_mode & 0o077 == 0


def test_the_program_is_the_installed_one(ready: Corral) -> None:
    assert Path(ready.program[0]) == PROGRAM
    assert os.access(PROGRAM, os.X_OK)


@pytest.mark.parametrize("found", ["missing", "empty", "no tables", "another's tables"])
def test_a_missing_database_is_never_replaced_without_a_word(ready: Corral, repo: Repo, found: str) -> None:
    ready.run(repo, "t", "--agent", "mine")
    database = ready.home / "corral.db"
    database.unlink()
    if found == "empty":
        database.touch()
    elif found != "missing":
        with contextlib.closing(sqlite3.connect(database)) as other:
            other.execute("CREATE TABLE theirs (a)")
            other.execute("DROP TABLE theirs" if found == "no tables" else "INSERT INTO theirs VALUES (1)")
            other.commit()
    before = database.read_bytes() if database.exists() else None
    for outcome in (ready("ls"), ready.run(repo, "t", "--agent", "mine")):
        refused(outcome, str(database), "logs/ (1)", hint="corral doctor --new-store")
    assert (database.read_bytes() if database.exists() else None) == before
    if found == "another's tables":
        refused(ready("doctor", "--new-store"), "is there", hint="move")
        database.unlink()
    assert "--new-store" in ready("doctor").out
    assert "(ok;" in ready("doctor", "--new-store").out
    assert ready("ls", "--json").json == []
    again = ready.run(repo, "t", "--agent", "mine")
    assert again.code == 0, again
    refused(ready("doctor", "--new-store"), "is there", hint="move")
    database.unlink()
    troubled(ready("ls"), "--new-store")


def test_a_new_store_says_what_it_does_not_know_of_a_repository(ready: Corral, repo: Repo) -> None:
    ready.run(repo, "t", "--agent", "mine")
    other = ready("run", "t", "--repo", repo.folder, "--agent", "mine", env={"CORRAL_HOME": str(ready.root / "new")})
    assert other.code == 0, other
    assert "holds the work of 1 attempt (refs/corral)" in other.err
    assert "holds the work" not in ready("run", "t", "--repo", repo.folder, "--agent", "mine").err


def test_a_database_that_is_removed_while_a_run_is_driven(ready: Corral, repo: Repo) -> None:
    agent = ready.script(
        '[[step]]\nsay = "ready"\n[[step]]\nrun = "until test -e go; do sleep 0.05; done; echo x > x"\n'
    )
    with ready.going("run", "t", "--repo", repo.folder, "--agent", agent, "--json") as going:
        ready.until_said("ready")
        (ready.home / "corral.db").unlink()
        workspace = next((ready.home / "workspaces").glob("*/work"))
        (workspace / "go").touch()
        outcome = going.end()
    troubled(outcome, "removed", "branches")
    assert outcome.code == 1
    assert outcome.json["status"] == "done"
    assert repo.read(outcome.attempt["branch"], "x") == "x"


def limited(ready: Corral, repo: Repo, limit: str) -> Outcome:
    """Run a task in a shell that limits what its programs may use."""
    shell = Corral(
        ready.root / f"limited-{limit.replace(' ', '')}", ["sh", "-c", f'{limit}; exec "$@"', "sh", *ready.program]
    )
    return shell("run", "t", "--repo", repo.folder, "--agent", "mine", "--json", env=ready.env)


@pytest.mark.parametrize(
    ("limit", "word"),
    [
        ("ulimit -n 16", "open files"),
        ("ulimit -n 24", "open files"),
        ("ulimit -f 20", "file size"),
        ("ulimit -v 50000", "memory"),
    ],
)
def test_a_limit_that_is_reached_is_named(ready: Corral, repo: Repo, limit: str, word: str) -> None:
    outcome = limited(ready, repo, limit)
    troubled(outcome, word, limit.rpartition(" ")[0])
    again = ready.run(repo, "t", "--agent", "mine")  # nothing wrong was remembered of the sandbox
    assert (again.code, again.attempt["sandbox"]["level"] in BOXED) == (0, True), again


def test_without_processes_it_is_not_tried_again(ready: Corral, repo: Repo) -> None:
    """Each try would be paid and meet the same limit."""
    outcome = limited(ready, repo, "ulimit -u 4")
    if not outcome.out:  # not even git could be started
        troubled(outcome, "processes", "ulimit -u")
        return
    tries = outcome.json["nodes"][0]["attempts"]
    assert len(tries) == 1, outcome
    assert not tries[0]["error"] or "its limit of processes or threads" in tries[0]["error"]["message"], outcome


def test_each_way_to_say_that_there_are_no_processes_is_known() -> None:
    for words in ("collect: 7: Cannot fork", "bash: fork: retry: Resource temporarily unavailable"):
        short = machine_limits.of(CorralError(f"the work cannot be collected: {words}"))
        assert short, words
        assert "ulimit" in str(short.hint)


@pytest.mark.parametrize("limit", ["ulimit -n 64", "ulimit -v 200000", "ulimit -v 400000", "ulimit -f 400"])
def test_under_a_limit_what_is_done_is_reported_done(ready: Corral, repo: Repo, limit: str) -> None:
    outcome = limited(ready, repo, limit)
    assert "corral itself failed" not in outcome.err
    assert "Traceback" not in outcome.err
    if outcome.out:  # how the run ended is reported, whatever failed after it
        assert outcome.json["status"] == ready("show", "@last", "--json").json["status"]
        assert outcome.code == (0 if outcome.json["status"] == "done" else 1)
    else:
        troubled(outcome, limit.rpartition(" ")[0])
        assert "done" not in [line["status"] for line in ready("ls", "--json").json]


DIES = """
import os, sys
if "resume" in sys.orig_argv:
    os.write(2, b"error: its memory is used up\\nhint: wait\\n")
    os._exit(137)
"""


def test_a_process_in_the_background_that_dies_at_its_start_is_reported(ready: Corral, repo: Repo) -> None:
    """Nobody drives its run then: whoever started it must not believe that it is at work."""
    packages = ready.root / "packages"
    packages.mkdir()
    (packages / "sitecustomize.py").write_text(DIES)
    words = ("run", "t", "--repo", repo.folder, "--agent", "mine", "--detach")
    outcome = ready(*words, env={"PYTHONPATH": str(packages)})
    assert "started in the background" not in outcome.err
    troubled(outcome, "its memory is used up", "corral resume ")
    (run,) = ready("ls", "--json").json
    assert run["status"] == "queued"
    assert ready("resume", run["run"]).code == 0
