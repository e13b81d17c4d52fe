"""The local machine: what an attempt works on unless another is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from corral.machines import collect_work, workspace_host, workspace_tools
from corral.machines.agent_output import AgentListeners
from corral.machines.host import Host, HostScope
from corral.machines.machine import Drop, WorkReport
from corral.machines.resolved_agent import ResolvedAgent
from corral.machines.tool_calls import ProgramTool
from corral.model import Level
from corral.model.agent_api import AgentTask, Answer, Telling
from corral.world import untrusted_files
from corral.world.git.collect import CollectedWork
from corral.world.process import Exit, ProcessLimits
from corral.world.workspace import checkout, plain_files


class LocalMachine(HostScope):
    """Does the steps of one attempt in this process; a workspace is a folder of the state folder."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @property
    def level(self) -> Level:
        return self._host.level

    # --- the workspace

    async def make(
        self, workspace: str, commit: str | None, *, needs: Sequence[str] = (), say: Callable[[str], None]
    ) -> None:
        host, folder = self._host, self._folder(workspace)
        async with plain_files.once(host.repository.git_dir, commit):
            made = await host.make(folder, commit, needs=needs, say=say)
            host.laid = collect_work.look_at_made(host, made, commit)

    async def take_over(self, workspace: str) -> None:
        await self._host.take_over(self._folder(workspace))

    async def fit(self, workspace: str) -> list[str]:
        return await self._host.fit(checkout.read_workspace(self._tree(workspace)), self.fitted)

    async def fit_again(self, agent: str) -> None:
        await self._host.fit_again(agent)

    def caches(self, workspace: str) -> AbstractAsyncContextManager[None]:
        return self._host.with_cache(self._folder(workspace))

    async def lend(self, workspace: str, commit: str) -> None:
        await self._host.lend(self._folder(workspace), commit)

    async def has(self, workspace: str, path: str = "") -> bool:
        tree = self._tree(workspace)
        return (tree / path).is_file() if path else tree.exists()

    async def read(self, workspace: str, path: str, most: int) -> bytes | None:
        return checkout.read_below(self._tree(workspace), path, most)

    async def put(self, workspace: str, path: str, content: bytes) -> None:
        workspace_host.put_file(self._host, self._folder(workspace), path, content)

    async def home_files(self, workspace: str, folders: Sequence[str], most_bytes: int) -> dict[str, bytes] | None:
        return workspace_host.home_files(self._host, self._folder(workspace), folders, most_bytes)

    async def drops(self, workspace: str, folder: str, most: int, most_bytes: int) -> list[Drop]:
        home = self._folder(workspace) / "home"
        return [
            Drop(
                name=name,
                content=checkout.read_below(home, f"{folder}/{name}", most_bytes) or b"",
                age_seconds=untrusted_files.age_seconds(home, folder, name),
            )
            for name in untrusted_files.plain_files(home, folder, most)
        ]

    async def take_drop(self, workspace: str, folder: str, name: str) -> None:
        untrusted_files.take_away(self._folder(workspace) / "home", folder, name)

    def path_of(self, workspace: str) -> str:
        return str(self._folder(workspace))

    def tools(self, workspace: str, check: str) -> dict[str, ProgramTool]:
        return workspace_tools.of_workspace(self._host, self._tree(workspace), check).tools()

    # --- the agent

    async def work(
        self, workspace: str, resolved: ResolvedAgent, task: AgentTask, limits: ProcessLimits, listeners: AgentListeners
    ) -> Exit:
        made = checkout.read_workspace(self._tree(workspace))
        return await self._host.work(made, resolved, task, limits, listeners)

    async def attach(self, workspace: str) -> str | None:  # noqa: ARG002
        """Find none: an agent of this machine ends with its engine."""
        return None

    def tell(self, order: Telling) -> bool:
        return self._host.tell(order)

    def answer(self, order: Answer) -> bool:
        return self._host.answer(order)

    def cut(self) -> None:
        self._host.cut()

    def end(self) -> None:
        self._host.stop.set()

    @property
    def report(self) -> WorkReport:
        host = self._host
        return WorkReport(
            at_work=host.is_at_work,
            ending=host.is_ending,
            metered=host.metered,
            unmetered=host.unmetered,
            unreached=host.unreached,
            last_words=host.last_words,
            memory_kills=host.boxes.memory_kills,
            disk_has_room=host.disk_has_room,
        )

    # --- what it leaves

    async def collect(self, workspace: str, node: str, run: str) -> CollectedWork:
        return await collect_work.collect(self._host, self._folder(workspace), node, run)

    async def forget_logins(self, workspace: str) -> None:
        await workspace_host.leave_workspace(self._host, self._folder(workspace))

    async def remove(self, workspace: str) -> None:
        await self._host.remove(self._folder(workspace))

    async def close(self) -> None:
        """Keep nothing open: there is nothing."""

    def _folder(self, workspace: str) -> Path:
        return self._host.state / "workspaces" / workspace

    def _tree(self, workspace: str) -> Path:
        return self._folder(workspace) / "work"
