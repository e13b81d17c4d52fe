"""A host that shares neither processes nor the repository with its engine: other namespaces, and a real sshd."""

import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from corral.testing.command import PROGRAM
from tests.rig.command import Corral
from tests.rig.machines import add_machine, far_home, host_pids
from tests.rig.waiting import until

SCRIPT = '[[step]]\nsay = "from afar"\n[[step]]\nwrite = "new.txt"\ntext = "made there"\n'


def test_in_other_namespaces_without_the_repository_and_our_state(corral: Corral) -> None:
    repo = corral.repo()
    corral.home.mkdir(parents=True, exist_ok=True)
    far = far_home(corral)
    (far / "home").mkdir(parents=True)
    hidden = " && ".join(f"mount -t tmpfs none {each}" for each in (repo.folder, corral.home))
    seen = far / "seen"
    line = f"{hidden} && ls {repo.folder} {corral.home} > {seen} && echo $$ >> {seen} && exec {PROGRAM} host"
    words = ["env", f"CORRAL_HOME={far}", f"HOME={far}/home", "unshare", "--mount", "--pid", "--fork", "--kill-child",
             "--mount-proc", "--propagation", "private", "sh", "-c", line]  # fmt: skip
    add_machine(corral, command=json.dumps(words))
    outcome = corral.run(
        repo, "x", "--agent", corral.script(SCRIPT), "--machine", "box1", "--check", "grep there new.txt"
    )
    assert outcome.json["status"] == "done", outcome
    assert repo.read(outcome.attempt["commit"], "new.txt") == "made there"
    assert outcome.attempt["evidence"]["grade"] == "proven"
    shown = seen.read_text().split()
    assert shown == [f"{repo.folder}:", f"{corral.home}:", "1"]  # both empty there, and it is the first process


class Sshd:
    """A real sshd on loopback, with keys of its own."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("sshd", path="/usr/sbin:/usr/bin")
        assert program, "openssh-server is not installed: sudo apt-get install openssh-server"
        folder.mkdir(mode=0o700)
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        (folder / "config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {folder}/user.pub\nStrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\n"
        )
        Path("/run/sshd").mkdir(exist_ok=True)
        self.process = subprocess.Popen([program, "-D", "-e", "-f", folder / "config"], stderr=subprocess.DEVNULL)
        self.words = ["ssh", "-p", str(self.port), "-i", str(folder / "user"), "-o", "BatchMode=yes", "-F", "none",
                      "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "127.0.0.1"]  # fmt: skip
        until(self._answers, "sshd listens")

    def _answers(self) -> bool:
        assert self.process.poll() is None, "sshd ended"
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


@pytest.fixture
def sshd(tmp_path: Path) -> Generator[Sshd]:
    served = Sshd(tmp_path / "sshd")
    yield served
    served.process.terminate()
    served.process.wait()


@pytest.mark.night("needs openssh-server")
def test_over_ssh_an_attempt_works_and_survives_the_death_of_its_engine(corral: Corral, sshd: Sshd) -> None:
    far = far_home(corral)
    (far / "home").mkdir(parents=True)
    line = f"env CORRAL_HOME={far} HOME={far}/home {PROGRAM} host"
    add_machine(corral, command=json.dumps([*sshd.words, line]))
    repo = corral.repo()
    done = corral.run(repo, "x", "--agent", corral.script(SCRIPT), "--machine", "box1", "--check", "grep there new.txt")
    assert done.json["status"] == "done", done
    agent = corral.agent("waiter", "echo one; touch begun; while [ ! -e go ]; do sleep 0.05; done; echo x > made.txt")
    folder = far / "host" / "workspaces"
    with corral.going("run", "x", "--repo", repo.folder, "--agent", agent, "--machine", "box1") as engine:
        until(lambda: list(folder.glob("*/work/begun")), "the agent has begun")
        corral.until_said("one")
        os.kill(engine.process.pid, signal.SIGKILL)
        engine.process.wait()
    assert host_pids(corral)
    (next(folder.glob("*/work/begun")).parent / "go").touch()
    resumed = corral("resume", "@last", "--json")
    assert resumed.json["status"] == "done", resumed
    assert len(resumed.json["nodes"][0]["attempts"]) == 1
