"""What an engine asks of `corral host`, and what that answers: the bodies of calls and streams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from corral.model import CheckObservation, Level, RunPlan, TestOrder
from corral.model.flow import Task
from corral.world.process import ProcessLimits, Why
from corral.world.process_identity import Leftover

PROTOCOL = 1  #: raised when one end could misunderstand the other
Name = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,150}\Z")]  #: of an attempt, a workspace, a mirror
Commit = Annotated[str, Meta(pattern=r"\A(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")]
Seconds = Annotated[float, Meta(gt=0, le=7 * 86_400)]
Place = Literal["out", "files", "snap"]  #: folders beside a workspace that hold what was collected
CollectedName = Literal["work.bundle", "snapshot.bundle", "left", "done"]  #: files in them


class Hello(Struct, frozen=True, kw_only=True):
    """The first call."""

    version: str
    protocol: int
    engine: str  #: whose attempts these are; another engine's are not touched


class RayNode(Struct, frozen=True, kw_only=True):
    """A node of a Ray cluster."""

    id: str
    name: str = ""
    resources: Mapping[str, float] = field(default_factory=dict[str, float])
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


class MachineFacts(Struct, frozen=True, kw_only=True):
    """What a machine says of itself."""

    version: str
    protocol: int = PROTOCOL
    python: str = ""
    interpreter: str = ""  #: the Python that runs programs of ours in a box
    bridge: str = ""  #: where one of them lies: what brings the toolbox to agents that start their servers
    platform: str = ""
    arch: str = ""
    level: Level = "none"
    reason: str = ""  #: why it is not higher
    programs: Mapping[str, str] = field(default_factory=dict[str, str])  #: agent -> where its program is
    memory_mb: int = 0
    cores: int = 0
    attempts: int = 0  #: that it holds now
    nodes: tuple[RayNode, ...] = ()  #: of a Ray cluster; each has a host of its own


class LaidFile(Struct, frozen=True):
    """A file that goes along."""

    name: str
    content: bytes
    mode: int = 0o644


class OpenAttempt(Struct, frozen=True, kw_only=True):
    """Begin, or continue, the steps of one attempt."""

    attempt: Name
    epoch: int
    mirror: Name  #: of its repository
    plan: RunPlan  #: without the nodes
    task: Task
    base: Commit | None
    agent: str
    lease_seconds: Seconds
    copied: tuple[LaidFile, ...] = ()  #: ignored files of the user's checkout, for each workspace


class AttemptPlace(Struct, frozen=True, kw_only=True):
    """Where an attempt is, on its machine, and how far its agent has come."""

    folder: str  #: of all workspaces
    home: str  #: as its agent sees it
    turn: int = 0  #: the number of its agent's last turn; 0: none was begun
    working: bool = False  #: that turn is not over
    note: bytes = b""  #: what the engine left with it
    answered: int = -1  #: the offset of the last output that the agent was answered to


class TakePack(Struct, frozen=True, kw_only=True, tag="pack"):
    """A stream of objects for a mirror; nothing comes back when they are taken, else why they are not."""

    mirror: Name
    commits: tuple[Commit, ...]
    shallow: tuple[Commit, ...] = ()
    sha256: bool = False


class MirrorQuestion(Struct, frozen=True, kw_only=True):
    mirror: Name
    commits: tuple[Commit, ...]


class Renewal(Struct, frozen=True):
    """The attempts that an engine still needs."""

    attempts: tuple[Name, ...] = ()


class MirrorState(Struct, frozen=True, kw_only=True):
    missing: tuple[str, ...] = ()
    known: tuple[str, ...] = ()  #: commits whose history is there


class MakeWorkspace(Struct, frozen=True, kw_only=True):
    workspace: Name
    commit: Commit | None = None
    needs: tuple[Commit, ...] = ()


class WorkspaceFile(Struct, frozen=True, kw_only=True):
    workspace: Name
    path: str = ""
    most: int = 0
    content: bytes = b""


class HomeFolders(Struct, frozen=True, kw_only=True):
    workspace: Name
    folders: tuple[str, ...]
    most_files: int = 0
    most_bytes: int


class AgentStart(Struct, frozen=True, kw_only=True):
    """A program to start beside a workspace, in its box, and what it is connected to."""

    workspace: Name
    agent: str
    install: str
    argv: tuple[str, ...]
    shipped: Mapping[int, LaidFile] = field(default_factory=dict[int, LaidFile])  #: words that name files of ours
    programs: tuple[str, ...] = ()
    cwd: str | None = None
    stdin: bytes = b""
    talks: bool = False
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])  #: for its home
    logins: Mapping[str, bytes] = field(default_factory=dict[str, bytes])  #: the same, forgotten where it stays
    read_back: tuple[str, ...] = ()
    limits: ProcessLimits
    bridged: bool = False  #: it starts the bridge to its toolbox
    ports: tuple[Annotated[int, Meta(ge=1, le=65535)], ...] = ()  #: of its box, answered by the engine
    open: bool = False  #: it shares the machine's network
    network_env: Mapping[str, str] = field(default_factory=dict[str, str])
    note: bytes = b""


class TurnEnd(Struct, frozen=True, kw_only=True):
    """How a turn ended."""

    code: int = 0
    why: Why = "exited"
    leftovers: tuple[Leftover, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    memory_kills: int = 0
    disk_has_room: bool = True
    error: str = ""  #: why it could not be run


class FollowTurn(Struct, frozen=True, kw_only=True, tag="turn"):
    """A stream of what a turn printed, from an offset on, as records of its spool."""

    attempt: Name
    turn: int
    offset: Annotated[int, Meta(ge=0)] = 0


class StdinWords(Struct, frozen=True):
    """What the agent reads on its stdin; None closes that."""

    data: bytes | None = None
    after: int = 0  #: the offset of the output that it answers


class EndTurn(Struct, frozen=True):
    why: Why = "stopped"


class CollectOrder(Struct, frozen=True, kw_only=True):
    workspace: Name
    place: Place


class CollectedFiles(Struct, frozen=True, kw_only=True):
    """The files of a folder beside a workspace, which can be fetched."""

    names: tuple[str, ...] = ()


class FetchFile(Struct, frozen=True, kw_only=True, tag="file"):
    """A stream of one file that was collected."""

    attempt: Name
    workspace: Name
    place: Place
    name: CollectedName


class CheckOrder(Struct, frozen=True, kw_only=True):
    """Checks to run in a clean checkout of a commit."""

    workspace: Name
    beside: Name | None = None  #: as whom, where they run beside others
    commit: Commit | None
    checks: tuple[str, ...]
    order: TestOrder | None = None
    limit_seconds: Seconds | None = None
    laid: tuple[LaidFile, ...] = ()


class CheckAnswer(Struct, frozen=True, kw_only=True):
    seen: tuple[CheckObservation, ...] = ()
    logs: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


class LineOrder(Struct, frozen=True, kw_only=True):
    """One command line to run in a clean checkout of a commit."""

    workspace: Name
    beside: Name | None = None
    commit: Commit | None
    line: str
    limit_seconds: Seconds
    most: int


class LineAnswer(Struct, frozen=True, kw_only=True):
    code: int
    why: Why
    output: str


class RelayedPort(Struct, frozen=True, kw_only=True):
    """A stream that the host opens: a connection from a box to one of its ports."""

    attempt: Name
    port: int


class PlaceAttempt(Struct, frozen=True, kw_only=True):
    """A place on a node of a Ray cluster, for one attempt."""

    attempt: Name
    epoch: int
    command: tuple[str, ...]  #: that is started there
    resources: Mapping[str, float] = field(default_factory=dict[str, float])
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    lease_seconds: Seconds
    node: str = ""  #: where it was placed before
    wait_seconds: Seconds = 4.0


class Placement(Struct, frozen=True, kw_only=True):
    """Where an attempt was placed; without a node it waits, or is lost for good."""

    node: str = ""
    name: str = ""
    lost: bool = False
    reason: str = ""


class CarriedAttempt(Struct, frozen=True, kw_only=True):
    """A stream of the frames between an engine and the host on the node of an attempt."""

    attempt: Name
    epoch: int


EngineStream = TakePack | FollowTurn | FetchFile  #: what a stream that the engine opens is about
