"""How attempts of each agent went here."""

from __future__ import annotations

from corral.flow import TaskType
from corral.model import TrackRecord
from corral.world.store.sqlite import Store


def track_records(store: Store, kind: TaskType | None) -> list[TrackRecord]:
    """Return for each agent how many tasks of a type it tried and did, and what they cost; None: of any type."""
    return [
        TrackRecord(agent=row["agent"], count=row["count"], done=row["done"], usd=row["usd"])
        for row in store.rows("track_records", type=kind)
    ]
