"""What an agent at level strict can and cannot do, judged from outside; the full hostile suite comes with scopes."""

import os
import signal
import subprocess

import pytest

from tests.rig.command import Corral
from tests.rig.levels import BOXED
from tests.rig.processes import running
from tests.rig.waiting import until


def attack(corral: Corral, script: str, *, twin: bool = False) -> str:
    """Have an agent run a script; return what it printed."""
    agent = corral.agent("hostile", f'cd "$PWD"; {script}; exit 0')
    env = {"CORRAL_PYTHON_LAUNCHER": "1"} if twin else {}
    outcome = corral.run(corral.root / "repo", "attack", "--agent", agent, "--read-only", "--retries", "0", env=env)
    assert outcome.attempt["sandbox"]["level"] in BOXED, outcome
    return outcome.attempt["output"]


@pytest.fixture(params=[False, True], ids=["compiled", "twin"])
def twin(request: pytest.FixtureRequest) -> bool:
    return request.param


def test_it_works_in_its_workspace(corral: Corral, twin: bool) -> None:
    corral.repo()
    printed = attack(
        corral, "git commit -q --allow-empty -m x && echo committed; python3 -c 'print(1+1)'; mktemp; id -u", twin=twin
    )
    assert "committed" in printed
    assert "\n2\n" in printed
    assert str(os.getuid()) != printed.splitlines()[-1] or os.getuid() != 0


def test_files_of_the_person_do_not_exist_for_it(corral: Corral, twin: bool) -> None:
    repo = corral.repo()
    (corral.user_home / ".ssh").mkdir()
    (corral.user_home / ".ssh" / "id_rsa").write_text("PRIVATE")
    printed = attack(
        corral,
        f"cat {corral.user_home}/.ssh/id_rsa; ls {repo.folder} {corral.home} /root; cat /etc/shadow; echo end",
        twin=twin,
    )
    assert "PRIVATE" not in printed
    assert "a.txt" not in printed
    assert not [line for line in printed.splitlines() if line.startswith("root:")]
    assert "end" in printed


def test_nothing_outside_can_be_written(corral: Corral, twin: bool) -> None:
    repo = corral.repo()
    before = repo.fingerprint()
    places = [
        repo.folder,
        repo.folder / ".git",
        repo.folder / ".git/objects",
        corral.home,
        corral.user_home,
        "/usr",
        "/etc",
        "/var/lib",
    ]
    attack(corral, "; ".join(f"echo x > {place}/planted" for place in places), twin=twin)
    assert not [place for place in places if os.path.exists(f"{place}/planted")]  # noqa: PTH110
    assert repo.fingerprint() == before


def test_hooks_and_settings_of_its_own_clone_are_closed(corral: Corral, twin: bool) -> None:
    repo = corral.repo()
    script = "echo 'touch /tmp/ran' > .git/hooks/pre-commit; git config core.fsmonitor 'touch /tmp/ran'; mv .git .git2; cat .git/config"
    printed = attack(corral, script, twin=twin)
    assert "fsmonitor" not in printed
    assert "[core]" in printed
    assert repo.git("status", "--porcelain") == ""


def test_processes_outside_are_out_of_reach(corral: Corral, twin: bool) -> None:
    corral.repo()
    with subprocess.Popen(["sleep", "987"]) as victim:
        printed = attack(
            corral,
            f"kill -9 {victim.pid}; kill -9 -1; ls /proc | grep -c '^[0-9]'; cat /proc/{os.getpid()}/environ",
            twin=twin,
        )
        assert victim.poll() is None
        victim.send_signal(signal.SIGTERM)
    numbers = [int(line) for line in printed.split() if line.isdigit()]
    assert not numbers or max(numbers) < 20


def test_no_new_namespace_and_no_new_rights(corral: Corral, twin: bool) -> None:
    corral.repo()
    printed = attack(
        corral, "unshare -Ur echo got-in; su -c 'echo root-me' 2>&1; grep CapEff /proc/self/status", twin=twin
    )
    assert "got-in" not in printed
    assert "CapEff:\t0000000000000000" in printed


def test_the_environment_is_its_own(corral: Corral) -> None:
    corral.repo()
    corral.env["SECRET_OF_MINE"] = "hunter2"
    printed = attack(corral, "env")
    assert "hunter2" not in printed
    assert "HOME=/home/agent" in printed


def test_daemons_end_with_the_attempt(corral: Corral) -> None:
    corral.repo()
    attack(corral, "setsid sh -c 'while :; do sleep 0.05; done' sign-of-a-daemon >/dev/null 2>&1 & echo left")
    until(lambda: not running("sign-of-a-daemon"), "the daemon is gone")


def test_a_link_out_of_the_workspace_is_collected_as_a_link(corral: Corral) -> None:
    repo = corral.repo()
    agent = corral.agent(
        "linker", "ln -s /etc/shadow shadow; ln -s ../../../../../../etc/passwd climbing; echo x > real.txt"
    )
    attempt = corral.run(repo, "link", "--agent", agent).attempt
    assert attempt["status"] == "done"
    assert repo.git("cat-file", "-p", f"{attempt['commit']}:shadow") == "/etc/shadow"


def test_without_a_sandbox_nothing_starts_unless_the_person_says_so(corral: Corral, tmp_path: os.PathLike[str]) -> None:
    repo = corral.repo()
    agent = corral.agent("worker", "echo work > work.txt")
    hidden = {"PATH": f"{tmp_path}/bin"}
    (corral.root / "bin").mkdir()
    for name in ("git", "sh", "env"):
        (corral.root / "bin" / name).symlink_to(f"/usr/bin/{name}")
    refused = corral.run(repo, "x", "--agent", agent, env=hidden)
    assert refused.code == 2
    assert "bubblewrap" in refused.err
    assert "--allow-unsandboxed" in refused.err
    assert not repo.refs("refs/heads/corral/")
    allowed = corral.run(repo, "x", "--agent", agent, "--allow-unsandboxed", env=hidden)
    assert allowed.attempt["sandbox"]["level"] == "none", allowed
    assert allowed.code == 0
