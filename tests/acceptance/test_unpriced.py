"""Requests to a provider that the meter cannot price are counted and bounded; others than an agent needs do not pass."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rig.command import Corral, Outcome
from tests.rig.proxies import Upstream, answering
from tests.rig.repository import Repo

REAL = "sk-real-0123456789abcdef"
STREAM = "200 OK\r\nContent-Type: text/event-stream"
NO_USAGE = b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"text":"x"}}\n\n'
UNPRICED_MODEL = b'{"type":"message","model":"no-such-model","usage":{"input_tokens":5,"output_tokens":5}}'
#: What an agent is that knows how to spend: asks as often as its task says, then reports that all cost nothing.
AGENT = """\
#!/bin/sh
[ "$1" = --version ] && echo 9.9.9 && exit
read -r prompt; count=$(echo "$prompt" | grep -o 'ask [0-9]*' | head -1 | cut -d' ' -f2)
[ "$count" ] || exit 3
for each in $(seq "$count"); do
  curl -sS -m 20 -H "x-api-key: $ANTHROPIC_API_KEY" -d '{}' "$ANTHROPIC_BASE_URL/v1/messages" >> answers.txt
done
if echo "$prompt" | grep -q files; then
  curl -sS -m 20 -H "x-api-key: $ANTHROPIC_API_KEY" "$ANTHROPIC_BASE_URL/v1/files" >> answers.txt
fi
echo '{"type":"result","subtype":"success","result":"done","session_id":"s"}'
"""


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo()


def spends(corral: Corral, repo: Repo, url: str, budget: str, *arguments: str) -> Outcome:
    program = Path(corral.root) / "claude"
    program.write_text(AGENT)
    program.chmod(0o755)
    agent = f'[agents.claude]\nprogram = "{program}"\nsettings = {{ ANTHROPIC_BASE_URL = "{url}" }}\ntry_key = false\n'
    corral.config(f"{agent}[budget]\n{budget}\n")
    corral.env["ANTHROPIC_API_KEY"] = REAL
    return corral.run(repo, *arguments, "--agent", "claude", "--retries", "0")


@pytest.mark.parametrize(
    ("answer", "budget", "arguments"),
    [
        (answering(NO_USAGE, head=STREAM), "max_unpriced_requests = 3", ()),
        (answering(UNPRICED_MODEL), "per_day_usd = 1000\nmax_unpriced_requests = 3", ("--budget", "1000")),
    ],
)
def test_an_attempt_stops_at_its_unpriced_requests(
    corral: Corral, repo: Repo, answer: Callable[..., None], budget: str, arguments: tuple[str, ...]
) -> None:
    with Upstream(answer) as server:
        outcome = spends(corral, repo, server.url, budget, "ask 40 times", *arguments)
    assert server.came == 3
    assert outcome.attempt["status"] == "over_budget"
    assert outcome.attempt["error"]["message"] == "it made 3 requests the meter cannot price; the limit is 3"
    assert "max_unpriced_requests" in outcome.attempt["error"]["hint"]
    assert outcome.attempt["cost"].get("usd") is None


def test_a_few_leave_the_cost_unknown_and_other_paths_do_not_pass(corral: Corral, repo: Repo) -> None:
    seen: list[bytes] = []
    with Upstream(answering(NO_USAGE, head=STREAM, seen=seen)) as server:
        outcome = spends(corral, repo, server.url, "per_run_usd = 1000", "ask 2 times, list files")
    assert outcome.attempt["status"] == "done"
    assert outcome.attempt["cost"].get("usd") is None
    assert [request.split(b" HTTP")[0] for request in seen] == [b"POST /v1/messages"] * 2
    (violation,) = outcome.attempt["sandbox"]["violations"]
    assert violation["path"] == f"GET 127.0.0.1:{server.port}/v1/files"
    (refused,) = [event for event in corral.events() if event["type"] == "reached" and not event.get("allowed")]
    assert '[agents.claude] paths = ["GET /v1/files"]' in refused["reason"]
    assert "does not pass with the key" in repo.read(outcome.attempt["commit"], "answers.txt")


def test_settings_let_more_pass(corral: Corral, repo: Repo) -> None:
    with Upstream(answering(b'{"data":[]}')) as server:
        program = Path(corral.root) / "claude"
        program.write_text(AGENT)
        program.chmod(0o755)
        settings = f'settings = {{ ANTHROPIC_BASE_URL = "{server.url}" }}\ntry_key = false\npaths = ["GET /v1/files"]'
        corral.config(f'[agents.claude]\nprogram = "{program}"\n{settings}\n')
        corral.env["ANTHROPIC_API_KEY"] = REAL
        outcome = corral.run(repo, "ask 0 times, list files", "--agent", "claude")
    assert server.came == 1
    assert outcome.attempt["sandbox"].get("violations", []) == []


@pytest.mark.parametrize(
    "line",
    [
        '[agents.claude]\npaths = ["/v1/files"]',
        '[agents.claude]\npaths = ["FETCH /v1/files"]',
        '[agents.claude]\npaths = ["GET v1/files"]',
        '[agents.claude]\npaths = ["GET /v1/files?x=1"]',
        '[agents.claude]\npaths = "GET /v1/files"',
        "[budget]\nmax_unpriced_requests = 0",
        "[budget]\nmax_unpriced_requests = -5",
        "[budget]\nmax_unpriced_requests = 1.5",
        '[budget]\nmax_unpriced_requests = "many"',
        "[budget]\nmax_unpriced_requests = true",
    ],
)
def test_bad_settings_are_refused(corral: Corral, line: str) -> None:
    corral.config(line + "\n")
    outcome = corral("agents")
    assert outcome.code == 2
    assert line.partition("\n")[2].partition(" ")[0] in outcome.err
