"""The progress of a run: its nodes, their attempts and ends, and what later nodes get of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct, structs

from corral.model import Attempt, AttemptRecord, NodeState, Status
from corral.model.flow import Flow, Node, On, Task
from corral.rules.context import prompt
from corral.rules.flows import fill_text
from corral.rules.flows.names import FlowResults
from corral.rules.race import llm_judge
from corral.rules.schedule import reduce
from corral.rules.schedule.actions import Settle

Result = Callable[[str], AttemptRecord | None]
FAILED_ENDS: frozenset[Status] = frozenset({"failed", "timed_out", "over_budget", "partial"})


def before(node: str, nodes: Mapping[str, Node], members: Mapping[str, Sequence[str]], result: Result) -> list[str]:
    """Return the nodes with a result that come right before this one, in the order in which they are needed.

    A gate, a merge, a join or a node that was skipped has none: what comes before it counts instead.
    """
    found: dict[str, None] = {}
    seen = {node}
    steps = [edge.node for edge in reversed(nodes[node].needs)]
    while steps:
        name = steps.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in members:
            steps += reversed(members[name])
        elif result(name):
            found[name] = None
        elif name in nodes:
            steps += [edge.node for edge in reversed(nodes[name].needs)]
    return list(found)


def heads(records: Sequence[AttemptRecord], base: str | None) -> tuple[str, ...]:
    """Return the commits to start from, each once; where work was done, where all began tells nothing."""
    commits = dict.fromkeys(record.attempt.commit or record.base for record in records)
    found = tuple(commit for commit in commits if commit)
    return tuple(commit for commit in found if commit != base) or found[:1]


MOST_COMBINATION = 200  #: characters


End = Settle | NodeState  #: of a node: as it was decided, or as it was stored


class Progress:
    """One run as far as it has come. Nodes about which nothing is to be said yet take no room in it."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.nodes: dict[str, Node] = {node.id: node for node in flow.nodes}
        self.ends: dict[str, End] = {}
        self.tries: dict[str, list[AttemptRecord]] = {}
        self.items: dict[str, tuple[str, Any, int]] = {}  #: a node made for an item -> whose, which, the how manieth
        self.members: dict[str, list[str]] = {}  #: a node -> the nodes made for its items
        self.filled: dict[str, Node] = {}
        self.smooth = True  #: all that is over is done
        self._results = FlowResults(flow)
        asking = [node for node in flow.nodes if node.when or node.around or node.fans_out or node.repeat]
        if flow.fills:
            asking += [node for node in flow.nodes if fills(flow, node)]
        self.needs_results = bool(asking)  #: whether anybody asks for results
        self.plain = _plain(flow, asking)

    # --- the texts of a node

    def node(self, name: str) -> Node:
        """Return a node with its texts filled in and with its note on the work before it."""
        if name not in self.filled:
            node = self.nodes[name]
            self.filled[name] = structs.replace(node, task=self._task(node))
        return self.filled[name]

    def node_of(self, record: AttemptRecord) -> Node:
        """Return the node that an attempt works on; a judge's is another than that of those it compares."""
        node = self.node(record.node)
        agent = (
            llm_judge.judge_of(node)
            if record.lane in llm_judge.JUDGE_PLACES
            else node.reader
            if record.lane < 0
            else None
        )
        return llm_judge.judge_node(node, agent) if agent else node

    def _task(self, node: Node) -> Task:
        handoff = prompt.handoff_text([prompt.NodeHandoff(each.node, each.attempt) for each in self._before(node.id)])
        task = structs.replace(node.task, handoff=handoff.words, handed=(*node.task.handed, *handoff.files))
        if not self.flow.fills:
            return task
        known = self.known_names(node.id)
        checks = tuple(fill_text.fill(check, known) for check in task.checks)
        filled = fill_text.fill_json if node.program else fill_text.fill
        return structs.replace(task, prompt=filled(task.prompt, known), checks=checks)

    def known_names(self, node: str) -> Mapping[str, Any]:
        """Return what a node's texts may name."""
        if node not in self.items:
            return self._results.seen_from(node)
        group, item, place = self.items[node]
        own = {"item": item, "index": place, **({"matrix": item} if self.nodes[group].matrix else {})}
        return self._results.seen_from(group, own)

    def combination(self, node: str) -> str:
        """Return the values of a matrix that a node is made for, as `os=linux, py=3.12`."""
        group, item, _ = self.items.get(node, ("", None, 0))
        if not group or not self.nodes[group].matrix or not isinstance(item, Mapping):
            return ""
        values = cast("Mapping[str, Any]", item)
        return ", ".join(f"{name}={fill_text.words(value)}" for name, value in values.items())[:MOST_COMBINATION]

    # --- what came before it

    def heads(self, name: str, base: str | None) -> tuple[str, ...]:
        """Return the commits a node starts from; none: where the run began."""
        return heads(self._before(name), base)

    def proofs(self, name: str) -> tuple[str, ...]:
        """Return the checks that hold for what comes before a node."""
        return tuple(dict.fromkeys(check for each in self._names_before(name) for check in self.node(each).task.checks))

    def _before(self, name: str) -> list[AttemptRecord]:
        return [record for each in self._names_before(name) if (record := self._last_of(each))]

    def _names_before(self, name: str) -> list[str]:
        group = self.items[name][0] if name in self.items else name
        return before(group, self.nodes, self.members, self._last_of)

    def _last_of(self, name: str) -> AttemptRecord | None:
        """Return the attempt that stands for a node that has ended: its winner, or else its last."""
        tries = self.tries.get(name)
        if not tries or self.nodes[name].planning:  # a plan is no work, and part of no other prompt
            return None
        end = self.ends.get(name)
        winner = end.winner if end else None
        own = [record for record in tries if record.lane >= 0] or tries  # a judge's word is no work
        return next((record for record in reversed(own) if record.attempt.id == winner), own[-1])

    def record(self, attempt: str, node: str) -> AttemptRecord | None:
        return next((each for each in self.tries.get(node, ()) if each.attempt.id == attempt), None)

    # --- what became of it

    def status(self, name: str) -> Status:
        """Return the state of a node: its end, or that it has none yet."""
        end = self.ends.get(name)
        return end.status if end else "queued"

    def note(self, name: str, end: End) -> None:
        """Keep the end of a node, and what others may ask of it."""
        self.ends[name] = end
        self.smooth = self.smooth and end.status == "done"
        self.filled.pop(name, None)
        if not self.needs_results or name in self.items:
            return
        result: dict[str, Any] = {"status": end.status, "reason": end.reason, "output": end.why}
        if name in self.members:
            result["output"] = self._reduced_output(name)
        else:
            result.update(self._result(name))
            if self.nodes[name].reduce:
                result["output"] = self._reduced_output(name)
        self._results.add(name, result)

    def _reduced_output(self, name: str) -> Any:  # noqa: ANN401 -- outputs may be anything
        """Return the output of a node that has several: of its items, or of its lanes."""
        node = self.nodes[name]
        if name in self.members and node.reduce is None:
            return [self._result(each)["output"] for each in self.members[name]]
        if name in self.members:
            parts = [
                reduce.OutputPart(self._result(each)["output"], ok=self.status(each) == "done")
                for each in self.members[name]
            ]
        else:
            last = {record.lane: record.attempt for record in self.tries.get(name, ()) if record.lane >= 0}
            parts = reduce.parts_of([last[agent_place] for agent_place in sorted(last)])
        return reduce.reduce(parts, node.reduce or "list", [each.name for each in (node.agent, *node.rivals)]).output

    def _result(self, node: str) -> dict[str, Any]:
        end = self.ends.get(node)
        found = self.record(end.winner, node) if end and end.winner else None
        return result_of(found.attempt) if found else {"output": end.why if end else None}


def _plain(flow: Flow, asking: Sequence[Node]) -> frozenset[str]:
    """Return the nodes of which most flows are made: one agent, once, and nothing to ask before."""
    plain = frozenset(
        [node.id for node in flow.nodes if node.kind in ("task", "run") and not node.rivals and not node.reader]
    )
    return plain.difference([node.id for node in asking]) if asking else plain


def fills(flow: Flow, node: Node) -> bool:
    """Tell whether the texts of a node have places to fill."""
    return flow.fills and ("{{" in node.task.prompt or any("{{" in check for check in node.task.checks))


def result_of(attempt: Attempt) -> dict[str, Any]:
    """Return what expressions and texts may ask of an attempt."""
    return {
        "status": attempt.status,
        "output": attempt.output,
        "commit": attempt.commit,
        "branch": attempt.branch,
        "files_changed": list(attempt.files_changed),
        "cost_usd": attempt.cost.usd,
        "agent": attempt.agent,
    }


class UnblockedNodes(Struct, frozen=True):
    """What the end of a node led to: who may start now, and who never will."""

    ready: Sequence[str] = ()
    skipped: Sequence[tuple[str, str]] = ()  #: node and the need of it that did not come true


class NeedsGraph:
    """The needs of a flow's nodes, counted down. Inside, nodes are numbers: a large flow has many needs."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._waits: list[int] = []  # how many needs of each are not over
        self._after: list[list[int]] = []  # who needs the success of each
        self._other: dict[int, list[tuple[int, On]]] = {}  # and who needs something else of it
        self._missed: dict[int, list[int]] = {}
        self._nodes: list[Node] = []
        self._over = bytearray()
        self.add(nodes)

    def add(self, nodes: Iterable[Node]) -> None:
        """Add nodes, also while others are at work: a list that a node made has as many as it has."""
        new, first = tuple(nodes), len(self._names)
        names = [node.id for node in new]
        self._names += names
        self._nodes += new
        self._numbers.update(zip(names, range(first, first + len(new)), strict=True))
        self._waits += [len(node.needs) for node in new]
        self._after += [[] for _ in new]
        self._over += bytes(len(new))
        numbers, after = self._numbers, self._after
        for number, node in enumerate(new, first):
            for edge in node.needs:
                if edge.on == "success":
                    after[numbers[edge.node]].append(number)
                else:
                    self._other.setdefault(numbers[edge.node], []).append((number, edge.on))

    def start(self) -> list[str]:
        """Return who may start at once."""
        return [name for name, waits in zip(self._names, self._waits, strict=True) if not waits]

    def wait_for(self, node: str, for_: Iterable[str]) -> None:
        """Let a node that was ready wait for others, whatever becomes of them."""
        number = self._numbers[node]
        for other in for_:
            self._waits[number] += 1
            self._other.setdefault(self._numbers[other], []).append((number, "always"))

    def note_done(self, node: str) -> Sequence[str] | None:
        """Take in that a node is done; return who may start now. None where that is not all there is to say."""
        number = self._numbers[node]
        if self._missed or number in self._other or self._over[number]:
            return None
        self._over[number] = 1
        waits, ready = self._waits, None
        for after in self._after[number]:
            left = waits[after] - 1
            waits[after] = left
            if not left:
                name = self._names[after]
                if ready is None:
                    ready = [name]
                else:
                    ready.append(name)
        return () if ready is None else ready

    def settle(self, node: str, status: Status) -> UnblockedNodes:
        """Take in that a node has ended; return what follows for those behind it."""
        first = self._numbers[node]
        if self._over[first]:
            return UnblockedNodes()
        ready: list[str] = []
        skipped: list[tuple[str, str]] = []
        ended: list[tuple[int, Status]] = [(first, status)]
        for number, how in ended:  # grows: who is skipped ends too
            self._over[number] = 1
            for after, comes_true in self._behind(number, how):
                if not comes_true:
                    self._missed.setdefault(after, []).append(number)
                self._waits[after] -= 1
                if self._waits[after]:
                    continue
                if after not in self._missed:
                    ready.append(self._names[after])
                elif not self._over[after]:
                    skipped.append((self._names[after], self._first_missed(after)))
                    ended.append((after, "skipped"))
        return UnblockedNodes(ready, skipped)

    def _behind(self, number: int, status: Status) -> list[tuple[int, bool]]:
        """Return who needs something of a node that has ended, and whether it came true."""
        others = [(after, on == "always" or status in FAILED_ENDS) for after, on in self._other.get(number, ())]
        return [*((after, status == "done") for after in self._after[number]), *others]

    def _first_missed(self, number: int) -> str:
        """Name the need that did not come true; of several the one named first, whatever ended first."""
        missed = {self._names[each] for each in self._missed[number]}
        return next(edge.node for edge in self._nodes[number].needs if edge.node in missed)
