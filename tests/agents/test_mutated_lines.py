"""100,000 lines of real agents, damaged in every way: no reader raises, and what it tells can be stored."""

import json
import random
from typing import Any

import pytest

from corral import agents
from corral.model import ENCODER
from corral.model.agent_api import AgentProfile, End, HangUp, Leave, Line
from corral.model.events import DECODER, Event
from tests.agents.reading import RECORDED, RECORDINGS, TASK, recorded, recording
from tests.rig.tries import tries

pytestmark = pytest.mark.slow  # left out of `make quick`

LINES = tries(100_000)
ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    2**70,
    1e308,
    "",
    "x" * 300,
    "\udcff",
    [],
    {},
    [[]],
    {"type": 1},
    "result",
    {"": None},
]
OWN = [
    {"type": "started", "session": "s"},
    {"type": "spent", "usd": 0.1, "tokens": {"input": 1, "output": 2}},
    {"type": "called_tool", "tool": "t", "input": "x", "call": "1"},
    {"type": "ended", "ok": False, "error": {"class": "auth", "message": "m"}},
]


def sources() -> dict[str, list[str]]:
    """Return by agent the lines that it is known to print."""
    found = {path.stem: recorded(path.stem) for path in sorted(RECORDED.iterdir())}
    for path in sorted(RECORDINGS.iterdir()):
        found[path.stem] = found.get(path.stem, []) + recording(path.stem)
    own = [json.dumps(line) for line in OWN] + ['__EXEC_PHASE__:{"phase":"coding","message":"x","progress":5}']
    return {**found, **dict.fromkeys(set(agents.BUILT_IN) - set(found), own)}


def mutated(line: str, dice: random.Random) -> str:
    """Damage a line: its bytes, or the structure behind it."""
    kind = dice.randrange(4)
    if kind == 0:
        data = bytearray(line.encode(errors="surrogateescape"))
        for _ in range(dice.randrange(1, 6)):
            place = dice.randrange(len(data) + 1)
            data[place : place + dice.randrange(3)] = dice.randbytes(dice.randrange(3))
        return data.decode(errors="replace")
    if kind == 1:
        start = dice.randrange(len(line) + 1)
        return line[:start] + line[start + dice.randrange(60) :] if dice.random() < 0.5 else line[:start]
    try:
        value = json.loads(line)
    except ValueError:
        return line * dice.randrange(3)
    return json.dumps(_changed(value, dice))


def _changed(value: Any, dice: random.Random) -> Any:
    """Put something else somewhere into a value."""
    if dice.random() < 0.25 or not value or not isinstance(value, dict | list):
        return dice.choice(ODD)
    if isinstance(value, dict):
        key = dice.choice(list(value))
        if dice.random() < 0.2:
            return {name: each for name, each in value.items() if name != key}
        return {**value, key: _changed(value[key], dice)}
    place = dice.randrange(len(value))
    return [*value[:place], _changed(value[place], dice), *value[place + 1 :]]


def test_no_reader_raises_whatever_becomes_of_real_lines() -> None:
    dice = random.Random(20260)
    known = sources()
    assert set(known) >= set(agents.BUILT_IN)
    read = 0
    while read < LINES:
        for name, lines in known.items():
            name = name.replace("acp-", "acp:")  # noqa: PLW2901 -- as its file is called
            agent = agents.find(name, {name: AgentProfile(model="m")})
            conversation = agent.converse(TASK)
            events: list[Event] = []
            for line in dice.choices(lines, k=40):
                heard = conversation.read(mutated(line, dice) if dice.random() < 0.9 else line)
                events += [each for each in heard if not isinstance(each, Line | HangUp | Leave)]
                read += 1
            stderr = mutated(dice.choice(lines), dice)
            events += conversation.exited(End(dice.randrange(-15, 256), stderr, {}))
            for event in events:
                encoded = ENCODER.encode(event)
                assert ENCODER.encode(DECODER.decode(encoded)) == encoded
