"""The plain list of runs: the same as the list with options, of whatever runs there are, and it loads next to nothing."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec import structs

from corral.model import GRADES, Attempt, AttemptRecord, Cost, Evidence, NodeState, RunPlan, RunRecord, Status
from corral.model.flow import AgentChoice, Task
from corral.rules.flows import strategies
from corral.rules.text import names
from corral.store.sqlite import plain_list
from corral.store.sqlite.store import Store
from corral.world import process_names

OWNERS = (None, process_names.own_name(), f"{os.uname().nodename}/gone/1/1")
USUAL_WAY = "import sys; from corral.frontends.cli import run_command_line; sys.exit(run_command_line())"
STATUSES: tuple[Status, ...] = ("queued", "running", "paused", "done", "failed", "limited", "stopped")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CORRAL_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("CORRAL_STORE", raising=False)
    return tmp_path / "state"


def fill(store: Store) -> None:
    """Store runs of each status, owner and grade, with names and without, with several agents and with none."""
    flow = strategies.single(Task(prompt="fix the login\nand more"), AgentChoice("claude"))
    plan = RunPlan(flow=flow, repo="/repository", git_dir="/repository/.git", base="0" * 40, into="main")
    now = time.time()
    cases: list[tuple[Status, str | None]] = [(status, owner) for status in STATUSES for owner in OWNERS]
    with store.transaction():
        for number, (status, owner) in enumerate(cases):
            run = names.run_id(int(now * 1000) + number, number)
            name = f"run {number}" if number % 2 else None
            own = structs.replace(plan, name=name, labels={"team": f"{number % 5}", "size": "XL"} if number % 3 else {})
            store.add_run(
                RunRecord(id=run, status=status, reason=None, plan=own, created=now - 100 - 3600 * number, owner=owner)
            )
            for place in range(number % 3):
                grade = GRADES[number % len(GRADES)]
                attempt = Attempt(
                    id=names.attempt_id(run, place + 1),
                    agent=("claude", "codex")[place],
                    status="done",
                    cost=Cost(0.125 * number, "reported") if number % 4 else Cost(),
                    evidence=Evidence(grade=grade),
                    commit="1" * 40,
                    files_changed=("a",) if number % 2 else (),
                )
                store.save_attempt(
                    AttemptRecord(attempt=attempt, run=run, node="main", phase="over", started=now, ended=now)
                )
                store.move_node(run, NodeState(id="main", status="done", winner=attempt.id))


def ls(*options: str) -> subprocess.CompletedProcess[str]:
    argv = [str(Path(sys.executable).with_name("corral")), "ls", *options]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)


def usual(*options: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", USUAL_WAY, "ls", *options]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)


def test_it_shows_what_the_list_with_options_shows(folder: Path) -> None:
    store = Store(folder)
    fill(store)
    store.close()
    plain = ls()
    assert plain_list.newest({}, 30) is not None
    assert plain.stdout == ls("-n", "30", "-n", "30").stdout  # twice: not plain
    for word in ("orphaned", "queued", "proven", "to merge", "run 7", "claude,codex"):
        assert word in plain.stdout


@pytest.mark.parametrize(
    "options",
    [
        ("-n", "3"), ("--status", "done"), ("--agent", "codex", "--status", "failed"), ("--json",), ("--json", "-n", "4"),
        ("--since", "10h"), ("--json", "--since", "100h"), ("--unmerged",), ("--unmerged", "--json"), ("--label", "team"),
        ("--label", "team=3"), ("--json", "--label", "team=4"), ("--repo", "/repository/src"), ("--json", "--repo", "/other"),
        ("--json", "--label", "TEAM"), ("--label", "size=XL", "--status", "done"),
    ],
)  # fmt: skip
def test_plain_options_show_what_the_usual_way_shows(folder: Path, options: tuple[str, ...]) -> None:
    store = Store(folder)
    fill(store)
    store.close()
    assert plain_list.plain_options(options) is not None
    assert ls(*options).stdout == usual(*options).stdout != ""


@pytest.mark.parametrize(
    "options",
    [
        ("-n",), ("-n", "0"), ("-n", "x"), ("-n", "²"), ("-n", "1", "-n", "2"), ("--status", "waiting"),
        ("--status", "done,failed"), ("--agent",), ("-n", "99999999"), ("--help", ""), ("3", "-n"), ("-n3",),
        ("--json", "--json"), ("--since", "2026-05-01"), ("--since", "d"), ("--since", ""), ("--label", ""), ("--label", "a%"),
        ("--label", "=a"), ("--repo", ""), ("--repo", "~/x"),
    ],
)  # fmt: skip
def test_other_options_go_the_usual_way(options: tuple[str, ...]) -> None:
    assert plain_list.plain_options(options) is None


@pytest.mark.usefixtures("folder")
def test_options_that_fit_no_run_are_said_as_ever() -> None:
    for options in (("--status", "done"), ("--status", "done"), ("-n", "3"), ("--json",), ("--unmerged", "-n", "2")):
        assert (found := ls(*options)).stderr == usual(*options).stderr
        assert found.stdout == usual(*options).stdout
    assert ls("--status", "done").stderr == "no run fits\n"


@pytest.mark.parametrize(("seconds", "orphaned"), [(60, False), (-1, True), (3600, True)])
def test_an_owner_elsewhere_is_there_while_its_lease_holds(folder: Path, seconds: float, orphaned: bool) -> None:
    store = Store(folder)
    fill(store)
    until = time.time() + seconds
    run = store.find("@last")
    assert store.take_lease(run, "elsewhere/b/1/1/2/m", now=time.time(), until=until, loser=store.run(run).owner)
    store.move_run(run, "running", None, None)
    store.close()
    found = plain_list.newest({}, 1)
    assert found is not None
    assert found[0][8] is orphaned
    assert ls("-n", "1").stdout == usual("-n", "1").stdout


def test_a_run_that_waits_goes_the_usual_way(folder: Path) -> None:
    store = Store(folder)
    fill(store)
    run = store.list_runs()[0].run
    store.move_run(run, "waiting", "for an answer", None)
    store.close()
    assert plain_list.newest({}, 30) is None
    assert "waiting" in ls().stdout


@pytest.mark.usefixtures("folder")
def test_no_store_and_no_run_are_said_as_ever() -> None:
    assert plain_list.newest({}, 30) is None
    assert "no run yet" in ls().stderr
    assert plain_list.newest({}, 30) == []
    assert "no run yet" in ls().stderr


def test_another_store_goes_the_usual_way(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(folder).close()
    assert plain_list.newest({}, 30) == []
    settings = folder.parent / "config" / "corral" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[store]\nurl = "postgresql://elsewhere/x"\n')
    assert plain_list.newest({}, 30) is None
    settings.unlink()
    monkeypatch.setenv("CORRAL_STORE", "postgresql://elsewhere/x")
    assert plain_list.newest({}, 30) is None


def test_it_loads_neither_click_nor_msgspec(folder: Path) -> None:
    store = Store(folder)
    fill(store)
    store.close()
    script = "import sys; sys.argv = ['corral', 'ls']\nfrom corral.__main__ import _run_command\n_run_command()\nprint(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    loaded = set(shown.stdout.splitlines()[-1].split())
    assert not loaded & {"click", "msgspec", "asyncio", "pathlib", "typing", "subprocess", "corral.model"}
    assert "corral.store.sqlite.plain_list" in loaded
