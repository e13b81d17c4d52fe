"""The nodes of n8n, built as they are published, and what builds, lints and runs them."""

import contextlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
from collections.abc import Generator, Mapping
from pathlib import Path

from tests.rig.agents import PROJECT, programs

PACKAGE = PROJECT / "integrations" / "n8n"
WAIT_SECONDS = 300


def node() -> Path:
    return programs() / "node"


def modules() -> Path:
    known = PROJECT / ".venv" / "n8n"
    assert known.exists(), "what builds the nodes of n8n is not installed: tools/bootstrap dev"
    return Path(known.read_text().strip())


def package_copy(folder: Path) -> Path:
    """Copy the package as it is in the repository; what it is built with is beside it."""
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("node_modules", "dist"))
    (folder / "node_modules").symlink_to(modules())
    return folder


def run_node(*words: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    """Run a program of Node to its end; return what it printed, also if it fails."""
    paths = f"{node().parent}:/usr/local/bin:/usr/bin:/bin"
    whole = {"PATH": paths, "HOME": str(cwd), "NO_COLOR": "1", **(env or {})}
    done = subprocess.run(
        [node(), *words], cwd=cwd, env=whole, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=WAIT_SECONDS,
        check=False,
    )  # fmt: skip
    said = done.stdout.decode(errors="replace")
    assert done.returncode == 0, said[-8000:]
    return said


# --- the real n8n, of the night


def server_folder() -> Path:
    """Return where tools/n8n-server has installed n8n."""
    known = PROJECT / ".venv" / "n8n-server"
    assert known.exists(), "n8n is not installed: tools/n8n-server/install"
    return Path(known.read_text().strip())


#: It asks nobody for news, licences or lists of nodes, and listens on the loopback alone.
QUIET = {
    "DB_SQLITE_POOL_SIZE": "2",
    "DB_TYPE": "sqlite",
    "N8N_DIAGNOSTICS_ENABLED": "false",
    "N8N_DISABLED_MODULES": "mcp,chat-hub",
    "N8N_DYNAMIC_BANNERS_ENABLED": "false",
    "N8N_HIRING_BANNER_ENABLED": "false",
    "N8N_HOST": "127.0.0.1",
    "N8N_LICENSE_AUTO_RENEW_ENABLED": "false",
    "N8N_LICENSE_SERVER_URL": "http://127.0.0.1:9/",
    "N8N_LISTEN_ADDRESS": "127.0.0.1",
    "N8N_PERSONALIZATION_ENABLED": "false",
    "N8N_RUNNERS_ENABLED": "false",
    "N8N_TEMPLATES_ENABLED": "false",
    "N8N_UNVERIFIED_PACKAGES_ENABLED": "false",
    "N8N_VERIFIED_PACKAGES_ENABLED": "false",
    "N8N_VERSION_NOTIFICATIONS_ENABLED": "false",
}


class RealN8n:
    """A real n8n with the built package, credentials and workflows, in a folder of its own."""

    def __init__(self, folder: Path, package: Path) -> None:
        self.folder, self.port = folder, free_port()
        own = folder / ".n8n" / "nodes" / "node_modules" / "n8n-nodes-corral"
        own.mkdir(parents=True)
        shutil.copy(package / "package.json", own)
        shutil.copytree(package / "dist", own / "dist")
        self.url = f"http://127.0.0.1:{self.port}"
        self.env = {**QUIET, "N8N_USER_FOLDER": str(folder), "HOME": str(folder), "N8N_PORT": str(self.port)}
        self.program = server_folder() / "node_modules" / "n8n" / "bin" / "n8n"

    def command(self, *words: str | Path) -> str:
        return run_node(self.program, *words, cwd=self.folder, env=self.env)

    def take(self, kind: str, data: object) -> None:
        """Import credentials or workflows, as a user does from a file."""
        file = self.folder / f"{kind}.json"
        file.write_text(json.dumps(data))
        self.command(f"import:{kind}", f"--input={file}")

    def executions(self) -> list[tuple[str, str, str]]:
        """Return workflow, status and data of all executions, oldest first."""
        with contextlib.closing(sqlite3.connect(self.folder / ".n8n" / "database.sqlite")) as database:
            return database.execute(
                "SELECT e.workflowId, e.status, d.data FROM execution_entity e"
                " JOIN execution_data d ON d.executionId = e.id ORDER BY e.id"
            ).fetchall()

    @contextlib.contextmanager
    def serving(self) -> Generator[None]:
        """Serve for as long as the block lasts; its log is in the folder."""
        paths = f"{node().parent}:/usr/local/bin:/usr/bin:/bin"
        with (self.folder / "n8n.log").open("wb") as log:
            process = subprocess.Popen(
                [node(), self.program, "start"], cwd=self.folder, env={"PATH": paths, **self.env}, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(60)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]
