"""Flows end to end: who starts after whom, from which work, told what, and what becomes of the run."""

from datetime import UTC, datetime

import pytest

from tests.rig.command import Corral
from tests.rig.flows import doer, nodes, run_flow, statuses, winner, write
from tests.rig.repository import Repo
from tests.rig.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.both_stores]


@pytest.fixture
def repo(corral: Corral) -> Repo:
    doer(corral)
    corral.config("[retry]\nmost = 0")
    return corral.repo()


CALCULATOR = """
name: calculator
budget: {usd: 5}
defaults: {agent: doer, retries: 2, timeout: 20m}
inputs: {thing: {default: calculator}}
nodes:
  design:    {role: architect, task: "Specify a {{thing}} in spec.md\\nDO: echo 'a {{thing}}' > spec.md; echo specified"}
  implement:
    needs: [design]
    race: [doer, doer, tidy]
    task: "Implement spec.md\\nDO: cp spec.md made.txt; echo more >> made.txt"
    checks: ["grep -q calculator made.txt"]
  review:
    needs: [implement]
    agent: judge
    role: reviewer
    read_only: true
    task: "Review the change"
    output: {verdict: [accept, reject], notes: string}
  fix:
    needs: [review]
    when: review.output.verdict == "reject"
    task: "Fix\\nDO: echo '{{review.output.notes}}' >> made.txt"
    repeat: {until: checks, most: 3}
  ok:   {gate: "Land the {{thing}}?", needs: [implement, {node: fix, on: always}], default: "no", deadline: 24h}
  land: {merge: {into: main, strategy: auto}, needs: [ok]}
"""


def calculator(corral: Corral, verdict: str) -> None:
    corral.agent("tidy", "cp spec.md made.txt")
    corral.agent("judge", f"""echo '{{"verdict": "{verdict}", "notes": "too short"}}'""")


def test_the_flow_of_the_contract_from_end_to_end(corral: Corral, repo: Repo) -> None:
    calculator(corral, "reject")
    base = repo.head
    first = run_flow(corral, repo, CALCULATOR)
    assert first.code == 3, first
    found = nodes(first)
    assert statuses(first) == {
        "design": "done", "implement": "done", "review": "done", "fix": "done", "ok": "waiting", "land": "queued",
    }  # fmt: skip
    assert winner(found["implement"])["agent"] == "tidy"  # the smallest change that is proven
    assert len(found["implement"]["attempts"]) == 3
    assert repo.head == base
    (entry,) = corral("inbox", "--json").json
    assert entry["text"] == "Land the calculator?"
    assert corral("answer", entry["id"], "yes").code == 0
    second = corral("resume", "@last", "--json")
    assert second.code == 0, second
    assert set(statuses(second).values()) == {"done"}
    assert repo.read("main", "made.txt") == "a calculator\ntoo short"
    assert repo.read("main", "spec.md") == "a calculator"
    assert (repo.folder / "made.txt").read_text() == "a calculator\ntoo short\n"
    assert [len(node["attempts"]) for node in nodes(second).values()] == [1, 3, 1, 1, 0, 0]
    assert corral.leavings() == []


def test_a_gate_that_is_refused_lands_nothing(corral: Corral, repo: Repo) -> None:
    calculator(corral, "accept")
    base = repo.head
    first = run_flow(corral, repo, CALCULATOR, "--input", "thing=calculator")
    assert first.code == 3, first
    assert nodes(first)["fix"]["reason"] == '`when` does not hold: review.output.verdict == "reject"'
    (entry,) = corral("inbox", "--json").json
    corral("answer", entry["id"], "no")
    second = corral("resume", "@last", "--json")
    assert second.code == 0, second
    assert statuses(second)["ok"] == "skipped"
    assert statuses(second)["land"] == "skipped"
    assert repo.head == base


# --- edges


def test_what_follows_a_failure_and_what_does_not(corral: Corral, repo: Repo) -> None:
    outcome = run_flow(
        corral,
        repo,
        """
nodes:
  bad: {task: "DO: exit 7"}
  good: {task: "DO: echo g > good.txt"}
  mends: {needs: [{node: bad, on: failure}], task: "DO: echo m > mended.txt"}
  tidies: {needs: [{node: bad, on: always}, good], task: "DO: echo t > tidied.txt"}
  never: {needs: [bad, good], task: "DO: echo n > never.txt"}
  nor: {needs: [never], task: "DO: echo n > nor.txt"}
  calm: {needs: [{node: good, on: failure}], task: "DO: echo c > calm.txt"}
  after: {needs: [{node: nor, on: always}], task: "DO: echo a > after.txt"}
""",
    )
    assert outcome.code == 1, outcome
    assert outcome.json["status"] == "partial"
    assert statuses(outcome) == {
        "bad": "failed", "good": "done", "mends": "done", "tidies": "done", "never": "skipped", "nor": "skipped",
        "calm": "skipped", "after": "done",
    }  # fmt: skip
    found = nodes(outcome)
    assert found["never"]["reason"] == "`bad` is failed"
    assert found["nor"]["reason"] == "`never` is skipped"
    assert found["calm"]["reason"] == "`good` is done"
    assert found["bad"]["reason"].startswith("crash: ")
    assert "good.txt" in repo.files(winner(found["tidies"])["commit"])


def test_a_flow_that_stops_at_the_first_failure(corral: Corral, repo: Repo) -> None:
    outcome = run_flow(
        corral,
        repo,
        """
on_failure: stop
parallel: 1
defaults: {retries: 0}
nodes:
  bad: {task: "DO: exit 7"}
  other: {task: "DO: echo o > other.txt"}
  mends: {needs: [{node: bad, on: failure}], task: "DO: echo m > mended.txt"}
""",
    )
    assert outcome.code == 1, outcome
    assert statuses(outcome) == {"bad": "failed", "other": "skipped", "mends": "skipped"}
    assert nodes(outcome)["other"]["reason"] == "the flow stops at the first failure"


def test_conditions_are_asked_of_results(corral: Corral, repo: Repo) -> None:
    outcome = run_flow(
        corral,
        repo,
        """
inputs: {depth: {default: 2}}
nodes:
  look:
    read_only: true
    task: "DO: echo '{\\"verdict\\": \\"small\\", \\"parts\\": [\\"x\\", \\"y\\"]}'"
    output: {verdict: [small, large], parts: [string]}
  yes: {needs: [look], when: 'look.output.verdict in ["small"] and len(look.output.parts) == depth', task: "DO: echo > yes.txt; echo x"}
  no: {needs: [look], when: 'not look.output.parts[0] == "x"', task: "DO: echo no > no.txt"}
  wrong: {needs: [look], when: 'look.output.parts[5] == "red"', task: "DO: echo wrong > wrong.txt"}
  changed: {needs: [yes], when: '"yes.txt" in yes.files_changed and yes.status == "done"', run: "echo changed > c.txt"}
""",
    )
    assert statuses(outcome) == {
        "look": "done", "yes": "done", "no": "skipped", "wrong": "failed", "changed": "done",
    }  # fmt: skip
    assert outcome.json["status"] == "partial"
    assert "look.output.parts" in nodes(outcome)["wrong"]["reason"]


def test_a_node_for_each_item_of_a_list(corral: Corral, repo: Repo) -> None:
    outcome = run_flow(
        corral,
        repo,
        """
nodes:
  plan:
    read_only: true
    task: "DO: echo '{\\"files\\": [\\"one\\", \\"two\\", \\"three\\"], \\"none\\": []}'"
    output: {files: [string], none: [string]}
  write: {needs: [plan], for_each: plan.output.files, task: "DO: echo '{{item}} {{index}}' > {{item}}.txt; echo wrote {{item}}"}
  idle: {needs: [plan], for_each: plan.output.none, task: "DO: exit 1"}
  all: {needs: [write, idle], task: "DO: ls *.txt > list.md; echo '{{write.output}}' > said.md"}
""",
    )
    assert outcome.code == 0, outcome
    assert statuses(outcome) == dict.fromkeys(("plan", "write", "idle", "all", "write.0", "write.1", "write.2"), "done")
    commit = winner(nodes(outcome)["all"])["commit"]
    assert repo.read(commit, "list.md") == "a.txt\none.txt\nthree.txt\ntwo.txt"
    assert repo.read(commit, "two.txt") == "two 1"
    assert repo.read(commit, "said.md") == '["wrote one","wrote two","wrote three"]'


def test_some_items_fail(corral: Corral, repo: Repo) -> None:
    outcome = run_flow(
        corral,
        repo,
        """
nodes:
  each: {for_each: "[1, 2, 3]", task: "DO: test {{item}} != 2 && echo {{item}} > n{{item}}.txt"}
  after: {needs: [each], run: "true"}
  report: {needs: [{node: each, on: failure}], task: "DO: ls n*.txt > kept.md"}
""",
    )
    assert outcome.code == 1
    assert statuses(outcome) == {
        "each": "failed", "each.0": "done", "each.1": "failed", "each.2": "done", "after": "skipped", "report": "done",
    }  # fmt: skip
    assert nodes(outcome)["each"]["reason"].startswith("1 of 3 items: crash")
    assert repo.read(winner(nodes(outcome)["report"])["commit"], "kept.md") == "n1.txt\nn3.txt"


# --- repeating


def test_it_repeats_from_where_it_stopped_until_its_checks_pass(corral: Corral, repo: Repo) -> None:
    outcome = run_flow(
        corral,
        repo,
        """
nodes:
  grow:
    task: "DO: echo x >> grown.txt; case $PROMPT in *'not acc'epted*) echo told >> told.txt;; esac"
    checks: ["test $(wc -l < grown.txt) -ge 3 || { wc -l < grown.txt; false; }"]
    repeat: {until: checks, most: 5}
""",
    )
    assert outcome.code == 0, outcome
    (node,) = outcome.json["nodes"]
    assert [attempt["status"] for attempt in node["attempts"]] == ["failed", "failed", "done"]
    assert repo.read(winner(node)["commit"], "grown.txt") == "x\nx\nx"
    assert repo.read(winner(node)["commit"], "told.txt") == "told\ntold"  # what was wrong is told


def test_a_failure_that_comes_back_ends_the_repeating(corral: Corral, repo: Repo) -> None:
    outcome = run_flow(
        corral,
        repo,
        """
nodes:
  stuck: {task: "DO: date +%N > tried.txt", checks: ["echo always the same; false"], repeat: {until: checks, most: 9}}
""",
    )
    assert outcome.code == 1
    (node,) = outcome.json["nodes"]
    assert len(node["attempts"]) == 3
    assert node["reason"].startswith("the same failure 3 times: check_failed")


def test_it_repeats_until_an_expression_holds(corral: Corral, repo: Repo) -> None:
    flow = """
nodes:
  count:
    task: "DO: echo x >> n.txt; echo \\"{\\\\\\"left\\\\\\": $((3 - $(wc -l < n.txt)))}\\""
    output: {left: integer}
    repeat: {until: output.left == LAST, most: 4}
"""
    outcome = run_flow(corral, repo, flow.replace("LAST", "1"))
    assert outcome.code == 0, outcome
    assert winner(outcome.json["nodes"][0])["output"] == {"left": 1}
    assert len(outcome.json["nodes"][0]["attempts"]) == 2
    never = run_flow(corral, repo, flow.replace("LAST", "7"))
    assert never.code == 1
    assert never.json["nodes"][0]["reason"] == "`until` does not hold after 4 rounds"


# --- nested flows, races, commands


def test_a_flow_within_a_flow(corral: Corral, repo: Repo) -> None:
    write(corral, """
inputs: {name: {}, loud: {default: false}}
nodes:
  make: {task: "DO: echo '{{name}}' > {{name}}.txt; echo made {{name}}"}
  shout: {needs: [make], when: loud, task: "DO: echo '{{make.output}}' >> {{name}}.txt"}
""", "part.yaml")  # fmt: skip
    repo.commit({".corral/flows/shared.yaml": 'nodes: {only: {run: "echo shared > shared.txt"}}\n'})
    outcome = run_flow(
        corral,
        repo,
        """
inputs: {word: {default: left}}
nodes:
  first: {task: "DO: echo f > first.txt; echo said-by-first"}
  left: {flow: part.yaml, needs: [first], with: {name: "{{word}}", loud: true}}
  right: {flow: part, needs: [first], with: {name: "{{first.output}}"}}
  away: {flow: part, when: "false", with: {name: away}}
  common: {flow: shared}
  both: {needs: [left, right, common], task: "DO: ls *.txt > list.md"}
""",
    )
    assert outcome.code == 0, outcome
    assert statuses(outcome)["left/make"] == "done"
    assert statuses(outcome)["left/shout"] == "done"
    assert statuses(outcome)["right/shout"] == "skipped"
    assert statuses(outcome)["away/make"] == "skipped"
    commit = winner(nodes(outcome)["both"])["commit"]
    assert {"first.txt", "left.txt", "said-by-first.txt", "shared.txt"} <= set(repo.files(commit))
    assert repo.read(commit, "left.txt") == "left\nmade left"


def test_the_best_of_a_race_is_what_goes_on(corral: Corral, repo: Repo) -> None:
    corral.agent("long", "seq 50 > result.txt")
    corral.agent("short", "seq 5 > result.txt")
    corral.agent("wrong", "echo wrong > result.txt")
    outcome = run_flow(
        corral,
        repo,
        """
nodes:
  race: {race: [long, short, wrong], task: "race", checks: ["grep -q 4 result.txt"]}
  after: {needs: [race], run: "wc -l < result.txt > count.md"}
""",
    )
    assert outcome.code == 0, outcome
    found = nodes(outcome)
    assert winner(found["race"])["agent"] == "short"
    assert [attempt["status"] for attempt in found["race"]["attempts"]] == ["done", "done", "failed"], found["race"]
    assert repo.read(winner(found["after"])["commit"], "count.md") == "5"


def test_commands_are_nodes_too(corral: Corral, repo: Repo) -> None:
    outcome = run_flow(corral, repo, """
inputs: {word: {default: hello}}
nodes:
  say: {run: "echo {{word}}"}
  keep: {needs: [say], run: "echo 'it said {{say.output}}' > kept.txt", checks: ["test -s kept.txt"]}
  break: {needs: [keep], run: "echo trouble >&2; exit 9"}
""", "--input", "word=good morning")  # fmt: skip
    assert outcome.code == 1
    found = nodes(outcome)
    assert winner(found["say"])["output"] == "good morning"
    assert repo.read(winner(found["keep"])["commit"], "kept.txt") == "it said good morning"
    assert found["break"]["status"] == "failed"
    assert found["break"]["reason"].startswith("crash: ")
    assert found["say"]["attempts"][0]["cost"]["usd"] in (0, None)


# --- gates


def test_a_gate_is_answered_by_its_deadline(corral: Corral, repo: Repo) -> None:
    outcome = run_flow(
        corral,
        repo,
        """
nodes:
  ask: {gate: "Go on?", default: "yes", deadline: 1s}
  go: {needs: [ask], task: "DO: echo '{{ask.output}}' > went.txt"}
""",
    )
    if outcome.code == 3:  # nobody waits for an answer that may take a day
        (entry,) = corral("inbox", "--all", "--json").json
        due = datetime.fromisoformat(entry["deadline"])
        until(lambda: datetime.now(UTC) > due, "its time is over")
        assert "`ask` is answered: yes, by deadline" in corral("show", "@last", "--json").json["reason"]
        assert "answered" in corral("ls").out
        assert corral("inbox", "--json").json == []
        outcome = corral("resume", "@last", "--json")
    assert outcome.code == 0, outcome
    assert repo.read(winner(nodes(outcome)["go"])["commit"], "went.txt") == "yes"
    (kept,) = corral("inbox", "--all", "--json").json
    assert (kept["answer"], kept["answered_by"]) == ("yes", "deadline")


def test_a_command_that_failed_is_tried_again_only_if_asked(corral: Corral) -> None:
    doer(corral)
    corral.config("[retry]\ndelay_seconds = 0")
    file = """
on_failure: continue
nodes:
  once: {run: "exit 3"}
  twice: {run: "exit 3", retries: 1}
"""
    detached = run_flow(corral, corral.repo(), file, "--detach")
    assert detached.code == 0, detached
    run = detached.json["run"]
    until(lambda: corral("show", run, "--json").json["status"] == "failed", "it is over")
    found = nodes(corral("show", run, "--json"))
    assert {name: len(node["attempts"]) for name, node in found.items()} == {"once": 1, "twice": 2}


def test_another_node_done_again_leaves_a_gate_its_answer(corral: Corral, repo: Repo) -> None:
    outcome = run_flow(
        corral,
        repo,
        """
nodes:
  ask: {gate: "Go on?", default: "yes", deadline: 1s}
  work: {run: "false"}
  go: {needs: [ask], run: "true"}
""",
    )
    if outcome.code == 3:
        (entry,) = corral("inbox", "--all", "--json").json
        due = datetime.fromisoformat(entry["deadline"])
        until(lambda: datetime.now(UTC) > due, "its time is over")
    outcome = corral("retry", "@last", "work", "--json")
    assert statuses(outcome) == {"ask": "done", "work": "failed", "go": "done"}
    (kept,) = corral("inbox", "--all", "--json").json
    assert (kept["node"], kept["answer"], kept["answered_by"]) == ("ask", "yes", "deadline")


def test_other_work_goes_on_while_a_gate_waits(corral: Corral, repo: Repo) -> None:
    outcome = run_flow(
        corral,
        repo,
        """
nodes:
  ask: {gate: "Land it?"}
  work: {task: "DO: echo w > work.txt"}
  more: {needs: [work], task: "DO: echo m > more.txt"}
  land: {needs: [ask, more], run: "ls *.txt"}
""",
    )
    assert outcome.code == 3, outcome
    assert statuses(outcome) == {"ask": "waiting", "work": "done", "more": "done", "land": "queued"}
    (entry,) = corral("inbox", "--json").json
    assert f"next     corral answer {entry['id']} yes|no   corral stop " in corral("show", "@last").out
    again = corral("resume", "@last", "--json")
    assert again.code == 3, "nothing was answered, and nothing happens"
    assert [each["id"] for each in corral("inbox", "--json").json] == [entry["id"]]
    corral("answer", entry["id"], "yes")
    outcome = corral("resume", "@last", "--json")
    assert outcome.code == 0, outcome
    assert [len(node["attempts"]) for node in outcome.json["nodes"]] == [0, 1, 1, 1]
    assert winner(nodes(outcome)["land"])["output"] == "a.txt\nmore.txt\nwork.txt"
