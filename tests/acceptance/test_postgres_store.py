"""The whole product on a store in PostgreSQL, and addresses of stores that are of no use."""

import pytest

from tests.rig.command import Corral
from tests.rig.postgres import Server, server
from tests.rig.waiting import until


@pytest.fixture
def shared(corral: Corral, postgres: Server) -> Corral:
    """The command with its store in a new, empty database."""
    corral.env["CORRAL_STORE"] = postgres.database(empty=True)
    return corral


def test_a_run_is_stored_listed_shown_and_merged(shared: Corral) -> None:
    shared.agent("mine", "echo new > c.txt; echo it is done")
    repo = shared.repo()
    ran = shared.run(repo, "write c", "--agent", "mine", "--check", "grep -q new c.txt")
    assert ran.code == 0, ran
    assert not (shared.home / "corral.db").exists()
    assert [each["task"] for each in shared("ls", "--json", cwd=repo.folder).json] == ["write c"]
    assert shared("show", "@last", cwd=repo.folder).code == 0
    assert shared("merge", "@last", cwd=repo.folder).code == 0
    assert (repo.folder / "c.txt").read_text() == "new\n"
    found = shared("store", "check", "--json").json
    assert (found["kind"], found["sound"], found["runs"], found["attempts"]) == ("postgresql", True, 1, 1)
    assert found["where"].startswith("postgresql://corral@/store")


def test_the_settings_of_the_user_name_it_and_those_of_a_repository_may_not(corral: Corral, postgres: Server) -> None:
    corral.config(f'[store]\nurl = "{postgres.database()}"\n')
    assert corral("store", "check", "--json").json["kind"] == "postgresql"
    repo = corral.repo(files={"corral.toml": '[store]\nurl = "postgresql://elsewhere/x"\n'})
    refused = corral.run(repo, "x", "--agent", "shell")
    assert refused.code == 2
    assert "[store] is yours to say" in refused.err


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://db/x", "`mysql` is no kind of store"),
        ("postgresql://u:secret-word@127.0.0.1:1/x", "127.0.0.1"),
        ("nothing", "`nothing` is no kind of store"),
    ],
)
def test_an_address_of_no_use_is_one_line_and_exit_2(corral: Corral, url: str, words: str) -> None:
    found = corral("ls", env={"CORRAL_STORE": url})
    assert found.code == 2, found
    assert words in found.err
    assert "hint:" in found.err
    assert "Traceback" not in found.err
    assert "secret-word" not in found.err


def test_everything_is_copied_there_and_back(corral: Corral, postgres: Server) -> None:
    corral.agent("mine", "echo new > c.txt; echo it is done")
    repo = corral.repo()
    assert corral.run(repo, "write c", "--agent", "mine").code == 0
    before, events = corral("show", "@last", "--json").json, corral.events("@last")
    url = postgres.database(empty=True)
    copied = corral("store", "copy", "--to", url)
    assert copied.code == 0, copied
    assert "runs: 1 rows" in copied.err
    assert corral("store", "copy", "--to", url).code == 2  # it is not empty any more
    corral.env["CORRAL_STORE"] = url
    assert corral("show", "@last", "--json").json == before
    assert corral.events("@last") == events
    assert corral.run(repo, "again", "--agent", "mine").code == 0  # numbers continue
    assert corral("store", "copy", "--to", f"sqlite://{corral.root}/back").code == 0
    del corral.env["CORRAL_STORE"]
    back = corral("ls", "--json", env={"CORRAL_HOME": f"{corral.root}/back"}).json
    assert [each["task"] for each in back] == ["again", "write c"]


def test_a_run_outlives_a_restart_of_the_server(corral: Corral) -> None:
    with server() as own:
        corral.env["CORRAL_STORE"] = own.database()
        repo = corral.repo()
        corral.agent("slow", "echo begun; sleep 3; echo new > c.txt")
        with corral.going("run", "write c", "--agent", "slow", cwd=repo.folder) as running:
            until(
                lambda: own.ask("store1", "SELECT 1 FROM events WHERE body LIKE '%begun%'"), "what it printed is stored"
            )
            own.stop()
            own.start()
            assert running.process.wait(60) == 0
        assert corral("show", "@last", "--json").json["status"] == "done"
