"""A flow file to a flow: every mistake is found, each with its line and column, before anything is started."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast, get_args

import msgspec
from msgspec import Struct, structs

from corral.model.flow import (
    AgentChoice,
    Edge,
    Flow,
    Gate,
    Kind,
    MachineWish,
    MergeSpec,
    MergeStrategy,
    Node,
    On,
    OnFailure,
    Parallelism,
    PlanSpec,
    ProgramSpec,
    Reducer,
    Repeat,
    Select,
    Task,
    TaskType,
)
from corral.model.program import SUFFIXES
from corral.model.values import MOST_RETRIES, MOST_ROUNDS
from corral.rules.context import program_tools
from corral.rules.flows import fill_text, items, names, short_schema, validate
from corral.rules.flows.table import FlowTable, Mistakes
from corral.rules.flows.tree import Mistake, NodeLocation, Position, UnreadableYaml, read

MOST_NODES, MOST_NESTED = 10_000, 3
MOST_ARTIFACTS = 20  #: of one node
MOST_PLANNED = 50  #: nodes of a flow that an agent writes
PLAN_SHAPE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "flow": {"type": "object"},
        "reasons": {"type": "object"},
        "confidence": {"type": "number"},
        "warnings": {"type": "array"},
    },
    "required": ["flow"],
}
KINDS: dict[str, Kind | None] = {
    "task": "task", "run": "run", "program": "run", "gate": "gate", "merge": "merge", "flow": None, "plan": None,
}  # fmt: skip
COMMON = ("needs", "when", "for_each", "matrix")
WORKING = (
    "agent", "race", "role", "type", "files", "skills", "checks", "read_only", "retries", "fallback", "timeout", "idle",
    "budget", "share", "output", "artifacts", "repeat", "select", "scorers", "judge", "reduce", "machine",
)  # fmt: skip
OWN: dict[str, tuple[str, ...]] = {
    "task": WORKING,
    "run": ("timeout", "idle", "retries", "checks", "output", "artifacts", "repeat", "machine"),
    "program": ("tools", "input", "timeout", "retries", "checks", "output", "artifacts"),
    "gate": ("default", "deadline"),
    "merge": (),
    "flow": ("with",),
    "plan": (
        "agent",
        "role",
        "files",
        "skills",
        "timeout",
        "idle",
        "retries",
        "fallback",
        "budget",
        "share",
        "machine",
        "most",
        "parallelism",
        "approve",
        "default",
        "deadline",
    ),
}
CIRCLE_HINT = "a flow cannot run itself; use `repeat`, or `for_each` over a list"
TOP = ("name", "budget", "context", "defaults", "inputs", "nodes", "on_failure", "parallel")


class KeptProgram(Struct, frozen=True, kw_only=True):
    """A kept tool, as a node of a flow runs it."""

    spec: ProgramSpec
    output: Mapping[str, Any]  #: the JSON Schema of its result


class KnownNames(Struct, frozen=True, kw_only=True):
    """What a flow file may name on this machine; None where nobody looked."""

    agents: frozenset[str] | None = None
    roles: frozenset[str] | None = None
    nested: Callable[[str], str | None] = lambda _: None  #: text of another flow file, by its name in this one
    program: Callable[[str], str | None] = lambda _: None  #: text of a program's file, by its name in this one
    tool: Callable[[str], KeptProgram | str] = "there is no tool `{}`".format  #: a kept tool, or what is wrong with it
    draft: bool = False  #: inputs may be without a value: the file is only looked at


class FlowReading(Struct, frozen=True):
    """A flow, and what is wrong with its file; with mistakes in it, only what could be understood of it."""

    flow: Flow
    mistakes: tuple[Mistake, ...] = ()
    spots: Mapping[str, NodeLocation] = {}  #: where its nodes are


def read_flow(text: str, known: KnownNames, given: Mapping[str, Any] | None = None, prefix: str = "") -> FlowReading:
    """Read a flow file; `given` are the user's values for its inputs, `prefix` begins the names of nested nodes."""
    mistakes = Mistakes()
    try:
        tree = read(text, mistakes.found)
    except UnreadableYaml as unreadable:
        return FlowReading(Flow(name="flow", strategy="flow", nodes=()), (unreadable.mistake,))
    reader = _FlowReader(known, mistakes, prefix)
    flow = reader.flow(tree, given or {})
    return FlowReading(flow, tuple(sorted(set(mistakes.found))), reader.spots)


class _FlowReader:
    def __init__(self, known: KnownNames, mistakes: Mistakes, prefix: str = "", path: tuple[str, ...] = ()) -> None:
        self._known, self._mistakes, self._prefix, self._path = known, mistakes, prefix, path
        self.inputs: dict[str, Any] = {}
        self.spots: dict[str, NodeLocation] = {}
        self._views: dict[str, Node] = {}  # nodes that stand for nested flows, as this file has them

    def flow(self, tree: Position, given: Mapping[str, Any]) -> Flow:
        top = FlowTable(tree, "a flow", self._mistakes)
        top.only(TOP)
        defaults = top.table("defaults")
        if defaults:
            defaults.only((*WORKING, "deadline"))
        self._inputs(top, given)
        nodes: list[Node] = []
        places: dict[str, Position] = {}
        self._refuse_dropped(top)
        listed = isinstance(top.plain("nodes"), list)
        if listed:
            hint = "write each as `NAME: {task: ...}`, without a dash before it"
            top.wrong("`nodes` is a table of nodes by name, not a list", hint, "nodes")
        for name, table in () if listed else top.tables("nodes"):
            if not re.fullmatch(r"[A-Za-z][\w-]{0,63}", name):
                table.wrong(f"`{name}` cannot be the name of a node", "letters, digits, - and _; a letter first")
            nodes += self._node(self._prefix + name, table, defaults)
            places[self._prefix + name] = table.place
        if top.plain("nodes") in (None, {}):
            top.wrong("there are no nodes", "nodes: {main: {task: ...}}")
        if len(nodes) > MOST_NODES:
            top.wrong(f"there are more than {MOST_NODES} nodes", "use for_each, or several flows")
        flow = Flow(
            name=top.text("name") or "flow",
            strategy="flow",
            nodes=tuple(nodes),
            inputs=self.inputs,
            budget_usd=_usd(top, "budget"),
            fills=True,
            on_failure=top.one_of("on_failure", get_args(OnFailure)) or "continue",
            parallel=top.whole("parallel", least=1),
        )
        validate.check(flow, self._prefix, places, self._views, self._mistakes)
        return structs.replace(flow, nodes=tuple(names.add_shared_words(nodes, self._context(top), self._prefix)))

    def _refuse_dropped(self, top: FlowTable) -> None:
        """Refuse what a nested flow cannot have of its own: its nodes become nodes of the flow around it."""
        for key in ("budget", "parallel", "on_failure") if self._prefix else ():
            if top.has(key) and (key, top.plain(key)) != ("on_failure", "continue"):
                hint = f"put `{key}` in the outermost flow: it applies to all nodes"
                top.wrong(f"a nested flow has no `{key}` of its own", hint, key)

    def _context(self, top: FlowTable) -> str:
        """Return the text for all agents; it may name inputs, and nothing that is known only later."""
        text = top.filled_text("context") or "" if top.has("context") else ""
        known = {name.removeprefix(self._prefix): value for name, value in self.inputs.items()}
        return top.guard("context", lambda: fill_text.fill(text, known)) or ""

    def _inputs(self, top: FlowTable, given: Mapping[str, Any]) -> None:
        declared: set[str] = set()
        for name, table in top.tables("inputs"):
            declared.add(name)
            table.only(("default", "description"))
            if name in given:
                self.inputs[self._prefix + name] = _input_value(given[name], table, name)
            elif table.has("default"):
                self.inputs[self._prefix + name] = table.entries["default"][1].as_written()
            else:
                self.inputs[self._prefix + name] = f"<{name}>"
                if not self._known.draft:
                    table.wrong(f"the input `{name}` has no value", f"--input {name}=..., or a default")
        for name in given:
            if name not in declared:
                top.wrong(f"there is no input `{name}`", "known: " + (", ".join(sorted(declared)) or "none"))

    def _node(self, name: str, table: FlowTable, defaults: FlowTable | None) -> list[Node]:
        kinds = [kind for kind in KINDS if table.has(kind)]
        if len(kinds) != 1:
            table.wrong(f"the node `{name}` is none or several of: {', '.join(KINDS)}", "give it exactly one of them")
            return []
        table.only((kinds[0], *COMMON, *OWN[kinds[0]]))
        needs = self._needs(table)
        when = table.expression("when")
        if kinds[0] in ("flow", "plan"):
            for key in ("for_each", "matrix"):
                if table.has(key):
                    table.wrong("a nested flow is done once", f"put `{key}` at a node in it", key)
            if kinds[0] == "plan":
                return self._read_plan(name, table, defaults, needs, when)
            return self._read_nested(name, table, needs, when)
        for_each, listed = _fan(table)
        merged = table.over(defaults, OWN[kinds[0]])
        self.spots[name] = _spot(merged)
        node = Node(
            id=name,
            kind=KINDS[kinds[0]] or "task",
            task=self._task(kinds[0], table, merged),
            needs=needs,
            when=when,
            for_each=for_each,
            items=listed,
            matrix=table.has("matrix"),
            artifacts=_artifacts(merged),
            machine=_machine(merged),
            gate=_gate(merged) if kinds[0] == "gate" else None,
            merge=_merge(table) if kinds[0] == "merge" else None,
        )
        if kinds[0] == "task":
            return [self._with_agents(_with_shape(node, merged), merged, table)]
        if kinds[0] == "program":
            return [self._with_program(_with_shape(node, table), table)]
        return [_with_shape(node, table) if kinds[0] == "run" else node]  # `defaults` mean agents by these

    def _with_program(self, node: Node, table: FlowTable) -> Node:
        """Put in the program itself: what runs later is what was read now."""
        name = table.text("program") or ""
        if name and "." not in name:
            return self._with_kept_tool(node, name, table)
        language = SUFFIXES.get(f".{name.rpartition('.')[2]}")
        source = self._known.program(name) if language else ""
        if language is None:
            table.wrong(f"`{name}` is no program", "a .ts, .js or .py file beside this one, or a kept tool", "program")
        elif source is None:
            table.wrong(
                f"there is no program `{name}`", "a file beside this one, or one in .corral/programs", "program"
            )
        granted = tuple(dict.fromkeys(program_tools.ALIASES.get(each, each) for each in table.texts("tools")))
        for each in granted:
            if each not in program_tools.TOOLS:
                table.wrong(f"no tool is called `{each}`", _similar(each, program_tools.TOOLS), "tools")
        spec = ProgramSpec(name=name, language=language or "python", source=source or "", tools=granted)
        return structs.replace(node, program=spec, output=node.output or {})

    def _with_kept_tool(self, node: Node, name: str, table: FlowTable) -> Node:
        """Put in a tool that the user keeps, as it is approved now."""
        found = self._known.tool(name)
        if isinstance(found, str):
            table.wrong(found, "see `corral tools ls`", "program")
            return structs.replace(
                node, program=ProgramSpec(name=name, language="python", source=""), output=node.output or {}
            )
        if table.has("tools"):
            table.wrong(f"the tool `{name}` has the tools that it declares", "leave `tools` out", "tools")
        return structs.replace(node, program=found.spec, output=node.output or found.output)

    def _task(self, kind: str, table: FlowTable, merged: FlowTable) -> Task:
        text = "merge" if kind == "merge" else table.filled_text(kind) or ""
        if kind == "program":
            text = _input_text(table)
        role = merged.text("role")
        if role and self._known.roles is not None and role not in self._known.roles:
            merged.wrong(f"no role is called `{role}`", _similar(role, self._known.roles), "role")
        return Task(
            prompt=text,
            type=merged.one_of("type", get_args(TaskType)),
            files=merged.texts("files"),
            checks=merged.filled_texts("checks"),
            role=role,
            skills=tuple((name, "") for name in merged.texts("skills")),
            read_only=merged.flag("read_only"),
            budget_usd=_usd(merged, "budget"),
            timeout_seconds=merged.duration("timeout"),
            idle_seconds=merged.duration("idle"),
            retries=merged.whole("retries", least=0, most=MOST_RETRIES),
        )

    def _with_agents(self, node: Node, merged: FlowTable, table: FlowTable) -> Node:
        if table.has("agent") and table.has("race"):
            table.wrong("a node has either `agent` or `race`", "", "race")
        racing = merged.texts("race") if merged.has("race") and not table.has("agent") else ()
        named = racing or merged.texts("agent")
        for key in ("race", "agent"):
            if table.plain(key) == []:
                table.wrong(f"`{key}` names nobody", "name one or more: race: [claude, codex]", key)
        key = "race" if racing else "agent"
        choices = [choice for text in named for choice in self._choices(text, merged, key)]
        share = merged.number("share")
        return structs.replace(
            node,
            agent=choices[0] if choices else AgentChoice(""),
            rivals=tuple(choices[1:]),
            fallback=tuple(
                choice for text in merged.texts("fallback") for choice in self._choices(text, merged, "fallback")
            ),
            select=merged.one_of("select", get_args(Select)) or "evidence",
            scorers=merged.texts("scorers"),
            judge=next(
                (choice for text in merged.texts("judge") for choice in self._choices(text, merged, "judge")), None
            ),
            reduce=merged.one_of("reduce", get_args(Reducer)),
            share=share / 100 if share is not None and share > 1 else share,
        )

    def _choices(self, text: str, table: FlowTable, key: str) -> list[AgentChoice]:
        """Read `claude`, `claude:opus`, `claude@work`, `claude*3`, `acp:gemini`."""
        match = re.fullmatch(r"((?:acp:)?[^:*@\s]+)(?:@([\w.-]+))?(?::([^*\s]+))?(?:\*(\d{1,2}))?", text.strip())
        if not match:
            table.wrong(f"`{text}` names no agent", "write it like claude, codex:gpt-5 or claude*3", key)
            return []
        if self._known.agents is not None and match.group(1) not in self._known.agents:
            table.wrong(f"no agent is called `{match.group(1)}`", _similar(match.group(1), self._known.agents), key)
        return [AgentChoice(match.group(1), match.group(3), match.group(2))] * int(match.group(4) or 1)

    def _needs(self, table: FlowTable) -> tuple[Edge, ...]:
        edges: list[Edge] = []
        for item in table.items("needs"):
            if isinstance(item.value, str):
                edges.append(Edge(self._prefix + item.value))
                continue
            edge = FlowTable(item, "a need", self._mistakes)
            edge.only(("node", "on"))
            on = edge.one_of("on", get_args(On)) or "success"
            edges.append(Edge(self._prefix + (edge.text("node") or ""), on))
        return tuple(edges)

    def _read_plan(
        self, name: str, table: FlowTable, defaults: FlowTable | None, needs: tuple[Edge, ...], when: str | None
    ) -> list[Node]:
        """Make two nodes: one whose agent writes a flow, and one that becomes that flow."""
        merged = table.over(defaults, OWN["plan"])
        task = self._task("plan", table, merged)
        approves = not table.has("approve") or table.flag("approve")
        spec = PlanSpec(
            most=table.whole("most", least=1, most=MOST_PLANNED) or PlanSpec().most,
            parallelism=table.one_of("parallelism", get_args(Parallelism)) or "balanced",
            approval=_gate(merged) if approves else None,
        )
        self.inputs[f"{name}/task"] = task.prompt  # filled with what the flow around it knows
        writer = Node(
            id=f"{name}/plan",
            task=structs.replace(task, prompt="{{task}}", read_only=True),
            needs=needs,
            around=((name, when),) if when else (),
            output=PLAN_SHAPE,
            planning=spec,
            machine=_machine(merged),
        )
        writer = self._with_agents(writer, merged, table)
        self.spots[name] = self.spots[writer.id] = _spot(merged)
        self._views[name] = Node(id=name, kind="plan", task=task, needs=needs, when=when, share=writer.share)
        return [writer, Node(id=name, kind="plan", task=Task(prompt=""), needs=(Edge(writer.id, "always"),))]

    def _read_nested(self, name: str, table: FlowTable, needs: tuple[Edge, ...], when: str | None) -> list[Node]:
        """Take the nodes of another flow in: its first ones need what this node needs, this one joins its last ones."""
        file = table.text("flow") or ""
        if file in self._path:
            table.wrong("flows go in a circle: " + " -> ".join([*self._path, file]), CIRCLE_HINT, "flow")
            return []
        if len(self._path) >= MOST_NESTED:
            table.wrong(f"flows are nested more than {MOST_NESTED} deep", "", "flow")
            return []
        text = self._known.nested(file)
        if text is None:
            table.wrong(f"there is no flow `{file}`", "a file beside this one, or one in .corral/flows", "flow")
            return []
        given = cast("dict[str, Any]", table.entries["with"][1].as_written() if table.plain("with") else {})
        texts = " ".join(value for value in given.values() if isinstance(value, str))
        self._views[name] = Node(id=name, kind="join", task=Task(prompt=texts), needs=needs, when=when)
        known = structs.replace(self._known, draft=False)  # what it is given is in this file
        inner = _FlowReader(known, Mistakes(), f"{name}/", (*self._path, file))
        try:
            flow = inner.flow(read(text, inner._mistakes.found), given)
        except UnreadableYaml as unreadable:
            table.wrong(f"{file}:{unreadable.mistake.line}: {unreadable.mistake.message}", "", "flow")
            return []
        for mistake in inner._mistakes.found:
            table.wrong(f"{file}:{mistake.line}:{mistake.column}: {mistake.message}", mistake.hint, "flow")
        self.inputs.update(inner.inputs)
        self.spots.update(dict.fromkeys(inner.spots, NodeLocation(_spot(table).keys["flow"], {})))
        needed = {edge.node for node in flow.nodes for edge in node.needs}
        around = ((name, when),) if when else ()
        opened = [
            node if node.needs else structs.replace(node, needs=needs, around=(*around, *node.around))
            for node in flow.nodes
        ]
        last = tuple(Edge(node.id, "always") for node in flow.nodes if node.id not in needed)
        return [*opened, Node(id=name, kind="join", task=Task(prompt=""), needs=last)]


def _input_value(value: Any, table: FlowTable, name: str) -> Any:
    """Return the value of an input; text for one whose default is a number, a list or a table is read as such."""
    default = table.plain("default")
    if not isinstance(value, str) or isinstance(default, str | None) or "{{" in value:
        return value
    try:
        found: Any = read(value).as_written()
    except UnreadableYaml:
        found = value
    if isinstance(default, list | dict) and not isinstance(found, list if isinstance(default, list) else dict):
        kind = "list" if isinstance(default, list) else "table"
        table.wrong(f"the input `{name}` is a {kind}, as its default is", f'--input {name}=\'["a", "b"]\'')
        return cast("Any", default)
    return cast("Any", found) if isinstance(found, int | float | list | dict) else value


def _input_text(table: FlowTable) -> str:
    """Return the input of a program as the JSON text that is its task; its places are filled later."""
    given = cast("Any", table.entries["input"][1].as_written() if table.has("input") else None)
    table.guard("input", lambda: [fill_text.names(text) for text in fill_text.texts_in([given])])
    return msgspec.json.encode(given).decode()


def _similar(name: str, known: Iterable[str]) -> str:
    """Return a hint for a name that nobody has: the one that is nearly the same, or all."""
    near = difflib.get_close_matches(name, sorted(known), n=1)
    return f"did you mean `{near[0]}`?" if near else "known: " + ", ".join(sorted(known))


def _fan(table: FlowTable) -> tuple[str | None, tuple[Any, ...] | None]:
    """Read for which items a node is done: an expression for a list, or the items themselves."""
    if table.has("matrix"):
        if table.has("for_each"):
            table.wrong("a node has either `for_each` or `matrix`", "", "matrix")
        if isinstance(table.plain("matrix"), str):
            return table.expression("matrix"), None
        return None, items.read_matrix(table)
    if isinstance(table.plain("for_each"), list):
        return None, items.read_list(table)
    return table.expression("for_each"), None


def _with_shape(node: Node, table: FlowTable) -> Node:
    """Put in what a node that works is asked for: the shape of its output, and until when it is repeated."""
    output, repeat = table.plain("output"), table.table("repeat")
    shape = table.guard("output", lambda: short_schema.schema(output)) if output is not None else None
    return structs.replace(node, output=shape, repeat=_repeat(repeat) if repeat else None)


def _repeat(table: FlowTable) -> Repeat:
    table.only(("until", "most", "delay"))
    simple = table.plain("until") in (None, "checks", "success")
    return Repeat(
        until="checks" if simple else table.expression("until") or "checks",
        most=table.whole("most", least=1, most=MOST_ROUNDS) or 3,
        delay_seconds=table.duration("delay") or 0.0,
    )


def _spot(table: FlowTable) -> NodeLocation:
    keys = {name: (place.line, place.column) for name, (_, place) in table.entries.items()}
    return NodeLocation((table.place.line, table.place.column), keys)


def _machine(table: FlowTable) -> MachineWish:
    """Read `machine: NAME`, `machine: any` or `machine: {arch: arm64}`."""
    if not isinstance(table.plain("machine"), dict):
        return table.text("machine") or None
    inner = table.table("machine")
    labels = {key: inner.text(key) or "" for key in inner.entries} if inner else {}
    if not labels:
        table.wrong("`machine` names no label", "machine: {arch: arm64}, or the name of a machine", "machine")
    return labels


def _artifacts(table: FlowTable) -> dict[str, str]:
    """Read `artifacts: {report: out/report.html}`."""
    outer, found = table.table("artifacts"), dict[str, str]()
    for name in outer.entries if outer else ():
        path = outer.text(name) if outer else None
        if outer and not re.fullmatch(r"[a-z][a-z0-9-]{0,62}", name):
            outer.wrong(f"`{name}` cannot be the name of an artifact", "a-z, 0-9 and -; a letter first", name)
        elif outer and path is not None and not _is_inside(path):
            outer.wrong(f"`{path}` is no file inside the workspace", "for example: out/report.html", name)
        elif path is not None:
            found[name] = path
    if len(found) > MOST_ARTIFACTS:
        table.wrong(f"a node has at most {MOST_ARTIFACTS} artifacts", "pack them into an archive", "artifacts")
    return found


def _is_inside(path: str) -> bool:
    parts = path.split("/")
    return len(path) < 1000 and not {"", ".", "..", ".git"} & set(parts) and path.isprintable()


def _usd(table: FlowTable, name: str) -> float | None:
    """Read `budget: 5` or `budget: {usd: 5}`."""
    if isinstance(table.plain(name), dict):
        inner = table.table(name)
        if inner is None:
            return None
        inner.only(("usd",))
        return inner.number("usd", above=0.0)
    return table.number(name, above=0.0)


def _gate(merged: FlowTable) -> Gate:
    default = merged.one_of("default", ("yes", "no")) or "no"
    return Gate(default=default, deadline_seconds=merged.duration("deadline") or Gate().deadline_seconds)


def _merge(table: FlowTable) -> MergeSpec:
    inner = table.table("merge")
    if inner is None:
        return MergeSpec()
    inner.only(("into", "strategy"))
    return MergeSpec(into=inner.text("into"), strategy=inner.one_of("strategy", get_args(MergeStrategy)) or "auto")
