"""How attempts of each agent went here; and what they said, until that is cleaned away."""

from __future__ import annotations

from corral.model import TrackRecord
from corral.model.flow import TaskType
from corral.store.sqlite.store import Store


def track_records(store: Store, kind: TaskType | None) -> list[TrackRecord]:
    """Return for each agent how many tasks of a type it tried and did, and what they cost; None: of any type."""
    return [
        TrackRecord(agent=row["agent"], count=row["count"], done=row["done"], usd=row["usd"])
        for row in store.rows("track_records", type=kind)
    ]


def forget_words(store: Store, run: str) -> int:
    """Drop what agents said in a run; how it went stays. Return how many events that were."""
    with store.transaction():
        return store.do("forget_words", run=run)


def flow_records(store: Store) -> dict[str, tuple[int, int]]:
    """Return for each flow, by its name, how many runs of it ended and how many of them well."""
    return {row["flow"]: (row["count"], row["done"]) for row in store.rows("flow_records")}
