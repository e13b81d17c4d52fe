"""A Ray cluster on this machine: each node in namespaces of its own, with a home of its own and without the repository."""

import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

from corral.testing.command import PROGRAM
from tests.rig.command import Corral
from tests.rig.waiting import until

START_SECONDS = 120
#: What makes a cluster notice within seconds that a node is gone.
QUICK = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "3",
}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


class Node:
    """One raylet, as a machine of its own."""

    def __init__(self, cluster: "RayCluster", name: str, address: str, words: Sequence[str]) -> None:
        self.name, self.home = name, cluster.folder / name
        for each in ("home", "state", "ray"):
            (self.home / each).mkdir(parents=True, exist_ok=True)
        steps = [f"mount --bind {self.home}/ray {cluster.temporary}"]
        steps += [f"mount -t tmpfs none {each}" for each in cluster.hidden]
        line = " && ".join(
            [*steps, f"exec {shlex.join([sys.executable, '-m', 'ray.scripts.scripts', 'start', *words])}"]
        )
        env = {
            "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}",
            "HOME": f"{self.home}/home",
            "CORRAL_HOME": f"{self.home}/state",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(cluster.token),
            "RAY_USAGE_STATS_ENABLED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            **QUICK,
        }
        self.address = address
        self._log = (self.home / "log").open("wb")
        unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"]
        self.process = subprocess.Popen(
            [*unshare, "sh", "-c", line], env=env, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log
        )

    @property
    def workspaces(self) -> Path:
        return self.home / "state" / "host" / "workspaces"

    def log(self) -> str:
        return (self.home / "log").read_text(errors="replace")[-3000:]

    def first_pid(self) -> int:
        """Return the first process of its namespace: with it goes the whole machine."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0])

    def pids(self) -> list[int]:
        if self.process.poll() is not None:
            return []
        space = Path(f"/proc/{self.first_pid()}/ns/pid").readlink()
        found: list[int] = []
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (place / "ns" / "pid").readlink() == space:
                    found.append(int(place.name))
        return found

    def signal(self, number: int) -> None:
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        if self.process.poll() is None:
            with contextlib.suppress(OSError, IndexError):
                os.kill(self.first_pid(), signal.SIGKILL)
            self.process.kill()
            self.process.wait()
        self._log.close()


class RayCluster:
    """A head without room for attempts, and nodes that have it."""

    def __init__(self, folder: Path, hidden: Sequence[Path]) -> None:
        self.folder, self.hidden = folder, hidden
        self.temporary = folder / "t"
        self.temporary.mkdir()
        self.token = folder / "token"
        self.token.write_text("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")
        self.token.chmod(0o600)
        self.port, self.client_port = free_port(), free_port()
        self.nodes: list[Node] = []
        self.head: Node | None = None

    @property
    def address(self) -> str:
        return f"ray://127.0.0.1:{self.client_port}"

    def start_head(self) -> Node:
        words = ["--head", "--include-dashboard=false", "--port", str(self.port), "--ray-client-server-port", str(self.client_port),
                 "--temp-dir", str(self.temporary), *self._common("127.0.0.1", {}, {})]  # fmt: skip
        self.head = Node(self, f"head{len(self.nodes)}", "127.0.0.1", words)
        self.nodes.append(self.head)
        self._until_listening(self.head, self.client_port)
        return self.head

    def add_node(self, resources: Mapping[str, float], labels: Mapping[str, str] | None = None) -> Node:
        address = f"127.0.0.{len(self.nodes) + 1}"
        words = ["--address", f"127.0.0.1:{self.port}", *self._common(address, resources, labels or {})]
        node = Node(self, f"node{len(self.nodes)}", address, words)
        self.nodes.append(node)
        until(lambda: self._has_started(node), "the node has joined", seconds=START_SECONDS)
        return node

    def _common(self, address: str, resources: Mapping[str, float], labels: Mapping[str, str]) -> list[str]:
        return ["--node-ip-address", address, "--num-cpus", "1", "--resources", json.dumps(resources),
                "--labels", ",".join(f"{key}={value}" for key, value in labels.items()) or "made=here",
                "--object-store-memory", str(80 << 20), "--disable-usage-stats", "--block"]  # fmt: skip

    def _has_started(self, node: Node) -> bool:
        assert node.process.poll() is None, node.log()
        return "Ray runtime started" in node.log()

    def _until_listening(self, node: Node, port: int) -> None:
        def answers() -> bool:
            assert node.process.poll() is None, node.log()
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        until(lambda: self._has_started(node) and answers(), "the head listens", seconds=START_SECONDS)

    def use(self, corral: Corral, settings: str = "") -> None:
        """Let an engine know the cluster, and its token."""
        corral.config(f'[machines.cluster]\nray = "{self.address}"\n{settings}\n')
        corral.env |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(self.token)}

    def close(self) -> None:
        for node in self.nodes:
            node.kill()


@contextlib.contextmanager
def ray_cluster(hidden: Sequence[Path]) -> Generator[RayCluster]:
    """Start a head; sockets need a short path."""
    with tempfile.TemporaryDirectory(prefix="cr-", ignore_cleanup_errors=True) as name:
        cluster = RayCluster(Path(name), hidden)
        try:
            cluster.start_head()
            yield cluster
        finally:
            cluster.close()
