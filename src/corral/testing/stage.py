"""The stage of one conformance case: an agent as it is set up, a user with a fresh home, and waits for conditions."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from corral.testing.command import Outcome, TerminalUser
from corral.testing.model import ScriptedModel, Turn
from corral.testing.repository import make_repository

KEY = "sk-scripted-0123456789"  #: long enough not to be found anywhere else: programs hide it wherever it is
T = TypeVar("T")
#: Nobody waits so long where all is well: on a machine with far too much to do, an agent takes a minute to start.
PATIENCE_SECONDS = 200.0


@dataclass(frozen=True, kw_only=True)
class AgentSetup:
    """An agent, and how its program is pointed to a scripted model."""

    agent: str  #: its name, as `--agent` takes it
    model: str = "fake-model"
    key: str  #: the variable that holds its key
    url: str  #: the setting that holds the provider's address
    url_path: str = ""  #: added to the address
    asks: str  #: how the path ends at which it asks for work: `/messages`, `/chat/completions`, ...
    program: str | None = None  #: where its program lies; else it is looked for on PATH
    path: Sequence[str] = ()  #: folders that come first on PATH
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    tool: str = "mcp__noter__note"  #: what it calls the tool `note` of an MCP server `noter`
    output_tool: str | None = None  #: what it calls the tool by which its model hands over its output; else it says it
    idle_seconds: int = 10  #: longer than it is silent when it starts
    statuses: Mapping[str, int] = field(
        default_factory=dict[str, int]
    )  #: case -> what its provider answers, if another
    tells_session_late: bool = False  #: only when it ends: killed in the middle, it begins anew
    leaves_out: Mapping[str, str] = field(default_factory=dict[str, str])  #: case -> why it cannot be tried


class Stage:
    """One case of one agent: a user with a fresh home, a repository, and the agent set up."""

    def __init__(self, suite: AgentSetup, folder: Path, user: Callable[[Path], TerminalUser] = TerminalUser) -> None:
        self.suite = suite
        self.corral = user(folder / "home")
        self.corral.env["PATH"] = ":".join([*suite.path, self.corral.env["PATH"]])
        self.corral.env |= {suite.key: KEY, **suite.env}
        self.repo = make_repository(folder / "repository", {"a.txt": "one\n"})

    @property
    def choice(self) -> str:
        return f"{self.suite.agent}:{self.suite.model}"

    def point_to(self, address: str) -> None:
        """Set the agent up to ask this address."""
        settings = {self.suite.url: address + self.suite.url_path, **self.suite.settings}
        values = ", ".join(f'{name} = "{value}"' for name, value in settings.items())
        program = f'program = "{self.suite.program}"\n' if self.suite.program else ""
        self.corral.config(f"[agents.{self.suite.agent}]\n{program}settings = {{ {values} }}\n")

    def facts(self) -> dict[str, Any]:
        """Return what corral knows of the agent."""
        listed = self.corral("agents", "--json", env={"PATH": "/usr/bin:/bin"}).json  # no program need be asked
        return next(agent for agent in listed if agent["name"] == self.suite.agent)

    def run(self, *arguments: str, task: str = "do it") -> Outcome:
        return self.corral("run", task, "--repo", self.repo, "--agent", self.choice, "--json", *arguments)

    def count_work_requests(self, model: ScriptedModel) -> int:
        """Return how often the model was asked for work, not for a title."""
        return sum(each.path.endswith(self.suite.asks) for each in model.work_requests)

    def fails(self, turn: Turn, kind: str, *arguments: str) -> Outcome:
        """Let every answer be `turn`, and expect this class of error."""
        with ScriptedModel([turn]) as model:
            self.point_to(model.url)
            outcome = self.run("--retries", "0", *arguments)
            expect(bool(model.requests), "the model was not asked", outcome)
        self.expect_error(outcome, kind)
        return outcome

    def goes_on(self) -> bool:
        """Tell whether it can continue its session when it was killed."""
        return self.facts()["resumes"] and not self.suite.tells_session_late

    def expect_error(self, outcome: Outcome, kind: str) -> None:
        expect(outcome.code in (1, 5), f"exit {outcome.code}, not 1 or 5", outcome)
        attempts = outcome.json["nodes"][0]["attempts"]
        expect(len(attempts) == 1, f"{len(attempts)} tries", outcome)
        error: dict[str, str] = outcome.attempt["error"] or {"class": "none"}
        expect(error["class"] == kind, f"the class is {error['class']}, not {kind}", outcome)


def expect(holds: bool, words: str, seen: object) -> None:  # noqa: FBT001
    """Complain in clear words."""
    if not holds:
        raise AssertionError(f"{words}\n{seen}")


def until(condition: Callable[[], T], what: str, seconds: float = PATIENCE_SECONDS) -> T:
    """Return the first true answer of `condition`; give up loudly after `seconds`."""
    begun = time.monotonic()
    while True:
        asked = time.monotonic()
        answer = condition()
        if answer:
            return answer
        now = time.monotonic()
        if now > begun + seconds:
            raise AssertionError(f"waited {seconds:.0f} s in vain: {what}")
        # A program that only asks must not take the processor from the one that is waited for: the longer
        # it takes already, the less.
        time.sleep(min(max(0.02, (2 + now - begun) * (now - asked)), 2.0))


def tagged_processes(sign: str) -> list[int]:
    """Return the processes whose environment contains `sign`, wherever they run."""
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if sign.encode() in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
            except OSError:
                continue  # it ended while we looked
    return found
