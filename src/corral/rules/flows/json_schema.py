"""The JSON Schema of flow files, made from the same lists of keys that the reader holds them to."""

from __future__ import annotations

from typing import Any, get_args

from corral.model.flow import On, OnFailure, Parallelism, Reducer, Select, TaskType
from corral.model.values import MOST_RETRIES, MOST_ROUNDS
from corral.rules.flows.items import MOST_ITEMS
from corral.rules.flows.reader import COMMON, KINDS, MOST_PLANNED, OWN, TOP, WORKING

TEXT: dict[str, Any] = {"type": "string"}
TEXTS: dict[str, Any] = {"anyOf": [TEXT, {"type": "array", "items": TEXT}]}
NUMBER: dict[str, Any] = {"type": "number"}
COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
TIME: dict[str, Any] = {"anyOf": [TEXT, NUMBER], "description": "90s, 20m, 2h"}
MONEY: dict[str, Any] = {
    "anyOf": [NUMBER, {"type": "object", "properties": {"usd": NUMBER}, "additionalProperties": False}]
}
EDGE: dict[str, Any] = {
    "anyOf": [
        TEXT,
        {
            "type": "object",
            "properties": {"node": TEXT, "on": {"enum": list(get_args(On))}},
            "required": ["node"],
            "additionalProperties": False,
        },
    ]
}
ROWS: dict[str, Any] = {"type": "array", "minItems": 1, "items": {"type": "object", "minProperties": 1}}
#: What is behind each key; a key that is missing here may hold anything.
KEYS: dict[str, dict[str, Any]] = {
    "task": {**TEXT, "description": "what an agent is to do; {{...}} is filled in from inputs and results"},
    "run": {**TEXT, "description": "a command, run in the box"},
    "program": {
        **TEXT,
        "description": "a program that calls tools: a .ts, .js or .py file beside this one, or the name of a kept tool",
    },
    "tools": {**TEXTS, "description": "tools that the program may call"},
    "input": {"description": "the argument of its `main`; {{...}} in texts is filled in"},
    "gate": {**TEXT, "description": "a question to the user"},
    "merge": {"type": ["object", "null"], "description": "merge the work of the nodes before it"},
    "flow": {**TEXT, "description": "another flow file"},
    "plan": {**TEXT, "description": "a task for which an agent writes a flow, which then runs here"},
    "most": {**COUNT, "minimum": 1, "maximum": MOST_PLANNED, "description": "most nodes of the planned flow"},
    "parallelism": {
        "enum": list(get_args(Parallelism)),
        "description": "how much of the planned flow runs side by side",
    },
    "approve": {"type": "boolean", "description": "ask the user before the planned flow runs"},
    "with": {"type": "object", "description": "values for that flow's inputs"},
    "needs": {"type": "array", "items": EDGE, "description": "nodes that come before it"},
    "when": {**TEXT, "description": "it starts only if this holds"},
    "for_each": {
        "type": ["string", "array"],
        "maxItems": MOST_ITEMS,
        "description": "run the node once for each item; {{item}} and {{item.FIELD}} name it",
    },
    "matrix": {
        "type": ["object", "string"],
        "minProperties": 1,
        "description": "run the node once for each combination; {{matrix.AXIS}} names a value",
        "properties": {"include": ROWS, "exclude": ROWS},
        "additionalProperties": {"type": "array", "minItems": 1, "description": "the values of one axis"},
    },
    "agent": TEXTS,
    "race": TEXTS,
    "model": TEXT,
    "role": TEXT,
    "type": {"enum": list(get_args(TaskType))},
    "files": TEXTS,
    "skills": TEXTS,
    "checks": TEXTS,
    "read_only": {"type": "boolean"},
    "retries": {**COUNT, "maximum": MOST_RETRIES},
    "fallback": TEXTS,
    "timeout": TIME,
    "idle": TIME,
    "budget": MONEY,
    "share": {**NUMBER, "description": "percent of the flow's budget"},
    "output": {"description": "the shape of its answer: {verdict: [accept, reject], notes: string}; or `json`"},
    "machine": {
        "oneOf": [TEXT, {"type": "object", "additionalProperties": TEXT, "minProperties": 1}],
        "description": "where it runs: a machine of your settings, `any`, or labels: {arch: arm64}",
    },
    "artifacts": {
        "type": "object",
        "additionalProperties": TEXT,
        "description": "files that outlive the workspace, by name: {report: out/report.html}",
    },
    "repeat": {
        "type": "object",
        "properties": {
            "until": {"type": ["string", "boolean"], "description": "checks, success, or an expression over `output`"},
            "most": {"type": "integer", "minimum": 1, "maximum": MOST_ROUNDS},
            "delay": {**TIME, "description": "wait between two rounds"},
        },
        "additionalProperties": False,
    },
    "select": {"enum": list(get_args(Select)), "description": "how the best of a race is found"},
    "scorers": {**TEXTS, "description": "plug-ins by name, or commands that print a number; more is better"},
    "judge": {**TEXT, "description": "an agent that compares what is proven, without knowing whose it is"},
    "reduce": {
        "enum": list(get_args(Reducer)),
        "description": "how the outputs of its items or of a race become one",
    },
    "scope": {"type": "object", "description": "as [scope] in corral.toml; it may only narrow"},
    "default": {"enum": ["yes", "no"]},
    "deadline": TIME,
}


def schema() -> dict[str, Any]:
    """Return the schema of a flow file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A Corral flow",
        "type": "object",
        "required": ["nodes"],
        "additionalProperties": False,
        "properties": {name: _top(name) for name in TOP},
    }


def _top(name: str) -> dict[str, Any]:
    match name:
        case "nodes":
            return {"type": "object", "minProperties": 1, "additionalProperties": {"oneOf": [*map(_node, KINDS)]}}
        case "defaults":
            return _table((*WORKING, "deadline"))
        case "inputs":
            fields = {"default": {}, "description": TEXT}
            inner = {"type": ["object", "null"], "properties": fields, "additionalProperties": False}
            return {"type": "object", "additionalProperties": inner}
        case "budget":
            return MONEY
        case "on_failure":
            return {"enum": list(get_args(OnFailure))}
        case "context":
            return {**TEXT, "description": "text before the prompt of every agent; may name inputs"}
        case "parallel":
            return {"type": "integer", "minimum": 1}
        case _:
            return TEXT


def _node(kind: str) -> dict[str, Any]:
    return {**_table((kind, *COMMON, *OWN[kind])), "required": [kind]}


def _table(names: tuple[str, ...]) -> dict[str, Any]:
    return {"type": "object", "properties": {name: KEYS.get(name, {}) for name in names}, "additionalProperties": False}
