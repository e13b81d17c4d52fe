"""Attempts on a Ray cluster: placed, counted, and held through the deaths of nodes, head, engine and bridge."""

import contextlib
import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from corral.testing import ScriptedModel, Turn, Usage
from tests.rig.command import Corral
from tests.rig.flows import doer, nodes, run_flow
from tests.rig.ray_cluster import Node, RayCluster, ray_cluster
from tests.rig.suites import claude_program
from tests.rig.waiting import until

pytestmark = pytest.mark.slow  # left out of `make quick`
SLOT = "resources = { slot = 1 }\nslots = 8\nlease = '20s'\nlabels = { arch = '*' }"
WAITS = (
    "echo pid $$; echo one; touch begun; until [ -e go ]; do sleep 0.05; done; echo two; ls {hidden} > seen.txt 2>&1; :"
)
PATIENCE = 120.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Generator[RayCluster]:
    """A head, and a node with room for two attempts; neither sees what tests keep in their folders."""
    with ray_cluster([tmp_path_factory.getbasetemp()]) as made:
        made.add_node({"slot": 2}, {"arch": "a"})
        yield made


@pytest.fixture(scope="module")
def pair(cluster: RayCluster) -> tuple[Node, Node]:
    """Two nodes with room for two attempts each."""
    return cluster.nodes[1], cluster.add_node({"slot": 2}, {"arch": "b"})


@pytest.fixture
def waiter(corral: Corral, cluster: RayCluster) -> str:
    cluster.use(corral, SLOT)
    corral.config("[retry]\ndelay_seconds = 0.1\n")
    return corral.agent("waiter", WAITS.format(hidden=corral.root))


def begun(*places: Node) -> list[Path]:
    return [path.parent for node in places for path in node.workspaces.glob("*/work/begun")]


def said(corral: Corral) -> list[str]:
    return " ".join(str(event["text"]) for event in corral.events("@last") if event["type"] == "said").split()


def let_go(*places: Node) -> None:
    for path in begun(*places):
        (path / "go").touch()


def bridge_pids(corral: Corral) -> list[int]:
    wanted = f"CORRAL_HOME={corral.home}".encode()
    found: list[int] = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if b"ray_bridge" in (place / "cmdline").read_bytes() and wanted in (place / "environ").read_bytes():
                found.append(int(place.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ('ray = "ray://127.0.0.1:9"', "nothing answers at ray://127.0.0.1:9: Connection refused"),
        ('ray = "http://head"', "`http://head` is no address of a Ray cluster"),
        ('ray = "auto"\nresources = { claude = 0 }', "claude is counted by more than 0"),
        ('ray = "auto"\ncommand = [""]', "has no command"),
        ('command = ["corral", "host"]\nresources = { claude = 1 }', "only a Ray cluster counts resources"),
    ],
)
def test_what_cannot_be_met_is_said_in_one_line(corral: Corral, settings: str, said: str) -> None:
    corral.config(f"[machines.cluster]\n{settings}\n")
    outcome = corral.run(corral.repo(), "x", "--agent", corral.agent("mine", "echo x > x"), "--machine", "cluster")
    assert outcome.code == 2, outcome
    assert said in outcome.err
    assert sum(line.startswith("error:") for line in outcome.err.splitlines()) == 1
    assert not corral("ls", "--json").json


NIGHT = pytest.mark.night("a Ray cluster takes a minute of processor time")


def test_an_agent_works_on_a_node_and_its_commit_is_here(corral: Corral, cluster: RayCluster) -> None:
    cluster.use(corral, SLOT)
    repo = corral.repo()
    agent = corral.agent("mine", f"echo from afar; ls {corral.root} > seen.txt 2>&1; :")
    outcome = corral.run(repo, "x", "--agent", agent, "--machine", "cluster", "--check", "test -s seen.txt")
    assert outcome.json["status"] == "done", outcome
    assert outcome.attempt["machine"] == "cluster"
    assert "No such file" in repo.read(outcome.attempt["commit"], "seen.txt")
    assert "from afar" in " ".join(said(corral))
    (found,) = corral("machines", "ls", "--json").json
    assert (found["ok"], len(found["nodes"])) == (True, 2)


@NIGHT
def test_ray_counts_and_spreads_attempts_and_one_that_waits_says_why(
    corral: Corral, pair: tuple[Node, Node], waiter: str
) -> None:
    repo, (first, second) = corral.repo(), pair
    others = [corral.agent(f"w{number}", WAITS.format(hidden=corral.root)) for number in range(4)]
    racers = ",".join([waiter, *others])
    words = ["run", "x", "--repo", repo.folder, "--agent", racers, "--machine", "cluster", "--json"]
    with corral.going(*words) as run:
        until(lambda: len(begun(first, second)) == 4, "four have begun", seconds=PATIENCE)
        assert [len(begun(each)) for each in (first, second)] == [2, 2]
        waits = "waits for a machine: no place yet on a node of the Ray cluster that offers slot = 1"
        until(lambda: waits in corral("logs", "@last").out, "the fifth says why it waits", seconds=PATIENCE)
        assert len(begun(first, second)) == 4
        let_go(first, second)
        until(
            lambda: [path for path in begun(first, second) if not (path / "go").exists()], "the fifth", seconds=PATIENCE
        )
        let_go(first, second)
        outcome = run.end()
    attempts = outcome.json["nodes"][0]["attempts"]
    assert [each["status"] for each in attempts] == ["done"] * 5, outcome
    assert {each["machine"] for each in attempts} == {"cluster"}
    for each in attempts:  # nothing of the engine's machine is there
        assert "No such file" in repo.read(each["commit"], "seen.txt")


FLOW = """
name: labelled
nodes:
  one: {task: "DO: pwd > one.txt", machine: {arch: b}}
  two: {task: "DO: pwd > two.txt", needs: [one], machine: {arch: a}}
"""


@NIGHT
def test_labels_of_a_flow_choose_the_node(corral: Corral, cluster: RayCluster, pair: tuple[Node, Node]) -> None:
    cluster.use(corral, SLOT)
    doer(corral)
    repo = corral.repo()
    outcome = run_flow(corral, repo, FLOW)
    assert outcome.json["status"] == "done", outcome
    commit = nodes(outcome)["two"]["attempts"][0]["commit"]
    first, second = pair
    assert repo.read(commit, "one.txt").startswith(str(second.home))
    assert repo.read(commit, "two.txt").startswith(str(first.home))
    assert (
        "there is no machine with os = plan9"
        in run_flow(corral, corral.repo("other"), FLOW.replace("{arch: b}", "{os: plan9}")).err
    )


@NIGHT
def test_a_killed_engine_is_followed_by_another_that_finds_the_same_process(
    corral: Corral, pair: tuple[Node, Node], waiter: str
) -> None:
    repo, (first, second) = corral.repo(), pair
    corral.config_file.write_text(corral.config_file.read_text().replace("'20s'", "'10m'"))
    with corral.going("run", "x", "--repo", repo.folder, "--agent", waiter, "--machine", "cluster") as engine:
        until(lambda: begun(first, second), "the agent works", seconds=PATIENCE)
        corral.until_said("one")
        engine.process.kill()
        engine.process.wait()
    until(lambda: not bridge_pids(corral), "its bridge leaves with it")
    with corral.going("resume", "@last", "--json") as later:
        until(lambda: bridge_pids(corral), "another bridge is there")
        let_go(first, second)
        outcome = later.end()
    assert outcome.json["status"] == "done", outcome
    assert len(outcome.json["nodes"][0]["attempts"]) == 1
    assert [said(corral).count(word) for word in ("pid", "one", "two")] == [1, 1, 1]


@NIGHT
def test_a_killed_bridge_costs_a_connection_and_nothing_else(
    corral: Corral, pair: tuple[Node, Node], waiter: str
) -> None:
    repo, (first, second) = corral.repo(), pair
    corral.config_file.write_text(corral.config_file.read_text().replace("'20s'", "'10m'"))
    with corral.going("run", "x", "--repo", repo.folder, "--agent", waiter, "--machine", "cluster", "--json") as engine:
        until(lambda: begun(first, second), "the agent works", seconds=PATIENCE)
        corral.until_said("one")
        for pid in bridge_pids(corral):
            os.kill(pid, signal.SIGKILL)
        let_go(first, second)
        outcome = engine.end()
    assert outcome.json["status"] == "done", outcome
    assert len(outcome.json["nodes"][0]["attempts"]) == 1
    assert [said(corral).count(word) for word in ("pid", "one", "two")] == [1, 1, 1]


@NIGHT
def test_a_node_that_hangs_is_given_up_and_its_late_result_is_refused(
    corral: Corral, cluster: RayCluster, waiter: str
) -> None:
    repo, hung = corral.repo(), cluster.add_node({"hang": 1})
    settings = corral.config_file.read_text().replace("'20s'", "'6s'").replace("slot = 1", "hang = 1")
    corral.config_file.write_text(settings)
    with corral.going("run", "x", "--repo", repo.folder, "--agent", waiter, "--machine", "cluster", "--json") as engine:
        until(lambda: begun(hung), "the agent works", seconds=PATIENCE)
        corral.until_said("one")
        hung.signal(signal.SIGSTOP)
        try:
            let_go(hung)
            other = cluster.add_node({"hang": 1})
            until(lambda: begun(other), "it is tried again elsewhere", seconds=PATIENCE)
        finally:
            hung.signal(signal.SIGCONT)
        let_go(other)
        outcome = engine.end()
    attempts = outcome.json["nodes"][0]["attempts"]
    assert [each["status"] for each in attempts] == ["failed", "done"], outcome
    assert attempts[0]["error"]["class"] == "crash"
    assert attempts[0]["commit"] is None
    assert corral("show", "@last", "--json").json["nodes"][0]["attempts"] == attempts
    until(lambda: not [pid for pid in hung.pids() if works(pid, attempts[0]["id"])], "what hung is gone, too")
    hung.kill()
    other.kill()


def works(pid: int, attempt: str) -> bool:
    try:
        return f"CORRAL_ATTEMPT={attempt}".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


@NIGHT
def test_a_killed_node_loses_its_attempt_which_is_tried_again_elsewhere_once(
    corral: Corral, cluster: RayCluster, waiter: str
) -> None:
    repo = corral.repo()
    doomed = cluster.add_node({"slot": 1, "first": 1})
    corral.config_file.write_text(corral.config_file.read_text().replace("{ slot = 1 }", "{ first = 1 }"))
    with corral.going("run", "x", "--repo", repo.folder, "--agent", waiter, "--machine", "cluster", "--json") as engine:
        until(lambda: begun(doomed), "the agent works", seconds=PATIENCE)
        corral.until_said("one")
        doomed.kill()
        another = cluster.add_node({"first": 1})
        until(lambda: begun(another), "it is tried again elsewhere", seconds=PATIENCE)
        let_go(another)
        outcome = engine.end()
    attempts = outcome.json["nodes"][0]["attempts"]
    assert [each["status"] for each in attempts] == ["failed", "done"], outcome
    assert attempts[0]["error"]["class"] == "crash"
    assert outcome.json["cost"]["reserved_usd"] == 0
    another.kill()


REAL = "sk-real-0123456789abcdef"
LOOK = "{ env; cat /proc/*/environ /proc/*/cmdline; } 2>/dev/null | tr '\\0' '\\n' > seen.txt"


@NIGHT
def test_no_key_is_on_a_node(corral: Corral, cluster: RayCluster) -> None:
    cluster.use(corral, SLOT)
    turns = [Turn(text="I look.", sh=LOOK, usage=Usage(input=100, output=20)), Turn(text="Done.")]
    with ScriptedModel(turns) as model:
        settings = f'settings = {{ ANTHROPIC_BASE_URL = "{model.url}" }}\n'
        corral.config(f'[agents.claude]\nprogram = "{claude_program()}"\n{settings}')
        corral.env["ANTHROPIC_API_KEY"] = REAL
        repo = corral.repo()
        outcome = corral.run(repo, "look", "--agent", "claude", "--machine", "cluster")
        assert outcome.code == 0, outcome
        assert all(REAL in str(request.headers) for request in model.requests if request.body)
    seen = repo.read(outcome.attempt["commit"], "seen.txt")
    assert "PATH=" in seen
    assert REAL not in seen
    token = cluster.token.read_text()
    assert token not in seen
    for node in cluster.nodes:
        for path in node.home.rglob("*"):
            assert not path.is_file() or path.is_symlink() or REAL.encode() not in path.read_bytes(), path
        for pid in node.pids():
            with contextlib.suppress(OSError):  # it ended meanwhile
                assert REAL.encode() not in Path(f"/proc/{pid}/environ").read_bytes()


@NIGHT
def test_a_node_without_corral_is_named_as_the_reason(corral: Corral, cluster: RayCluster) -> None:
    cluster.use(corral, f'{SLOT}\ncommand = ["no-such-corral", "host"]')
    agent = corral.agent("mine", "echo x > x")
    repo = corral.repo()
    with corral.going("run", "x", "--repo", repo.folder, "--agent", agent, "--machine", "cluster", "--json") as engine:
        reason = "no-such-corral cannot be started there: No such program; install corral on each node"
        until(lambda: reason in corral("logs", "@last").out, "the run says why it waits", seconds=PATIENCE)
        corral("stop", "@last")
        assert engine.end().json["status"] == "stopped"


@NIGHT
def test_another_token_is_refused(corral: Corral, cluster: RayCluster) -> None:
    cluster.use(corral, SLOT)
    other = corral.root / "token"
    other.write_text("f" * 64)
    corral.env["RAY_AUTH_TOKEN_PATH"] = str(other)
    agent = corral.agent("mine", "echo x > x")
    outcome = corral.run(corral.repo(), "x", "--agent", agent, "--machine", "cluster")
    assert outcome.code == 2, outcome
    assert "RAY_AUTH_TOKEN_PATH=FILE" in outcome.err
    assert "f" * 64 not in outcome.err


@NIGHT
def test_a_killed_head_ends_attempts_and_the_run_goes_on_with_a_new_one(corral: Corral, tmp_path: Path) -> None:
    with ray_cluster([tmp_path]) as cluster:
        node = cluster.add_node({"slot": 1})
        cluster.use(corral, SLOT.replace("'20s'", "'6s'"))
        corral.config("[retry]\ndelay_seconds = 0.1\n")
        agent = corral.agent("waiter", WAITS.format(hidden=corral.root))
        repo = corral.repo()
        with corral.going(
            "run", "x", "--repo", repo.folder, "--agent", agent, "--machine", "cluster", "--json"
        ) as engine:
            until(lambda: begun(node), "the agent works", seconds=PATIENCE)
            corral.until_said("one")
            assert cluster.head
            cluster.head.kill()
            reason = "waits for a machine: the machine `cluster` cannot be reached: nothing answers at"
            until(lambda: reason in corral("logs", "@last").out, "the run says why it waits", seconds=PATIENCE)
            node.kill()
            cluster.start_head()
            later = cluster.add_node({"slot": 1})
            until(lambda: begun(later), "it is tried again", seconds=PATIENCE)
            let_go(later)
            outcome = engine.end()
    attempts = outcome.json["nodes"][0]["attempts"]
    assert [each["status"] for each in attempts] == ["failed", "done"], outcome
