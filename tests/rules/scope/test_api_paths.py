"""Which requests pass with the key, for each provider, and which of them may cost money."""

import pytest

from corral.rules.scope.hosts import APIS, api_paths

COSTS = {
    "ANTHROPIC_BASE_URL": ["POST /v1/messages", "POST /messages"],
    "OPENAI_BASE_URL": [
        "POST /chat/completions",
        "POST /v1/chat/completions",
        "POST /openai/v1/chat/completions",
        "POST /api/v1/chat/completions",
        "POST /responses",
        "POST /v1/responses",
        "POST /responses/compact",
        "POST /completions",
        "POST /embeddings",
    ],
    "GOOGLE_GEMINI_BASE_URL": [
        "POST /v1beta/models/gemini-2.5-pro:generateContent",
        "POST /v1beta/models/gemini-2.5-pro:streamGenerateContent",
        "POST /v1/projects/p-1/locations/us-central1/publishers/google/models/gemini-2.5-pro:generateContent",
        "POST /v1beta/openai/chat/completions",
    ],
    "OLLAMA_HOST": ["POST /api/chat", "POST /api/generate", "POST /v1/chat/completions"],
}
FREE = {
    "ANTHROPIC_BASE_URL": ["POST /v1/messages/count_tokens", "GET /v1/models", "GET /v1/models/claude-x", "HEAD /"],
    "OPENAI_BASE_URL": ["GET /models", "GET /v1/models", "GET /v1/models/openai/gpt-5", "POST /responses/input_tokens"],
    "GOOGLE_GEMINI_BASE_URL": ["POST /v1beta/models/gemini-2.5-pro:countTokens", "GET /v1beta/models"],
    "OLLAMA_HOST": ["POST /api/show", "GET /api/tags", "GET /api/ps", "GET /api/version", "GET /v1/models"],
}
REFUSED = [
    "GET /v1/files",
    "DELETE /v1/files/file-1",
    "POST /v1/files",
    "POST /v1/messages/batches",
    "GET /v1/messages/batches",
    "POST /v1/batches",
    "GET /v1/organizations/users",
    "POST /v1/organizations/api_keys/k",
    "POST /v1/fine_tuning/jobs",
    "DELETE /v1/models/ft:mine",
    "GET /v1/responses/resp_1",
    "DELETE /v1/responses/resp_1",
    "POST /v1beta/models/m:batchGenerateContent",
    "POST /v1beta/files",
    "POST /v1beta/cachedContents",
    "DELETE /api/delete",
    "POST /api/pull",
    "GET /v1/messages",
    "PUT /v1/messages",
    "POST /v1/messages/",
    "POST //v1/messages",
    "POST /v1/messages%2f..%2ffiles",
    "POST /v1/files/v1/messages",
    "POST /v1/MESSAGES",
    "OPTIONS /v1/messages",
]


@pytest.mark.parametrize("address", APIS)
def test_what_an_agent_needs_passes_and_no_more(address: str) -> None:
    paths = api_paths("x", address, ())
    for line in COSTS[address]:
        method, path = line.split()
        assert (paths.refusal(method, path), paths.costs(method, path)) == (None, True), line
    for line in FREE[address]:
        method, path = line.split()
        assert (paths.refusal(method, path), paths.costs(method, path)) == (None, False), line
    for line in REFUSED:
        method, path = line.split()
        assert paths.refusal(method, path), line


def test_one_provider_does_not_pass_what_another_needs() -> None:
    assert api_paths("x", "ANTHROPIC_BASE_URL", ()).refusal("POST", "/v1/responses")
    assert api_paths("x", "OPENAI_BASE_URL", ()).refusal("POST", "/v1/messages")


def test_settings_allow_more_and_what_they_allow_may_cost_money() -> None:
    paths = api_paths("mine", "OPENAI_BASE_URL", ("POST /v1/batches", "GET /v1/files/*", "POST /v1/a.b(c)"))
    assert paths.refusal("POST", "/v1/batches") is None
    assert paths.costs("POST", "/v1/batches")
    assert paths.refusal("GET", "/v1/files/f1") is None
    assert not paths.costs("GET", "/v1/files/f1")
    assert paths.refusal("POST", "/v1/a.b(c)") is None
    for method, path in (
        ("GET", "/v1/files"),
        ("GET", "/v1/files/f1/content"),
        ("GET", "/v1/batches"),
        ("POST", "/v1/axb(c)"),
    ):
        assert paths.refusal(method, path), path


def test_a_refusal_says_how_to_allow_it() -> None:
    words = api_paths("mine", "OPENAI_BASE_URL", ()).refusal("GET", "/v1/files")
    assert words == 'GET /v1/files does not pass with the key; to allow it: [agents.mine] paths = ["GET /v1/files"]'
    long = api_paths("mine", "OPENAI_BASE_URL", ()).refusal("GET", "/" + "x" * 60_000)
    assert long
    assert len(long) < 600


def test_an_agent_that_logs_in_passes_everything_and_what_is_free_stays_free() -> None:
    paths = api_paths("claude", "ANTHROPIC_BASE_URL", (), everything=True)
    for method, path, costs in (
        ("GET", "/v1/files", False),
        ("POST", "/v1/messages", True),
        ("POST", "/v1/messages/batches", True),
        ("POST", "/v1/messages/count_tokens", False),
        ("POST", "/api/event_logging/batch", False),
        ("POST", "/api/v1/chat/completions", True),
    ):
        assert (paths.refusal(method, path), paths.costs(method, path)) == (None, costs), path
