"""`corral inbox`, `corral answer`: questions of agents at work reach a person, and the answers reach the agents."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.rig.command import Corral
from tests.rig.repository import Repo
from tests.rig.waiting import until

pytestmark = pytest.mark.both_stores

AGENT = Path(__file__).parents[1] / "rig" / "acp_agent.py"
ASKS = """
[[step]]
ask = "Which name?"
wait = true
[[step]]
write = "name.txt"
text = "{answer}"
"""


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo()


def the_entry(corral: Corral) -> dict[str, Any]:
    return until(lambda: corral("inbox", "--json").json, "something waits")[0]


def statuses(corral: Corral) -> list[str]:
    """Return how the last run stands: in the list, as a whole, its node, its attempt."""
    run = corral("show", "@last", "--json").json
    (node,) = run["nodes"]
    return [corral("ls", "--json").json[0]["status"], run["status"], node["status"], node["attempts"][0]["status"]]


def test_the_answer_reaches_the_agent_that_waits(corral: Corral, repo: Repo) -> None:
    told = corral.root / "told.json"
    corral.config(f'[notify]\ncommand = "cat > {told}"')
    with corral.going("run", "t", "--repo", repo.folder, "--agent", corral.script(ASKS), "--json") as run:
        entry = the_entry(corral)
        assert (entry["kind"], entry["text"], entry["choices"]) == ("question", "Which name?", [])
        assert entry["deadline"] > entry["created"]
        assert entry["default"]
        assert statuses(corral) == ["waiting"] * 4  # as long as its agent can do nothing else
        assert f"corral answer {entry['id']} TEXT" in corral("show", "@last").out
        answered = corral("answer", entry["id"], "Anna")
        assert answered.code == 0, answered
        outcome = run.end()
    assert outcome.code == 0, outcome
    assert repo.read(outcome.attempt["branch"], "name.txt") == "Anna"
    assert corral("inbox", "--json").json == []
    (kept,) = corral("inbox", "--all", "--json").json
    assert (kept["answer"], kept["outcome"]) == ("Anna", "sent to scripted, which is at work")
    assert kept["answered_by"]
    assert "Which name?" in told.read_text()
    again = corral("answer", entry["id"], "Berta")
    assert again.code == 2
    assert "answered already: Anna" in again.err


def test_nobody_answers_and_the_default_holds(corral: Corral, repo: Repo) -> None:
    script = corral.script(ASKS.replace("wait = true", 'wait = true\nchoices = ["red", "blue"]\ndefault = "blue"'))
    outcome = corral.run(repo, "t", "--agent", script, "--idle", "5s")
    assert outcome.code == 0, outcome
    assert repo.read(outcome.attempt["branch"], "name.txt") == "blue"
    (kept,) = corral("inbox", "--all", "--json").json
    assert (kept["answer"], kept["answered_by"]) == ("blue", "deadline")


def test_an_answer_that_is_no_choice_changes_nothing(corral: Corral, repo: Repo) -> None:
    script = corral.script(ASKS.replace("wait = true", 'wait = true\nchoices = ["red", "blue"]'))
    with corral.going("run", "t", "--repo", repo.folder, "--agent", script, "--json") as run:
        entry = the_entry(corral)
        wrong = corral("answer", entry["id"], "green")
        assert wrong.code == 2
        assert "red, blue" in wrong.err
        assert corral("answer", entry["id"], "RED").out.startswith(f"answered {entry['id']}: red")
        outcome = run.end()
    assert repo.read(outcome.attempt["branch"], "name.txt") == "red"


def test_a_question_that_does_not_wait_is_answered_at_the_next_turn(corral: Corral, repo: Repo) -> None:
    script = corral.script("""
[[step]]
ask = "Which name?"
[[step]]
resumed = false
run = "until test -e go; do sleep 0.02; done"
[[step]]
resumed = true
write = "told.txt"
text = "{prompt}"
""")
    with corral.going("run", "t", "--repo", repo.folder, "--agent", script, "--json") as run:
        entry = the_entry(corral)
        assert statuses(corral) == ["running"] * 4
        assert corral("answer", entry["id"], "Anna").code == 0
        until(lambda: corral("inbox", "--all", "--json").json[0]["outcome"], "the answer is passed on")
        (tree,) = (corral.home / "workspaces").glob("*/work")
        (tree / "go").touch()
        outcome = run.end()
    assert "The answer is: Anna" in repo.read(outcome.attempt["branch"], "told.txt")


def test_a_question_ends_with_its_agent(corral: Corral, repo: Repo) -> None:
    outcome = corral.run(repo, "t", "--agent", corral.script('[[step]]\nask = "Why?"\n[[step]]\nwrite = "a"'))
    assert outcome.code == 0, outcome
    assert corral("inbox", "--json").json == []
    assert corral("inbox").err == "nothing waits for you\n"
    (kept,) = corral("inbox", "--all", "--json").json
    assert kept["outcome"] == "it ended before it was answered"


@pytest.mark.parametrize(("answer", "made"), [("Allow", ["b.txt"]), ("Reject", [])])
def test_a_person_says_what_an_acp_agent_may(corral: Corral, repo: Repo, answer: str, made: list[str]) -> None:
    path = corral.root / "agent.py"
    path.write_text(AGENT.read_text())
    corral.config(
        f'[agents.own]\ncommand = ["/usr/bin/python3", "{path}", "works"]\noutput = "acp"\npermissions = "ask"'
    )
    with corral.going("run", "t", "--repo", repo.folder, "--agent", "own", "--json", "--retries", "0") as run:
        entry = the_entry(corral)
        assert (entry["about"], entry["choices"], entry["default"]) == ("tool", ["Allow", "Reject"], "Reject")
        assert "echo b > b.txt" in entry["text"]
        assert corral("answer", entry["id"], answer).code == 0
        outcome = run.end()
    assert outcome.attempt["files_changed"] == made


def test_a_stopped_run_leaves_nothing_waiting(corral: Corral, repo: Repo) -> None:
    with corral.going("run", "t", "--repo", repo.folder, "--agent", corral.script(ASKS), "--json") as run:
        the_entry(corral)
        assert corral("stop", "@last").code == 0
        assert run.end().code == 130
    assert corral("inbox", "--json").json == []


def test_no_such_entry(corral: Corral) -> None:
    outcome = corral("answer", "7", "yes")
    assert outcome.code == 2
    assert "corral inbox" in outcome.err


def test_a_repository_cannot_say_who_is_told(corral: Corral, repo: Repo) -> None:
    (repo.folder / "corral.toml").write_text('[notify]\nwebhook = "http://example.org"\n')
    outcome = corral.run(repo, "t", "--agent", corral.script(ASKS))
    assert outcome.code == 2
    assert "[notify] is yours to say" in outcome.err


class Hook(BaseHTTPRequestHandler):
    """A web address that answers with what is said of it beforehand, and keeps what it gets."""

    answers: ClassVar[list[int]] = []
    got: ClassVar[list[tuple[str, dict[str, Any]]]] = []

    def do_POST(self) -> None:
        self.got.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
        words = f"no such hook: {self.path}".encode()
        self.send_response(self.answers.pop(0) if self.answers else 200)
        self.send_header("Content-Length", str(len(words)))
        self.end_headers()
        self.wfile.write(words)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing of it."""


@pytest.fixture
def hook() -> Iterator[tuple[type[Hook], str]]:
    made = type("OneHook", (Hook,), {"answers": [], "got": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), made)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield made, f"http://127.0.0.1:{server.server_port}/services/SECRET-1234567/hook?token=SECRET-7654321"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize(
    ("answers", "tries", "words"),
    [
        ([], 1, None),
        ([500, 429], 3, None),
        ([500, 502, 503], 3, "it answered 503"),
        ([404], 1, "it answered 404"),
    ],
)
def test_a_web_address_is_told_and_told_again_and_stays_secret(
    corral: Corral, repo: Repo, hook: tuple[type[Hook], str], answers: list[int], tries: int, words: str | None
) -> None:
    made, address = hook
    made.answers.extend(answers)
    corral.config(f'[notify]\nwebhook = "{address}"')
    outcome = corral.run(repo, "t", "--agent", corral.script(ASKS), "--idle", "6s")
    assert outcome.json["status"] == "done", outcome  # whatever becomes of the notice
    (entry,) = corral("inbox", "--all", "--json").json
    assert len(made.got) == tries
    path, body = made.got[0]
    assert path.endswith("hook?token=SECRET-7654321")
    known = ("id", "run", "kind", "about", "text", "choices", "default", "deadline", "created")
    assert {name: body[name] for name in known} == {name: entry[name] for name in known}
    told = [event["text"] for event in corral.events() if event["type"] == "noted" and "[notify]" in event["text"]]
    assert told == ([f"[notify] webhook at 127.0.0.1: {words}"] if words else [])
    kept = [file for file in corral.home.rglob("*") if file.is_file() and b"SECRET-" in file.read_bytes()]
    assert kept == []
    assert "SECRET-" not in outcome.out + outcome.err + corral("logs", "@last").out


def test_a_web_address_that_is_not_there_is_told_without_its_path(corral: Corral, repo: Repo) -> None:
    corral.config('[notify]\nwebhook = "http://127.0.0.1:1/services/SECRET-1234567 x"')
    outcome = corral.run(repo, "t", "--agent", corral.script(ASKS), "--idle", "6s")
    assert outcome.json["status"] == "done", outcome
    assert any("[notify] webhook at 127.0.0.1: " in event.get("text", "") for event in corral.events())
    assert "SECRET-" not in outcome.out + outcome.err + corral("logs", "@last", "--json").out
