"""The receipt of an attempt."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from corral.model.evidence import Evidence
from corral.model.proof import CheckResult, SandboxReport
from corral.model.values import Cost, Status, Tokens


class Receipt(Struct, frozen=True, kw_only=True):
    """The engine's proof of what an attempt did; kept in the store and as a git note on the commit."""

    attempt: str
    agent: str
    base: str | None
    commit: str
    tree: str
    diff_sha256: str
    checks: tuple[CheckResult, ...]
    cost: Cost
    tokens: Tokens
    sandbox: SandboxReport
    status: Status
    task_sha256: str
    corral: str
    at: str
    evidence: Evidence | UnsetType = UNSET  #: how well it is proven; unset in receipts of older versions
    programs: tuple[str, ...] | UnsetType = UNSET  #: what ran in its checks, with versions; unset: not known
    seal: str = ""  #: made with this machine's key over all of the above
