"""Who waits for whom: claims on files, and the circles in which nobody would ever go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, structs

from corral.model import Claim


class Deadlock(Struct, frozen=True):
    """Attempts that wait for each other in a circle, each for the next, and the one to give way."""

    circle: tuple[str, ...]
    victim: str


def overlap(one: str, other: str) -> bool:
    """Tell whether two paths meet: the same, or one a folder that holds the other."""
    first, second = one.strip("/"), other.strip("/")
    if "" in (first, second) or first == second:
        return True
    return first.startswith(f"{second}/") or second.startswith(f"{first}/")


def in_the_way(wanted: Claim, others: Iterable[Claim]) -> list[Claim]:
    """Return the claims of others that a claim has to wait for: those held, and those that were asked for before."""
    return [
        other
        for other in others
        if other.attempt != wanted.attempt
        and (other.exclusive or wanted.exclusive)
        and overlap(other.path, wanted.path)
        and (other.held or other.place < wanted.place)
    ]


def ready(claims: Sequence[Claim]) -> list[int]:
    """Return the places of the claims to grant now: for each attempt all that it waits for, or none."""
    granted: list[int] = []
    current = list(claims)
    for attempt in dict.fromkeys(claim.attempt for claim in claims if not claim.held):
        waiting = [claim for claim in current if claim.attempt == attempt and not claim.held]
        if not any(in_the_way(claim, current) for claim in waiting):
            places = {claim.place for claim in waiting}
            granted += sorted(places)
            current = [structs.replace(claim, held=True) if claim.place in places else claim for claim in current]
    return granted


def waits_for(claims: Sequence[Claim]) -> dict[str, set[str]]:
    """Return for each attempt that waits those it waits for."""
    graph: dict[str, set[str]] = {}
    for claim in claims:
        if not claim.held:
            blockers = {other.attempt for other in in_the_way(claim, claims)}
            if blockers:
                graph.setdefault(claim.attempt, set()).update(blockers)
    return graph


def deadlocks(graph: Mapping[str, Iterable[str]], started: Mapping[str, float]) -> list[Deadlock]:
    """Return every circle, the youngest of it as victim; after each, that one no longer counts as waiting."""
    left = {attempt: sorted(others) for attempt, others in graph.items()}
    found: list[Deadlock] = []
    while circle := _circle(left):
        victim = max(circle, key=lambda attempt: (started.get(attempt, 0.0), attempt))
        found.append(Deadlock(circle, victim))
        del left[victim]
    return found


def _circle(graph: Mapping[str, Sequence[str]]) -> tuple[str, ...] | None:
    """Return one circle, beginning with its least name; without recursion, for a chain may be long."""
    done: set[str] = set()
    for first in sorted(graph):
        path: list[str] = []
        on_path: set[str] = set()
        branches = [iter((first,))]
        while branches:
            following = next(branches[-1], None)
            if following is None:
                branches.pop()
                if path:
                    on_path.discard(path[-1])
                    done.add(path.pop())
            elif following in on_path:
                circle = path[path.index(following) :]
                least = circle.index(min(circle))
                return (*circle[least:], *circle[:least])
            elif following not in done and following in graph:
                path.append(following)
                on_path.add(following)
                branches.append(iter(graph[following]))
    return None
