"""What a node of a flow starts from, is told, may use up, and who carries it out: seen from the command line."""

from typing import Any

import pytest

from tests.rig.command import Corral
from tests.rig.flows import doer, nodes, run_flow, statuses, winner
from tests.rig.repository import Repo

pytestmark = pytest.mark.slow


@pytest.fixture
def repo(corral: Corral) -> Repo:
    doer(corral)
    corral.config("[retry]\nmost = 0")
    return corral.repo()


# --- from which work


CLASH = """
nodes:
  red: {task: "DO: echo red > a.txt"}
  blue: {task: "DO: echo blue > a.txt"}
  green: {task: "DO: echo green > green.txt"}
  both: {needs: [red, blue, green], task: "DO: ANSWER", checks: ["grep -q red a.txt"]}
"""


def test_work_that_goes_together_is_combined(corral: Corral, repo: Repo) -> None:
    outcome = run_flow(
        corral,
        repo,
        """
nodes:
  first: {task: "DO: echo 1 > one.txt; rm src/b.txt"}
  left: {needs: [first], task: "DO: echo l > left.txt"}
  right: {needs: [first], task: "DO: echo r > right.txt"}
  both: {needs: [left, right], run: "ls *.txt src 2>/dev/null; true"}
""",
    )
    assert outcome.code == 0, outcome
    assert winner(nodes(outcome)["both"])["output"] == "a.txt\nleft.txt\none.txt\nright.txt"
    assert repo.head == repo.git("merge-base", "main", winner(nodes(outcome)["left"])["commit"])


def test_an_agent_resolves_what_does_not_go_together(corral: Corral, repo: Repo) -> None:
    outcome = run_flow(corral, repo, CLASH.replace("ANSWER", "cp a.txt seen.md; printf 'red\\\\nblue\\\\n' > a.txt"))
    assert outcome.code == 0, outcome
    commit = winner(nodes(outcome)["both"])["commit"]
    assert repo.read(commit, "a.txt") == "red\nblue"
    assert "<<<<<<<" in repo.read(commit, "seen.md")
    assert repo.read(commit, "green.txt") == "green"
    assert "conflict marks" in corral("logs", "@last", "--prompt").out


def test_conflicts_that_nobody_resolves_are_no_result(corral: Corral, repo: Repo) -> None:
    outcome = run_flow(corral, repo, CLASH.replace("ANSWER", "echo other > other.txt"))
    assert outcome.code == 1
    node = nodes(outcome)["both"]
    assert node["status"] == "failed"
    assert node["attempts"][-1]["error"]["class"] == "check_failed"
    assert "a.txt" in node["attempts"][-1]["error"]["message"]


def test_a_command_does_not_resolve_conflicts(corral: Corral, repo: Repo) -> None:
    outcome = run_flow(
        corral,
        repo,
        """
nodes:
  red: {task: "DO: echo red > a.txt"}
  blue: {task: "DO: echo blue > a.txt"}
  both: {needs: [red, blue], run: "true"}
""",
    )
    assert outcome.code == 1
    assert statuses(outcome) == {"red": "done", "blue": "done", "both": "failed"}
    assert "does not go together: a.txt" in nodes(outcome)["both"]["reason"]


# --- told what


def test_what_the_next_agent_is_told(corral: Corral, repo: Repo) -> None:
    outcome = run_flow(
        corral,
        repo,
        """
nodes:
  plan:
    role: architect
    task: "DO: echo p > plan.md; seq 5000; echo 'DECISION: use SQLite'"
  shape: {read_only: true, task: "DO: echo '{\\"colour\\": \\"teal\\"}'", output: {colour: string}}
  build:
    needs: [plan, shape]
    task: "Build it.\\nDO: printf '%s' \\"$PROMPT\\" > told.md; cp ~/handoff/plan.md whole.md; ls ~/handoff > list.md"
""",
    )
    assert outcome.code == 0, outcome
    commit = winner(nodes(outcome)["build"])["commit"]
    told = repo.read(commit, "told.md")
    for words in ("## plan (doer, architect, done)", "plan.md (+1 -0)", "DECISION: use SQLite", "teal", "Build it."):
        assert words in told
    assert "4321" not in told
    assert "~/handoff/plan.md" in told
    assert repo.read(commit, "list.md") == "plan.md"
    whole = repo.read(commit, "whole.md")
    assert "\n4321\n" in whole
    assert whole.endswith("DECISION: use SQLite")
    assert repo.read(commit, "plan.md") == "p"


def test_a_nul_byte_in_an_output_is_no_trouble_for_the_next(corral: Corral, repo: Repo) -> None:
    """No program can be started with one: not an agent, not a command, not git for the words of a commit."""
    outcome = run_flow(
        corral,
        repo,
        r"""
nodes:
  odd: {run: "printf 'a\\000b'; echo 1 > one.txt"}
  told: {needs: [odd], task: "DO: printf '%s' \"$PROMPT\" > prompt.txt"}
  command: {needs: [odd], run: "echo '{{odd.output}}' > line.txt"}
""",
    )
    assert outcome.code == 0, outcome
    shown = nodes(outcome)
    assert "a\N{REPLACEMENT CHARACTER}b" in repo.read(winner(shown["told"])["commit"], "prompt.txt")
    assert repo.read(winner(shown["command"])["commit"], "line.txt") == "a\N{REPLACEMENT CHARACTER}b"


def test_all_agents_of_a_flow_share_their_first_words(corral: Corral, repo: Repo) -> None:
    """The same words first, in every prompt; what is too long lies whole in their HOME."""
    lines = "".join(f"  line {number} of what holds here\n" for number in range(1000))
    outcome = run_flow(
        corral,
        repo,
        f"""
inputs: {{money: {{default: cents}}}}
context: |
  CONSTRAINT: prices are in {{{{money}}}}.
{lines}
defaults: {{role: developer}}
nodes:
  one: {{task: "DO: printf '%s' \\"$PROMPT\\" > told.md; cp ~/context.md whole.md"}}
  two: {{task: "DO: printf '%s' \\"$PROMPT\\" > told.md"}}
""",
    )
    assert outcome.code == 0, outcome
    commits = [winner(node)["commit"] for node in nodes(outcome).values()]
    one, two = (repo.read(commit, "told.md") for commit in commits)
    head, _, rest = one.partition("[shortened: the whole is in ~/context.md]")
    assert head.startswith("# What applies to every step\n\nCONSTRAINT: prices are in cents.\nline 0 of")
    assert rest
    assert two.startswith(head)
    assert "line 500 " not in head
    assert "line 500 " in repo.read(commits[0], "whole.md")


def test_an_output_that_does_not_fit_fails_the_node(corral: Corral, repo: Repo) -> None:
    outcome = run_flow(
        corral,
        repo,
        """
nodes:
  say: {read_only: true, task: "DO: echo '{\\"verdict\\": \\"perhaps\\"}'", output: {verdict: [accept, reject]}}
  after: {needs: [say], task: "DO: echo '{{say.output.verdict}}' > v.txt"}
""",
    )
    assert outcome.code == 1
    assert statuses(outcome) == {"say": "failed", "after": "skipped"}
    assert nodes(outcome)["say"]["attempts"][-1]["error"]["class"] == "bad_output"


# --- limits, each of its own


def test_checks_timeouts_and_who_steps_in_are_each_nodes_own(corral: Corral, repo: Repo) -> None:
    corral.agent("broken", "exit 3", 'family = "mine"')
    corral.agent("spare", "echo spare > spare.txt", 'family = "mine"')
    outcome = run_flow(
        corral,
        repo,
        """
nodes:
  slow: {task: "DO: echo half > half.txt; sleep 60", timeout: 5s}
  silent: {task: "DO: sleep 60", idle: 2s}
  checked: {task: "DO: echo c > c.txt", checks: ["test -f c.txt", "echo no; exit 4"]}
  swapped: {agent: broken, fallback: [spare], task: "work"}
  again: {task: "DO: echo x > x.txt; exit 5", retries: 1}
""",
    )
    assert outcome.code == 1
    assert statuses(outcome) == {
        "slow": "timed_out", "silent": "timed_out", "checked": "failed", "swapped": "done", "again": "failed",
    }  # fmt: skip
    found = nodes(outcome)
    assert found["checked"]["attempts"][-1]["error"]["class"] == "check_failed"
    assert [attempt["agent"] for attempt in found["swapped"]["attempts"]] == ["broken", "spare"]
    assert len(found["again"]["attempts"]) == 2
    assert repo.refs(f"refs/corral/**/{found['slow']['attempts'][0]['id']}*"), "what it had made is kept"


def test_the_budget_of_a_flow_and_shares_of_it(corral: Corral, repo: Repo) -> None:
    doer(corral, "dear", "cost_usd = 0.4")
    outcome = run_flow(
        corral,
        repo,
        """
budget: {usd: 1}
defaults: {agent: dear}
nodes:
  first: {task: "DO: echo 1 > one.txt"}
  second: {needs: [first], share: 10, task: "DO: echo 2 >> two.txt", checks: ["false"], repeat: {until: checks, most: 9}}
  third: {needs: [{node: second, on: always}], task: "DO: echo 3 > three.txt"}
  free: {needs: [{node: third, on: always}], run: "ls *.txt"}
  fourth: {needs: [{node: free, on: always}], task: "DO: echo 4 > four.txt"}
""",
    )
    assert outcome.code == 4, outcome
    found = nodes(outcome)
    assert statuses(outcome) == {
        "first": "done", "second": "over_budget", "third": "done", "free": "done", "fourth": "over_budget",
    }  # fmt: skip
    assert len(found["second"]["attempts"]) == 1
    assert "$0.80 is spent; $0.40 more would be too much" in found["fourth"]["reason"]
    assert outcome.json["cost"]["usd"] == pytest.approx(0.8)


def most_at_once(events: list[dict[str, Any]]) -> int:
    """Return how many attempts were at work at the same time, by what was logged of them."""
    most, now = 0, 0
    for event in events:
        if event["type"] == "status_changed" and event["kind"] == "attempt":
            now += 1 if event["status"] == "running" else -1
            most = max(most, now)
    assert now == 0
    return most


@pytest.mark.parametrize("limit", [1, 2])
def test_no_more_at_once_than_the_flow_allows(corral: Corral, repo: Repo, limit: int) -> None:
    flow = f"parallel: {limit}\nnodes:\n" + "".join(
        f'  n{place}: {{run: "sleep 0.2; echo {place}"}}\n' for place in range(6)
    )
    outcome = run_flow(corral, repo, flow)
    assert outcome.code == 0, outcome
    assert most_at_once(corral.events()) == limit


# --- strategies


def test_several_tasks_side_by_side(corral: Corral, repo: Repo) -> None:
    (corral.root / "tasks.txt").write_text("DO: echo 2 > two.txt\n\nDO: echo 3 > three.txt\n")
    more = ("--task", "DO: echo 1 > one.txt", "--tasks", str(corral.root / "tasks.txt"))
    outcome = corral.run(repo, "DO: echo 0 > zero.txt", "--agent", "doer", "--strategy", "parallel", *more)
    assert outcome.code == 0, outcome
    assert outcome.json["strategy"] == "parallel"
    changed = sorted(attempt["files_changed"][0] for node in outcome.json["nodes"] for attempt in node["attempts"])
    assert changed == ["one.txt", "three.txt", "two.txt", "zero.txt"]
    assert corral("merge", "@last").code == 0
    assert {"one.txt", "two.txt", "three.txt", "zero.txt"} <= set(repo.files("main"))


def test_one_of_several_tasks_fails(corral: Corral, repo: Repo) -> None:
    outcome = corral.run(repo, "DO: echo 1 > one.txt", "--agent", "doer", "--task", "DO: exit 1")
    assert outcome.code == 1
    assert outcome.json["status"] == "partial"


def test_an_architect_a_developer_and_a_reviewer(corral: Corral, repo: Repo) -> None:
    corral.agent(
        "team",
        """case "$1" in
*"Review the change"*) echo '{"verdict": "reject", "notes": "name it"}' ;;
*"Fix what"*) printf '%s' "$1" > mended.md; echo mended ;;
*"Plan this task"*) echo 'PLAN: two files' ;;
*) printf '%s' "$1" > developed.md; echo developed ;;
esac""",
    )
    outcome = corral.run(repo, "build a thing", "--agent", "team", "--strategy", "multi", "--type", "refactor")
    assert outcome.code == 0, outcome
    assert list(statuses(outcome)) == ["design", "develop", "review", "fix"]
    found = nodes(outcome)
    assert [found[name]["attempts"][0]["role"] for name in found] == ["architect", "developer", "reviewer", "developer"]
    assert "PLAN: two files" in repo.read(winner(found["develop"])["commit"], "developed.md")
    assert "name it" in repo.read(winner(found["fix"])["commit"], "mended.md")
    assert "developed.md" in repo.files(winner(found["fix"])["commit"])
    short = corral.run(repo, "build a thing", "--agent", "team", "--strategy", "multi")
    assert list(statuses(short)) == ["design", "develop"]


def test_the_strategy_that_is_chosen_and_why(corral: Corral, repo: Repo) -> None:
    small = corral.run(repo, "DO: echo typo > a.txt", "--agent", "doer", "--strategy", "auto")
    assert small.json["strategy"] == "single"
    race = corral.run(repo, "DO: echo typo > a.txt", "--agent", "doer*2", "--strategy", "auto")
    assert race.json["strategy"] == "race"
    assert len(race.json["nodes"][0]["attempts"]) == 2
    quiet = corral("run", "DO: echo typo > a.txt", "--repo", repo.folder, "--agent", "doer*2", "--strategy", "auto")
    assert "2 agents for one task: a race" in quiet.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--strategy", "multi", "--task", "more"), "takes one task, and there are 2"),
        (("--strategy", "multi", "--agent", "doer*2"), "takes one agent, and there are 2"),
        (("--agent", "doer*99"), "how many?"),
        (("--strategy", "council"), "council"),
    ],
)
def test_strategies_that_make_no_sense(corral: Corral, repo: Repo, arguments: tuple[str, ...], words: str) -> None:
    agent = () if "--agent" in arguments else ("--agent", "doer")
    outcome = corral.run(repo, "a task", *agent, *arguments)
    assert outcome.code == 2
    assert words in outcome.err
    assert corral("ls", "--json").json == []
