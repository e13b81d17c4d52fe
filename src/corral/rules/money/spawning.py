"""May this attempt spawn a child: how deep, how many, for how much money, and which role for which."""

from __future__ import annotations

from msgspec import Struct

from corral.model import ToolboxRules
from corral.model.errors import BadRequest

LEAST_USD = 0.01


class SpawnStatus(Struct, frozen=True, kw_only=True):
    """How an attempt stands when it wants a child."""

    depth: int  #: of its run: 0 for one that a person started
    family: int  #: runs below the one at the top, so far
    left_usd: float | None  #: of its budget; None: it has none


def pair(rules: ToolboxRules, giver: str, taker: str) -> None:
    """Refuse a role that this one may not hand work to; without a table every one may."""
    if not rules.delegate or not taker:
        return
    allowed = rules.delegate.get(giver, rules.delegate.get("*", ()))
    if taker not in allowed and "*" not in allowed:
        hint = f"it may hand work to: {', '.join(allowed)}" if allowed else "it may hand work to nobody"
        raise BadRequest(f"the role `{giver or 'none'}` may not hand work to `{taker[:80]}`", hint=hint)


def budget(rules: ToolboxRules, status: SpawnStatus, asked_usd: float) -> float | None:
    """Return what a child is promised: what was asked for; None: it shares what the attempt has left."""
    if not rules.children:
        raise BadRequest("children are not allowed here", hint="[toolbox] children = 0 says so")
    if status.depth >= rules.depth:
        raise BadRequest(f"this run is {status.depth} deep already; {rules.depth} is the most")
    if status.family >= rules.children:
        raise BadRequest(f"{status.family} children were spawned already; {rules.children} are the most")
    left = status.left_usd
    if left is not None and left < LEAST_USD:
        raise BadRequest("there is no money left for a child")
    if left is not None and asked_usd > left:
        raise BadRequest(f"a child for ${asked_usd:.2f}: only ${left:.2f} are left")
    return asked_usd or None
