"""Toolboxes and those who mean harm: other runs, other tokens, floods, forged messages, engines that die."""

import json

import pytest

from corral.testing.stage import until
from tests.rig.command import Corral
from tests.rig.repository import Repo
from tests.rig.talkers import caller, command, flow, going, left, node

pytestmark = pytest.mark.slow


@pytest.fixture
def repo(corral: Corral) -> Repo:
    caller(corral)
    return corral.repo()


def test_only_its_own_token_opens_a_toolbox(corral: Corral, repo: Repo) -> None:
    source = """
        ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
        wrong = [{}, {"Authorization": "Bearer x"}, {"Authorization": headers()["Authorization"][:-1]}]
        statuses = [post(ping, fields)[0] for fields in wrong]
        statuses += [post(ping, method="GET")[0], post(ping, path="/other")[0], post(b"x" * 2_000_000)[0]]
        forged = [b"", b"[]", b"{}", b"[" * 50_000, b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', bytes(range(256))]
        answers = [post(body) for body in forged]
        write("seen.txt", {"statuses": statuses, "answers": [[status, body.decode()] for status, body in answers]})
        assert post(ping) == (200, b'{"jsonrpc":"2.0","id":1,"result":{}}')
        """
    run = flow(corral, repo, {"only": node(source)})
    seen = json.loads(left(repo, run, "only", "seen.txt"))
    assert seen["statuses"] == [401, 401, 401, 405, 404, 413]
    assert {status for status, _ in seen["answers"]} == {200}
    assert all("error" in json.loads(body) for _, body in seen["answers"])
    token = "Bearer"
    assert all(token not in json.dumps(event) for event in corral.events(run["run"]))


def test_another_run_s_names_are_nobody_s(corral: Corral, repo: Repo) -> None:
    other = flow(corral, repo, {"secret": node('write("secret.txt", "s")\nsay("hush")')})
    attempt = other["nodes"][0]["attempts"][0]["id"]
    source = f"""
        names = [{other["run"]!r}, {attempt!r}, "secret", {other["run"]!r} + "/secret"]
        told = [call("send_mail", to=name, text="x") for name in names]
        told += [call("read_output", node=name) for name in names]
        told += [call("read_file", node=name, path="secret.txt") for name in names]
        told += [call("child_result", child=name) for name in names] + [call("stop_child", child=name) for name in names]
        told += [call("send_mail", to="all", text="x", run={other["run"]!r}), call("ack_mail", ids=[1], run="x")]
        assert all(isinstance(each, str) for each in told), told
        write("told.txt", chr(10).join(told))
        """
    run = flow(corral, repo, {"only": node(source)})
    told = left(repo, run, "only", "told.txt")
    assert "hush" not in told
    assert "nobody called" in told


def test_floods_of_letters_reports_and_questions_are_bounded(corral: Corral, repo: Repo) -> None:
    source = """
        big = call("send_mail", to="quiet", text="x" * 11_000)
        many = [call("send_mail", to="quiet", text=str(number)) for number in range(110)]
        refused = [each for each in many if isinstance(each, str)]
        asked = [call("ask_user", question="?", default="", wait_seconds=0) for _ in range(22)]
        write("told.txt", {"big": big, "refused": refused, "asked": [each for each in asked if isinstance(each, str)]})
        call("send_mail", to="quiet", text="now", priority="urgent")
        """
    quiet = """
        while call("list_nodes")["nodes"][0]["status"] == "running":
            time.sleep(0.2)
        letters = call("read_mail", most=20)["messages"]
        write("count.txt", str(len(letters)))
        """
    run = flow(corral, repo, {"floods": node(source), "quiet": node(quiet)})
    told = json.loads(left(repo, run, "floods", "told.txt"))
    assert "10240 are the most" in told["big"]
    assert len(told["refused"]) == 10
    assert all("the box is full" in each for each in told["refused"])
    assert len(told["asked"]) == 2
    assert left(repo, run, "quiet", "count.txt") == "20"
    assert not corral("inbox", "--json").json, "what nobody waits for is taken back"


def test_one_who_reads_slowly_or_not_at_all_holds_up_nobody(corral: Corral, repo: Repo) -> None:
    source = """
        import socket
        place = urllib.parse.urlsplit(SERVER["url"])
        held = [socket.create_connection((place.hostname, place.port)) for _ in range(20)]
        for each in held[:10]:
            each.sendall(b"POST /mcp HTTP/1.1\\r\\nHost: x\\r\\n")
        assert call("report_progress", text="still here") == {"shown": True}
        write("done.txt", "done")
        """
    run = flow(corral, repo, {"only": node(source), "other": node('write("done.txt", call("list_nodes"))')})
    assert left(repo, run, "only", "done.txt") == "done"


def test_letters_that_were_taken_when_corral_was_killed_are_handed_out_again(corral: Corral, repo: Repo) -> None:
    writes = 'call("send_mail", to="reads", text="do not lose me")\nwrite("sent.txt", "sent")'
    reads = """
        letter = read_mail(lease_seconds=3600)[0]
        call("report_progress", text="took it")
        if letter.get("times_delivered", 1) == 1:
            time.sleep(1000)
        write("got.txt", f"{letter['text']} {letter['times_delivered']}")
        call("ack_mail", ids=[letter["id"]])
        """
    nodes = {"writes": node(writes), "reads": node(reads)}
    with corral.going(*command(corral, repo, nodes)) as process:
        until(lambda: corral("ls", "--json").json, "there is a run")
        until(lambda: any(event["type"] == "reported" for event in corral.events()), "a letter is taken")
        process.process.kill()
        process.process.wait()
    outcome = corral("resume", "@last", "--json")
    assert outcome.code == 0, outcome
    assert left(repo, outcome.json, "reads", "got.txt") == "do not lose me 2"


def test_where_there_is_no_network_of_its_own_the_token_still_counts(corral: Corral, repo: Repo) -> None:
    source = """
        ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
        write("seen.txt", [SERVER["url"], post(ping, {})[0], post(ping)[0]])
        """
    outcome = corral.run(repo, node(source)["task"], "--agent", "caller", "--net", "on")
    assert outcome.code == 0, outcome
    url, without, with_it = json.loads(repo.read(outcome.attempt["branch"], "seen.txt"))
    assert (without, with_it) == (401, 200)
    assert not url.endswith(":8120/mcp"), "a port of this machine's, any that is free"


def test_no_toolbox_where_settings_say_so(corral: Corral, repo: Repo) -> None:
    corral.config("[toolbox]\nenabled = false\n")
    with going(corral, repo, {"only": node("say('x')", read_only=True)}) as process:
        outcome = process.end()
    assert outcome.code == 1, "the caller looks for its toolbox in vain"
