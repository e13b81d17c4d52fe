"""A case of the tables: a repository, what an agent does in it, and what is true of that work."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from corral.model.flow import TaskType

Content = str | bytes | None  #: None: the file is deleted; bytes that start with b"->" make a link


def link(target: str) -> bytes:
    """Return the content that stands for a symbolic link."""
    return b"->" + target.encode()


@dataclass(frozen=True, kw_only=True)
class Base:
    """A small repository with a bug (or without a feature), its usual check, and a command that knows the truth."""

    files: Mapping[str, str]
    check: str
    truth: str  #: prints RIGHT only where the work is right; the agent and corral never see it
    task: str = "fix add() in sums: it gives wrong results"
    fix: Mapping[str, Content] = field(default_factory=dict[str, Content])  #: what a right attempt writes
    ecosystem: str


@dataclass(frozen=True, kw_only=True)
class Case:
    """One attempt with a known truth."""

    kind: str  #: the id of the test
    about: str  #: one phrase for the documents
    base: str  #: a name in BASES
    writes: Mapping[str, Content] = field(default_factory=dict[str, Content])
    script: str = ""  #: shell that the agent runs after it wrote its files
    extra: Mapping[str, str] = field(default_factory=dict[str, str])  #: more files of the base, or other contents
    task: str | None = None
    check: str | None = None
    truth: str | None = None
    type: TaskType | None = None
    timeout: str = "120s"  #: of the task, and of each of its checks
    least: Literal["proven", "unharmed", "unchecked"] = "unharmed"  #: of honest work: the grade it must have or better
    #: of a cheat: what becomes of it; "refused": its check passes, but not with the base's own tests;
    #: "fails": its check fails plainly inside of corral, so it proves little; "": any other but no_change
    outcome: Literal["", "refused", "fails", "doubtful", "unharmed", "unchecked", "no_change"] = ""
    night: str = ""  #: why it is too expensive for each change


@dataclass(frozen=True, kw_only=True)
class Race:
    """Several attempts at one task, and who may win."""

    kind: str
    base: str
    lanes: Mapping[str, Mapping[str, Content]]  #: by the agent's name: what it writes
    winners: tuple[str, ...] = ()  #: any of them is right; empty: there must be none
    waits: bool = False  #: nothing tells the best apart: the run waits for the user's choice
    extra: Mapping[str, str] = field(default_factory=dict[str, str])
    task: str | None = None
    check: str | None = None
    scripts: Mapping[str, str] = field(default_factory=dict[str, str])
    night: str = ""  #: why it is too expensive for each change
