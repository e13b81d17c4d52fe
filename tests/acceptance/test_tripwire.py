"""Where no box holds an agent: what it did to the person's own checkout, to others and to the state folder is found."""

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

from tests.rig.command import Corral, Outcome
from tests.rig.processes import gone, running
from tests.rig.repository import Repo
from tests.rig.waiting import until

BARE = ("--allow-unsandboxed", "--require-sandbox", "none", "--retries", "0")


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo()


def caught(outcome: Outcome, kind: str, path: str = "") -> None:
    """Assert that a foreign write failed the attempt and is named."""
    assert outcome.code == 1, outcome
    assert outcome.attempt["error"]["class"] == "scope_violation", outcome
    found = [(each["kind"], each["path"]) for each in outcome.attempt["sandbox"]["violations"]]
    assert any(each == kind and path in where for each, where in found), found
    assert outcome.json["merge"]["status"] == "none"


FOREIGN = {
    "an edit of the checkout": ("echo evil >> {repo}/a.txt", "checkout", "a.txt"),
    "a new file there": ("echo evil > {repo}/new.txt", "checkout", "new.txt"),
    "a deletion there": ("rm {repo}/src/b.txt", "checkout", "src/b.txt"),
    "an edit that git is told to overlook": (
        "cd {repo}; git update-index --assume-unchanged a.txt; echo evil > a.txt; cd -",
        "checkout",
        "a.txt",
    ),
    "a hook": ("printf '#!/bin/sh\\n' > {repo}/.git/hooks/post-checkout", "git", "hooks/post-checkout"),
    "its settings": ("git -C {repo} config core.pager evil", "git", "config"),
    "an ignored file of its .git": ("echo '*.c filter=evil' > {repo}/.git/info/attributes", "git", "info/attributes"),
    "a branch": ("git -C {repo} update-ref refs/heads/other HEAD", "refs", "refs/heads/other"),
    "a tag": ("git -C {repo} tag v1", "refs", "refs/tags/v1"),
    "HEAD": ("git -C {repo} symbolic-ref HEAD refs/heads/gone", "git", "HEAD"),
    "the settings of the person": ("echo '# evil' >> {settings}", "state", "config.toml"),
    "trust": ("echo evil >> {state}/trusted", "state", "trusted"),
    "a file of its own in the state folder": ("echo evil > {state}/evil", "state", "evil"),
    "what was probed": ("echo '{{}}' > {state}/probe.json", "state", "probe.json"),
    "another's workspace": ("echo evil > {state}/workspaces/0-1/work/evil", "siblings", "0-1"),
}


@pytest.mark.parametrize(("script", "kind", "path"), FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_write_fails_the_attempt(corral: Corral, repo: Repo, script: str, kind: str, path: str) -> None:
    place = corral.home / "workspaces" / "0-1" / "work"
    place.mkdir(parents=True)
    (place / "a.txt").write_text("theirs\n")
    old = time.time() - 7200
    os.utime(corral.home / "workspaces" / "0-1", (old, old))
    words = script.format(repo=repo.folder, settings=corral.config_file, state=corral.home)
    corral.agent("mine", f"echo x > x; {words}")
    caught(corral.run(repo, "t", "--agent", "mine", *BARE), kind, path)
    told = corral("show", "@last").out
    assert Path(path).name in told, told


def test_what_was_written_is_kept_as_a_patch_that_applies_backwards(corral: Corral, repo: Repo) -> None:
    corral.agent("mine", f"echo x > x; cd {repo.folder}; echo evil >> a.txt; printf new > 'odd name'; rm src/b.txt")
    outcome = corral.run(repo, "t", "--agent", "mine", *BARE)
    patch = corral.home / "logs" / outcome.attempt["id"] / "foreign.patch"
    assert "+evil" in patch.read_text()
    repo.git("apply", "--reverse", str(patch))
    assert repo.git("status", "--porcelain") == ""
    assert "foreign.patch" in corral("show", "@last").out


def test_its_own_work_is_still_there(corral: Corral, repo: Repo) -> None:
    corral.agent("mine", f"echo x > x; echo evil >> {repo.folder}/a.txt")
    outcome = corral.run(repo, "t", "--agent", "mine", *BARE)
    assert repo.read(outcome.attempt["branch"], "x") == "x"


def test_what_was_uncommitted_before_is_not_held_against_it(corral: Corral, repo: Repo) -> None:
    (repo.folder / "a.txt").write_text("mine\n")
    (repo.folder / "new.txt").write_text("mine\n")
    corral.agent("mine", "echo x > x")
    outcome = corral.run(repo, "t", "--agent", "mine", *BARE)
    assert outcome.code == 0, outcome


def test_in_a_box_the_persons_own_work_is_noted_and_does_no_harm(corral: Corral, repo: Repo) -> None:
    corral.agent("mine", "echo x > x; echo ready; until [ -e $HOME/go ]; do sleep 0.05; done")
    with corral.going("run", "t", "--repo", repo.folder, "--agent", "mine", "--json") as run:
        corral.until_said("ready")
        (repo.folder / "a.txt").write_text("meanwhile\n")
        repo.git("branch", "meanwhile")
        home = next((corral.home / "workspaces").iterdir()) / "home"
        (home / "go").touch()
        outcome = run.end()
    assert outcome.code == 0, outcome
    assert outcome.attempt["sandbox"]["violations"] == []
    notes = " ".join(event["text"] for event in corral.events() if event["type"] == "noted")
    assert "checkout a.txt" in notes
    assert "refs/heads/meanwhile" in notes


@pytest.mark.parametrize("level", [(), BARE[:3]], ids=["box", "none"])
def test_killed_corral_leaves_no_process_and_no_socket(corral: Corral, repo: Repo, level: tuple[str, ...]) -> None:
    sign = f"31536000.{os.getpid()}9{len(level)}"
    corral.agent("mine", f"echo ready; setsid sleep {sign} & (sleep {sign} &) ; while :; do sleep {sign}; done")
    arguments = ("run", "t", "--repo", repo.folder, "--agent", "mine", "--net", "localhost:9009", *level)
    with corral.going(*arguments) as run:
        corral.until_said("ready")
        until(lambda: len(running(sign)) >= 3, "its processes run")
        sockets = sockets_of(Path(f"/proc/{run.process.pid}"))
        assert sockets
        run.signal(signal.SIGKILL)
        run.process.wait()
        until(lambda: not running(sign), "its processes are gone")
        until(lambda: not sockets & held(), "its sockets are gone")
    gone(sign)


def sockets_of(process: Path) -> set[str]:
    """Return the sockets that a process holds, in whatever network they are."""
    found: set[str] = set()
    with contextlib.suppress(OSError):  # it ended while we looked
        for each in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(str(each.readlink()))
    return {each for each in found if each.startswith("socket:")}


def held() -> set[str]:
    """Return the sockets that anybody on this machine holds."""
    processes = [each for each in Path("/proc").iterdir() if each.name.isdigit()]
    return {socket for process in processes for socket in sockets_of(process)}
