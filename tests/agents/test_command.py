"""A command agent's own words for failures: its table maps them to the classes that retries go by."""

import time
from typing import Any

import pytest

from corral import agents
from corral.agents.protocol import Answers, Listens
from corral.config.loader import wrong_pattern
from corral.model.agent_api import AgentProfile, End
from corral.model.events import Ended, Limited
from tests.agents.reading import TASK

ERRORS = {"rate_limit": "429|rate limit", "network": r"connection \w+ by peer", "auth": "log ?in"}


def ended(
    lines: list[str], code: int, stderr: str = "", errors: dict[str, str] | None = None, **profile: Any
) -> list[Any]:
    found = AgentProfile(command=("x",), errors=ERRORS if errors is None else errors, **profile)
    conversation = agents.find("x", {"x": found}).converse(TASK)
    return [*(each for line in lines for each in conversation.read(line)), *conversation.exited(End(code, stderr))]


@pytest.mark.parametrize("output", ["text", "json", "jsonl", "regex", "claude", "acp"])
def test_a_failure_gets_the_class_of_its_words(output: Any) -> None:
    events = ended(["working"], 1, "warming up\nHTTP 429: Rate Limit reached\n", output=output)
    last = events[-1]
    assert isinstance(last, Ended)
    assert last.error is not None
    assert last.error.kind == "rate_limit"
    assert "Rate Limit reached" in last.error.message
    assert [each.message for each in events if isinstance(each, Limited)] == ["HTTP 429: Rate Limit reached"]


def test_its_stdout_counts_too_and_the_last_words_come_first() -> None:
    assert ended(["429", "connection reset by peer"], 1)[-1].error.kind == "network"
    assert ended(["connection reset by peer"], 1, "please login")[-1].error.kind == "auth"
    assert ended(["nothing known"], 1, "boom")[-1].error.kind == "crash"


@pytest.mark.parametrize("words", ["SLOW DOWN", "x" * 1000 + "\\nplease slow down"])
def test_an_ending_that_it_tells_itself_is_classed_by_its_words(words: str) -> None:
    said = '{"type":"assistant","message":{"content":[{"type":"text","text":"please log in"}]}}'
    result = (
        f'{{"type":"result","subtype":"error_during_execution","is_error":true,"result":"{words}","session_id":"s"}}'
    )
    errors = {"auth": "log in", "network": "slow down"}
    found = [each for each in ended([said, result], 1, output="claude", errors=errors) if isinstance(each, Ended)]
    assert found[0].error
    assert found[0].error.kind == "network"


def test_one_that_speaks_acp_is_classed_and_can_still_be_told_and_answered() -> None:
    profile = AgentProfile(command=("x",), output="acp", errors={"overloaded": "come back later"})
    conversation = agents.find("x", {"x": profile}).converse(TASK)
    assert isinstance(conversation, Listens)
    assert isinstance(conversation, Answers)
    refused = '{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Come back later"}}'
    (last,) = [each for each in conversation.read(refused) if isinstance(each, Ended)]
    assert last.error
    assert last.error.kind == "overloaded"


def test_one_that_ends_well_may_speak_of_limits() -> None:
    assert ended(["I fixed the handling of 429 and the rate limit"], 0)[-1].ok


def test_what_its_success_pattern_misses_is_classed_as_well() -> None:
    assert ended(["rate limit"], 0, success="^done$")[-1].error.kind == "rate_limit"


def test_a_hostile_line_takes_no_time() -> None:
    began = time.monotonic()
    lines = ["a" * 1_000_000] * 50
    ended(lines, 1, "\n".join(lines), errors={"network": "a.*a.*!"})
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    "errors",
    [
        {"ratelimit": "x"},
        {"budget": "x"},
        {"network": "("},
        {"network": ""},
        {"network": "x" * 501},
        {"network": "(a+)+b"},
        {"network": "(?:(x|y*)z)*!"},
        {"network": "(a*){40}"},
        {"network": ".*.*.*x"},
        {"network": "a?" * 30 + "a" * 30},
        {"network": "(?:a{1,1000}){1,1000}"},
        {"network": "(" * 600 + ")" * 600},
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused(errors: dict[str, str]) -> None:
    assert wrong_pattern(errors)


@pytest.mark.parametrize(
    "pattern", ["429|rate.?limit", "quota.*exceeded.*", r"\b5\d\d\b", "(a|b)c*", "x{3}", "(?i:TLS)"]
)
def test_plain_patterns_are_taken(pattern: str) -> None:
    assert wrong_pattern({"network": pattern}) is None
