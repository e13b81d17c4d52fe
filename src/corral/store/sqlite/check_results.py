"""Results of checks, kept by the hash of all they depend on."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from corral.model import ENCODER, Seen
from corral.store.sqlite.store import Store

KEPT_SECONDS = 86_400.0  #: programs on the machine change, and no hash tells of that

_DECODER = msgspec.json.Decoder(tuple[Seen, ...])


def find(store: Store, key: str, now: float) -> tuple[Seen, ...] | None:
    """Return what was found out before, if that is not too long ago."""
    rows = store.rows("suite", key=key, since=now - KEPT_SECONDS)
    return _DECODER.decode(rows[0]["results"]) if rows else None


def keep(store: Store, key: str, results: Sequence[Seen], now: float) -> None:
    with store.transaction():
        store.do("forget_suites", before=now - KEPT_SECONDS)
        store.do("keep_suite", key=key, at=now, results=ENCODER.encode(results))
