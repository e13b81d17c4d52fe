"""What is wrong with a request on this machine: of a flow file all of it at once, each at its place; else the first."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping

from corral.model.errors import BadFlow, BadRequest, FlowMistake, Untrusted, refusal_of
from corral.rules.flows.reader import FlowReading
from corral.rules.flows.tree import NodeLocation


class Findings:
    """Gathers what speaks against a flow file; without one, the first that does is raised at once."""

    def __init__(self, file: str | None) -> None:
        self._file = file
        self._spots: Mapping[str, NodeLocation] = {}
        self._found: dict[tuple[int, int, str], FlowMistake] = {}
        self._bad: set[str] = set()
        self._wrong = False  # the file itself has mistakes
        self._named: set[str] = set()  # nodes whose agents stand in the file

    def read(self, found: FlowReading) -> None:
        """Take in what is wrong with the file itself, and where its nodes stand."""
        self._spots, self._wrong = found.spots, bool(found.mistakes)
        self._named = {node.id for node in found.flow.nodes if node.agent.name}
        for each in found.mistakes:
            self._add(FlowMistake(self._file or "flow", each.line, each.column, each.message, each.hint))

    @contextlib.contextmanager
    def at(self, node: str, key: str) -> Generator[None]:
        """Hold what is refused inside against a key of a node."""
        try:
            yield
        except Untrusted:
            raise
        except (BadRequest, OSError, ValueError, OverflowError, RecursionError) as caught:
            error = refusal_of(caught)
            if self._file is None or error is None:
                raise
            self._bad.update({node} if key == "agent" else ())
            words = str(error).removeprefix("--")
            if not any(words == each.message for each in self._found.values()):  # many nodes may have one agent
                self._add(FlowMistake(self._file, *self._place(node, key), words, error.hint))

    def has_known_agents(self, node: str) -> bool:
        """Tell whether all agents of a node could be found by name."""
        return node not in self._bad

    def tries(self, node: str) -> bool:
        """Tell whether the agents of a node are to be tried: of a file with mistakes only those that it names."""
        return not self._wrong or node in self._named

    def tell(self) -> None:
        """Raise all that was found."""
        if self._found:
            raise BadFlow([self._found[key] for key in sorted(self._found)])

    def _place(self, node: str, key: str) -> tuple[int, int]:
        spot = self._spots.get(node)
        if spot is None:
            return 1, 1
        return next((spot.keys[name] for name in (key, *NEAR.get(key, ())) if name in spot.keys), spot.start)

    def _add(self, mistake: FlowMistake) -> None:
        self._found.setdefault((mistake.line, mistake.column, mistake.message), mistake)


NEAR = {"agent": ("race", "fallback", "judge")}
