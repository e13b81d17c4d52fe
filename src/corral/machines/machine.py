"""What the engine asks of the machine that an attempt works on; workspaces go by their names, never by paths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

from corral.machines.agent_output import AgentListeners
from corral.machines.resolved_agent import ResolvedAgent
from corral.machines.scope import FittedScope
from corral.machines.tool_calls import ProgramTool
from corral.model import Level
from corral.model.agent_api import AgentTask, Answer, Telling
from corral.rules.text.redact import Redactor
from corral.world.git.collect import CollectedWork
from corral.world.process import Exit, ProcessLimits


class Drop(Struct, frozen=True, kw_only=True):
    """A file that an agent left in its home for us to take."""

    name: str
    content: bytes
    age_seconds: float


class WorkReport(Struct, frozen=True, kw_only=True):
    """What a machine knows of an agent at work, or of its last work."""

    at_work: bool = False
    ending: bool = False  #: it is being ended by us: too late to hand anything in
    metered: bool = False  #: its requests to its provider pass by us
    unmetered: bool = False  #: it may ask a provider past us
    unreached: str | None = None  #: why its provider could not be reached
    last_words: str = ""  #: what it complained of
    memory_kills: int = 0  #: processes that the kernel ended for lack of memory
    disk_has_room: bool = True


class Machine(Protocol):
    """Where one attempt works: this machine, or another that does the same from afar."""

    @property
    def level(self) -> Level: ...
    @property
    def fitted(self) -> FittedScope: ...

    # --- what is settled before it starts

    def start_from(self, base: str | None) -> None:
        """Settle the commit that the attempt's work is compared with."""
        ...

    def confine(self, fitted: FittedScope, redactor: Redactor) -> None:
        """Settle its scope, and which words are never shown."""
        ...

    # --- the workspace

    async def make(
        self, workspace: str, commit: str | None, *, needs: Sequence[str] = (), say: Callable[[str], None]
    ) -> None:
        """Make a workspace ready: checked out, ignored files copied, set up."""
        ...

    async def take_over(self, workspace: str) -> None:
        """Continue in the workspace that an earlier attempt left."""
        ...

    async def fit(self, workspace: str) -> list[str]:
        """Hold the scope against a workspace; return what a user should know of it."""
        ...

    async def fit_again(self, agent: str) -> None:
        """Have an agent's scope at hand where it does not work any more: after a crash, and for its checks."""
        ...

    def caches(self, workspace: str) -> AbstractAsyncContextManager[None]:
        """Have the project's package caches at hand, for setup, agent and checks."""
        ...

    async def lend(self, workspace: str, commit: str) -> None:
        """Let a workspace see what one more commit reaches."""
        ...

    async def has(self, workspace: str, path: str = "") -> bool:
        """Tell whether there is such a workspace, or such a file in it."""
        ...

    async def read(self, workspace: str, path: str, most: int) -> bytes | None:
        """Return a file of a workspace; None where there is none, or one that is too large."""
        ...

    async def put(self, workspace: str, path: str, content: bytes) -> None:
        """Lay a file into the agent's home, without secrets."""
        ...

    async def home_files(self, workspace: str, folders: Sequence[str], most_bytes: int) -> dict[str, bytes] | None:
        """Return the files in folders of the agent's home, without secrets; None if they are too many or too long."""
        ...

    async def drops(self, workspace: str, folder: str, most: int, most_bytes: int) -> list[Drop]:
        """Return what the agent left in a folder of its home."""
        ...

    async def take_drop(self, workspace: str, folder: str, name: str) -> None:
        """Remove what was taken from there."""
        ...

    def path_of(self, workspace: str) -> str:
        """Return where a workspace lies on that machine: for words alone."""
        ...

    def tools(self, workspace: str, check: str) -> dict[str, ProgramTool]:
        """Return the tools of programs about the files of a workspace; `check` is what tests are run by."""
        ...

    # --- the agent

    async def work(
        self, workspace: str, resolved: ResolvedAgent, task: AgentTask, limits: ProcessLimits, listeners: AgentListeners
    ) -> Exit:
        """Run the agent in its box to its end, telling its events as they come."""
        ...

    async def attach(self, workspace: str) -> str | None:
        """Find an agent that an engine before this one started, and that its machine still holds.

        `work` then continues it. Return the token of its toolbox; None: there is none to continue.
        """
        ...

    def tell(self, order: Telling) -> bool:
        """Tell the agent something while it works; return whether it is one that listens, and still does."""
        ...

    def answer(self, order: Answer) -> bool:
        """Answer a question of the agent's; return whether it waits for it."""
        ...

    def cut(self) -> None:
        """End the agent's present turn; the attempt continues."""
        ...

    def end(self) -> None:
        """End the attempt, as soon as its work is kept."""
        ...

    @property
    def report(self) -> WorkReport: ...

    # --- what it leaves

    async def collect(self, workspace: str, node: str, run: str) -> CollectedWork:
        """Take all the agent's work into the repository."""
        ...

    async def forget_logins(self, workspace: str) -> None:
        """Remove a user's login from a workspace that stays."""
        ...

    async def remove(self, workspace: str) -> None:
        """Remove a workspace."""
        ...

    async def close(self) -> None:
        """Know that the attempt is over here: nothing more is asked for it."""
        ...
