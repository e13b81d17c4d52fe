"""The terms of one attempt: what the user's settings, its agent and its run say about its money."""

from __future__ import annotations

from msgspec import Struct

from corral.model.money import Budget


class Terms(Struct, frozen=True, kw_only=True):
    """On what terms an attempt works: what the user's settings, its agent and its run say."""

    budget: Budget
    fixed_usd: float | None = None
    local: bool = False  #: its models run here, or it asks none: it costs nothing
    tells: bool = True  #: it reports tokens or money; else its cost is estimated
    names_cost: bool = False  #: its settings say where it prints its cost: without it, that is unknown
    metered: bool = False  #: its provider is asked through us
    reports: bool = True  #: what it cost can be known at its end, by its own word
    notional: bool = False  #: its agent is logged in with a subscription: its dollars are no bill
    flow_usd: float | None = None  #: of the whole run
    go_on: bool = False  #: past limits of days and months, up to the ceiling: the user said so beforehand
