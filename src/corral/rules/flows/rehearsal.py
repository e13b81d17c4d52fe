"""Play a flow through without agents, each with an end of one's choice or a good one. Nothing is started."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from corral.model import Attempt, AttemptRecord, Cost, Failure, RetryPolicy
from corral.model.errors import BadRequest
from corral.model.flow import Flow, Node
from corral.rules.flows.expressions import Expression, ExpressionError
from corral.rules.flows.schemas import misfits
from corral.rules.flows.tree import UnreadableYaml, read
from corral.rules.flows.validate import paths_of
from corral.rules.schedule.actions import Action, AddPlanned, AskAtGate, FinishRun, Settle, StartMerge
from corral.rules.schedule.agent_tries import Begin, WaitUntil
from corral.rules.schedule.decide import Schedule

SOME = "..."  #: stands for any value
GOOD_END, BAD_END = ("success", "done", "yes", True), ("failure", "failed", "no", False)
WORDS: dict[type[Action], str] = {AskAtGate: "asks the user", StartMerge: "merges", AddPlanned: "runs what is planned"}
STUB_HINT = 'NODE=success, NODE=failure, GATE=no, or what it gives as JSON: \'plan={"files": ["a.py"]}\''


def guess(flow: Flow, name: str) -> Any:
    """Return an output of a node that fits what the nodes beside it ask for; a list has one item."""
    folder, _, last = name.rpartition("/")
    root: dict[str, Any] = {}
    for node in flow.nodes:
        if node.id.rpartition("/")[0] != folder:
            continue
        for path in paths_of(node):
            if path[:2] == (last, "output"):
                _put(root, path[1:], SOME)
        path = _list_path(node)
        if path[:2] == (last, "output"):
            _put(root, path[1:], [_item(node)])
    return root.get("output", SOME)


def _list_path(node: Node) -> tuple[str, ...]:
    try:
        return Expression(node.for_each).whole_path() if node.for_each else ()
    except ExpressionError:
        return ()


def _item(node: Node) -> Any:
    root: dict[str, Any] = {}
    for path in paths_of(node):
        if path[0] in ("item", "matrix"):
            _put(root, ("item", *path[1:]), SOME)
    return root.get("item", {} if node.matrix else SOME)


def _put(table: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Put a value at a path; what is there already and says more stays."""
    for name in path[:-1]:
        if not isinstance(table.get(name), dict):
            table[name] = {}
        table = cast("dict[str, Any]", table[name])
    if table.get(path[-1], SOME) == SOME or isinstance(value, list):
        table[path[-1]] = value


MOST_STEPS = 100_000


STUBBED = "the stub says so"


class RehearsalStep(Struct, frozen=True):
    """What would happen to one node."""

    wave: int  #: nodes of one wave may be at work together
    node: str
    agent: str | None
    words: str = ""


class Rehearsal(Struct, frozen=True):
    steps: tuple[RehearsalStep, ...]
    status: str
    reason: str = ""


def rehearse(
    flow: Flow, retry: RetryPolicy | None = None, stubs: Stubs | None = None, costs: Mapping[str, float] | None = None
) -> Rehearsal:
    """Return what would start after what. A node without a stub ends well and says the first thing it may say."""
    return _Play(flow, retry or RetryPolicy(), stubs or {}, costs or {}).play()


class _Play:
    def __init__(self, flow: Flow, retry: RetryPolicy, stubs: Stubs, costs: Mapping[str, float]) -> None:
        self._flow, self._schedule = flow, Schedule(flow, retry)
        self._stubs, self._costs = stubs, costs
        self._steps: list[RehearsalStep] = []
        self._now = 0.0
        self._over: FinishRun | None = None

    def play(self) -> Rehearsal:
        self._schedule.load((), ())
        for wave in range(1, MOST_STEPS):
            records = self._wave(wave)
            if self._over:
                return Rehearsal(tuple(self._steps), self._over.status, self._over.reason or "")
            for record in records:
                self._schedule.note_attempt(record, driven=True)
            for record in records:
                self._schedule.note_attempt(record, driven=False)
        return Rehearsal(tuple(self._steps), "it does not end")

    def _wave(self, wave: int) -> list[AttemptRecord]:
        records: list[AttemptRecord] = []
        actions: list[Action] = list(self._schedule.decide(self._now))
        waits: list[float] = []
        for action in actions:  # grows
            match action:
                case Begin():
                    records.append(self._begin(wave, action))
                case AskAtGate(node=node) | StartMerge(node=node) | AddPlanned(node=node):
                    _, *following = self._schedule.end_node(self._settle(wave, node, WORDS[type(action)]))
                    actions += following
                case Settle(node=node, status=status, reason=reason) if status != "done":
                    self._steps.append(RehearsalStep(wave, node, None, f"{status}: {reason}"))
                case WaitUntil(time=moment):
                    waits.append(moment)
                case FinishRun():
                    self._over = action
                case _:
                    pass  # the others start nothing and end nothing
        if waits and not records:
            self._now = min(waits)
        return records

    def _begin(self, wave: int, action: Begin) -> AttemptRecord:
        schedule, stub = self._schedule, self._stub(action.node)
        node = schedule.nodes[action.node]
        attempt = Attempt(id=f"try-{len(self._steps)}", agent=action.agent.name, number=action.number, status="done")
        attempt.cost = Cost(self._costs.get(action.agent.name, 0.0), "estimated")
        again = f"try {action.number}" if action.number > 1 else ""
        words = ", ".join(filter(None, (schedule.combination(action.node), again)))
        if stub.ok:
            attempt.output = stub.gives[0] if stub.gives else self._made_up_output(node)
        else:
            attempt.status, attempt.error = "failed", Failure("check_failed", STUBBED)
            words = ", ".join(filter(None, (words, "fails")))
        self._steps.append(RehearsalStep(wave, action.node, str(action.agent), words))
        return AttemptRecord(
            attempt=attempt,
            run="",
            node=action.node,
            phase="over",
            lane=action.lane,
            started=self._now,
            ended=self._now,
        )

    def _made_up_output(self, node: Node) -> Any:
        """Return what a node gives that has no stub: the plainest that fits its shape, or what others ask of it."""
        return sample(node.output) if node.output != {} else guess(self._flow, node.id)

    def _settle(self, wave: int, node: str, words: str) -> Settle:
        """Return how a gate, a merge or a planned flow ends."""
        ok, asks = self._stub(node).ok, words == WORDS[AskAtGate]
        if ok:
            self._steps.append(RehearsalStep(wave, node, None, f"{words}: yes" if asks else words))
            return Settle(node, "done", why="yes" if asks else None)
        self._steps.append(RehearsalStep(wave, node, None, f"{words}: no" if asks else f"{words}: in vain"))
        return Settle(node, "skipped" if asks else "failed", "no" if asks else STUBBED, why="no" if asks else None)

    def _stub(self, node: str) -> Stub:
        return self._stubs.get(node) or self._stubs.get(node.rpartition(".")[0]) or Stub()


def sample(schema: Mapping[str, Any] | None) -> Any:
    """Return the plainest value that fits a schema; a list has one item."""
    if schema is None:
        return ""
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return cast("Sequence[Any]", schema["enum"])[0]
    kind = schema.get("type", "string")
    match kind if isinstance(kind, str) else kind[0]:
        case "object":
            fields = cast("Mapping[str, Mapping[str, Any]]", schema.get("properties", {}))
            return {name: sample(inner) for name, inner in fields.items()}
        case "array":
            return [sample(schema.get("items", {}))]
        case "integer" | "number":
            return schema.get("minimum", 0)
        case "boolean":
            return False
        case "null":
            return None
        case _:
            return "..."


class Stub(Struct, frozen=True):
    """How one node ends."""

    ok: bool = True
    gives: tuple[Any, ...] = ()  #: its output, if it is not just any


Stubs = Mapping[str, Stub]


def read_stubs(pairs: Sequence[str], file: str, flow: Flow) -> Stubs:
    """Read `NODE=OUTCOME` and the text of a stub file, and hold them against a flow; a pair counts more."""
    found = {**_stubs_in_file(file), **dict(_stub_pair(each) for each in pairs)}
    nodes = {node.id: node for node in flow.nodes}
    return {name: _stub(name, value, _stub_node(name, nodes)) for name, value in found.items()}


def _stub_pair(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise BadRequest(f"--stub {text}: what comes of it?", hint=STUB_HINT)
    if value in GOOD_END or value in BAD_END:
        return name.strip(), value
    try:
        return name.strip(), [json.loads(value)]
    except (ValueError, RecursionError):
        raise BadRequest(f"--stub {text}: neither an end nor JSON", hint=STUB_HINT) from None


def _stubs_in_file(text: str) -> dict[str, Any]:
    try:
        found: Any = read(text).plain() if text.strip() else None
    except UnreadableYaml as error:
        where = f"line {error.mistake.line}"
        raise BadRequest(f"--stubs: {where}: {error.mistake.message}", hint=error.mistake.hint) from None
    if found is not None and not isinstance(found, dict):
        raise BadRequest("--stubs: it is a table of nodes", hint="a line each: `plan: success`")
    table, ends = cast("dict[str, Any]", found or {}), (*GOOD_END, *BAD_END)
    return {
        name: value if isinstance(value, str | bool) and value in ends else [value] for name, value in table.items()
    }


def _stub_node(name: str, nodes: Mapping[str, Node]) -> Node:
    group = re.fullmatch(r"(.+)\.\d+", name)
    node = nodes.get(name) or (nodes.get(group.group(1)) if group else None)
    if node is None or (name not in nodes and not node.fans_out):
        raise BadRequest(f"--stub {name}: there is no such node", hint="known: " + ", ".join(list(nodes)[:30]))
    return node


def _stub(name: str, value: Any, node: Node) -> Stub:
    if not isinstance(value, list):
        return Stub(ok=value in GOOD_END)
    given = cast("list[Any]", value)[0]
    if node.kind not in ("task", "run"):
        raise BadRequest(f"--stub {name}: it gives nothing, it is a {node.kind}", hint=STUB_HINT)
    if node.output is not None and (wrong := misfits(given, node.output)):
        raise BadRequest(
            f"--stub {name}: that does not fit its output: {'; '.join(wrong[:5])}",
            hint="give a JSON value that its `output` allows",
        )
    return Stub(gives=(given,))
