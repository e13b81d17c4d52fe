"""A race whose best are only unharmed has no winner of its own: it waits for the user's choice, also after a crash."""

import contextlib
import sqlite3
from datetime import datetime
from typing import Any

import pytest

from tests.acceptance.test_mcp import done, play
from tests.rig.command import Corral, Outcome
from tests.rig.mcp import Person, connected
from tests.rig.repository import Repo
from tests.rig.server import serving
from tests.rig.waiting import until

FILES = {"sums.py": "def add(a, b):\n    return a + b\n"}
CHECK = "python3 -c 'import sums'"  # passes with and without the work


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo(files=FILES)


def waiting(corral: Corral, repo: Repo) -> Outcome:
    """Run a race in which nothing shows who is right."""
    corral.agent("small", "echo '# a' >> sums.py")
    corral.agent("large", "printf '# a\\n# b\\n# c\\n' >> sums.py")
    return corral.run(repo, "mend add()", "--agent", "small,large", "--check", CHECK)


def attempts(outcome: Outcome) -> dict[str, dict[str, Any]]:
    return {each["agent"]: each for each in outcome.json["nodes"][0]["attempts"]}


def entry(corral: Corral) -> dict[str, Any]:
    (found,) = corral("inbox", "--json").json
    return found


def test_a_tie_waits_and_the_answer_makes_the_winner(corral: Corral, repo: Repo) -> None:
    outcome = waiting(corral, repo)
    assert outcome.code == 3, outcome
    assert (outcome.json["status"], outcome.json["nodes"][0]["winner"]) == ("waiting", None)
    asked, found = entry(corral), attempts(outcome)
    small, large = found["small"]["id"], found["large"]["id"]
    assert (asked["about"], asked["choices"], asked["default"]) == ("choice", [small, large, "none"], "none")
    assert asked["text"] == f"none is proven better: choose one of {small} (small), {large} (large)"
    assert f"corral answer {asked['id']} {small}|{large}|none" in outcome.json["reason"]
    compared = corral("compare", "@last")
    assert "none: none is proven better: only you can choose" in compared.out
    assert "smallest change" not in compared.out
    with contextlib.closing(sqlite3.connect(corral.home / "corral.db")) as database, database:
        database.execute("UPDATE runs SET status = 'running'")  # as if its process had died before it was left
    again = corral("resume", outcome.json["run"], "--json")
    assert (again.code, again.json["status"]) == (3, "waiting")
    assert entry(corral)["id"] == asked["id"], "it is asked once"
    bad = corral("answer", asked["id"], "huge")
    assert (bad.code, "say one of:" in bad.err) == (2, True)
    said = corral("answer", asked["id"], "large")
    assert f"{large} is the winner of `main`" in said.out
    run = corral("show", "@last", "--json").json
    assert (run["status"], run["merge"]["status"]) == ("done", "ready")
    assert run["nodes"][0]["winner"] == large
    assert run["nodes"][0]["why"].startswith("chosen by ")
    rows = {each["agent"]: each["reason"] for each in corral("compare", "@last", "--json").json["nodes"][0]["attempts"]}
    assert rows["small"] == "none was proven better, and another was chosen"
    assert rows["large"].startswith("chosen by ")
    assert corral("merge", "@last", cwd=repo.folder).code == 0
    assert (repo.folder / "sums.py").read_text().endswith("# c\n")


FLOW = """
nodes:
  a: {race: [small, large], task: mend, checks: ["test -s sums.py"]}
  b: {needs: [a], run: "grep -c . sums.py"}
"""


def test_a_flow_goes_on_from_the_chosen_work(corral: Corral, repo: Repo) -> None:
    corral.agent("small", "echo '# a' >> sums.py")
    corral.agent("large", "printf '# a\\n# b\\n# c\\n' >> sums.py")
    file = corral.root / "flow.yaml"
    file.write_text(FLOW)
    outcome = corral("flow", "run", file, "--repo", repo.folder, "--json")
    assert (outcome.code, outcome.json["nodes"][1]["status"]) == (3, "queued")
    said = corral("answer", entry(corral)["id"], "large")
    assert f"continue it: corral resume {outcome.json['run']}" in said.out
    ended = corral("resume", outcome.json["run"], "--json")
    assert ended.code == 0, ended
    assert ended.json["nodes"][1]["attempts"][0]["output"].strip() == "5"
    assert corral("evidence", "@last", "--json").json["node"] == "a", "a command has no grade"


def test_a_merge_that_picks_one_chooses_it(corral: Corral, repo: Repo) -> None:
    outcome = waiting(corral, repo)
    large = attempts(outcome)["large"]["id"]
    assert corral("merge", "@last", "--pick", "large", cwd=repo.folder).code == 0
    run = corral("show", "@last", "--json").json
    assert (run["status"], run["nodes"][0]["winner"], run["merge"]["status"]) == ("done", large, "merged")
    assert corral("inbox", "--json").json == []


def test_how_long_it_waits_is_a_setting(corral: Corral, repo: Repo) -> None:
    corral.config('[evidence]\nchoice_deadline = "2h"\n')
    assert waiting(corral, repo).code == 3
    asked = entry(corral)
    left = datetime.fromisoformat(asked["deadline"]) - datetime.fromisoformat(asked["created"])
    assert left.total_seconds() == pytest.approx(7200, abs=60)
    repo.write({"corral.toml": '[evidence]\nchoice_deadline = "soon"\n'})
    refused = corral.run(repo, "mend add()", "--agent", "small,large", "--check", CHECK)
    assert (refused.code, "[evidence] choice_deadline: `soon` is not a length of time" in refused.err) == (2, True)


def test_nobody_answers_so_nobody_wins(corral: Corral, repo: Repo) -> None:
    outcome = waiting(corral, repo)
    with contextlib.closing(sqlite3.connect(corral.home / "corral.db")) as database, database:
        database.execute("UPDATE inbox SET deadline = 1.0")
    ended = corral("show", outcome.json["run"], "--json")
    assert ended.json["status"] == "failed", "nobody has to resume it for that"
    assert corral("inbox", "--json").json == []
    (node,) = ended.json["nodes"]
    assert (node["status"], node["winner"]) == ("failed", None)
    assert node["reason"].startswith("none is proven better, and nobody chose one by the deadline")
    assert all(each["branch"] for each in node["attempts"]), "their work is kept"


def stored(corral: Corral) -> list[str]:
    with contextlib.closing(sqlite3.connect(corral.home / "corral.db")) as database:
        return list(database.iterdump())


def test_looking_at_a_race_that_ended_by_its_deadline_writes_nothing(corral: Corral, repo: Repo) -> None:
    run = waiting(corral, repo).json["run"]
    with contextlib.closing(sqlite3.connect(corral.home / "corral.db")) as database, database:
        database.execute("UPDATE inbox SET deadline = 1.0")
    before = stored(corral)
    assert corral("show", run, "--json").json["status"] == "failed"
    (line,) = corral("ls", "--json").json
    assert (line["status"], line["reason"].partition(":")[0]) == (
        "failed",
        "none is proven better, and nobody chose one by the deadline",
    )
    (entry,) = corral("inbox", "--all", "--json").json
    assert (entry["answer"], entry["answered_by"]) == ("none", "deadline")
    assert corral("logs", run).code == corral("compare", run).code == corral("export", run).code == 0
    assert stored(corral) == before
    corral("stop", run)
    with contextlib.closing(sqlite3.connect(corral.home / "corral.db")) as database:
        assert database.execute("SELECT status FROM runs").fetchall() == [("failed",)], "what acts on it stores that"


def test_a_choice_too_late_counts_when_the_run_is_resumed(corral: Corral, repo: Repo) -> None:
    outcome = waiting(corral, repo)
    with contextlib.closing(sqlite3.connect(corral.home / "corral.db")) as database, database:
        database.execute("UPDATE inbox SET deadline = 1.0")
    assert corral("answer", "1", "large").code == 2
    ended = corral("resume", outcome.json["run"], "--json")
    assert (ended.code, ended.json["nodes"][0]["winner"]) == (1, None)


def test_none_is_an_answer(corral: Corral, repo: Repo) -> None:
    waiting(corral, repo)
    assert corral("answer", entry(corral)["id"], "none").code == 0
    run = corral("show", "@last", "--json").json
    assert (run["status"], run["nodes"][0]["winner"], run["merge"]["status"]) == ("failed", None, "none")


def test_a_race_that_is_done_again_asks_for_its_new_attempts_only(corral: Corral, repo: Repo) -> None:
    outcome = waiting(corral, repo)
    old = entry(corral)["id"]
    corral("retry", outcome.json["run"], "main")
    (taken_back,) = [each for each in corral("inbox", "--all", "--json").json if each["id"] == old]
    assert taken_back["outcome"] == "`main` is done again"


@pytest.mark.slow
def test_a_choice_is_made_over_http(corral: Corral, repo: Repo) -> None:
    outcome = waiting(corral, repo)
    run, large = outcome.json["run"], attempts(outcome)["large"]["id"]
    with serving(corral, corral.root) as server:
        found = server.ask("GET", f"runs/{run}/evidence?attempt={large}").json
        assert (found["attempt"], found["grade"], found["winner"]) == (large, "unharmed", False)
        assert found == corral("evidence", run, large, "--json").json
        assert server.ask("GET", f"runs/{run}/evidence?attempt=9").status == 400
        chosen = server.ask("POST", f"runs/{run}/choose", {"attempt": large})
        assert chosen.status == 200, chosen
        until(lambda: server.client.show(run).status == "done", "the server goes on with it")
        assert server.client.show(run).nodes[0].winner == large


@pytest.mark.slow
def test_a_choice_is_asked_at_the_client_of_mcp(corral: Corral, repo: Repo) -> None:
    corral.agent("small", "echo '# a' >> sums.py")
    corral.agent("large", "printf '# a\\n# b\\n' >> sums.py")
    asked = {"path": str(repo.folder), "task": "mend add()", "agents": ["small", "large"], "checks": [CHECK]}
    person = Person("2")

    async def work() -> Any:
        async with connected(corral, "auto", person) as client:
            return await done(client, "engine_execute", **asked)

    run = play(work())
    assert (run["status"], run["nodes"][0]["winner"]) == ("done", f"{run['run']}-2")
    assert "none is proven better" in person.questions[0]


@pytest.mark.slow
def test_a_choice_is_an_answer_over_mcp(corral: Corral, repo: Repo) -> None:
    run = waiting(corral, repo).json["run"]

    async def work() -> Any:
        async with connected(corral) as client:
            await done(client, "engine_answer", id=entry(corral)["id"], answer="small")
            return await done(client, "engine_result", run=run)

    ended = play(work())
    assert (ended["status"], ended["nodes"][0]["winner"]) == ("done", f"{run}-1")
