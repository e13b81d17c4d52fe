"""Whatever an agent prints, reading it never raises, and every event can be stored and read back."""

import json
from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corral import agents
from corral.agents.protocol import Conversation
from corral.model import ENCODER
from corral.model.agent_api import AgentProfile, AgentTask, End, HangUp, Leave, Line
from corral.model.events import DECODER, Event
from tests.agents.reading import TASK, recorded
from tests.agents.test_claude import RECORDED
from tests.rig.tries import tries

PROFILES = {
    "text": AgentProfile(command=("x",)),
    "json": AgentProfile(command=("x",), output="json", result="a.b", success="ok=yes", cost="c", tokens="t"),
    "jsonl": AgentProfile(command=("x",), output="jsonl", result="a.b", success="ok", cost="c", tokens="t"),
    "regex": AgentProfile(command=("x",), output="regex", result="r(.*)", cost=r"\$([\d.]+)", tokens=r"(\d+) tokens"),
    "as claude": AgentProfile(command=("x",), output="claude"),
}


PROGRAMS = ("scripted", "codex", "gemini", "opencode", "qwen", "copilot", "pi", "aider")
ACP = ("acp:gemini", "acp:claude", "acp:copilot", "acp:opencode")
PRINTED = [json.dumps(line) for line in RECORDED] + [line for name in PROGRAMS[1:] for line in recorded(name)]
SPOKEN = [line for name in ("acp-gemini", "acp-claude") for line in recorded(name)]
LINES = PRINTED + SPOKEN


def readers() -> list[Callable[[AgentTask], Conversation]]:
    found: list[Callable[[AgentTask], Conversation]] = [
        agents.find("x", {"x": profile}).converse for profile in PROFILES.values()
    ]
    found += [agents.find(name, {}).converse for name in (*PROGRAMS, "auto-claude", *ACP)]
    old = AgentProfile(settings={"OPENCODE_LEGACY": "1"})
    return [*found, agents.find("claude", {}).converse, agents.find("opencode", {"opencode": old}).converse]


def survives(lines: list[str], code: int, stderr: str) -> None:
    for reader in readers():
        conversation = reader(TASK)
        heard = [each for line in lines for each in conversation.read(line)]
        events: list[Event] = [each for each in heard if not isinstance(each, Line | HangUp | Leave)]
        events += conversation.exited(End(code, stderr))
        for event in events:
            assert DECODER.decode(ENCODER.encode(event)) == event


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "message", "content", "a", "b", "ok", "c", "t", "text", "usage", "error"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(st.text() | JSON.map(json.dumps), max_size=6), st.integers(-15, 255), st.text(max_size=200))
@settings(max_examples=tries(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_junk(lines: list[str], code: int, stderr: str) -> None:
    survives(lines, code, stderr)


@given(st.sampled_from(LINES), st.integers(0, 400), st.integers(0, 40), st.text(max_size=8))
@settings(max_examples=tries(200), deadline=None)
def test_recorded_lines_with_pieces_cut_out_or_put_in(line: str, place: int, gone: int, put: str) -> None:
    survives([line[:place] + put + line[place + gone :]], 0, "")


OPEN = [
    '{"id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}',
    '{"id":2,"result":{"sessionId":"s1"}}',
]


@given(st.sampled_from(SPOKEN), st.integers(0, 600), st.integers(0, 40), st.text(max_size=8))
@settings(max_examples=tries(200), deadline=None)
def test_acp_lines_with_pieces_cut_out_or_put_in_once_a_session_is_open(
    line: str, place: int, gone: int, put: str
) -> None:
    survives([*OPEN, line[:place] + put + line[place + gone :]], 0, "")


@given(st.sampled_from(SPOKEN), st.sampled_from(["update", "toolCall", "options", "stopReason", "usage"]), JSON)
@settings(max_examples=tries(200), deadline=None)
def test_acp_lines_with_fields_of_other_kinds_once_a_session_is_open(line: str, name: str, value: object) -> None:
    message = json.loads(line)
    inside = "params" if "params" in message else "result"
    message[inside] = {**message[inside], name: value}
    survives([*OPEN, json.dumps({**message, "id": 3} if inside == "result" else message)], 1, "")


FIELDS = [
    "type",
    "message",
    "usage",
    "result",
    "is_error",
    "subtype",
    "item",
    "part",
    "data",
    "stats",
    "error",
    "status",
    "id",
    "method",
    "params",
]


@given(st.sampled_from([line for line in LINES if line.startswith("{")]), st.sampled_from(FIELDS), JSON)
@settings(max_examples=tries(200), deadline=None)
def test_recorded_lines_with_fields_of_other_kinds(line: str, field: str, value: object) -> None:
    survives([json.dumps({**json.loads(line), field: value})], 1, "")
