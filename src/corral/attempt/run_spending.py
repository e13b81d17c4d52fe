"""What a run has spent and reserved so far, by the ledger."""

from __future__ import annotations

from corral.model.money import Bound, Limit
from corral.store.interface import Store


def allowed_usd(store: Store, run: str) -> float:
    """Return by how much a person let a run go past its own budget."""
    kept = store.ledger
    return max(kept.allowed_overrun(Bound(limit=Limit(window=window, usd=0.0), run=run)) for window in ("node", "run"))


def held_usd(store: Store, run: str, node: str = "") -> tuple[float, float]:
    """Return what a run and its children have spent so far, or one node of it, and what is reserved for them."""
    return store.ledger.spent_and_reserved(
        Bound(limit=Limit(window="node" if node else "run", usd=0.0), run=run, node=node)
    )
