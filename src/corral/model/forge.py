"""Forges: pull requests, issues, and what is said about them there."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

ForgeKind = Literal["github", "gitlab", "forgejo", "gitea", "other"]
PullState = Literal["pushed", "draft", "open", "merged", "closed"]  #: pushed: the forge takes no request from here
CheckState = Literal["none", "pending", "success", "failure"]
FollowState = Literal["following", "ended", "stopped"]


class ForgeSettings(Struct, frozen=True, kw_only=True):
    """Where pull requests go and issues come from; `[forge]` of config.toml, and of a trusted corral.toml."""

    #: what the forge of the remote is: `github`, `gitlab`, `forgejo`, `gitea` or `other`; not set: known by its host
    kind: ForgeKind | None = None
    #: address of the forge, if it is not the host of the remote; of GitHub Enterprise that of its API (`/api/v3`)
    url: str | None = None
    #: variable that holds the token; not set: `GH_TOKEN` or `GITHUB_TOKEN`, `GITLAB_TOKEN`, `FORGEJO_TOKEN`
    token_env: str | None = None
    #: remote of your fork, which branches are pushed to if you may not push to the repository itself; `origin` stays
    #: the repository that issues are read from and pull requests are for
    fork: str | None = None


class IssueReference(Struct, frozen=True, kw_only=True):
    """The issue that a run is about."""

    url: str
    number: str  #: as the forge has it: `7`, or `ENG-12`
    title: str = ""
    closes: str = ""  #: what a pull request says to close it; empty: it is in another place


class PullRequest(Struct, frozen=True, kw_only=True):
    """The pull request of a run."""

    url: str
    number: int | None = None  #: null where the forge did not say it
    state: PullState = "open"
    branch: str
    into: str
    commit: str  #: that was pushed last
    forge: ForgeKind = "other"
    repository: str = ""  #: `owner/name` there
    source: str = ""  #: `owner/name` of the fork that the branch is in; empty: in the repository itself
    attempts: tuple[str, ...] = ()  #: whose work was pushed last
    checks: CheckState = "none"  #: what the forge's CI says, when it was last asked
    revisions: int = 0  #: that `corral follow` made
    trouble: str = ""  #: why the newest work is not pushed


class FailedCheck(Struct, frozen=True, kw_only=True):
    name: str
    words: str = ""
    url: str = ""


class Remark(Struct, frozen=True, kw_only=True):
    """What a user said about an issue or a pull request."""

    id: str
    author: str
    text: str
    file: str = ""
    line: int | None = None  #: the first
    last_line: int | None = None
    old: bool = False  #: the lines are those of the base
    outdated: bool = False  #: the lines are those of an older version
    verdict: str = ""  #: approved, changes, or nothing


class PullLook(Struct, frozen=True, kw_only=True):
    """How a pull request is doing."""

    state: PullState
    commit: str
    checks: CheckState
    failed: tuple[FailedCheck, ...] = ()
    remarks: tuple[Remark, ...] = ()  #: oldest first

    @property
    def approved_by(self) -> tuple[str, ...]:
        """Who approves, by their last verdict."""
        last = {each.author: each.verdict for each in self.remarks if each.verdict}
        return tuple(author for author, verdict in last.items() if verdict == "approved")


class Unpushed(Struct, frozen=True, kw_only=True):
    """Work that is done and could not be pushed."""

    attempt: str
    trouble: str
    why: str  #: what it was done for
    sign: str  #: of what the push depends on: it is tried again when that changes
    again_at: float = 0.0  #: when it is tried again in any case; 0: never


class Unstarted(Struct, frozen=True, kw_only=True):
    """A revision that could not begin."""

    why: str
    about: str  #: what it is for
    seen: tuple[str, ...] = ()  #: what counts as seen once it has begun
    sign: str = ""  #: of budgets and answers: it is tried again when they change
    again_at: float = 0.0  #: when it is tried again in any case
    tries: int = 0  #: attempts that were made for it and did not begin


class FollowRecord(Struct, frozen=True, kw_only=True):
    """A pull request that is looked after."""

    run: str
    state: FollowState = "following"
    reason: str = ""  #: what was seen or done last
    good: bool = True  #: it ended by an approval or a merge
    by: str = ""
    every_seconds: float = 60.0
    most: int = 3  #: revisions
    revisions: int = 0
    seen: tuple[str, ...] = ()  #: commits whose CI was red, and comments, that were acted on
    to_say: tuple[str, ...] = ()  #: not yet said on the pull request
    unpushed: Unpushed | None = None
    unstarted: Unstarted | None = None


class IssueWork(Struct, frozen=True, kw_only=True):
    """An issue that was found by its label, and what became of it."""

    repository: str
    number: str
    url: str
    label: str
    by: str = ""  #: who set the label
    run: str | None = None  #: null: it was ignored
    reason: str = ""
    reported: bool = False  #: its result, or that it was ignored, is in the issue or in a pull request
    times: int = 0  #: how often the label was set when it was taken; 0: not known
    empty: bool = False  #: its run brought no pull request: who sets the label again asks for another run


class WatchedIssues(Struct, frozen=True, kw_only=True):
    """One look at the labelled issues of a repository."""

    repository: str
    label: str
    unchanged: bool = False  #: the forge says that nothing is new
    work: tuple[IssueWork, ...] = ()
