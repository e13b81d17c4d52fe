"""The world around a box: a person's files, a repository, listeners, running programs; and what became of them."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

from .sockets import short_address

OUTSIDE = (
    "w_outside", "w_dotdot", "w_new_symlink", "w_existing_symlink", "w_new_hardlink", "w_existing_hardlink",
    "w_proc_self_root", "w_proc_1_root", "w_proc_victim_root", "w_proc_victim_cwd", "w_rename_in", "w_unlink",
    "w_truncate", "w_chmod", "w_utime", "w_xattr", "w_inherited_dirfd", "w_inherited_dotdot",
)  # fmt: skip
ORIGINAL = "as it was before\n"
VICTIM = """
import ctypes, sys
kept = ctypes.create_string_buffer(b"SECRET in memory")
print(ctypes.addressof(kept), flush=True)
sys.stdin.readline()
"""
GIT = {"PATH": "/usr/bin:/bin", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}


class World:
    """Made anew for each judgement, gone afterwards."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o755)
        self.mark = f"corral-escape-{os.getpid()}"
        self.sleep = f"31536000.{os.getpid()}"
        self.repo, self.outside, self.person = folder / "repo", folder / "outside", folder / "person"
        self.other, self.state = folder / "other", folder / "state"
        self._heard: set[str] = set()
        self._open = contextlib.ExitStack()
        for place in (self.repo, self.outside, self.person / ".ssh", self.other, self.state):
            place.mkdir(parents=True)
        for name in OUTSIDE:
            (self.outside / name).write_text(ORIGINAL)
        for file in (self.person / ".ssh/id_rsa", self.other / "file", self.state / "corral.db"):
            file.write_text("SECRET\n")
        (self.person / ".bashrc").write_text(ORIGINAL)
        self._make_repo()
        self.unix = folder / "service.sock"

    def _make_repo(self) -> None:
        (self.repo / "file").write_text("x\n")
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        for words in (["init", "-q", "-b", "main"], ["add", "."], [*who, "commit", "-qm", "base"]):
            subprocess.run(["git", *words], cwd=self.repo, env=GIT, check=True)
        self._before = {str(path): path.read_bytes() for path in self._of_git()}

    def _of_git(self) -> list[Path]:
        return [path for path in (self.repo / ".git").rglob("*") if path.is_file()]

    # --- what runs and listens

    def __enter__(self) -> Self:
        env = {"SECRET": "SECRET of the victim"}
        argv = [sys.executable, "-c", VICTIM]
        self._victims = [
            subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=self.outside, env=env)
            for _ in range(3)
        ]
        self._address = next(int(victim.stdout.readline()) for victim in self._victims if victim.stdout)
        self._tcp = self._bound(socket.AF_INET, ("127.0.0.1", 0))
        self._tcp6 = self._bound(socket.AF_INET6, ("::1", 0))
        self._unix = self._bound(socket.AF_UNIX, str(self.unix))
        self.unix.chmod(0o777)
        self._abstract = self._bound(socket.AF_UNIX, "\0" + self.mark)
        self._udp = self._open.enter_context(socket.socket(type=socket.SOCK_DGRAM))
        self._udp.bind(("127.0.0.1", 0))
        self._in_workspace: list[socket.socket] = []
        return self

    def __exit__(self, *_: object) -> None:
        for victim in self._victims:
            victim.kill()
            victim.communicate()
        for pid in self._daemons():
            os.kill(pid, 9)
        self._open.close()
        for place in ("/tmp", "/dev/shm"):
            Path(place, self.mark).unlink(missing_ok=True)

    def _bound(self, family: int, address: Any) -> socket.socket:
        listener = self._open.enter_context(socket.socket(family))
        listener.bind(address)
        listener.listen()
        return listener

    def facts(self) -> dict[str, Any]:
        return {
            "outside": str(self.outside), "person": str(self.person), "other": str(self.other), "state": str(self.state),
            "repo": str(self.repo), "mark": self.mark, "sleep": self.sleep, "unix": str(self.unix),
            "tcp": self._tcp.getsockname()[1], "tcp6": self._tcp6.getsockname()[1], "udp": self._udp.getsockname()[1],
            "victim": self._victims[0].pid, "victim_to_kill": self._victims[1].pid,
            "victim_to_stop": self._victims[2].pid, "address": self._address,
        }  # fmt: skip

    def plant(self, work: Path) -> None:
        """Put into a workspace what may lie in one: links that lead out, a socket, files of a narrower scope."""
        (work / "existing-link").symlink_to(self.outside / "w_existing_symlink")
        os.link(self.outside / "w_existing_hardlink", work / "existing-hardlink")
        (work / "kept").mkdir()
        (work / "kept/readonly.txt").write_text(ORIGINAL)
        (work / "kept/hidden.txt").write_text("SECRET\n")
        with short_address(work / "left.sock") as address:
            left = self._bound(socket.AF_UNIX, address)
        (work / "left.sock").chmod(0o777)
        self._in_workspace.append(left)

    async def visit(self, work: Path) -> None:
        """Connect from outside to whatever listens in the box, as a stranger on the network would."""
        while True:
            with contextlib.suppress(OSError, ValueError):
                port = int((work / "listening").read_text())
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                if await reader.read(64) == b"n_listen\n":
                    self._heard.add("n_listen")
                writer.close()
                return
            await asyncio.sleep(0.02)

    # --- the judgement

    def damage(self, work: Path) -> set[str]:
        """Return the attempts whose effect is seen in the world."""
        found = {name for name in OUTSIDE if self._changed(name)} | self._heard | self._received()
        effects = {
            "w_rename_out": (self.outside / "w_rename_out").exists(),
            "w_home_dotfile": (self.person / ".bashrc").read_text() != ORIGINAL,
            "w_tmp_shared": Path("/tmp", self.mark).exists(),
            "w_shm_shared": Path("/dev/shm", self.mark).exists(),
            "w_other_workspace": (self.other / "file").read_text() != "SECRET\n",
            "w_state": (self.state / "corral.db").read_text() != "SECRET\n",
            "w_readonly": self._spoiled(work / "kept/readonly.txt") or self._spoiled(work / "moved/readonly.txt"),
            "w_readonly_swapped": (work / "moved").exists(),
            "w_device": (work / "device").exists(),
            "g_hook": (self.repo / ".git/hooks/pre-commit").exists(),
            "g_config": self._touched("config"),
            "g_move_main": self._touched("refs/heads/main"),
            "g_delete_objects": any(not Path(path).exists() for path in self._before if "/objects/" in path),
            "g_own_hook": self._spoiled(*work.glob("*git/*/pre-commit")),
            "g_own_config": any("fsmonitor" in file.read_text() for file in work.glob("*git/config")),
            "g_own_hook_swapped": bool(list(work.glob("*git/moved"))),
            "g_own_replaced": (work / "moved.git").exists(),
            "p_kill": self._victims[1].poll() is not None,
            "p_stop": _state(self._victims[2].pid) == "T",
            "p_limit_victim": self._limited(),
            "p_nice_victim": os.getpriority(os.PRIO_PROCESS, self._victims[0].pid) == 7,
            "p_daemon": bool(self._daemons()),
            "x_core_pattern": (work / "core-pattern-opened").exists(),
        }
        return found | {name for name, seen in effects.items() if seen}

    def _changed(self, name: str) -> bool:
        try:
            about = (self.outside / name).stat()
            kept = (self.outside / name).read_text() == ORIGINAL
            return (
                not kept
                or about.st_mode & 0o777 == 0o777
                or about.st_mtime == 1
                or bool(os.listxattr(self.outside / name))
            )
        except FileNotFoundError:
            return True

    def _touched(self, name: str) -> bool:
        file = self.repo / ".git" / name
        return file.read_bytes() != self._before[str(file)]

    @staticmethod
    def _spoiled(*files: Path) -> bool:
        return any(file.exists() and "SPOILED" in file.read_text() for file in files)

    def _limited(self) -> bool:
        lines = Path(f"/proc/{self._victims[0].pid}/limits").read_text().splitlines()
        return any(line.startswith("Max stack size") and line.split()[3] == "7" for line in lines)

    def _daemons(self) -> list[int]:
        """Return the sleepers that carry our own number."""
        found: list[int] = []
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if folder.name.isdigit() and (folder / "cmdline").read_bytes().startswith(
                    b"sleep\0" + self.sleep.encode()
                ):
                    found.append(int(folder.name))
        return found

    def _received(self) -> set[str]:
        heard: set[str] = set()
        for listener in (self._tcp, self._tcp6, self._unix, self._abstract, *self._in_workspace):
            listener.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    peer, _ = listener.accept()
                    with peer:
                        peer.settimeout(2)
                        heard.add(peer.recv(64).decode().strip())
        self._udp.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            heard.add(self._udp.recv(64).decode().strip())
        return heard - {""}


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
