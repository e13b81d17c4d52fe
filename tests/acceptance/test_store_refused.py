"""A database that cannot be used: one line with a way out, exit 2, nothing started, and no password anywhere."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.rig.command import Corral, Outcome
from tests.rig.postgres import Server, server

pytestmark = pytest.mark.slow  # left out of `make quick`

RIGHT, WRONG = "right-word-0123456789", "wrong-word-9876543210"
WHO = "local all corral trust\nlocal all all scram-sha-256\n"


@pytest.fixture(scope="module")
def locked() -> Generator[Server]:
    """A server that asks for passwords: of one who may do everything, and of one who may only read."""
    with server() as own:
        url = own.database()
        name = url.partition("@/")[2].partition("?")[0]
        for role in ("writer", "reader"):
            own.ask(name, f"CREATE ROLE {role} LOGIN PASSWORD '{RIGHT}'")
        own.ask(name, "GRANT ALL ON ALL TABLES IN SCHEMA public TO writer")
        own.ask(name, "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO writer")
        own.ask(name, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
        (own.folder / "data" / "pg_hba.conf").write_text(WHO)
        own.ask(name, "SELECT pg_reload_conf()")
        yield own


def address(locked: Server, user: str, password: str, database: str = "store1") -> str:
    return f"postgresql://{user}:{password}@/{database}?host={locked.folder}"


def refused(outcome: Outcome, words: str, hint: str) -> None:
    lines = outcome.err.splitlines()
    assert outcome.code == 2, outcome
    assert [words in line for line in lines if line.startswith("error: ")] == [True], outcome
    assert [hint in line for line in lines if line.startswith("hint: ")] == [True], outcome
    assert "Traceback" not in outcome.err
    assert RIGHT not in outcome.out + outcome.err
    assert WRONG not in outcome.out + outcome.err


COMMANDS = (("ls",), ("run", "t", "--agent", "mine"), ("serve", "--port", "0"), ("store", "check"), ("resume", "@last"))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_wrong_password_is_one_line(corral: Corral, locked: Server, words: tuple[str, ...]) -> None:
    corral.agent("mine", "echo x > x.txt")
    outcome = corral(*words, cwd=corral.repo().folder, env={"CORRAL_STORE": address(locked, "writer", WRONG)})
    refused(outcome, 'password authentication failed for user "writer"', "~/.pgpass")


def test_a_database_that_is_not_there_is_named(corral: Corral, locked: Server) -> None:
    outcome = corral("ls", env={"CORRAL_STORE": address(locked, "writer", RIGHT, "nothing")})
    refused(outcome, 'database "nothing" does not exist', "createdb")


def test_a_server_that_is_gone_is_named_and_the_way_to_look(corral: Corral, locked: Server, tmp_path: Path) -> None:
    corral.agent("mine", "echo x > x.txt")
    gone = address(locked, "writer", RIGHT).replace(str(locked.folder), str(tmp_path))
    for words in (("ls",), ("run", "t", "--agent", "mine")):
        refused(corral(*words, cwd=corral.repo(words[0]).folder, env={"CORRAL_STORE": gone}), "No such file", "psql")


def test_one_who_may_only_read_looks_and_starts_nothing(corral: Corral, locked: Server) -> None:
    corral.agent("mine", "echo x > x.txt")
    repo = corral.repo()
    corral.env["CORRAL_STORE"] = address(locked, "writer", RIGHT)
    assert corral.run(repo, "t", "--agent", "mine").code == 0
    corral.env["CORRAL_STORE"] = address(locked, "reader", RIGHT)
    before = corral("ls", "--json").json
    assert [each["task"] for each in before] == ["t"]
    for words in (("run", "u", "--agent", "mine"), ("halt",), ("serve", "--port", "0")):
        refused(corral(*words, cwd=repo.folder), "cannot be written to", "a user that may write")
    assert corral("ls", "--json").json == before
    assert len(repo.refs("refs/heads/corral")) == 1


def test_the_password_is_in_nothing_that_is_printed_or_kept(corral: Corral, locked: Server) -> None:
    corral.agent("mine", "env > env.txt; cat /proc/*/environ /proc/*/cmdline > seen.txt 2>/dev/null; echo done")
    repo = corral.repo()
    corral.env["CORRAL_STORE"] = address(locked, "writer", RIGHT)
    outcomes = [
        corral.run(repo, "t", "--agent", "mine"),
        corral("store", "check", "--json"),
        corral("doctor"),
        corral("export"),
        corral("logs", "@last", "--json"),
    ]
    assert [each.code for each in outcomes] == [0] * 5, outcomes
    assert all(RIGHT not in each.out + each.err for each in outcomes)
    assert "PATH=" in repo.read(outcomes[0].attempt["commit"], "env.txt")
    for name in ("env.txt", "seen.txt"):
        assert RIGHT not in repo.read(outcomes[0].attempt["commit"], name)
    kept = [path for path in corral.home.rglob("*") if path.is_file() and not path.is_symlink()]
    assert kept
    assert [path for path in kept if RIGHT.encode() in path.read_bytes()] == []
