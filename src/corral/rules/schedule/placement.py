"""Which machine an attempt goes to: by name, by labels, or to whichever has the most room."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from corral.model.errors import BadRequest
from corral.model.flow import MachineWish

ANY = "any"
ASK_NODES = "*"  #: a label whose value the nodes of a cluster decide


class MachineRoom(Struct, frozen=True, kw_only=True):
    """A machine as far as a choice depends on it."""

    name: str
    slots: int
    labels: Mapping[str, str]


def fitting_machines(wish: MachineWish, known: Collection[MachineRoom]) -> list[MachineRoom]:
    """Return the machines that a wish means; BadRequest where there is none."""
    if not known:
        raise BadRequest(
            f"no machine is set up, and {_words(wish)} is asked for",
            hint='[machines.NAME] command = ["ssh", "NAME", "corral", "host"] in your config.toml',
        )
    if isinstance(wish, str):
        found = [each for each in known if wish in (each.name, ANY)]
        hint = "known: " + ", ".join(each.name for each in known)
    else:
        asked = dict(wish or {})
        found = [each for each in known if asked and all(each.labels.get(key) in (value, ASK_NODES)
                                                         for key, value in asked.items())]  # fmt: skip
        hint = "; ".join(f"{each.name}: {_labels(each.labels)}" for each in known)
    if not found:
        raise BadRequest(f"there is no machine {_words(wish)}", hint=hint)
    return found


def node_labels(wish: MachineWish, labels: Mapping[str, str]) -> dict[str, str]:
    """Return what a node of a cluster must have, of what is asked for."""
    asked: Mapping[str, str] = {} if wish is None or isinstance(wish, str) else wish
    return {key: value for key, value in asked.items() if labels.get(key) == ASK_NODES}


def choose_machine(fitting: Collection[MachineRoom], used: Mapping[str, int], lost: Collection[str]) -> str | None:
    """Return the machine with the largest share of free slots; None: all are in use, or were lost."""
    free = {each.name: (each.slots - used.get(each.name, 0)) / each.slots for each in fitting if each.name not in lost}
    best = max(free, key=lambda name: free[name], default=None)
    return best if best is not None and free[best] > 0 else None


def wait_reason(fitting: Collection[MachineRoom], used: Mapping[str, int], lost: Mapping[str, str]) -> str:
    """Say why an attempt waits for a machine."""
    parts = [
        lost.get(each.name) or f"{each.name} has {used.get(each.name, 0)} of {each.slots} slots in use"
        for each in fitting
    ]
    return "waits for a machine: " + "; ".join(parts)


def _words(wish: MachineWish) -> str:
    return f"`{wish}`" if isinstance(wish, str) else f"with {_labels(wish or {})}"


def _labels(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in labels.items()) or "no labels"
