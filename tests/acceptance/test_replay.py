"""An attempt is recorded to a file and played back as an agent: the same events, cost, change and ending."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agents.reading import RECORDINGS
from tests.rig.command import Corral, Outcome
from tests.rig.flows import doer, run_flow
from tests.rig.levels import BOXED
from tests.rig.repository import Repo
from tests.rig.tagged import tagged_processes
from tests.rig.waiting import until

SAME = ("status", "error", "cost", "tokens", "session", "files_changed", "insertions", "deletions", "output")
WORK = r"""
[[step]]
say = "I work."
[[step]]
run = "printf '\\377\\000raw' > raw.bin; ln -s a.txt link; printf '#!/bin/sh\\n' > tool.sh; chmod +x tool.sh; rm src/b.txt"
[[step]]
write = "a.txt"
text = "more\n"
[[step]]
spend = 0.25
input = 100
output = 7
[[step]]
end = "All done."
"""


def record(corral: Corral, file: Path, *arguments: str) -> Outcome:
    return corral("export", "@last", "--recording", file, *arguments)


def other(corral: Corral, name: str = "other") -> tuple[Corral, Repo]:
    """Another person, with a repository that is the same."""
    person = Corral(corral.root / name)
    return person, person.repo()


def told(corral: Corral) -> list[dict[str, Any]]:
    """Return what the agent told, without when and where."""
    engine = ("status_changed", "checked", "noted", "user_asked")
    drop = ("at", "seq", "attempt")
    return [
        {key: value for key, value in event.items() if key not in drop}
        for event in corral.events()
        if event["type"] not in engine
    ]


def test_a_replay_is_the_same_again(corral: Corral, tmp_path: Path) -> None:
    repo, file = corral.repo(), tmp_path / "work.recording"
    first = corral.run(repo, "do it", "--agent", corral.script(WORK))
    assert first.code == 0, first
    assert record(corral, file).code == 0
    person, twin = other(corral)
    again = person.run(twin, "do it", "--agent", f"replay:{file}", "--check", "test -x tool.sh -a -L link")
    assert again.code == 0, again
    assert {key: again.attempt[key] for key in SAME} == {key: first.attempt[key] for key in SAME}
    assert told(person) == told(corral)
    trees = [each.git("rev-parse", f"{run.attempt['branch']}^{{tree}}") for each, run in ((repo, first), (twin, again))]
    assert trees[0] == trees[1]
    assert again.attempt["agent"] == "replay"
    assert again.attempt["sandbox"]["level"] in BOXED


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini", "opencode", "qwen", "copilot"])
def test_recordings_of_real_agents_play_without_their_programs(corral: Corral, agent: str) -> None:
    repo = corral.repo()
    file = RECORDINGS / f"{agent}.recording"
    outcome = corral.run(repo, "say hello", "--agent", f"replay:{file}", "--check", "test -s copy.txt")
    assert outcome.code == 0, outcome
    attempt = outcome.attempt
    assert attempt["output"] == "Done."
    assert attempt["session"]
    assert sorted(attempt["files_changed"]) == ["copy.txt", "hello.txt"]
    used = (attempt["tokens"]["input"], attempt["tokens"]["output"])
    assert used == ((0, 0) if agent == "copilot" else (280, 33))
    sources = {"claude": "reported", "copilot": "metered"}  # of copilot no tokens are known, and no request was made
    assert attempt["cost"]["source"] == sources.get(agent, "unknown") or agent == "opencode"
    kinds = {event["type"] for event in corral.events()}
    assert {"started", "said", "called_tool", "tool_returned", "ended"} <= kinds
    assert "unparsed" not in kinds


def test_secrets_and_places_are_removed(corral: Corral, tmp_path: Path) -> None:
    repo, file = corral.repo(), tmp_path / "leaky.recording"
    corral.env["MY_KEY"] = "the-very-secret-value"
    script = """
echo "key $MY_KEY in $PWD"; echo "also sk-abcdefghijklmnopqrst0123 and ghp_abcdefghijklmnopqrstuvwxyz012345" >&2
echo "key=$MY_KEY" > kept.txt; echo AIzaabcdefghijklmnopqrstuvwxyz012345678 >> kept.txt"""
    corral.agent("leaky", script, 'env = ["MY_KEY"]\nsettings = { API_TOKEN = "another-secret-value" }')
    assert corral.run(repo, "do it", "--agent", "leaky").code == 0
    assert record(corral, file).code == 0
    text = file.read_text()
    for secret in ("the-very-secret-value", "another-secret-value", "sk-abc", "ghp_abc", "AIzaabc", str(tmp_path)):
        assert secret not in text
    assert "key [redacted MY_KEY] in %WORKSPACE%" in text
    person, twin = other(corral)
    again = person.run(twin, "do it", "--agent", f"replay:{file}")
    assert again.code == 0, again
    assert "[redacted" in twin.read(again.attempt["branch"], "kept.txt")
    said = [event["text"] for event in person.events() if event["type"] == "said"]
    assert said[0].startswith("key [redacted MY_KEY] in /")  # its own workspace now
    assert "%" not in said[0]


@pytest.mark.parametrize(
    ("steps", "kind"),
    [
        ('fail = "auth"\ntext = "the key is wrong"', "auth"),
        ("exit = 7", "crash"),
        ('end = "I did nothing"', "no_change"),
    ],
)
def test_a_bad_ending_is_the_same_too(corral: Corral, tmp_path: Path, steps: str, kind: str) -> None:
    file = tmp_path / "bad.recording"
    first = corral.run(corral.repo(), "do it", "--retries", "0", "--agent", corral.script(f"[[step]]\n{steps}\n"))
    assert first.code == 1
    assert record(corral, file).code == 0
    person, twin = other(corral)
    again = person.run(twin, "do it", "--retries", "0", "--agent", f"replay:{file}")
    assert again.code == 1
    assert again.attempt["error"] == first.attempt["error"]
    assert again.attempt["error"]["class"] == kind


def test_who_lied_is_found_out_again(corral: Corral, tmp_path: Path) -> None:
    file = tmp_path / "liar.recording"
    script = corral.script('[[step]]\nwrite = "x.txt"\ntext = "wrong"\n[[step]]\nend = "All tests pass."\n')
    first = corral.run(corral.repo(), "do it", "--agent", script, "--check", "grep right x.txt", "--retries", "0")
    assert first.attempt["error"]["class"] == "check_failed"
    assert record(corral, file).code == 0
    person, twin = other(corral)
    again = person.run(twin, "do it", "--retries", "0", "--agent", f"replay:{file}")
    assert again.code == 1, "the checks that judged it judge it again"
    assert again.attempt["output"] == "All tests pass."
    assert [check["command"] for check in again.attempt["checks"]] == ["grep right x.txt"]
    assert twin.read(again.attempt["branch"], "x.txt") == "wrong"
    mine = person.run(twin, "do it", "--agent", f"replay:{file}", "--check", "grep wrong x.txt")
    assert mine.code == 0, "the person's own come first"


def test_a_later_node_of_a_flow_is_recorded_alone(corral: Corral, tmp_path: Path) -> None:
    file = tmp_path / "second.recording"
    doer(corral)
    text = 'nodes: {one: {task: "DO: echo 1 > one.txt"}, two: {task: "DO: echo 2 > two.txt", needs: [one]}}'
    outcome = run_flow(corral, corral.repo(), text)
    assert outcome.code == 0, outcome
    assert record(corral, file).code == 0
    person, twin = other(corral)
    again = person.run(twin, "do it", "--agent", f"replay:{file}")
    assert again.code == 0, again
    assert again.attempt["files_changed"] == ["two.txt"]


def test_an_attempt_that_was_silent_is_silent_again(corral: Corral, tmp_path: Path) -> None:
    file, script = tmp_path / "silent.recording", '[[step]]\nwrite = "half.txt"\n[[step]]\nhang = 600\n'
    first = corral.run(corral.repo(), "do it", "--idle", "4s", "--agent", corral.script(script))
    assert first.attempt["status"] == "timed_out"
    assert record(corral, file).code == 0
    person, twin = other(corral)
    again = person.run(twin, "do it", "--idle", "4s", "--agent", f"replay:{file}")
    assert again.attempt["status"] == "timed_out"
    assert again.attempt["files_changed"] == ["half.txt"]


def test_a_killed_run_can_be_recorded(corral: Corral, tmp_path: Path) -> None:
    repo, file = corral.repo(), tmp_path / "killed.recording"
    script = corral.script('[[step]]\nsay = "begun"\n[[step]]\nwrite = "half.txt"\n[[step]]\nhang = 600\n')
    with corral.going("run", "do it", "--repo", repo.folder, "--agent", script) as going:
        corral.until_said("begun")
        until(lambda: any(event["type"] == "changed" for event in corral.events()), "it has written")
        assert record(corral, file).code == 2  # not over yet
        going.process.kill()
        going.process.wait()
    assert corral("stop", "@last").code == 0
    run = corral("ls", "--json").json[0]["run"]
    until(lambda: not tagged_processes(f"CORRAL_ATTEMPT={run}"), "its agent is gone")
    assert record(corral, file).code == 0
    person, twin = other(corral)
    again = person.run(twin, "do it", "--retries", "0", "--agent", f"replay:{file}")
    assert again.code == 1
    assert again.attempt["error"]["class"] == "crash"
    assert again.attempt["files_changed"] == ["half.txt"]


def test_a_base_that_it_does_not_fit(corral: Corral, tmp_path: Path) -> None:
    file = tmp_path / "work.recording"
    corral.run(corral.repo(), "do it", "--agent", corral.script(WORK))
    assert record(corral, file).code == 0
    person = Corral(tmp_path / "other")
    moved = person.repo(files={"a.txt": "something else\n", "src/b.txt": "two\n"})
    outcome = person.run(moved, "do it", "--retries", "0", "--agent", f"replay:{file}")
    assert outcome.code == 1
    assert outcome.attempt["error"]["class"] == "bad_output"
    assert "a.txt is not as it was" in outcome.attempt["error"]["message"]
    assert outcome.attempt["files_changed"] == []


def test_it_can_be_played_at_the_speed_it_had(corral: Corral, tmp_path: Path) -> None:
    file = tmp_path / "paced.recording"
    script = '[[step]]\nsay = "one"\n[[step]]\nhang = 1\n[[step]]\nsay = "two"\n[[step]]\nwrite = "x.txt"\n'
    corral.run(corral.repo(), "do it", "--agent", corral.script(script))
    assert record(corral, file).code == 0
    lines = [json.loads(text) for text in file.read_text().splitlines()]
    said = {json.loads(line["text"]).get("text"): line["at"] for line in lines if line["kind"] == "line"}
    assert said["two"] - said["one"] > 0.5
    head = {**lines[0], "speed": 2.0}
    file.write_text("\n".join(json.dumps(line) for line in [head, *lines[1:]]))
    person, twin = other(corral)
    again = person.run(twin, "do it", "--agent", f"replay:{file}")
    assert again.code == 0, again
    assert again.attempt["seconds"] >= said["two"] / 2


BAD = {
    "empty": ("", "not a whole recording"),
    "junk": ("hello\n", "line 1: not a recording"),
    "cut": ('{"kind":"head","recording":1,"agent":"claude"}\n', "not a whole recording"),
    "newer": ('{"kind":"head","recording":9,"agent":"claude"}\n{"kind":"end","code":0}\n', "format 9"),
    "unknown agent": ('{"kind":"head","recording":1,"agent":"nobody"}\n{"kind":"end","code":0}\n', "not known here"),
    "outside": (
        '{"kind":"head","recording":1,"agent":"claude"}\n{"kind":"end","code":0}\n{"kind":"file","path":"../x"}\n',
        "outside its workspace",
    ),
    "hooks": (
        '{"kind":"head","recording":1,"agent":"claude"}\n{"kind":"end","code":0}\n{"kind":"file","path":".git/config"}\n',
        "outside its workspace",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_is_no_recording(corral: Corral, tmp_path: Path, name: str) -> None:
    text, words = BAD[name]
    file = tmp_path / "bad.recording"
    file.write_text(text)
    outcome = corral.run(corral.repo(), "do it", "--agent", f"replay:{file}")
    assert outcome.code == 2
    assert outcome.err.startswith("error: ")
    assert words in outcome.err.splitlines()[0]
    assert corral("ls", "--json").json == []


def test_requests_that_make_no_sense(corral: Corral, tmp_path: Path) -> None:
    repo, file = corral.repo(), tmp_path / "work.recording"
    assert corral("export", "--recording", file).code == 2
    assert corral("export", "--attempt", "1").code == 2
    assert corral.run(repo, "do it", "--agent", "replay:nowhere").code == 2
    assert corral.run(repo, "do it", "--agent", "replay").code == 2
    corral.run(repo, "do it", "--agent", corral.script(WORK))
    assert record(corral, file, "--attempt", "7").code == 2
    assert record(corral, tmp_path / "no" / "folder").code == 2
    assert record(corral, file, "--attempt", "1").code == 0
    kept = file.read_bytes()
    assert record(corral, file).code == 2  # it is there already
    assert file.read_bytes() == kept
    person, twin = other(corral)
    assert person.run(twin, "do it", "--agent", f"replay:{file}").code == 0
    outcome = record(person, tmp_path / "again.recording")
    assert outcome.code == 2
    assert "is a replay itself" in outcome.err
