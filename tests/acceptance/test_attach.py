"""Continuing by hand, from outside: the agent's own program on a terminal, in its box."""

import fcntl
import json
import os
import signal
import struct
import termios
from pathlib import Path
from typing import Any

import pytest

from corral.testing import ScriptedModel, Turn, Usage
from tests.rig.agents import give
from tests.rig.command import Corral
from tests.rig.repository import Repo
from tests.rig.screen import Screen, on_terminal
from tests.rig.suites import SUITES, claude_program
from tests.rig.waiting import until

#: A small program for people: it shows a prompt, edits a line at a time, and knows how large its screen is.
CONSOLE = r"""
import os, signal, sys
def tell(*_):
    size = os.get_terminal_size()
    print(f"screen {size.columns}x{size.lines}", flush=True)
signal.signal(signal.SIGWINCH, tell)
assert sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()
tell()
print("term", os.environ["TERM"], "secret", os.environ.get("CANARY"), "found", sorted(os.listdir(".")), flush=True)
while True:
    try:
        words = input("ready> ").split(" ", 2)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        continue
    if words[0] == "write":
        open(words[1], "w").write(words[2] + "\n")
        print("wrote", words[1], flush=True)
    elif words[0] == "outside":
        try:
            print("outside", os.listdir(words[1]), flush=True)
        except OSError as error:
            print("outside", error.strerror, flush=True)
    elif words[0] == "leave":
        sys.exit(int(words[1]))
"""
CHECK = "grep -q good a.txt"


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo(files={"a.txt": "start\n"})


def define(corral: Corral, tmp_path: Path) -> None:
    script = tmp_path / "console.py"
    script.write_text(CONSOLE)
    work = tmp_path / "work.sh"
    work.write_text("echo good one > a.txt\necho made > b.txt\n")
    corral.config(
        f'[agents.small]\ncommand = ["sh", "{work}"]\ninteractive = ["python3", "{script}"]\n'
        f'[agents.plain]\ncommand = ["sh", "{work}"]\n'
    )


def attempts(corral: Corral) -> list[dict[str, Any]]:
    return json.loads(corral("show", "@last", "--json").out)["nodes"][0]["attempts"]


def leave(screen: Screen, code: int = 0) -> None:
    screen.type(f"leave {code}\r")
    screen.sees("you have left it")


def test_a_user_continues_by_hand_and_leaves_a_checked_attempt(corral: Corral, repo: Repo, tmp_path: Path) -> None:
    define(corral, tmp_path)
    assert corral.run(repo, "write", "--agent", "small", "--check", CHECK).code == 0
    with on_terminal(corral, "attach", "@last", rows=33, columns=101, env={"CANARY": "yellow"}) as screen:
        screen.sees("screen 101x33")
        screen.sees(r"term xterm-256color secret None found \['.*a.txt', 'b.txt'\]")
        screen.type("\x03")
        screen.sees("interrupted")
        screen.type(f"outside {repo.folder}\r")
        screen.sees("outside No such file")
        screen.type("write a.txt good two\r")
        screen.sees("wrote a.txt")
        leave(screen, 3)
        assert screen.end() == 0
    first, second = attempts(corral)
    assert (second["revises"], second["status"]) == (first["id"], "done")
    assert [each["exit_code"] for each in second["checks"]] == [0]
    assert repo.read(second["branch"], "a.txt") == "good two"
    assert repo.read(second["branch"], "b.txt") == "made"
    assert json.loads(corral("show", "@last", "--json").out)["nodes"][0]["winner"] == second["id"]
    assert f"continues {first['id']} by hand" in corral("logs", "@last").out


def test_work_that_fails_its_checks_is_kept_and_the_winner_stays(corral: Corral, repo: Repo, tmp_path: Path) -> None:
    define(corral, tmp_path)
    assert corral.run(repo, "write", "--agent", "small", "--check", CHECK, "--retries", "2").code == 0
    with on_terminal(corral, "attach") as screen:
        screen.sees("ready>")
        screen.type("write a.txt bad\r")
        screen.sees("wrote a.txt")
        leave(screen)
        assert screen.end() == 1
    first, second = attempts(corral)
    assert (second["status"], second["error"]["class"]) == ("failed", "check_failed")
    assert repo.read(second["branch"], "a.txt") == "bad"
    assert json.loads(corral("show", "@last", "--json").out)["nodes"][0]["winner"] == first["id"]
    with on_terminal(corral, "attach", "@last", "2") as screen:  # the failed one itself
        screen.sees("ready>")
        screen.type("write a.txt good again\r")
        leave(screen)
        assert screen.end() == 0
    third = attempts(corral)[2]
    assert (third["revises"], third["status"]) == (second["id"], "done")


def test_a_screen_that_changes_its_size_tells_the_program(corral: Corral, repo: Repo, tmp_path: Path) -> None:
    define(corral, tmp_path)
    assert corral.run(repo, "write", "--agent", "small").code == 0
    with on_terminal(corral, "attach", "@last") as screen:
        screen.sees("screen 120x40")
        fcntl.ioctl(screen.keyboard, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 77, 0, 0))
        os.kill(screen.process.pid, signal.SIGWINCH)  # the kernel's, to whom the terminal belongs
        screen.sees("screen 77x20")
        leave(screen)
        assert screen.end() == 1
    assert attempts(corral)[1]["error"]["message"].startswith("it changed nothing since")


def test_a_signal_ends_it_and_keeps_the_work_and_the_terminal(corral: Corral, repo: Repo, tmp_path: Path) -> None:
    define(corral, tmp_path)
    assert corral.run(repo, "write", "--agent", "small").code == 0
    with on_terminal(corral, "attach", "@last") as screen:
        before = termios.tcgetattr(screen.keyboard)
        screen.sees("ready>")
        assert termios.tcgetattr(screen.keyboard) != before
        screen.type("write c.txt kept\r")
        screen.sees("wrote c.txt")
        os.kill(screen.process.pid, signal.SIGTERM)
        assert screen.end() == 130
        assert termios.tcgetattr(screen.keyboard) == before
        assert "\x1b[?1049l" in screen.raw
    second = attempts(corral)[1]
    assert (second["status"], repo.read(second["branch"], "c.txt")) == ("stopped", "kept")


def test_after_a_death_nobody_works_in_it_for_the_user(corral: Corral, repo: Repo, tmp_path: Path) -> None:
    define(corral, tmp_path)
    assert corral.run(repo, "write", "--agent", "small", "--check", CHECK).code == 0
    with on_terminal(corral, "attach", "@last") as screen:
        screen.sees("ready>")
        screen.type("write c.txt kept\r")
        screen.sees("wrote c.txt")
        refused = corral("attach", "@last")
        assert (refused.code, "is not over: running" in refused.err) == (2, True)
        screen.process.kill()
        screen.end()
    resumed = corral("resume", "@last", "--json")
    first, second = attempts(corral)
    assert resumed.code == 0, resumed
    assert second["status"] == "stopped"
    assert repo.read(second["branch"], "c.txt") == "kept"
    assert resumed.json["nodes"][0]["winner"] == first["id"]


def test_what_cannot_be_attached_to_is_refused(corral: Corral, repo: Repo, tmp_path: Path) -> None:
    define(corral, tmp_path)
    assert corral.run(repo, "write", "--agent", "plain").code == 0
    nowhere = corral("attach", "@last")
    assert (nowhere.code, nowhere.out) == (2, "")
    assert "needs a terminal" in nowhere.err
    assert "corral revise" in nowhere.err
    with on_terminal(corral, "attach", "@last") as screen:
        assert screen.end() == 2
        assert "the agent `plain` has no program to work with by hand" in screen.text
        assert "[agents.plain] interactive" in screen.text
    with on_terminal(corral, "attach", "@last", "7") as screen:
        assert screen.end() == 2
    assert len(attempts(corral)) == 1
    assert corral("show", "@last", "--json").json["status"] == "done"


def test_the_real_claude_continues_its_conversation_by_hand(corral: Corral, repo: Repo) -> None:
    turns = [
        Turn(text="I write it.", sh="echo good one > a.txt", usage=Usage(input=100, output=20)),
        Turn(text="Written.", usage=Usage(input=150, output=10)),
        Turn(text="Once more.", sh="echo good two > a.txt", usage=Usage(input=200, output=30)),
        Turn(text="Written by hand.", usage=Usage(input=300, output=40)),
    ]
    with ScriptedModel(turns) as model:
        corral.config(
            f'[agents.claude]\nprogram = "{claude_program()}"\nsettings = {{ ANTHROPIC_BASE_URL = "{model.url}" }}\n'
        )
        corral.env["ANTHROPIC_API_KEY"] = "sk-canary-by-hand"
        assert corral.run(repo, "write a good file", "--agent", "claude:claude-sonnet-4-5", "--check", CHECK).code == 0
        with on_terminal(corral, "attach", "@last") as screen:
            screen.sees("Written")  # what was said before
            screen.type("now write it anew")
            screen.sees(r"now\s*write\s*it\s*anew")
            screen.type("\r")
            until(lambda: len(model.work_requests) == 4, "the model was asked by hand")
            screen.sees(r"Written\s*by\s*hand")
            screen.type("/exit")
            screen.sees("/exit")
            screen.type("\r")
            screen.sees("you have left it")
            assert screen.end() == 0
            assert "sk-canary" not in screen.raw
        assert "write a good file" in str(model.work_requests[3].body)
    first, second = attempts(corral)
    assert (second["status"], second["session"]) == ("done", first["session"])
    assert repo.read(second["branch"], "a.txt") == "good two"
    assert (second["tokens"]["input"], second["tokens"]["output"]) == (500, 70)
    assert second["cost"]["usd"] > 0


def test_the_real_codex_continues_its_conversation_by_hand(corral: Corral, repo: Repo) -> None:
    turns = [
        Turn(text="I write it.", sh="echo good one > a.txt"),
        Turn(text="Written."),
        Turn(text="Once more.", sh="echo good two > a.txt"),
        Turn(text="Finished now."),
    ]
    suite = SUITES["codex"]
    with ScriptedModel(turns) as model:
        give(corral, "codex", suite.key, {suite.url: model.url + suite.url_path})
        assert corral.run(repo, "write a good file", "--agent", "codex:gpt-5", "--check", CHECK).code == 0
        with on_terminal(corral, "attach", "@last") as screen:
            screen.sees("Written")
            screen.type("anew")
            screen.sees("anew")
            screen.type("\r")
            screen.sees(r"Finished\s*now")
            screen.type("/quit")
            screen.sees("/quit")
            screen.type("\r")
            screen.sees("you have left it")
            assert screen.end() == 0
        assert "write a good file" in str(model.work_requests[3].body)
    second = attempts(corral)[1]
    assert (second["status"], repo.read(second["branch"], "a.txt")) == ("done", "good two")
