"""Flow files: every mistake is told at once with its place, and whatever stands in one, time and memory stay small."""

import resource
import subprocess

import pytest

from corral.engine.planning.build_flow import template
from corral.rules.flows.reader import KnownNames, read_flow
from corral.rules.flows.validate import FIELDS
from tests.rig.command import Corral, Outcome
from tests.rig.flows import doer, write

MISTAKES = """name: many
budget: {usd: -1}
defaults: {agnt: doer}
inputs: {thing: {}}
on_failure: explode
nodes:
  a: {task: "{{nobody}}", needs: [a]}
  b: {task: "x", run: "y"}
  c: {needs: [nobody, d, d], task: "{{1 +}}", timeout: soon}
  d: {task: x, when: "open('f')", agent: nosuch, role: nosuch}
  9e: {run: x, colour: red}
  f: {gate: "go?", default: perhaps}
  g: {merge: {strategy: force}}
  h: {task: x, output: {v: nosuch}, checks: ["{{later.output}}"], needs: [{node: d, on: sunday}]}
"""
TOLD = (
    (2, 15, "`usd` is a number, more than 0"),
    (3, 12, "unknown key `agnt` (hint: did you mean `agent`?)"),
    (4, 17, "the input `thing` has no value"),
    (5, 13, "`on_failure` is one of stop, continue"),
    (7, 6, "`a` needs itself"),
    (8, 6, "is none or several of: task, run, program, gate, merge, flow"),
    (9, 6, "`c` needs `nobody`, which is no node"),
    (9, 6, "`c` needs `d` twice"),
    (9, 36, "`task`: {{1 +}}: it cannot be read"),
    (9, 56, "`timeout`"),
    (10, 22, "`when`: only `len(...)` can be called"),
    (10, 42, "no agent is called `nosuch`"),
    (10, 56, "no role is called `nosuch`"),
    (11, 7, "`9e` cannot be the name of a node"),
    (11, 16, "unknown key `colour`"),
    (12, 29, "`default` is one of yes, no, not `perhaps`"),
    (13, 25, "`strategy` is one of auto"),
    (14, 24, "`output`: `nosuch` is no shape of an output"),
    (14, 89, "`on` is one of success, failure, always"),
)


def check(corral: Corral, text: str | bytes, *arguments: str) -> Outcome:
    """`corral flow check` with a gigabyte of memory and 30 seconds of work at most."""
    file = corral.root / "flow.yaml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)

    def held() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        resource.setrlimit(resource.RLIMIT_CPU, (30, 30))

    argv = [*corral.program, "flow", "check", str(file), *arguments]
    done = subprocess.run(
        argv, cwd=corral.root, env=corral.env, capture_output=True, check=False, timeout=120, preexec_fn=held
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def test_every_mistake_is_told_at_once_with_its_place(corral: Corral) -> None:
    outcome = check(corral, MISTAKES, "--input", "other=1")
    assert outcome.code == 2, outcome
    assert outcome.out == ""
    lines = outcome.err.splitlines()
    for line, column, words in TOLD:
        place = f"flow.yaml:{line}:{column}: "
        assert any(place in each and words in each for each in lines), (line, column, words, lines)
    assert any("there is no input `other` (hint: known: thing)" in each for each in lines)
    assert corral("ls", "--json").json == []


def test_names_are_known_only_where_they_come_before(corral: Corral) -> None:
    outcome = check(
        corral,
        """nodes:
  first: {task: "{{second.output}}"}
  second: {needs: [first], task: "{{first.output}} {{item}}", for_each: "[1]", checks: ["{{third.output}}"]}
  third: {needs: [second], task: x, when: first.output, repeat: {until: output.fine}}
  beside: {task: x, when: 'nodes.first.status == "done" or nodes["third"].output'}
""",
    )
    assert outcome.code == 2
    assert "flow.yaml:2:10: `task` of `first` names `second`, which is not known there" in outcome.err
    assert "flow.yaml:3:11: `checks` of `second` names `third`" in outcome.err
    assert "flow.yaml:5:11: `when` of `beside` names `first`" in outcome.err
    assert "flow.yaml:5:11: `when` of `beside` names `third`" in outcome.err
    assert len(outcome.err.splitlines()) == 4


def test_mistakes_as_json_with_keys_twice_and_fields_that_nobody_has(corral: Corral) -> None:
    outcome = check(
        corral,
        """nodes:
  a: {task: x, output: {verdict: [yes, no]}, task: y}
  b: {needs: [a], race: [], task: "{{a.colour}} {{nodes.a.output.verdict}} {{a.output.words}}"}
  b: {run: "true"}
""",
        "--json",
    )
    assert outcome.code == 2, outcome
    assert outcome.err == ""
    assert [(each["line"], each["column"], each["message"], each["hint"]) for each in outcome.json] == [
        (2, 46, "`task` is here twice", "first in line 2"),
        (3, 6, "`a.colour` is nothing that a node has", "known: " + ", ".join(FIELDS)),
        (3, 6, "the output of `a` has no `words`", "it has: verdict"),
        (3, 25, "`race` names nobody", "name one or more: race: [claude, codex]"),
        (4, 3, "`b` is here twice", "first in line 3"),
    ]
    assert {each["file"] for each in outcome.json} == {str(corral.root / "flow.yaml")}


BAD = {
    "a bomb": ("a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n", 1, "anchors and aliases"),
    "a merge key": ("base: &x {run: y}\nnodes: {a: {<<: *x}}\n", 1, "anchors and aliases"),
    "a tab": ("nodes:\n\ta: {run: x}\n", 2, "(hint: indent with spaces, not tabs)"),
    "a key twice": ("nodes:\n  a: {run: x}\n  a: {run: y}\n", 3, "`a` is here twice (hint: first in line 2)"),
    "a tag": ("nodes: !!python/object/apply:os.system [id]\n", 1, "tag"),
    "a circle": ("nodes:\n a: {run: x, needs: [c]}\n b: {run: x, needs: [a]}\n c: {run: x, needs: [b]}\n", 2, "circle"),
    "nothing": ("", 1, "there are no nodes"),
    "a list": ("- a\n- b\n", 1, "a flow is a table"),
    "deep nesting": ("nodes: " + "[" * 5000, 1, "nested too deeply"),
    "not ended": ("nodes: {a: {task: 'x", 1, "this is no YAML"),
    "a control character": ("nodes:\n  a: {run: x\x00}\n", 2, "this is no YAML"),
    "an attribute": ("nodes: {a: {run: x, when: ().__class__.__mro__}}\n", 1, "`.__mro__` is not a field"),
    "a loop": ('nodes: {a: {run: x, when: "[n for n in nodes]"}}\n', 1, "`listcomp` has no place in it"),
    "a power": ('nodes: {a: {run: x, when: "9**9**9 > 1"}}\n', 1, "has no place in it"),
    "a lambda": ('nodes: {a: {run: x, when: "(lambda: 1)()"}}\n', 1, "only `len(...)` can be called"),
    "a long expression": ("nodes: {a: {run: x, when: '" + "not " * 900 + "true'}}\n", 1, "longer than 2000"),
    "deep brackets": ("nodes: {a: {run: x, when: '" + "(" * 900 + "1" + ")" * 900 + "'}}\n", 1, "cannot be read"),
    "shares": ("nodes: {a: {task: x, share: 80}, b: {task: x, share: 70}}\n", 1, "come to 150 %"),
    "a missing flow": ("nodes: {a: {flow: ../secret}}\n", 1, "there is no flow `../secret`"),
    "a whole file": ("nodes: {a: {flow: /etc/passwd}}\n", 1, "there is no flow `/etc/passwd`"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_told_in_a_line(corral: Corral, case: str) -> None:
    text, line, words = BAD[case]
    outcome = check(corral, text)
    assert outcome.code == 2, outcome
    assert f"flow.yaml:{line}:" in outcome.err
    assert words in outcome.err
    assert len(outcome.err) < 1000
    assert "Traceback" not in outcome.err


def test_what_this_machine_lacks_is_told_with_the_other_mistakes(corral: Corral) -> None:
    """Agents that are not installed hide nothing, and are told besides."""
    repo = corral.repo()
    text = """defaults: {skills: [nosuch]}
nodes:
  a: {agent: "acp:cursor", task: x, checks: ["nosuchprogram -x"]}
  b: {agent: "acp:goose", task: y, checks: ["echo 'open"], needs: [a], skills: []}
  c: {agent: "scripted:nowhere.toml", task: z, needs: [b]}
  d: {agent: "acp:goose", task: z, needs: [c]}
"""
    machine = {
        "1:20: no skill is called `nosuch`",
        "3:14: the agent `acp:cursor` is not installed",
        "3:45: check nosuchprogram -x: there is no program",
        "4:14: the agent `acp:goose` is not installed",
        "4:44: check echo 'open: No closing quotation",
        "5:14: agent scripted:",
    }
    for wrong, own in (
        ("", set[str]()),
        ("  e: {task: x, neds: [a], agent: nobody}\n", {"7:16: unknown key", "7:34: no agent"}),
    ):
        file = write(corral, text + wrong)
        outcome = corral("flow", "check", file, "--repo", repo.folder)
        assert outcome.code == 2, outcome
        lines = [line.removeprefix(f"{file}:") for line in outcome.err.splitlines()]
        for words in (*machine, *own):
            assert any(line.startswith(words) for line in lines), (words, lines)
        assert len(lines) == len(machine) + len(own), lines


def test_circles_are_named(corral: Corral) -> None:
    outcome = check(corral, BAD["a circle"][0])
    assert "nodes need each other in a circle: a -> b -> c -> a" in outcome.err


def test_flows_that_hold_each_other(corral: Corral) -> None:
    write(corral, "nodes: {in: {flow: two.yaml}}\n", "one.yaml")
    write(corral, "nodes: {in: {flow: one.yaml}}\n", "two.yaml")
    outcome = check(corral, "nodes: {in: {flow: one.yaml}}\n")
    assert outcome.code == 2
    assert "flows go in a circle: one.yaml -> two.yaml -> one.yaml" in outcome.err
    for place in range(6):
        write(corral, f"nodes: {{in: {{flow: deep{place + 1}.yaml}}}}\n", f"deep{place}.yaml")
    outcome = check(corral, "nodes: {in: {flow: deep0.yaml}}\n")
    assert "flows are nested more than 3 deep" in outcome.err
    write(corral, "nodes:\n  a: {run: x, needs: [b]}\n  b: {run: x, needs: [a]}\n", "ring.yaml")
    outcome = check(corral, "nodes:\n  in:\n    flow: ring.yaml\n")
    assert "flow.yaml:3:11: ring.yaml:2:6: nodes need each other in a circle: " in outcome.err


CHAIN = "nodes:\n  n0: {run: x}\n" + "".join(f"  n{n}: {{run: x, needs: [n{n - 1}]}}\n" for n in range(1, 9000))
LARGE = {
    "10 MB": (b"x" * (10 << 20), 2),
    "11 MB": (b"x" * (11 << 20), 2),
    "braces": (("nodes: {a: {task: '" + "{{" * 200_000 + "'}}\n").encode(), 0),
    "a long chain": (CHAIN.encode(), 0),
    "a long circle": (CHAIN.replace("n0: {run: x}", "n0: {run: x, needs: [n8999]}").encode(), 2),
    "many mistakes": (CHAIN.replace("needs", "neds").encode(), 2),
    "many unknown": (CHAIN.replace("[n", "[m").encode(), 2),
    "no text": (b"\xff\xfe\x00nodes", 2),
    "brackets": (b"nodes: " + b"[{a: " * 80_000, 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", LARGE)
def test_large_files_take_little(corral: Corral, case: str) -> None:
    text, code = LARGE[case]
    doer(corral, settings='prompt = "stdin"')
    outcome = check(corral, text, "--agent", "doer")
    assert outcome.code == code, outcome
    assert len(outcome.err) < 200_000
    assert "Traceback" not in outcome.err


def test_a_long_chain_is_drawn(corral: Corral) -> None:
    drawn = corral("flow", "graph", write(corral, CHAIN))
    assert drawn.code == 0, drawn
    assert len(drawn.out.splitlines()) == 9000


# --- looking at flows


SMALL = """name: small
budget: 2
nodes:
  plan: {task: plan, agent: doer, read_only: true, output: {parts: [string]}}
  each: {needs: [plan], for_each: plan.output.parts, agent: doer, task: "{{item}}"}
  ask: {gate: "Go?", needs: [each]}
  mend: {needs: [{node: each, on: failure}], run: "echo <mend> & \\"more\\""}
"""


def test_a_flow_is_drawn_in_every_form(corral: Corral) -> None:
    doer(corral, settings="cost_usd = 0.25")
    file = write(corral, SMALL)
    text = corral("flow", "graph", file)
    assert [line[:12].rstrip() for line in text.out.splitlines()] == [
        "  o    plan", "  o    each", "  +-o  ask", "  o    mend",
    ]  # fmt: skip
    assert "after each (failure)" in text.out
    mermaid = corral("flow", "graph", file, "--format", "mermaid").out
    assert mermaid.startswith("graph LR\n")
    assert "n1 -. failure .-> n3" in mermaid
    svg = corral("flow", "graph", file, "--format", "svg").out
    assert svg.startswith("<svg ")
    assert "<mend>" not in svg
    assert [node["id"] for node in corral("flow", "graph", file, "--json").json["nodes"]] == [
        "plan", "each", "ask", "mend",
    ]  # fmt: skip
    assert corral("flow", "check", file).out.endswith("is right: 4 nodes\n")


def test_a_dry_run_starts_nothing_and_estimates(corral: Corral) -> None:
    doer(corral, settings="cost_usd = 0.25")
    file, repo = write(corral, SMALL), corral.repo()
    outcome = corral("flow", "run", file, "--repo", repo.folder, "--dry-run")
    assert outcome.code == 0, outcome
    assert outcome.out.endswith("nothing was started\n")
    assert "cost: about $0.50; doer $0.25 an attempt (fixed)" in outcome.out
    assert corral("ls", "--json").json == []
    priced = corral.config_file.read_text()
    free = priced.replace("cost_usd = 0.25", 'hosts = ["api.example.org"]')
    corral.config_file.write_text(free)
    assert "never seen here: doer" in corral("flow", "run", file, "--repo", repo.folder, "--dry-run").out
    corral.config_file.write_text(priced)
    assert corral.run(repo, "DO: echo x > x.txt", "--agent", "doer").code == 0
    corral.config_file.write_text(free)
    assert (
        "cost: about $0.50; doer $0.25 an attempt (n=1)"
        in corral("flow", "run", file, "--repo", repo.folder, "--dry-run").out
    )
    corral("budget", "set", "--per-day", "0.3", "--ceiling", "5", "--per-run", "2")
    assert corral.run(repo, "t", "--agent", "doer").code == 4  # refused: it tells nothing of what such ones cost
    told = corral("flow", "run", file, "--repo", repo.folder, "--dry-run", "--budget", "1").out
    assert "doer $0.25 an attempt (n=1)" in told
    limits = [line.partition(" (")[0] for line in told.splitlines() if line.startswith("limit: ")]
    assert sorted(limits) == [
        "limit: $0.30 a day: $0.05 left, $0.25 spent",
        "limit: $1.00 for this flow",
        "limit: $2.00 for each run",
        "limit: $5.00 a month, the ceiling: $4.75 left, $0.25 spent",
    ]
    data = corral("flow", "run", file, "--repo", repo.folder, "--dry-run", "--json").json
    assert {each["limit"]["window"] for each in data["estimate"]["limits"]} == {"run", "day", "ceiling"}
    assert [node["id"] for node in data["flow"]["nodes"]] == ["plan", "each", "ask", "mend"]


def test_a_dry_run_with_stubs_walks_the_branch_that_they_choose(corral: Corral) -> None:
    doer(corral)
    text = """nodes:
  plan: {task: x, output: {files: [string]}}
  each: {task: "{{item}}", needs: [plan], for_each: plan.output.files}
  mend: {task: m, needs: [{node: each, on: failure}]}
"""
    command = ("flow", "run", write(corral, text), "--repo", corral.repo().folder, "--agent", "doer", "--dry-run")
    stubs = write(corral, "plan: {files: [a, b]}\neach.1: success\n", "stubs.yaml")
    outcome = corral(*command, "--stubs", stubs, "--stub", "each.1=failure", "--json")
    assert outcome.code == 0, outcome
    estimate = outcome.json["estimate"]
    assert [(step["wave"], step["node"]) for step in estimate["steps"] if step["agent"]] == [
        (1, "plan"), (2, "each.0"), (2, "each.1"), (3, "mend"),
    ]  # fmt: skip
    assert estimate["status"] == "partial"
    told = corral(*command).out
    assert "  wave 3: mend  (skipped: `each` is done)" in told
    assert "it would end as done" in told
    assert corral(*command, "--stub", "nobody=failure").code == 2
    assert corral(*command, "--stubs", "nowhere.yaml").code == 2
    assert corral(*command[:-1], "--stub", "plan=failure").code == 2
    assert corral("ls", "--json").json == []


def test_templates_are_right_and_begin_a_file(corral: Corral) -> None:
    doer(corral)
    listed = {each["template"] for each in corral("flow", "new", "--json").json}
    assert listed >= {"tdd", "feature", "backend-dev", "backend-feature", "fix-issue", "review", "refactor"}
    assert listed >= {"research", "plan", "scaffold", "retrofit", "verify", "debug", "lint"}
    for name in listed:
        assert read_flow(template(name), KnownNames(draft=True)).mistakes == (), name
    assert corral("flow", "new", "tdd").code == 0
    outcome = corral("flow", "check", corral.root / "tdd.yaml", "--agent", "doer", "--input", "task=x")
    assert outcome.code == 0, outcome
    again = corral("flow", "new", "tdd")
    assert again.code == 2
    assert "is there already" in again.err
    assert corral("flow", "new", "nosuch").code == 2


def test_templates_tell_how_their_flows_went_here(corral: Corral) -> None:
    repo = corral.repo()
    for command, code in (("true", 0), ("false", 1)):
        file = corral.root / f"{command}.yaml"
        file.write_text(f"name: lint\nnodes:\n  look: {{run: '{command}'}}\n")
        assert corral("flow", "run", file, "--repo", repo.folder).code == code
    told = {each["template"]: (each["done"], each["runs"]) for each in corral("flow", "new", "--json").json}
    assert (told["lint"], told["tdd"]) == ((1, 2), (0, 0))
    assert "1/2" in corral("flow", "new").out


def test_the_schema_of_flow_files(corral: Corral) -> None:
    schema = corral("flow", "schema").json
    assert schema["required"] == ["nodes"]
    kinds = schema["properties"]["nodes"]["additionalProperties"]["oneOf"]
    assert sorted(kind["required"][0] for kind in kinds) == ["flow", "gate", "merge", "plan", "program", "run", "task"]


def test_a_nested_flow_is_not_read_through_a_link(corral: Corral) -> None:
    """A repository could show any file of the user in a prompt or a message."""
    repo = corral.repo()
    secret = corral.root / "secret.yaml"
    secret.write_text("nodes: {a: {run: 'echo hidden-words'}}\n")
    flows = repo.folder / ".corral" / "flows"
    flows.parent.mkdir()
    (corral.root / "flow.yaml").write_text("nodes: {a: {flow: inner}}\n")

    def checked() -> str:
        outcome = corral("flow", "check", corral.root / "flow.yaml", "--repo", repo.folder, "--json")
        assert outcome.code == 2, outcome
        assert "hidden-words" not in outcome.out + outcome.err
        return outcome.out + outcome.err

    flows.mkdir()
    (flows / "inner.yaml").symlink_to(secret)
    assert "is a link" in checked()
    (flows / "inner.yaml").unlink()
    flows.rmdir()
    outside = corral.root / "outside"
    outside.mkdir()
    secret.rename(outside / "inner.yaml")
    flows.symlink_to(outside)
    assert "is a link" in checked()
    flows.unlink()
    assert "there is no flow `inner`" in checked()
    outside.rename(flows)
    assert corral("flow", "check", corral.root / "flow.yaml", "--repo", repo.folder).code == 0
