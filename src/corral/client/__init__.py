"""A typed client of corral's HTTP API: standard library and msgspec, no more."""

from corral.client.calls import Client
from corral.client.wire import Event, Trouble

__all__ = ["Client", "Event", "Trouble"]
