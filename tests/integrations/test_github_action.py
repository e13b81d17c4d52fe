"""The action for GitHub: its script as a runner starts it, with a real repository, a real agent program and a small forge."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.test_follow import hearing
from tests.acceptance.test_pull_requests import CHECK, FILES, has_no_token
from tests.rig.agents import PROJECT
from tests.rig.command import PROGRAM, Corral, Outcome
from tests.rig.forge import NAME, TOKEN, Forge
from tests.rig.repository import Repo, git

ACTION = PROJECT / "integrations" / "github-action"
NASTY = "let a return two; $(touch hit) `touch hit` \"quoted\" 'x' ${{ github.token }}\n--agent nobody\n::set-output name=a::b"


pytestmark = pytest.mark.slow


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Forge]:
    with Forge(tmp_path / "forge") as found:
        yield found


class Runner:
    """What a runner of GitHub is for a step: a checkout, a few files, variables."""

    def __init__(self, corral: Corral, checkout: Path, forge: Forge | None = None) -> None:
        self.corral, self.checkout = corral, checkout
        self.output, self.summary = corral.root / "output", corral.root / "summary"
        self.env = {
            **corral.env,
            "PATH": f"{PROGRAM.parent}:{corral.env['PATH']}",
            "CORRAL_HOME": str(corral.home),
            "RUNNER_TEMP": str(corral.root),
            "GITHUB_OUTPUT": str(self.output),
            "GITHUB_STEP_SUMMARY": str(self.summary),
        }
        if forge is not None:
            more = {"GITHUB_SERVER_URL": forge.url, "GITHUB_API_URL": f"{forge.url}/api/v3", "GITHUB_REPOSITORY": NAME}
            self.env |= {**more, "GH_TOKEN": TOKEN}

    def step(self, **inputs: str) -> Outcome:
        """Run the step; its outputs of before are gone."""
        self.output.unlink(missing_ok=True)
        self.summary.unlink(missing_ok=True)
        env = self.env | {f"INPUT_{name.upper()}": value for name, value in inputs.items()}
        done = subprocess.run(
            ["bash", ACTION / "run.sh"], cwd=self.checkout, env=env, capture_output=True, timeout=300, check=False
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    @property
    def outputs(self) -> Mapping[str, str]:
        lines = self.output.read_text().splitlines() if self.output.exists() else []
        return dict(line.split("=", 1) for line in lines)


def test_a_task_becomes_outputs_of_the_step(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    runner = Runner(corral, repo.folder)
    done = runner.step(task=NASTY, agents=hearing(corral), checks=f"{CHECK}\n\n  \ntest -e heard.txt\n", budget_usd="2")
    assert done.code == 0, done
    run = corral("show", "@last", "--json").json
    (attempt,) = run["nodes"][0]["attempts"]
    assert runner.outputs == {
        "run-id": run["run"],
        "status": "done",
        "cost-usd": "0.25",
        "branch": attempt["branch"],
        "pull-request": "",
    }
    assert NASTY in git(repo.folder, "show", f"{attempt['branch']}:heard.txt")
    assert [each["command"] for each in attempt["checks"]] == [CHECK, "test -e heard.txt"]
    assert not list(repo.folder.glob("hit"))
    assert "| status | done |" in runner.summary.read_text()


def test_what_is_wrong_is_one_line_and_nothing_starts(corral: Corral) -> None:
    runner = Runner(corral, corral.repo().folder)
    for inputs, words in (
        ({}, "there is no task"),
        ({"command": "dance"}, "the command `dance` is not known"),
        ({"command": "follow", "branch": "main; ls"}, "the branch `main; ls` is not one of Corral"),
        ({"task": "t", "agents": "nobody"}, "no agent is called `nobody`"),
    ):
        refused = runner.step(**inputs)
        assert (refused.code, runner.outputs) == (2, {}), refused
        assert words in refused.err
        assert "hint: " in refused.err
    assert corral("ls", "--json").json == []


def cloned(corral: Corral, forge: Forge) -> Path:
    """Return a checkout as `actions/checkout` makes it: always at the same path."""
    folder = corral.root / "work"
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(["git", "clone", "-q", forge.bare.folder, folder], check=True)
    Repo(folder).git("remote", "set-url", "origin", forge.remote)
    return folder


def test_an_issue_becomes_a_pull_request_and_a_review_a_revision_in_another_job(corral: Corral, hub: Forge) -> None:
    hub.clone_of(corral.repo(files=FILES))
    corral.config('[forge]\nkind = "github"')
    agent = hearing(corral)
    number = hub.issue("a returns the wrong number", "it should be two", labels=("corral",))
    asked = {"issue": hub.address(number), "agents": agent, "checks": CHECK, "pull_request": "true"}

    refused = Runner(corral, cloned(corral, hub), hub).step(**asked, actor="stranger")
    assert refused.code == 2, refused
    assert "stranger has no write access" in refused.err
    assert not hub.pulls

    runner = Runner(corral, cloned(corral, hub), hub)
    done = runner.step(**asked, actor="ada")
    assert done.code == 0, done
    (pull,) = hub.pulls.values()
    assert f"Closes #{number}" in pull["body"]
    assert runner.outputs["branch"] == pull["head"]
    assert runner.outputs["pull-request"].endswith(f"/{NAME}/pull/{pull['number']}")

    first = hub.head(pull["head"])
    runner = Runner(corral, cloned(corral, hub), hub)  # another job: nothing is left but the state
    pull["comments"].append(("ada", "add a guard"))
    revised = runner.step(command="follow", branch=pull["head"])
    assert revised.code == 0, revised
    second = hub.head(pull["head"])
    assert (second != first, git(hub.bare.folder, "show", f"{second}:guard.txt")) == (True, "guard")
    assert runner.outputs["branch"] == pull["head"]
    assert "revision 1 of 3" in hub.remarks(pull["number"])[-1]
    lost = Runner(corral, cloned(corral, hub), hub)
    lost.env["CORRAL_HOME"] = str(corral.root / "empty")
    missing = lost.step(command="follow", branch=pull["head"])
    assert (missing.code, hub.head(pull["head"])) == (2, second), missing
    assert "hint: " in missing.err
    again = Runner(corral, cloned(corral, hub), hub).step(command="follow", branch=pull["head"])
    assert (again.code, hub.head(pull["head"])) == (0, second), again
    has_no_token(corral, refused, done, revised, again)


def test_a_comment_of_those_who_may_ask_starts_work_or_a_revision(corral: Corral, hub: Forge) -> None:
    hub.clone_of(corral.repo(files=FILES))
    corral.config('[forge]\nkind = "github"')
    agent = hearing(corral)
    number = hub.issue("a returns the wrong number", "it should be two")
    asked = {
        "command": "comment", "issue": hub.address(number), "agents": agent, "checks": CHECK, "pull_request": "true",
    }  # fmt: skip
    runner = Runner(corral, cloned(corral, hub), hub)
    assert runner.step(**asked, comment="please /corral", actor="ada").code == 0
    assert runner.step(**asked, comment="/corraling", actor="ada").code == 0
    for comment, more in (("/corral go", {"actor": "stranger"}), ("/corral go", {"actor": "ada", "users": "bob\neve"})):
        refused = runner.step(**asked, comment=comment, **more)
        assert (refused.code, "nothing was started" in refused.err) == (2, True), refused
    assert runner.step(**asked, comment="/corral").code == 2, "nobody asks"
    assert corral("ls", "--json").json == []

    done = runner.step(**asked, comment=f"/corral  {NASTY}", actor="Stranger", users="stranger")
    assert done.code == 0, done
    (pull,) = hub.pulls.values()
    heard = git(hub.bare.folder, "show", f"{pull['head']}:heard.txt")
    assert heard.startswith(NASTY)
    assert not list(runner.checkout.glob("hit"))

    first = hub.head(pull["head"])
    address = f"{hub.url}/{NAME}/pull/{pull['number']}"
    pull["comments"].append(("ada", "/corral add a guard"))
    revised = Runner(corral, cloned(corral, hub), hub).step(
        **{**asked, "issue": address}, comment="/corral add a guard", actor="ada"
    )
    assert (revised.code, hub.head(pull["head"]) != first) == (0, True), revised
    pull["from"] = "eve/shop"
    forked = Runner(corral, cloned(corral, hub), hub).step(
        **{**asked, "issue": address}, comment="/corral again", actor="ada"
    )
    assert (forked.code, "is not one of Corral" in forked.err) == (2, True), forked
    has_no_token(corral, refused, done, revised, forked)


def test_a_run_that_delivers_nothing_is_told_in_the_issue(corral: Corral, hub: Forge) -> None:
    hub.clone_of(corral.repo(files=FILES))
    corral.config('[forge]\nkind = "github"\n[retry]\nmost = 0')
    number = hub.issue("nothing", "do nothing")
    runner = Runner(corral, cloned(corral, hub), hub)
    done = runner.step(issue=hub.address(number), agents=corral.agent("idle", "true"), pull_request="true")
    assert (done.code, runner.outputs["status"], hub.pulls) == (1, "failed", {}), done
    (said,) = hub.remarks(number)
    assert "is failed (no_change)" in said


def test_inputs_reach_the_script_through_the_environment_alone() -> None:
    action: dict[str, Any] = yaml.safe_load((ACTION / "action.yml").read_text())
    script = (ACTION / "run.sh").read_text()
    steps = action["runs"]["steps"]
    assert [step["run"] for step in steps if "${{" in step["run"]] == []
    given = {name: value for step in steps for name, value in step["env"].items()}
    read = {re.sub(r"\W+inputs\.([\w-]+)\W+", r"\1", value) for value in given.values()}
    assert read == set(action["inputs"])
    assert [name for name in given if name.startswith("INPUT_") and name not in script] == []
    for output, row in action["outputs"].items():
        assert row["value"] == f"${{{{ steps.corral.outputs.{output} }}}}"
        assert output in script
    for example in (ACTION / "examples").glob("*.yml"):
        steps = next(iter(yaml.safe_load(example.read_text())["jobs"].values()))["steps"]
        (used,) = [step["with"] for step in steps if "github-action@" in step.get("uses", "")]
        assert set(used) <= set(action["inputs"]), example
