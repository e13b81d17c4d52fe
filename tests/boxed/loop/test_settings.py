"""What the loop reads from its command line and its environment, and how it names what goes wrong."""

import pytest
from pydantic_ai import exceptions as raised

from corral.boxed.loop import session
from corral.boxed.loop.settings import LoopSettings, Unready, ollama_url, read

OPENAI = LoopSettings(provider="openai", model="gpt-5")


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://localhost:11434"),
        ("example.org", "http://example.org:11434"),
        ("example.org:80", "http://example.org:80"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        (":8080", "http://localhost:8080"),
        ("http://127.0.0.1:4000/", "http://127.0.0.1:4000"),
        ("https://ollama.example.org", "https://ollama.example.org:443"),
        ("https://example.org/below", "https://example.org:443/below"),
        ("[::1]", "http://[::1]:11434"),
        ("[::1]:5", "http://[::1]:5"),
    ],
)
def test_where_ollama_is(host: str, url: str) -> None:
    assert ollama_url(host) == url


def test_a_model_with_a_colon_stays_whole() -> None:
    settings = read(["--", "ollama", "qwen2.5-coder:32b"], {})
    assert settings.model == "qwen2.5-coder:32b"
    assert settings.base_url == "http://localhost:11434/v1"


def test_keys_addresses_and_limits() -> None:
    env = {"GOOGLE_API_KEY": "g", "CORRAL_LOOP_TURNS": "7", "CORRAL_LOOP_MODE": "text", "CORRAL_LOOP_MAX_TOKENS": "99"}
    settings = read(["--session", "s1", "--read-only", "--", "google", "m"], env)
    assert (settings.key, settings.turns, settings.mode, settings.most_tokens) == ("g", 7, "text", 99)
    assert (settings.session, settings.read_only) == ("s1", True)


def test_openai_itself_is_asked_by_its_newer_api_others_by_the_older() -> None:
    assert read(["openai", "m"], {"OPENAI_API_KEY": "k"}).responses
    assert not read(["openai", "m"], {"OPENAI_BASE_URL": "http://x/v1"}).responses
    assert not read(["openai", "m"], {"OPENAI_API_KEY": "k", "CORRAL_LOOP_API": "chat"}).responses


@pytest.mark.parametrize(
    ("provider", "env", "kind"),
    [
        ("openai", {}, "auth"),
        ("anthropic", {"ANTHROPIC_API_KEY": ""}, "auth"),
        ("ollama", {"CORRAL_LOOP_TURNS": "many"}, "crash"),
        ("ollama", {"CORRAL_LOOP_TURNS": "0"}, "crash"),
        ("ollama", {"CORRAL_LOOP_MODE": "x"}, "crash"),
    ],
)
def test_what_is_missing_or_wrong_is_told(provider: str, env: dict[str, str], kind: str) -> None:
    with pytest.raises(Unready) as told:
        read([provider, "m"], env)
    assert told.value.failure.kind == kind
    assert told.value.failure.hint


def refused(status: int, message: str) -> raised.ModelHTTPError:
    return raised.ModelHTTPError(status, "m", {"error": {"message": message}})


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (401, "no", "auth"),
        (403, "no", "auth"),
        (404, "no such model", "not_found"),
        (413, "large", "context_too_long"),
        (429, "slow", "rate_limit"),
        (500, "oops", "overloaded"),
        (400, "maximum context length is 4096", "context_too_long"),
        (400, "prompt is too long", "context_too_long"),
        (400, "bad field", "refused"),
    ],
)
def test_statuses_become_classes(status: int, message: str, kind: str) -> None:
    failure = session.provider_failure(refused(status, message), OPENAI)
    assert (failure.kind, failure.message) == (kind, message)


def test_trouble_on_the_way() -> None:
    lost = raised.ModelConnectionError("m", "Connection error.")
    assert session.provider_failure(lost, OPENAI).kind == "network"
    lost.__cause__ = OSError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed")
    assert session.provider_failure(lost, OPENAI).kind == "tls"
    assert session.provider_failure(raised.UnexpectedModelBehavior("odd"), OPENAI).kind == "bad_output"


def test_a_missing_model_of_ollama_is_one_command_away() -> None:
    settings = LoopSettings(provider="ollama", model="llama3.2")
    assert session.provider_failure(refused(404, "not found"), settings).hint == "ollama pull llama3.2"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("registry.ollama.ai/library/gemma:2b does not support tools", True),
        ("No endpoints found that support tool use", True),
        ('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', True),
        ("Function calling is not supported by this model", True),
        ("tools: unsupported parameter", True),
        ("the tool result is too large", False),
        ("model not found", False),
    ],
)
def test_endpoints_without_tools_are_known_by_their_words(message: str, expected: bool) -> None:
    assert session.has_no_tools(refused(400, message)) is expected
