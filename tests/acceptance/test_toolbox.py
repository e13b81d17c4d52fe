"""The toolbox of an attempt, used from inside the box by programs that do exactly what their task says."""

import json

import pytest

from corral.testing.stage import until
from tests.rig.command import Corral
from tests.rig.repository import Repo
from tests.rig.talkers import caller, flow, going, left, node


@pytest.fixture
def repo(corral: Corral) -> Repo:
    caller(corral)
    return corral.repo()


@pytest.mark.parametrize("way", ["http", "stdio"])
def test_two_nodes_write_to_each_other(corral: Corral, way: str) -> None:
    name, repo = caller(corral, way=way), corral.repo()
    asks = """
        sent = call("send_mail", to="knows", text="what is the colour?", priority="high")
        letter = read_mail()[0]
        assert letter["thread"] == sent["thread"]
        call("ack_mail", ids=[letter["id"]])
        write("colour.txt", letter["text"])
        """
    knows = """
        letter = read_mail()[0]
        write("asked.txt", letter["text"] + " " + letter["from"] + " " + letter["priority"])
        call("send_mail", to=letter["from"], text="blue", thread=letter["thread"])
        call("ack_mail", ids=[letter["id"]])
        """
    run = flow(corral, repo, {"asks": node(asks, name), "knows": node(knows, name)})
    assert left(repo, run, "asks", "colour.txt") == "blue"
    assert left(repo, run, "knows", "asked.txt") == "what is the colour? asks high"
    mailed = [event for event in corral.events(run["run"]) if event["type"] == "mailed"]
    assert [(each["node"], each["to"], each["text"]) for each in mailed] == [
        ("asks", "knows", "what is the colour?"),
        ("knows", "asks", "blue"),
    ]
    kept = corral("mail", run["run"], "--json").json
    assert [(each["from"], each["to"], each["state"], each["text"]) for each in kept] == [
        ("asks", "knows", "read", "what is the colour?"),
        ("knows", "asks", "read", "blue"),
    ]
    shown = corral("mail", run["run"])
    assert "asks to knows  high, read" in shown.out


def test_who_is_over_can_be_read(corral: Corral, repo: Repo) -> None:
    first = 'write("spec.txt", "round")\nsay("it is round")'
    second = """
        seen = call("list_nodes")
        assert [each["node"] for each in seen["nodes"]] == ["first", "second"], seen
        write("output.txt", call("read_output", node="first"))
        write("files.txt", call("list_files", node="first"))
        write("file.txt", call("read_file", node="first", path="spec.txt")["text"])
        refused = [call("read_file", node="first", path=path) for path in ("../x", "/etc/passwd", "nothing")]
        refused += [call("read_output", node=name) for name in ("second", "third", "first/../second")]
        refused += [call("send_mail", to="first", text="too late"), call("send_mail", to="second", text="me")]
        assert all(isinstance(each, str) for each in refused), refused
        write("refused.txt", chr(10).join(refused))
        """
    run = flow(corral, repo, {"first": node(first), "second": node(second, needs=["first"])})
    output = json.loads(left(repo, run, "second", "output.txt"))
    assert (output["status"], output["text"].split()[:3]) == ("done", ["it", "is", "round"])
    assert json.loads(left(repo, run, "second", "files.txt"))["files"] == ["spec.txt"]
    assert left(repo, run, "second", "file.txt") == "round"
    refused = left(repo, run, "second", "refused.txt")
    for words in (
        "your scope does not let you",
        "has no file nothing",
        "is not over yet",
        "no node `third`",
        "is over",
    ):
        assert words in refused


@pytest.mark.slow
def test_it_finishes_early_with_a_result(corral: Corral, repo: Repo) -> None:
    source = """
        write("half.txt", "half")
        assert "does not fit" in call("finish", result={"verdict": "maybe"})
        assert call("finish", result={"verdict": "accept"}, text="good enough") == {"finished": True}
        time.sleep(1000)
        """
    run = flow(corral, repo, {"only": node(source, output={"verdict": ["accept", "reject"]})})
    attempt = run["nodes"][0]["attempts"][0]
    assert attempt["output"] == {"verdict": "accept"}
    assert left(repo, run, "only", "half.txt") == "half"


def test_a_person_is_asked_and_the_answer_comes_back(corral: Corral, repo: Repo) -> None:
    source = """
        told = call("ask_user", question="which colour?", default="grey", wait_seconds=45)
        while not told["answered"]:
            told = call("read_answer", ask=told["ask"], wait_seconds=45)
        write("colour.txt", told["answer"])
        """
    with going(corral, repo, {"only": node(source)}) as process:
        entry = until(lambda: corral("inbox", "--json").json, "a question waits")[0]
        assert (entry["text"], entry["default"]) == ("which colour?", "grey")
        until(lambda: corral("ls", "--json").json[0]["status"] == "waiting", "its agent waits")
        assert corral("answer", entry["id"], "blue").code == 0
        run = process.end().json
    assert left(repo, run, "only", "colour.txt") == "blue"


@pytest.mark.slow
def test_nobody_answers_in_time(corral: Corral, repo: Repo) -> None:
    source = """
        told = call("ask_user", question="which?", default="grey", deadline_minutes=0.1, wait_seconds=45)
        write("colour.txt", told["answer"] + " " + told["by"])
        """
    run = flow(corral, repo, {"only": node(source)})
    assert left(repo, run, "only", "colour.txt") == "grey deadline"


def test_agents_without_tools_write_by_files(corral: Corral, repo: Repo) -> None:
    script = """
        mkdir -p ~/mail/outbox
        echo '{"to": "tools", "text": "from a file"}' > ~/mail/outbox/one.json
        echo '{"to": "nobody", "text": "lost"}' > ~/mail/outbox/two.json
        until ls ~/mail/inbox/*.json 2>/dev/null && ls ~/mail/refused/two.json.txt; do sleep 0.2; done
        cat ~/mail/inbox/*.json > got.txt
        cat ~/mail/refused/two.json.txt > refused.txt
        cat ~/outputs/before.txt > before.txt
        """
    plain = corral.agent("plain", script)
    tools = """
        letter = read_mail()[0]
        call("send_mail", to="files", text="to a file", thread=letter["thread"])
        write("got.txt", letter["text"])
        """
    nodes = {
        "before": node('say("said before")', read_only=True),
        "tools": node(tools, needs=["before"]),
        "files": {"task": "do it", "agent": plain, "needs": ["before"]},
    }
    run = flow(corral, repo, nodes)
    assert left(repo, run, "tools", "got.txt") == "from a file"
    got = json.loads(left(repo, run, "files", "got.txt"))
    assert (got["from"], got["text"]) == ("tools", "to a file")
    assert "nobody called `nobody`" in left(repo, run, "files", "refused.txt")
    assert left(repo, run, "files", "before.txt").startswith("said before")


def test_reports_are_shown_while_it_works(corral: Corral, repo: Repo) -> None:
    source = """
        call("report_progress", text="half" + chr(27) + "[31m  way" + chr(10) + "there", percent=50)
        write("a.txt", "a")
        """
    outcome = corral("run", node(source)["task"], "--repo", repo.folder, "--agent", "caller")
    assert outcome.code == 0, outcome
    assert "reports (50 %): half [31m way there" in outcome.err
