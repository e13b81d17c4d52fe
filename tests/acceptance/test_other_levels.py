"""Collecting, `git gc` and stuck owners: as an ordinary user, and without bubblewrap."""

import contextlib
import signal
import subprocess

import pytest

from tests.acceptance.test_levels import with_bubblewrap
from tests.acceptance.test_odd_agents import DEEP_FOLDERS, ODD
from tests.rig.command import Corral
from tests.rig.flows import doer, nodes, statuses, write
from tests.rig.person import UID, Person
from tests.rig.repository import GIT_ENV
from tests.rig.tagged import tagged_processes
from tests.rig.waiting import until

pytestmark = pytest.mark.slow
KINDS = ("no-objects", "broken-head", "pipe-index", "read-only-git", "file-GIT", "odd-commit", "hooks")


@pytest.mark.parametrize("content", ["no bundle at all", "# v2 git bundle\\n\\nPACKnonsense"])
def test_a_forged_bundle_costs_no_work_without_a_box(corral: Corral, content: str) -> None:
    forge = f"printf '{content}' > ../out/work.bundle; touch ../out/done"
    agent = corral.agent("mine", f"echo work > work.txt; {forge}")
    repo = corral.repo()
    outcome = with_bubblewrap(corral).run(repo, "t", "--agent", agent, "--retries", "0", "--allow-unsandboxed")
    assert outcome.code == 0, outcome
    assert outcome.attempt["sandbox"]["level"] == "none"
    assert repo.read(outcome.attempt["branch"], "work.txt") == "work"


def test_the_work_of_odd_agents_of_an_ordinary_user_ends_on_a_branch_without_bubblewrap(person: Person) -> None:
    doer(person)
    repo = person.repo()
    flow = "name: odd\non_failure: continue\nnodes:\n"
    for name in KINDS:
        script = f"DO: echo {name} > work.txt\n{ODD[name]}"
        lines = "\n".join(f"      {line}" for line in script.splitlines())
        flow += f"  {name}:\n    retries: 0\n    task: |\n{lines}\n"
    file = write(person, flow)
    with_bubblewrap(person)
    outcome = person(
        "flow", "run", file, "--repo", repo.folder, "--agent", "doer", "--yes", "--json", "--allow-unsandboxed"
    )
    attempts = {name: node["attempts"][-1] for name, node in nodes(outcome).items()}
    assert {attempt["sandbox"]["level"] for attempt in attempts.values()} <= {"landlock", "none"}
    lost = {
        name: attempt["error"]
        for name, attempt in attempts.items()
        if not attempt["branch"] or repo.read(attempt["branch"], "work.txt") != name
    }
    assert lost == {}
    repo.git("fsck")


def test_folders_in_its_scratch_folder_hold_up_nothing_without_a_box(person: Person) -> None:
    deep = DEEP_FOLDERS.replace("'../out'", "os.environ['TMPDIR']")
    agent = person.agent("mine", f'python3 -c "{deep}"; echo work > work.txt')
    repo = person.repo()
    with_bubblewrap(person)
    words = ("--agent", agent, "--retries", "0", "--json", "--allow-unsandboxed")
    outcome = person("run", "t", "--repo", repo.folder, *words, timeout=100)
    assert outcome.code == 0, outcome
    assert outcome.attempt["sandbox"]["level"] in ("landlock", "none")
    assert repo.read(outcome.attempt["branch"], "work.txt") == "work"


def test_a_stuck_run_of_an_ordinary_user_is_stopped_without_bubblewrap(person: Person) -> None:
    agent = person.agent("mine", "echo half > half.txt; exec sleep 600")
    repo = person.repo()
    with_bubblewrap(person)
    person("ls")  # makes what a test wrote the user's own
    words = ("run", "t", "--repo", repo.folder, "--agent", agent, "--json", "--allow-unsandboxed")
    with person.going(*words) as going:
        until(lambda: list(person.home.glob("workspaces/*/work/half.txt")), "the agent sleeps")
        run = person("ls", "--json").json[0]["run"]
        going.signal(signal.SIGSTOP)
        outcome = person("stop", run, "--force", "--json")
        assert (outcome.code, outcome.json["status"]) == (0, "stopped"), outcome
        assert not tagged_processes(f"CORRAL_ATTEMPT={run}")
        assert repo.read(outcome.attempt["branch"], "half.txt") == "half"
        with contextlib.suppress(ProcessLookupError):
            going.signal(signal.SIGCONT)


def test_gc_of_an_ordinary_user_loses_nothing(person: Person) -> None:
    doer(person)
    repo = person.repo()
    flow = "name: many\nnodes:\n"
    for number in range(4):
        flow += f'  n{number}: {{task: "DO: echo {number} > f{number}.txt; sleep 0.3; echo more >> f{number}.txt"}}\n'
    flow += '  all: {task: "DO: cat f*.txt > all.txt", needs: [n0, n1, n2, n3]}\n'
    file = write(person, flow)
    person("ls")
    become = ["setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups"]
    words = [*become, "git", "gc", "--quiet", "--prune=now"]
    with person.going("flow", "run", file, "--repo", repo.folder, "--agent", "doer", "--json") as going:
        while going.process.poll() is None:
            subprocess.run(words, cwd=repo.folder, env=GIT_ENV, check=True, capture_output=True, timeout=120)
        outcome = going.end()
    assert set(statuses(outcome).values()) == {"done"}, outcome
    repo.git("fsck", "--connectivity-only")


def test_what_a_scope_names_can_be_read_without_bubblewrap(person: Person) -> None:
    shared, other = person.root / "shared", person.root / "other"
    for folder in (shared, other):
        folder.mkdir()
        (folder / "words.txt").write_text(f"{folder.name} words")
    agent = person.agent("mine", f"cat {shared}/words.txt > got.txt; cat {other}/words.txt >> got.txt; true")
    person.config(f'[scope]\nread = ["{shared}"]')
    repo = person.repo()
    outcome = with_bubblewrap(person).run(repo, "t", "--agent", agent, "--allow-unsandboxed", "--retries", "0")
    assert outcome.code == 0, outcome
    got = repo.read(outcome.attempt["commit"], "got.txt")
    assert "shared words" in got
    assert ("other words" in got) is (outcome.attempt["sandbox"]["level"] == "none")
