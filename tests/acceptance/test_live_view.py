"""Who works on what: seen on a terminal, in plain lines, and from another process."""

import re
import signal
from pathlib import Path

import pytest

from tests.rig.command import Corral
from tests.rig.flows import doer, write
from tests.rig.processes import gone
from tests.rig.screen import on_terminal
from tests.rig.waiting import until

pytestmark = pytest.mark.slow  # left out of `make quick`

FLOW = """
name: small
nodes:
  plan: {task: "DO: echo planned; echo p > plan.md"}
  build: {needs: [plan], task: "DO: echo building; echo b > build.txt; until test -e go; do sleep 0.05; done"}
  ship: {needs: [build], task: "DO: echo s > ship.txt"}
"""


def flow(corral: Corral, text: str = FLOW) -> tuple[str | Path, ...]:
    """What is typed to carry a flow out."""
    doer(corral, settings="cost_usd = 0.25")
    return ("flow", "run", write(corral, text), "--repo", corral.repo().folder, "--agent", "doer")


def go(corral: Corral) -> None:
    """Let all agents that wait for it go on."""
    for work in corral.home.glob("workspaces/*/work"):
        work.joinpath("go").touch()


def test_a_terminal_shows_the_graph_with_states_and_a_summary(corral: Corral) -> None:
    with on_terminal(corral, *flow(corral)) as screen:
        screen.sees(r"2 > build +at work +doer, try 1 .* building")
        screen.sees(r"1 \+ plan +done +\d.* \$0\.25 ")
        screen.sees(r"3 \. ship +queued +after build")
        screen.sees(r"1 done, 1 at work, 0 waiting, 1 to come  \$0\.25  \d")
        go(corral)
        assert screen.end() == 0
    assert any("build: " in line and line.endswith("running: doer, try 1") for line in screen.lines)


GATED = """
name: careful
nodes:
  write: {task: "DO: echo writing; echo w > w.txt; until test -e go; do sleep 0.05; done"}
  ok: {needs: [write], gate: "Merge it?", default: "no", deadline: 1h}
  ship: {needs: [ok], run: "echo s > ship.txt"}
"""


def test_a_gate_is_answered_where_it_is_asked_and_what_is_typed_tears_nothing(corral: Corral) -> None:
    with on_terminal(corral, *flow(corral, GATED)) as screen:
        screen.sees(r"write +at work .* writing")  # its workspace is there
        screen.type("xyz\x7f\x7f\x7f")  # nothing waits yet: it is not echoed
        go(corral)
        screen.sees(r"answer yes / no, then Enter: _")
        screen.type("maybe\r")
        screen.sees(r"`maybe`|maybe is no|yes or no|one of")
        screen.type("ye\x1b[Ds\r")
        screen.sees(r"answered: yes")
        assert screen.end() == 0
    assert not [line for line in screen.lines if line.startswith(("xyz", "maybe"))], "no echo of the terminal's own"
    (entry,) = corral("inbox", "--all", "--json").json
    assert entry["answer"] == "yes"


def test_the_view_keeps_within_the_terminal(corral: Corral) -> None:
    many = "name: many\nparallel: 2\nnodes:\n" + "".join(
        f"  n{place}: {{task: 'DO: echo x > x{place}; until test -e go; do sleep 0.05; done'}}\n" for place in range(30)
    )
    with on_terminal(corral, *flow(corral, many), rows=12, columns=60) as screen:
        screen.sees(r"1 > n0 +at work")
        screen.sees(r"and 24 more: 24 waiting")
        screen.sees(r"0 done, 2 at work, 28 waiting")
        assert max(map(len, screen.lines)) <= 60
        screen.process.send_signal(signal.SIGTERM)
        assert screen.end() == 130
    assert 4 <= screen.tallest() <= 9  # two thirds of the terminal, and the line that the cursor is on


def test_who_is_silent_and_who_waits_for_a_person_is_marked(corral: Corral) -> None:
    text = (
        "name: stuck\nnodes:\n"
        "  quiet: {task: 'DO: echo hello; until test -e go; do sleep 0.05; done; echo q > q', idle: 6s}\n"
        "  ok: {gate: Shall it go on?}\n"
    )
    with on_terminal(corral, *flow(corral, text)) as screen:
        screen.sees(r"1 ! quiet +stale +doer, try 1 .* silent for \d.* of 6\.0 s: hello")
        screen.sees(r"1 \? ok +waiting +Shall it go on\? \(corral answer")
        go(corral)
        assert corral("answer", corral("inbox", "--json").json[0]["id"], "yes").code == 0
        assert screen.end() == 0


def test_plain_lines_name_the_node(corral: Corral) -> None:
    with corral.going(*flow(corral)) as run:
        corral.until_said("building")
        go(corral)
        ended = run.end()
    assert ended.code == 0, ended
    assert re.search(r"^build: attempt \S+ running: doer, try 1$", ended.err, re.MULTILINE)
    assert re.search(r"^ship: attempt \S+ done$", ended.err, re.MULTILINE)
    assert "\x1b" not in ended.err


def test_one_task_is_one_line_without_a_name_and_counts_nothing(corral: Corral) -> None:
    corral.agent("mine", "echo x > x")
    words = ("run", "t", "--repo", corral.repo().folder, "--agent", "mine", "--check", "test -f x")
    with on_terminal(corral, *words) as screen:
        screen.sees(r"\+ done ")
        assert screen.end() == 0
    assert " main " not in screen.raw
    assert "0 waiting" not in screen.raw


def test_one_task_needs_no_name(corral: Corral) -> None:
    corral.agent("mine", "echo x > x")
    ended = corral("run", "t", "--repo", corral.repo().folder, "--agent", "mine")
    assert re.search(r"^attempt \S+ running: mine, try 1$", ended.err, re.MULTILINE)


def test_watch_shows_what_another_process_drives_and_ends_with_it(corral: Corral) -> None:
    with corral.going(*flow(corral), "--json") as run:
        corral.until_said("building")
        with on_terminal(corral, "watch", "@last") as screen:
            screen.sees(r"1 \+ plan +done")
            screen.sees(r"2 > build +at work +doer, try 1 .* building")
            screen.sees(r"1 done, 1 at work, 0 waiting, 1 to come  \$0\.25  \d")
            assert run.process.poll() is None
            go(corral)
            assert screen.end() == 0
        assert run.end().code == 0
    assert re.search(r"^done +\S+ +small$", screen.text, re.MULTILINE)
    over = corral("watch", "@last", "--json")
    assert (over.code, over.json["status"]) == (0, "done")


def test_who_leaves_a_watch_leaves_the_run_alone(corral: Corral) -> None:
    with corral.going(*flow(corral), "--json") as run:
        corral.until_said("building")
        with on_terminal(corral, "watch", "@last") as screen:
            screen.sees(r"2 > build +at work")
            screen.process.send_signal(signal.SIGINT)
            assert screen.end() == 130
        go(corral)
        assert run.end().code == 0


HOLDS = """
[[step]]
write = "shared.txt"
text = "mine"
[[step]]
write = "{own}.txt"
text = "x"
[[step]]
say = "ready"
[[step]]
run = "until test -e go; do sleep 0.05; done"
"""


def test_who_tells_who_works_on_which_file_and_where_two_do(corral: Corral) -> None:
    one = corral.script(HOLDS.format(own="one"), "one.toml")
    two = corral.script(HOLDS.format(own="two"), "two.toml")
    repo = corral.repo()
    with corral.going("run", "t", "--repo", repo.folder, "--agent", one, "--write", "*", "--json") as first:
        corral.until_said("ready")
        run = corral("ls", "--json").json[0]["run"]
        may = corral("who", run, "--file", "one.txt", "--file", "src/a.py", "--json").json
        assert [hand["writable"] for hand in may["attempts"]] == [["one.txt"]]
        assert "src/a.py: nobody may write it" in corral("who", run, "--file", "src/a.py").out
        outside = corral("who", run, "--file", "../a.py")
        assert (outside.code, "hint:" in outside.err) == (2, True)
        alone = corral("who", "--repo", repo.folder, "--json").json
        assert [hand["files"] for hand in alone["attempts"]] == [["one.txt", "shared.txt"]]
        assert alone["overlaps"] == []
        with corral.going("run", "t", "--repo", repo.folder, "--agent", two, "--json") as second:
            until(lambda: len(corral("ls", "--json").json) == 2, "the second run is there")
            corral.until_said("ready")
            both = corral("who", "--repo", repo.folder, "--json").json
            assert {hand["agent"] for hand in both["attempts"]} == {"scripted"}
            assert [hand["state"] for hand in both["attempts"]] == ["at work", "at work"]
            names = [hand["attempt"] for hand in both["attempts"]]
            assert both["overlaps"] == [{"path": "shared.txt", "attempts": names}]
            mine = corral("who", run, "--json").json
            assert [hand["run"] for hand in mine["attempts"]] == [run]
            assert [each["path"] for each in mine["overlaps"]] == ["shared.txt"]
            shown = corral("who", run).out
            assert re.search(rf"shared\.txt +! also {names[1]}", shown)
            go(corral)
            assert second.end().code == 0
        assert first.end().code == 0
    after = corral("who", "--repo", repo.folder)
    assert (after.out, after.err) == ("", "nobody is at work here\n")


def test_who_knows_the_files_of_agents_that_tell_nothing(corral: Corral) -> None:
    corral.config('[workspace]\nsnapshot = "0.3s"')
    sign = f"31536000.{abs(hash(str(corral.root)))}"
    corral.agent("mute", f"exec 3> open.txt; echo half >&3; echo ready; sleep {sign}")
    repo = corral.repo()
    with corral.going("run", "t", "--repo", repo.folder, "--agent", "mute") as run:
        corral.until_said("ready")
        until(
            lambda: [hand["files"] for hand in corral("who", "@last", "--json").json["attempts"]] == [["open.txt"]],
            "its snapshot has the file",
        )
        assert "open.txt" in corral("who", cwd=repo.folder).out
        assert corral("stop", "@last").code == 0
        assert run.end().code == 130
    gone(sign)


def test_who_outside_of_any_repository(corral: Corral) -> None:
    assert corral("who").err == "nobody is at work here\n"
    missing = corral("who", "--repo", "nowhere")
    assert missing.code == 2
    assert "nowhere" in missing.err
