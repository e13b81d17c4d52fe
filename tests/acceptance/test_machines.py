"""Attempts on other machines: `corral host` at the far end of any command, the result a commit here."""

import pytest

from tests.rig.command import Corral
from tests.rig.flows import doer, nodes, run_flow
from tests.rig.machines import add_machine, far_home, host_pids
from tests.rig.server import serving
from tests.rig.waiting import until

SCRIPT = """
[[step]]
say = "hello from afar"
[[step]]
write = "new.txt"
text = "made there"
"""


def test_the_agent_works_there_and_the_commit_is_here(corral: Corral) -> None:
    add_machine(corral)
    repo = corral.repo()
    outcome = corral.run(
        repo,
        "make it",
        "--agent",
        corral.script(SCRIPT),
        "--machine",
        "box1",
        "--check",
        "pwd && grep -q there new.txt",
    )
    assert (outcome.code, outcome.json["status"]) == (0, "done"), outcome
    attempt = outcome.attempt
    assert attempt["machine"] == "box1"
    assert repo.read(attempt["commit"], "new.txt") == "made there"
    assert attempt["files_changed"] == ["new.txt"]
    assert attempt["sandbox"]["level"] in ("full", "strict")
    assert attempt["evidence"]["grade"] == "proven"
    said = [event["text"] for event in corral.events("@last") if event["type"] == "said"]
    assert said == ["hello from afar"]
    checked = (corral.home / "logs" / attempt["id"] / "check-1.log").read_text()
    assert checked.startswith(str(far_home(corral)))  # checks run where their attempt ran
    assert not corral.leavings()
    left = far_home(corral) / "host" / "workspaces"
    until(lambda: not list(left.iterdir()), "the workspaces there are removed")
    until(lambda: not host_pids(corral), "a host that nobody needs ends")


def test_nothing_of_the_repository_is_read_there_by_its_path(corral: Corral) -> None:
    add_machine(corral)
    repo = corral.repo(files={"a.txt": "one\n"})
    repo.commit({"b.txt": "two\n"})
    here = str(repo.folder)
    agent = corral.agent(
        "looker", f"cat b.txt > seen.txt; grep -rs '{here}' .git ~ >> seen.txt; git log --oneline >> seen.txt"
    )
    outcome = corral.run(repo, "look", "--agent", agent, "--machine", "box1")
    seen = repo.read(outcome.attempt["commit"], "seen.txt")
    assert seen.startswith("two\n")
    assert here not in seen
    assert len(seen.splitlines()) == 3  # what b.txt holds, and two commits


def test_a_run_without_a_machine_says_null(corral: Corral) -> None:
    outcome = corral.run(corral.repo(), "x", "--agent", corral.script(SCRIPT))
    assert outcome.attempt["machine"] is None


FLOW = """
name: two places
nodes:
  there: {task: "DO: echo 1 > one.txt", machine: box1, artifacts: {one: one.txt}}
  labelled: {task: "DO: cat one.txt > two.txt; cat ~/artifacts/there/one.txt >> two.txt", needs: [there], machine: {arch: arm64}}
  command: {run: "test $(wc -l < two.txt) = 2", needs: [labelled], machine: any}
  here: {task: "DO: cp two.txt three.txt", needs: [command]}
"""


def test_nodes_of_one_flow_go_to_different_machines(corral: Corral) -> None:
    doer(corral)
    add_machine(corral, "box1")
    add_machine(corral, "box2", "labels = {arch = 'arm64'}")
    repo = corral.repo()
    outcome = run_flow(corral, repo, FLOW)
    assert outcome.json["status"] == "done", outcome
    placed = {name: node["attempts"][0]["machine"] for name, node in nodes(outcome).items()}
    assert placed["there"] == "box1"
    assert placed["labelled"] == "box2"
    assert placed["command"] in ("box1", "box2")
    assert placed["here"] is None
    assert repo.read(nodes(outcome)["here"]["attempts"][0]["commit"], "three.txt") == "1\n1"


def test_attempts_of_a_race_use_the_slots_of_all_machines(corral: Corral) -> None:
    add_machine(corral, "box1", "slots = 1")
    add_machine(corral, "box2", "slots = 1")
    agents = [corral.agent(f"racer{number}", f"echo {number} > n.txt") for number in range(3)]
    outcome = corral.run(
        corral.repo(), "race", "--agent", ",".join(agents), "--machine", "any", "--check", "test -f n.txt"
    )
    attempts = outcome.json["nodes"][0]["attempts"]
    assert len(attempts) == 3, outcome
    assert {each["machine"] for each in attempts} == {"box1", "box2"}
    assert {each["status"] for each in attempts} == {"done"}


@pytest.mark.parametrize(
    ("settings", "words", "said"),
    [
        ("", "box9", "no machine is set up"),
        ('[machines.box1]\ncommand = ["corral", "host"]', "box9", "there is no machine `box9`"),
        ('[machines.box1]\ncommand = ["/nowhere/ssh", "x"]', "box1", "cannot be reached: cannot start /nowhere/ssh"),
        ('[machines.box1]\ncommand = ["sh", "-c", "echo no route >&2; exit 1"]', "box1", "cannot be reached: no route"),
        ('[machines.box1]\ncommand = ["echo", "hello, this is a login message"]', "box1", "this is not `corral host`"),
        ("[machines.box1]\ncommand = []", "box1", "has no command"),
        ('[machines.any]\ncommand = ["x"]', "any", "is no name for a machine"),
        ('[machines.box1]\ncommand = ["x"]\nslots = 0', "box1", "slots is 1 or more"),
        ('[machines.box1]\ncommand = ["x"]\nsandbox = "none at all"', "box1", "sandbox"),
    ],
)  # fmt: skip
def test_what_cannot_be_met_is_said_in_one_line_and_nothing_starts(
    corral: Corral, settings: str, words: str, said: str
) -> None:
    corral.config(settings)
    outcome = corral.run(corral.repo(), "x", "--agent", corral.script(SCRIPT), "--machine", words)
    assert outcome.code == 2, outcome
    assert said in outcome.err
    assert sum(line.startswith("error:") for line in outcome.err.splitlines()) == 1
    assert not corral("ls", "--json").json


def test_a_machine_without_the_program_is_refused(corral: Corral) -> None:
    add_machine(corral)
    corral.config('[agents.odd]\ncommand = ["no-such-program-anywhere", "{prompt}"]\n')
    outcome = corral.run(corral.repo(), "x", "--agent", "odd", "--machine", "box1")
    assert outcome.code == 2
    assert "the machine `box1` has no program `no-such-program-anywhere`" in outcome.err


def test_a_repository_names_no_machines(corral: Corral) -> None:
    repo = corral.repo(files={"corral.toml": '[machines.box1]\ncommand = ["touch", "/tmp/owned"]\n'})
    outcome = corral.run(repo, "x", "--agent", corral.script(SCRIPT))
    assert outcome.code == 2
    assert "[machines] is yours to say" in outcome.err


def test_machines_are_listed_and_checked(corral: Corral) -> None:
    assert corral("machines", "ls", "--json").json == []
    add_machine(corral, "box1", "slots = 3\nlabels = {arch = 'arm64'}")
    add_machine(corral, "box2", command='["sh", "-c", "echo no route to host >&2; exit 255"]')
    found = {each["name"]: each for each in corral("machines", "ls", "--json").json}
    box = found["box1"]
    assert (box["ok"], box["reachable"], box["error"]) == (True, True, None)
    assert (box["slots"], box["slots_used"], box["labels"]) == (3, 0, {"arch": "arm64"})
    assert box["sandbox"] in ("full", "strict")
    assert box["version"]
    assert box["cores"] > 0
    assert (found["box2"]["ok"], found["box2"]["reachable"]) == (False, False)
    assert "no route to host" in found["box2"]["error"]
    assert "box1" in corral("machines").out
    checked = corral("machines", "check", "box1")
    assert (checked.code, "box1: ready" in checked.out) == (0, True)
    assert corral("machines", "check").code == 1
    unknown = corral("machines", "check", "box9")
    assert (unknown.code, "there is no machine `box9`" in unknown.err) == (2, True)


def test_the_server_lists_machines(corral: Corral) -> None:
    add_machine(corral)
    with serving(corral, corral.repo().folder) as server:
        found = server.ask("GET", "/api/v1/machines").json
    assert [(each["name"], each["ok"]) for each in found] == [("box1", True)]


def test_one_that_waits_for_a_slot_says_so(corral: Corral) -> None:
    add_machine(corral, settings="slots = 1")
    held = corral.agent("held", "touch begun; while [ ! -e go ]; do sleep 0.05; done; echo x > x.txt")
    repo = corral.repo()
    folder = far_home(corral) / "host" / "workspaces"
    with corral.going(
        "run", "x", "--repo", repo.folder, "--agent", f"{held},{held}", "--machine", "box1", "--json"
    ) as run:
        until(lambda: list(folder.glob("*/work/begun")), "the first has begun")
        waits = "waits for a machine: box1 has 1 of 1 slots in use"
        until(lambda: waits in corral("logs", "@last").out, "the second says why it waits")
        for _ in range(2):
            until(
                lambda: [place for place in folder.glob("*/work/begun") if not (place.parent / "go").exists()],
                "one more",
            )
            for place in folder.glob("*/work/begun"):
                (place.parent / "go").touch()
        outcome = run.end()
    assert [each["status"] for each in outcome.json["nodes"][0]["attempts"]] == ["done", "done"], outcome


def test_a_flow_goes_to_a_machine_unless_its_nodes_say_otherwise(corral: Corral) -> None:
    doer(corral)
    add_machine(corral, "box1")
    add_machine(corral, "box2")
    flow = """
name: placed
nodes:
  one: {task: "DO: echo 1 > one.txt"}
  two: {task: "DO: cat one.txt > two.txt", needs: [one], machine: box2}
"""
    outcome = run_flow(corral, corral.repo(), flow, "--machine", "box1")
    placed = {name: node["attempts"][0]["machine"] for name, node in nodes(outcome).items()}
    assert (outcome.json["status"], placed) == ("done", {"one": "box1", "two": "box2"}), outcome


def test_an_unknown_label_of_a_flow_is_named_with_its_line(corral: Corral) -> None:
    doer(corral)
    add_machine(corral, "box1", "labels = {arch = 'x86'}")
    flow = "name: x\nnodes:\n  one: {task: 'DO: true', machine: {arch: arm64}}\n"
    outcome = run_flow(corral, corral.repo(), flow)
    assert outcome.code == 2, outcome
    assert ":3:" in outcome.err
    assert "there is no machine with arch = arm64" in outcome.err
