"""What stands in for the nodes of a flow when it is only played through: an end, or what a node gives."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from corral.model.errors import BadRequest
from corral.model.flow import Flow, Node
from corral.rules.flows.schemas import misfits
from corral.rules.flows.tree import UnreadableYaml, read

GOOD, BAD = ("success", "done", "yes", True), ("failure", "failed", "no", False)
HINT = 'NODE=success, NODE=failure, GATE=no, or what it gives as JSON: \'plan={"files": ["a.py"]}\''


class Stub(Struct, frozen=True):
    """How one node ends."""

    ok: bool = True
    gives: tuple[Any, ...] = ()  #: its output, if it is not just any


Stubs = Mapping[str, Stub]


def read_stubs(pairs: Sequence[str], file: str, flow: Flow) -> Stubs:
    """Read `NODE=OUTCOME` and the text of a stub file, and hold them against a flow; a pair counts more."""
    found = {**_in_file(file), **dict(_pair(each) for each in pairs)}
    nodes = {node.id: node for node in flow.nodes}
    return {name: _stub(name, value, _node(name, nodes)) for name, value in found.items()}


def _pair(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise BadRequest(f"--stub {text}: what comes of it?", hint=HINT)
    if value in GOOD or value in BAD:
        return name.strip(), value
    try:
        return name.strip(), [json.loads(value)]
    except (ValueError, RecursionError):
        raise BadRequest(f"--stub {text}: neither an end nor JSON", hint=HINT) from None


def _in_file(text: str) -> dict[str, Any]:
    try:
        found: Any = read(text).plain() if text.strip() else None
    except UnreadableYaml as error:
        where = f"line {error.mistake.line}"
        raise BadRequest(f"--stubs: {where}: {error.mistake.message}", hint=error.mistake.hint) from None
    if found is not None and not isinstance(found, dict):
        raise BadRequest("--stubs: it is a table of nodes", hint="a line each: `plan: success`")
    table, ends = cast("dict[str, Any]", found or {}), (*GOOD, *BAD)
    return {
        name: value if isinstance(value, str | bool) and value in ends else [value] for name, value in table.items()
    }


def _node(name: str, nodes: Mapping[str, Node]) -> Node:
    group = re.fullmatch(r"(.+)\.\d+", name)
    node = nodes.get(name) or (nodes.get(group.group(1)) if group else None)
    if node is None or (name not in nodes and not node.fans_out):
        raise BadRequest(f"--stub {name}: there is no such node", hint="known: " + ", ".join(list(nodes)[:30]))
    return node


def _stub(name: str, value: Any, node: Node) -> Stub:
    if not isinstance(value, list):
        return Stub(ok=value in GOOD)
    given = cast("list[Any]", value)[0]
    if node.kind not in ("task", "run"):
        raise BadRequest(f"--stub {name}: it gives nothing, it is a {node.kind}", hint=HINT)
    if node.output is not None and (wrong := misfits(given, node.output)):
        raise BadRequest(f"--stub {name}: that does not fit its output: {'; '.join(wrong[:5])}")
    return Stub(gives=(given,))
