"""Several engines on one store in PostgreSQL, on machines with other names: seen, stopped, answered, taken over."""

import contextlib
import signal
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.rig.command import Corral
from tests.rig.postgres import Server as Database
from tests.rig.repository import Repo
from tests.rig.server import Server, serving
from tests.rig.waiting import until

pytestmark = pytest.mark.slow  # left out of `make quick`

WAITS = "echo $CORRAL_ATTEMPT >> {begun}; touch {told}; echo started; until [ -e {go} ]; do sleep 0.05; done; echo x > x.txt"
GATED = """
name: gated
nodes:
  ask: {gate: "ship it?"}
  after: {task: "write x", needs: [ask]}
"""


class Team:
    """Two machines that share a database and a file system: each has a name and a state folder of its own."""

    def __init__(self, here: Corral, postgres: Database) -> None:
        self.here, self.postgres = here, postgres
        self.url = here.env["CORRAL_STORE"] = postgres.database()
        self.repo: Repo = here.repo()
        self.go, self.told = here.root / "shared" / "go", here.root / "shared" / "told"
        self.go.parent.mkdir(mode=0o777)
        self.go.parent.chmod(0o777)
        self.begun = self.go.with_name("begun")  #: a line for each start of an agent, written by itself
        self.begun.touch()
        self.begun.chmod(0o666)
        self.agent = here.agent(
            "waits",
            WAITS.format(go=self.go, told=self.told, begun=self.begun),
            f'scope = {{write = ["**", "{self.go.parent}/**"]}}',
        )
        self.far = here.on_another_machine()

    def share_token(self, other: Corral | None = None) -> None:
        """Let whoever serves second ask with the token that the first was given."""
        ((other or self.far).root / "token").write_text((self.here.root / "token").read_text())

    def ask(self, query: str) -> list[tuple[object, ...]]:
        return self.postgres.ask(self.url.partition("@/")[2].partition("?")[0], query)

    def begin(self, server: Server) -> str:
        run = server.client.submit("t", repo=str(self.repo.folder), agents=[self.agent]).run
        until(self.told.exists, "its agent works")
        return run

    def attempts(self) -> list[tuple[object, ...]]:
        return self.ask("SELECT status FROM attempts ORDER BY id")

    def let_leases_end(self) -> None:
        self.ask("UPDATE runs SET lease_until = 1")

    def starts(self) -> list[str]:
        return self.begun.read_text().split()

    def runs_of(self, name: str) -> set[object]:
        return {run for (run,) in self.ask(f"SELECT id FROM runs WHERE owner LIKE '{name}/%'")}


@pytest.fixture
def team(corral: Corral, postgres: Database) -> Team:
    return Team(corral, postgres)


def owner_is(team: Team, name: str) -> Callable[[], bool]:
    return lambda: str(team.ask("SELECT owner FROM runs")[0][0]).startswith(f"{name}/")


def test_runs_of_one_engine_are_seen_stopped_and_answered_from_another(team: Team) -> None:
    with serving(team.here, team.here.root) as first:
        team.share_token()
        run = team.begin(first)
        with serving(team.far, team.here.root) as second:
            assert len(team.ask("SELECT owner FROM engines")) == 2
            assert second.client.show(run).status == "running"
            assert second.ask("POST", f"runs/{run}/stop").status < 300
            assert second.client.wait(run).status == "stopped"
            assert first.client.show(run).status == "stopped"
            team.go.touch()
            asked = first.client.submit("", repo=str(team.repo.folder), flow=GATED, agents=[team.agent]).run
            until(lambda: first.client.show(asked).status == "waiting", "it asks")
            (entry,) = second.ask("GET", "inbox").json
            assert second.ask("POST", f"inbox/{entry['id']}", {"answer": "yes"}).status < 300
            assert second.client.wait(asked).status == "done"
        until(lambda: len(team.ask("SELECT owner FROM engines")) == 1, "one that ends is no engine any more")


def test_the_run_of_an_engine_that_was_killed_is_taken_over_on_another_machine(team: Team) -> None:
    with serving(team.here, team.here.root) as first:
        team.share_token()
        run = team.begin(first)
        with serving(team.far, team.here.root) as second:
            first.kill()
            ((epoch,),) = team.ask("SELECT epoch FROM runs")
            assert second.client.show(run).status == "running"
            assert team.attempts() == [("running",)]  # as long as its lease holds, nobody else drives it
            team.go.touch()
            team.let_leases_end()
            until(owner_is(team, "far"), "another machine has it")
            ended = second.client.wait(run)
            assert ended.status == "done", ended
    assert team.ask(f"SELECT epoch - {epoch} FROM runs") == [(1,)]
    assert team.attempts() == [("stopped",), ("done",)]
    assert team.ask("SELECT count(*) FROM slots") == [(0,)]
    assert team.ask("SELECT count(*) FROM ledger WHERE reserved > 0 AND settled IS NULL") == [(0,)]


def test_sixteen_at_work_on_two_engines_begin_once_each_and_outlive_the_death_of_one(team: Team) -> None:
    assert team.here("queue", "at-once", "8").code == 0
    with serving(team.here, team.here.root) as first, open_second(team) as second:
        asked = [first, second] * 8
        runs = {each.client.submit("t", repo=str(team.repo.folder), agents=[team.agent]).run for each in asked}
        until(lambda: len(team.starts()) == 16, "all are at work side by side")
        assert len(set(team.starts())) == 16
        theirs = team.runs_of("far")
        assert len(theirs) == 8  # neither has more than its share
        first.kill()
        lost = runs - theirs
        team.ask("UPDATE runs SET lease_until = 1 WHERE owner NOT LIKE 'far/%'")
        team.go.touch()
        ended = {run: second.client.wait(run).status for run in runs}
        assert set(ended.values()) == {"done"}, ended
    assert len(team.starts()) == len(set(team.starts())) == 24
    tries = team.ask("SELECT run, count(*) FROM attempts GROUP BY run")
    assert set(tries) == {*((run, 1) for run in theirs), *((run, 2) for run in lost)}
    assert len(team.repo.refs("refs/heads/corral")) == 16
    assert team.ask("SELECT count(*) FROM slots") == team.ask("SELECT count(*) FROM waiting_runs") == [(0,)]
    assert team.ask("SELECT count(*) FROM ledger WHERE settled IS NULL") == [(0,)]


def test_an_engine_that_was_silent_does_nothing_more_to_the_run_that_it_lost(team: Team) -> None:
    with serving(team.here, team.here.root) as first:
        team.share_token()
        run = team.begin(first)
        with serving(team.far, team.here.root) as second:
            first.process.send_signal(signal.SIGSTOP)
            try:
                team.go.touch()
                team.let_leases_end()
                assert second.client.wait(run).status == "done"
                before = team.ask("SELECT * FROM runs"), team.ask("SELECT count(*) FROM events")
            finally:
                first.process.send_signal(signal.SIGCONT)
            until(lambda: "another process has taken over" in first.log.read_text(), "the first hears of it")
            assert (team.ask("SELECT * FROM runs"), team.ask("SELECT count(*) FROM events")) == before
            assert first.client.show(run).status == "done"  # it serves on
            assert len(team.repo.refs("refs/heads/corral")) == 1


def test_an_engine_leaves_runs_of_repositories_that_it_does_not_have(team: Team, tmp_path: Path) -> None:
    with serving(team.here, team.here.root, "--no-resume") as first:
        team.share_token()
        run = team.begin(first)
        with serving(team.far, team.here.root) as second:
            moved = team.repo.folder.rename(tmp_path / "away")
            first.kill()
            team.let_leases_end()
            looks = "SELECT until FROM engines WHERE owner LIKE 'far/%'"
            for _ in range(2):  # it looks each second, and says every five that it is there
                seen = team.ask(looks)
                until(lambda seen=seen: team.ask(looks) != seen, "it has looked again")
            assert owner_is(team, "far")() is False
            moved.rename(team.repo.folder)
            team.go.touch()
            assert second.client.wait(run).status == "done"


@contextlib.contextmanager
def open_second(team: Team) -> Generator[Server]:
    """Serve on the other machine too, with the token of the first."""
    team.share_token()
    with serving(team.far, team.here.root) as second:
        yield second


def queued(team: Team, first: Server) -> str:
    """Let a run wait that was made here; nobody takes it up before the queue goes on."""
    assert team.here("queue", "hold").code == 0
    return first.client.submit("t", repo=str(team.repo.folder), agents=[team.agent]).run


def test_another_repository_at_the_same_path_is_not_taken_for_that_of_a_run(team: Team) -> None:
    other = team.here.repo("other", {"b.txt": "of another project"})
    far = team.here.on_another_machine("other", {team.repo.folder: other.folder})
    with serving(team.here, team.here.root) as first:
        team.share_token(far)
        run = queued(team, first)
    with serving(far, team.here.root) as second:
        team.go.touch()
        assert team.here("queue", "go").code == 0
        until(lambda: "waits for a server on" in second.client.queue().waiting[0].waits, "it says who has it")
        looks = "SELECT until FROM engines"
        seen = team.ask(looks)
        until(lambda: team.ask(looks) != seen, "it has looked again, each second")
        assert second.client.show(run).status == "queued"
        assert "which has its repository" in (second.client.show(run).reason or "")
        assert team.attempts() == []
        with serving(team.here, team.here.root) as first:
            assert first.client.wait(run).status == "done"
    assert len(team.repo.refs("refs/heads/corral")) == 1
    assert other.refs("refs/heads/corral") == []


def test_an_engine_fetches_the_base_of_a_run_and_its_work_is_merged_there(team: Team, tmp_path: Path) -> None:
    team.repo.git("clone", "--quiet", "--bare", str(team.repo.folder), str(tmp_path / "origin"))
    team.repo.git("remote", "add", "origin", str(tmp_path / "origin"))
    team.repo.git("clone", "--quiet", str(tmp_path / "origin"), str(tmp_path / "clone"))
    base = team.repo.commit({"new.txt": "new"})
    team.repo.git("push", "--quiet", "origin", "HEAD")
    clone = Repo(tmp_path / "clone")
    far = team.here.on_another_machine("other", {team.repo.folder: clone.folder})
    with serving(team.here, team.here.root) as first:
        team.share_token(far)
        run = queued(team, first)
    team.go.touch()
    with serving(far, team.here.root) as second:
        assert team.here("queue", "go").code == 0
        done = second.client.wait(run)
        assert (done.status, done.base) == ("done", base), done
        assert len(team.ask("SELECT place FROM repositories")) == 2
        refused = team.here("merge", run)
        assert refused.code == 2, refused
        assert "is not on this machine" in refused.err
        assert "run the command on other" in refused.err
        assert far("merge", run).code == 0
    assert clone.git("show", "main:x.txt") == "x"
    assert team.repo.refs("refs/heads/corral") == []


def test_a_live_run_in_another_container_is_taken_over_only_after_its_lease(team: Team) -> None:
    """It shares the name of the host and its boot, not its processes: who looks for the process id finds none."""
    words = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *team.here.program]
    inside = Corral(team.here.root / "inside", words)
    inside.env.update({**team.here.env, "CORRAL_HOME": str(inside.home)})
    with inside.going("run", "t", "--repo", team.repo.folder, "--agent", team.agent) as engine:
        until(team.told.exists, "its agent works")
        (seen,) = team.here("ls", "--json").json
        assert (seen["status"], seen["orphaned"]) == ("running", False)
        refused = team.here("resume", "@last")
        assert refused.code == 2, refused
        assert "in another container there" in refused.err
        assert team.attempts() == [("running",)]
        engine.process.kill()
        engine.process.wait()
    team.go.touch()
    team.let_leases_end()
    assert team.here("resume", "@last").code == 0
    assert team.attempts() == [("stopped",), ("done",)]
