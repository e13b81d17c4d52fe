"""A typed client of corral's HTTP API: standard library and msgspec, no more."""

from corral.frontends.client.client import Client
from corral.frontends.client.http import Event, Trouble

__all__ = ["Client", "Event", "Trouble"]
