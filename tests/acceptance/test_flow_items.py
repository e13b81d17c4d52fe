"""Commands of a flow as sources of data: their JSON, lists made of it, a matrix, rounds; and a kill in the midst of it."""

from typing import Any

import pytest

from tests.rig.command import Corral
from tests.rig.flows import doer, nodes, run_flow, statuses, winner, write
from tests.rig.server import waits_for
from tests.rig.waiting import until

pytestmark = pytest.mark.slow

DATA = """
inputs: {issue-number: {default: 7}}
nodes:
  fetch-issue:
    run: |
      echo "fetching {{issue-number}}"
      echo '{"kind": "bug", "version": "1.2"}'
    output: {kind: [bug, feature], version: string}
  list-files: {run: "printf '[\\n {\\"name\\": \\"one\\"},\\n {\\"name\\": \\"two\\"}\\n]\\n'", output: json}
  each-file: {needs: [list-files], for_each: list-files.output, run: "echo {{item.name}} > {{item.name}}.txt"}
  fix-bug:
    needs: [fetch-issue]
    when: fetch-issue.output.kind == "bug"
    task: "DO: echo '{{fetch-issue.output.version}} {{nodes['fetch-issue'].status}}' > fixed.txt"
  test-all:
    matrix: {os: [linux, mac], py: [3.10, 3.11], exclude: [{os: mac, py: 3.10}]}
    run: "echo '{{matrix.os}}-{{matrix.py}}' > {{matrix.os}}-{{matrix.py}}.out; echo {{matrix.py}}"
  poll: {run: "echo x >> count; test $(wc -l < count) = 3", repeat: {until: success, most: 5, delay: 0.1s}}
  bad-json: {run: "echo '[1, 2'", output: json}
  bad-shape: {run: "echo 3", output: {n: integer}}
  end: {needs: [each-file, test-all, fix-bug, poll], run: "ls; echo '{{test-all.output}}' > said.md"}
"""


def test_what_commands_print_decides_what_is_done(corral: Corral) -> None:
    doer(corral)
    repo = corral.repo()
    outcome = run_flow(corral, repo, DATA)
    assert outcome.code == 1, outcome
    shown = corral("show", "@last").out.splitlines()
    assert any("7 of 9 nodes done with 5 items, " in line for line in shown), shown
    listed = [line.split()[0] for line in shown if line.startswith("  ") and line.split()]
    place = listed.index("each-file")
    assert listed[place + 1 : place + 3] == ["each-file.0", "each-file.1"], "items are below their node"
    found = nodes(outcome)
    bad = {"bad-json", "bad-shape"}
    assert {name for name, status in statuses(outcome).items() if status != "done"} == bad, statuses(outcome)
    assert all(found[name]["reason"].startswith("bad_output: ") for name in bad)
    assert all(len(found[name]["attempts"]) == 1 for name in bad)
    assert winner(found["fetch-issue"])["output"] == {"kind": "bug", "version": "1.2"}
    assert len(found["poll"]["attempts"]) == 3
    commit = winner(found["end"])["commit"]
    files = set(repo.files(commit))
    assert {"one.txt", "two.txt", "linux-3.10.out", "linux-3.11.out", "mac-3.11.out"} <= files
    assert "mac-3.10.out" not in files
    assert repo.read(commit, "fixed.txt") == "1.2 done"
    assert repo.read(commit, "said.md") == '["3.10","3.11","3.11"]'


KILLED = """
nodes:
  each: {matrix: {n: [1, 2, 3]}, run: "echo n{{matrix.n}}; test {{matrix.n}} != 3 || { WAITS; }"}
  poll:
    run: "echo x >> count; n=$(wc -l < count); test $n -ge 3 || { test $n = 1 || { WAITS; }; exit 1; }"
    repeat: {until: success, most: 9}
"""


def test_after_a_kill_in_a_matrix_and_in_rounds_nothing_finished_is_done_again(corral: Corral) -> None:
    repo, signs = corral.repo(), corral.root / "signs"
    signs.mkdir()
    corral.config(f'[scope]\nread = ["**", "{signs}"]')
    file = write(corral, KILLED.replace("WAITS", waits_for(signs / "go")))
    before: dict[str, dict[str, Any]] = {}

    def half_done() -> bool:
        runs = corral("ls", "--json").json
        before.update(nodes(corral("show", runs[0]["run"], "--json")) if runs else {})
        done = [before[name]["status"] == "done" for name in ("each.0", "each.1") if name in before]
        return done == [True, True] and len(before["poll"]["attempts"]) >= 2

    with corral.going("flow", "run", file, "--repo", repo.folder, "--json"):
        until(half_done, "a part of it is done")  # killed here
    (signs / "go").touch()
    run = corral("ls", "--json").json[0]["run"]
    outcome = corral("resume", run, "--json")
    assert outcome.code == 0, outcome
    after = nodes(outcome)
    for name in ("each.0", "each.1"):
        assert after[name]["attempts"] == before[name]["attempts"]
    assert after["poll"]["attempts"][0] == before["poll"]["attempts"][0]
    ended = [(each["node"], each["attempt"]) for each in corral.events(run) if each["type"] == "ended"]
    assert len(ended) == len(set(ended)), ended
    assert winner(after["each.2"])["output"] == "n3"
    assert repo.read(winner(after["poll"])["commit"], "count").split() == ["x", "x", "x"]


INLINE = """
nodes:
  each:
    for_each: [{name: red, size: {wide: 3}, tags: [x, y]}, {name: blue, size: {wide: 4}, tags: []}]
    task: "DO: echo '{{item.size.wide}} {{item.tags}}' > {{item.name}}.txt"
  all: {needs: [each], run: "cat red.txt blue.txt > all.txt"}
"""


def test_a_list_of_objects_is_written_into_the_flow(corral: Corral) -> None:
    doer(corral)
    repo = corral.repo()
    outcome = run_flow(corral, repo, INLINE)
    assert outcome.code == 0, outcome
    assert repo.read(winner(nodes(outcome)["all"])["commit"], "all.txt") == '3 ["x","y"]\n4 []'
