"""Rules for single tools: in the toolbox, in programs of agents and of users, and rules that are none."""

import json

import pytest

from tests.rig.command import Corral
from tests.rig.talkers import caller, flow, going, node
from tests.rig.waiting import until

PROGRAM = """
async def main(input):
    found = []
    for command in ("echo fine", "git push origin main", "cd . && git push"):
        try:
            found.append((await run_command(command=command))["exit_code"])
        except PermissionError as error:
            found.append(str(error))
    return found
"""


def notes(corral: Corral) -> list[str]:
    lines = [json.loads(line) for line in corral("logs", "@last", "--json").out.splitlines()]
    return [line["text"] for line in lines if line["type"] == "noted" and "[policy]" in line["text"]]


def test_a_program_of_the_user_is_refused_what_a_rule_denies(corral: Corral) -> None:
    repo = corral.repo()
    corral.config('[policy]\ndeny = ["git push"]\nask = ["rm -rf"]\n')
    (corral.root / "program.py").write_text(PROGRAM)
    outcome = corral("code", corral.root / "program.py", "--tool", "run_command", "--json", cwd=repo.folder)
    assert outcome.code == 0, outcome
    fine, *refused = outcome.json["result"]
    assert fine == 0
    assert len(refused) == 2
    assert all("[policy] denies" in each and "`git push`" in each for each in refused)
    asks = 'async def main(input):\n    return await run_command(command="rm -rf build")\n'
    (corral.root / "asks.py").write_text(asks)
    outcome = corral("code", corral.root / "asks.py", "--tool", "run_command", "--json", cwd=repo.folder)
    assert (outcome.code, outcome.json["error"]["class"]) == (1, "refused"), outcome
    assert "only a run can" in outcome.json["error"]["message"]


def test_a_default_of_deny_leaves_what_is_allowed_and_each_decision_is_an_event(corral: Corral) -> None:
    source = f"""
        done = call("run_program", language="python", source={PROGRAM!r})
        refused = call("report_progress", text="half way")
        write("result.json", {{"done": done, "refused": refused}})
    """
    caller(corral)
    repo = corral.repo()
    corral.config('[policy]\ndefault = "deny"\nallow = ["run_program", "echo"]\n')
    run = flow(corral, repo, {"main": node(source)})
    (attempt,) = run["nodes"][0]["attempts"]
    found = json.loads(repo.read(attempt["branch"], "result.json"))
    assert found["done"]["result"][0] == 0, found
    assert all("by its default" in each for each in found["done"]["result"][1:])
    assert "[policy] denies `report_progress half way` by its default" in str(found["refused"])
    said = [each for each in notes(corral) if "asks leave" not in each]
    assert said[0].startswith("[policy] allow: `run_program")
    assert len(said) == 5, said


@pytest.mark.parametrize("answer", ["yes", "no"])
def test_the_user_is_asked(corral: Corral, answer: str) -> None:
    source = """
        said = call("report_progress", text="half way")
        while "has not answered" in str(said):
            said = call("report_progress", text="half way")
        write("said.txt", str(said))
    """
    caller(corral)
    repo = corral.repo()
    corral.config('[policy]\nask = ["report_progress"]\n')
    with going(corral, repo, {"main": node(source)}) as process:
        entry = until(lambda: corral("inbox", "--json").json, "the user is asked")[0]
        assert entry["text"] == "May caller call `report_progress half way`?"
        assert corral("answer", entry["id"], answer).code == 0
        run = process.end().json
    said = repo.read(run["nodes"][0]["attempts"][0]["branch"], "said.txt")
    assert ("shown" in said) == (answer == "yes"), said
    assert ("the user refused" in said) == (answer == "no"), said


def test_a_repository_refuses_more_and_never_less(corral: Corral) -> None:
    corral.config('[policy]\ndeny = ["git push"]\n')
    theirs = '[policy]\nallow = ["git push*"]\ndeny = ["echo fine"]\n'
    repo = corral.repo(files={"corral.toml": theirs})
    (corral.root / "program.py").write_text(PROGRAM)
    outcome = corral("code", corral.root / "program.py", "--tool", "run_command", "--json", cwd=repo.folder)
    assert all("[policy] denies" in str(each) for each in outcome.json["result"]), outcome


WRONG = {
    'deny = [""]': "is no pattern",
    'deny = ["a\\nb"]': "is no pattern",
    'deny = ["git push"]\nallow = ["git push"]': "`git push` is in `allow` too",
    'default = "perhaps"': "default",
    'forbid = ["git push"]': "forbid",
    'deny = "git push"': "deny",
}


@pytest.mark.parametrize("rules", WRONG)
def test_a_bad_rule_starts_nothing(corral: Corral, rules: str) -> None:
    agent = corral.agent("mine", "echo new > c.txt")
    corral.config(f"[policy]\n{rules}\n")
    outcome = corral("run", "x", "--agent", agent, "--repo", corral.repo().folder)
    assert outcome.code == 2, outcome
    assert WRONG[rules] in outcome.err
    assert "hint: " in outcome.err
