"""aider: what the real program prints for people, its endings, its command."""

import pytest

from corral.model import Tokens
from corral.model.events import Changed, Ended, Said, Spent
from tests.agents.reading import kind, recorded, start, told


def test_a_whole_recorded_output() -> None:
    lines = recorded("aider")
    events = told("aider", lines)
    spoken = [line for line in lines if line.strip() and not line.startswith(("Tokens:", "Applied"))]
    assert [event for event in events if isinstance(event, Said)] == [Said(line) for line in spoken]
    assert [event for event in events if not isinstance(event, Said)] == [
        Spent(Tokens(1100, 20)),
        Changed("hello.txt"),
        Ended(ok=True, text="\n".join(spoken)),
    ]


@pytest.mark.parametrize(
    ("line", "spent"),
    [
        ("Tokens: 612 sent, 1,024 received.", Spent(Tokens(612, 1024))),
        ("Tokens: 2.5k sent, 12 received. Cost: $0.01 message, $0.03 session.", Spent(Tokens(2500, 12), 0.03)),
        (
            "Tokens: 9k sent, 4k cache hit, 1.2M received. Cost: $1 message, $2 session.",
            Spent(Tokens(5000, 1_200_000, 4000), 2.0),
        ),
    ],
)
def test_tokens_and_cost(line: str, spent: Spent) -> None:
    assert told("aider", [line])[0] == spent


def last(lines: list[str], code: int = 0) -> Ended:
    end = told("aider", lines, code)[-1]
    assert isinstance(end, Ended)
    return end


ANSWER = "Tokens: 1 sent, 1 received."


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["litellm.AuthenticationError: AuthenticationError: OpenAIException - no", "The API provider is not able to authenticate you."], "auth"),
        (["litellm.RateLimitError: no", "Retrying in 0.2 seconds..."], "rate_limit"),
        ([ANSWER, "litellm.InternalServerError: no"], "overloaded"),
        (["litellm.ContextWindowExceededError: no"], "context_too_long"),
        (["litellm.APIConnectionError: no"], "network"),
        (["usage: aider [options]"], "crash"),
        ([ANSWER, "The LLM did not conform to the edit format."], "bad_output"),
        ([], "crash"),
    ],
)  # fmt: skip
def test_it_ends_with_0_whatever_happened(lines: list[str], expected: str) -> None:
    assert kind(last(lines)) == expected


def test_after_an_error_it_may_go_on() -> None:
    assert last(["litellm.RateLimitError: no", ANSWER]).ok
    assert not last([ANSWER], code=1).ok


def test_the_command() -> None:
    command = start("aider", {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}, model="m")
    assert command.argv[command.argv.index("--model") + 1] == "openai/m"
    assert command.env["OPENAI_API_BASE"] == "http://127.0.0.1:1/v1"
    assert command.files[".aider/prompt.txt"] == b"do it"
    assert "/home/agent/.aider/prompt.txt" in command.argv
    assert "ask" in start("aider", read_only=True).argv
    assert "--no-suggest-shell-commands" in start("aider", boxed=False).argv
