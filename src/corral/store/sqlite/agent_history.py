"""How attempts of each agent went here; and what they said, until that is cleaned away."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from corral.model import ENCODER, Seen, TrackRecord
from corral.model.flow import TaskType
from corral.store.sqlite.database import Database

KEPT_SECONDS = 86_400.0  #: programs on the machine change, and no hash tells of that
_DECODER = msgspec.json.Decoder(tuple[Seen, ...])


class SqliteHistory:
    """How attempts went before, and results of checks that need not be run again."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def track_records(self, kind: TaskType | None) -> list[TrackRecord]:
        """Return for each agent how many tasks of a type it tried and did, and what they cost; None: of any type."""
        return [
            TrackRecord(agent=row["agent"], count=row["count"], done=row["done"], usd=row["usd"])
            for row in self._store.rows("track_records", type=kind)
        ]

    def forget_words(self, run: str) -> int:
        """Drop what agents said in a run; how it went stays. Return how many events that were."""
        with self._store.transaction():
            return self._store.do("forget_words", run=run)

    def flow_records(self) -> dict[str, tuple[int, int]]:
        """Return for each flow, by its name, how many runs of it ended and how many of them well."""
        return {row["flow"]: (row["count"], row["done"]) for row in self._store.rows("flow_records")}

    def check_results(self, key: str, now: float) -> tuple[Seen, ...] | None:
        """Return what was found out before, if that is not too long ago."""
        rows = self._store.rows("suite", key=key, since=now - KEPT_SECONDS)
        return _DECODER.decode(rows[0]["results"]) if rows else None

    def keep_check_results(self, key: str, results: Sequence[Seen], now: float) -> None:
        with self._store.transaction():
            self._store.do("forget_suites", before=now - KEPT_SECONDS)
            self._store.do("keep_suite", key=key, at=now, results=ENCODER.encode(results))
