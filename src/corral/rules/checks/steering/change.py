"""What a work changed, and which of it steers tests: the data of this package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from corral.model.evidence import SteeringFile

Side = Literal["base", "delivered"]
Key = tuple[Side, str]
Contents = Mapping[Key, bytes | None]

MOST_FILES = 300  #: read to decide about one work


class PathChange(Struct, frozen=True):
    """One changed path; a rename is a deletion and an addition."""

    path: str
    kind: Literal["added", "changed", "deleted"]


class Harness(Struct, frozen=True, kw_only=True):
    """How the harness tree H is made of the delivered tree D."""

    steered: tuple[SteeringFile, ...] = ()
    merged: Mapping[str, bytes] = field(default_factory=dict[str, bytes])  #: content in H of what is "merged"
    product: tuple[str, ...] = ()
    decides: tuple[str, ...] = ()  #: product files whose own exit code decides a check
    own_tests_only: bool = False  #: every check runs only tests of the work itself
    decided_by_product: tuple[str, ...] = ()  #: the checks that rest on nothing but files in `decides`
    decided_by_own_tests: tuple[str, ...] = ()  #: the checks that run nothing but tests of the work itself
    moved_tests: Mapping[str, str] = field(default_factory=dict[str, str])  #: old path -> new path, both the same test
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])  #: names in moved or adapted tests, old -> new

    @property
    def differs(self) -> bool:
        """Whether H is another tree than D."""
        return any(each.how != "allowed" for each in self.steered)

    def paths(self, *hows: str) -> list[str]:
        """Return the paths that are treated in one of these ways."""
        return [each.path for each in self.steered if each.how in hows]
