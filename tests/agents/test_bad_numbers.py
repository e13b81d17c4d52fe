"""Numbers that no agent can mean, in every reader: limited or unknown, and the answer is still read."""

import json
import math
import re

import pytest

from corral import agents
from corral.model import ENCODER, Tokens
from corral.model.agent_api import AgentProfile, End, HangUp, Leave, Line
from corral.model.events import DECODER, ContextUsed, Ended, Event, Said, Spent, Started
from corral.model.values import MOST_TOKENS, MOST_USD
from tests.agents.reading import RECORDED, RECORDINGS, TASK, recorded, recording

BAD = [
    "1e30",
    "1e300",
    "1e400",
    "-1e400",
    str(10**20),
    str(-(10**20)),
    "9" * 400,
    "-" + "9" * 400,
    "9" * 5000,
    "-5",
    "-0.5",
    "NaN",
    "Infinity",
    "-Infinity",
    '"99999999999999999999"',
    '"nan"',
    '"many"',
    '"' + "9" * 5000 + '"',
    "true",
    "null",
    "[1]",
    '{"a": 1}',
]
#: Names under which the agents report tokens and money.
NAMES = (
    r"input_tokens|output_tokens|cache_read_input_tokens|cache_creation_input_tokens|total_cost_usd|cached_input_tokens"
    r"|cached|input|output|reasoning|read|write|cost|total|cacheRead|cacheWrite|inputTokens|outputTokens"
    r"|cachedReadTokens|cachedWriteTokens|amount|used|size|usd|utilization|resetsAt|progress"
)
REPORTED = re.compile(rf'("(?:{NAMES})"\s*:\s*)-?\d[\d.eE+-]*')
OWN = [
    '{"type":"started","session":"s"}',
    '{"type":"filled","tokens":5,"window":100}',
    '{"type":"spent","usd":0.1,"tokens":{"input":1,"output":2,"cache_read":3,"cache_write":4}}',
    '{"type":"ended","ok":true,"text":"done"}',
]
COMMANDS = {
    "json": AgentProfile(command=("x",), output="json", result="answer", cost="cost", tokens="used"),
    "jsonl": AgentProfile(command=("x",), output="jsonl", result="answer", cost="cost", tokens="tokens"),
    "as claude": AgentProfile(command=("x",), output="claude"),
}
TOLD = {
    "json": ['{"answer": "done", "cost": 0.5, "used": {"input": 5, "output": 6}}'],
    "jsonl": ['{"tokens": {"input": 5, "cache_read": 6}}', '{"cost": 0.5, "answer": "done"}'],
}


def sources() -> list[tuple[str, AgentProfile, list[str]]]:
    """Return each agent with the lines that a good attempt of it printed."""
    found = {path.stem: recorded(path.stem) for path in sorted(RECORDED.iterdir())}
    for path in sorted(RECORDINGS.iterdir()):
        found.setdefault(path.stem, recording(path.stem))
    for name in ("scripted", "openai", "anthropic", "google", "ollama"):
        found[name] = OWN
    phases = [("planning", 5), ("coding", 40.5), ("complete", 100)]
    found["auto-claude"] = [f'__EXEC_PHASE__:{{"phase":"{name}","message":"m","progress":{at}}}' for name, at in phases]
    known = [(name.replace("acp-", "acp:"), AgentProfile(model="m"), lines) for name, lines in found.items()]
    return [*known, *((name, profile, TOLD.get(name, found["claude"])) for name, profile in COMMANDS.items())]


SOURCES = sources()


def heard(name: str, profile: AgentProfile, lines: list[str]) -> list[Event]:
    conversation = agents.find(name, {name: profile}).converse(TASK)
    told = [each for line in lines for each in conversation.read(line)]
    events: list[Event] = [each for each in told if not isinstance(each, Line | HangUp | Leave)]
    return [*events, *conversation.exited(End(0, "", {}))]


def assert_limited(events: list[Event]) -> None:
    for event in events:
        assert DECODER.decode(ENCODER.encode(event)) == event
        if isinstance(event, Spent):
            tokens = event.tokens
            assert all(
                0 <= each <= MOST_TOKENS
                for each in (tokens.input, tokens.output, tokens.cache_read, tokens.cache_write)
            )
            assert event.usd is None or (math.isfinite(event.usd) and 0 <= event.usd <= MOST_USD)
        if isinstance(event, ContextUsed):
            assert 0 < event.tokens <= MOST_TOKENS


COMPLETE = b'{"phases": [{"subtasks": [{"status": "completed"}]}], "qa_signoff": {"status": "approved"}}'


def last_word(events: list[Event]) -> tuple[bool, str] | None:
    return next(((each.ok, each.text) for each in reversed(events) if isinstance(each, Ended)), None)


@pytest.mark.parametrize(("name", "profile", "lines"), SOURCES, ids=[name for name, _, _ in SOURCES])
def test_bad_numbers_are_limited_or_unknown_and_the_answer_is_read(
    name: str, profile: AgentProfile, lines: list[str]
) -> None:
    good = last_word(heard(name, profile, lines))
    for bad in BAD:
        changed = [REPORTED.sub(lambda found, bad=bad: found[1] + bad, line) for line in lines]
        events = heard(name, profile, changed)
        assert_limited(events)
        if name in ("scripted", "openai", "anthropic", "google", "ollama"):
            continue  # programs of our own print whole events: one with a bad number is left unread
        assert last_word(events) == good, bad


@pytest.mark.parametrize(("name", "profile", "lines"), SOURCES, ids=[name for name, _, _ in SOURCES])
def test_the_first_bad_number_of_a_sum_does_not_grow_with_more_of_them(
    name: str, profile: AgentProfile, lines: list[str]
) -> None:
    changed = [REPORTED.sub(rf"\g<1>{10**20}", line) for line in lines]
    assert_limited(heard(name, profile, [*changed[:-1], *(changed[-1:] * 3)]))
    assert sum([Tokens(MOST_TOKENS, MOST_TOKENS)] * 2000, Tokens()) == Tokens(MOST_TOKENS, MOST_TOKENS)


@pytest.mark.parametrize("depth", [50, 900, 3000])
@pytest.mark.parametrize(("name", "profile", "lines"), SOURCES, ids=[name for name, _, _ in SOURCES])
def test_deep_json_is_no_error(name: str, profile: AgentProfile, lines: list[str], depth: int) -> None:
    deep = "[" * depth + "]" * depth
    tables = '{"a":' * depth + "1" + "}" * depth
    kinds = [f'{{"type": "ended", "ok": true, "output": {deep}}}', deep, tables]
    kinds += [re.sub(r'("(?:usage|cost|tokens|answer|result|content|input|params)"\s*:\s*)(?=[\d"{\[])', rf"\g<1>{tables}, \g<0>",
                     line, count=1) for line in lines[-3:]]  # fmt: skip
    for line in kinds:
        assert_limited(heard(name, profile, [line]))
        assert_limited(heard(name, profile, [*lines[:2], line]))


@pytest.mark.parametrize(
    "line",
    [
        "Tokens: 99999999999999999999999999M sent, 5k received. Cost: $0.01 message, $0.02 session.",
        f"Tokens: {'9' * 500} sent, {'9' * 500}k received. Cost: $0.01 message, ${'9' * 500} session.",
        "Tokens: 1..,2k sent, 9k cache hit, 5k received. Cost: $1.2.3 message, $1.2.3 session.",
        "Tokens: 1k sent, 9k cache hit, 5k received. Cost: $.. message, $. session.",
    ],
)
def test_aider(line: str) -> None:
    events = heard("aider", AgentProfile(), [line, line])
    assert any(isinstance(event, Spent) for event in events)
    assert_limited(events)


@pytest.mark.parametrize("bad", [*BAD, "100.5", "101"])
def test_auto_claude_reports_no_share_that_there_cannot_be(bad: str) -> None:
    """Its phase is read all the same: its message is the last word of a plan that is complete."""
    conversation = agents.find("auto-claude", {"auto-claude": AgentProfile()}).converse(TASK)
    spec, *_ = (each.session for each in conversation.read("Planning") if isinstance(each, Started))
    for good, words in (("0", "0 %"), ("40.4", "40 %"), ("100", "100 %")):
        line = f'__EXEC_PHASE__:{{"phase":"coding","message":"built","progress":{good}}}'
        assert conversation.read(line) == [Said(f"coding: built, {words}")]
    line = f'__EXEC_PHASE__:{{"phase":"coding","message":"built it","progress":{bad}}}'
    assert conversation.read(line) == [Said("coding: built it")]
    plan = {f".auto-claude/specs/{spec}/implementation_plan.json": COMPLETE}
    assert list(conversation.exited(End(0, "", plan))) == [Ended(ok=True, text="built it")]


@pytest.mark.parametrize("bad", [*BAD, "1,000", "12.5"])
def test_a_pattern_finds_what_is_no_number(bad: str) -> None:
    profile = AgentProfile(command=("x",), output="regex", cost=r"cost (\S+)", tokens=r"tokens (\S+)")
    assert_limited(heard("x", profile, [f"cost {bad}", f"tokens {bad}", "done"]))


def test_plain_numbers_are_read_as_they_are() -> None:
    profile = AgentProfile(command=("x",), output="json", result="a", cost="c", tokens="t")
    line = json.dumps({"a": "done", "c": "0.25", "t": {"input_tokens": "7", "output": 8.0}})
    assert [each for each in heard("x", profile, [line]) if isinstance(each, Spent)] == [Spent(Tokens(7, 8), 0.25)]
