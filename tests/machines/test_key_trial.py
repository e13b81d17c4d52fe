"""Keys that are tried before anything starts: which, how often, and what an answer means."""

import asyncio
import http.server
from collections.abc import Generator
from pathlib import Path

import pytest

from corral.config.settings import Config
from corral.machines import key_trial
from corral.machines.resolved_agent import resolve_agent
from corral.model.agent_api import AgentProfile
from corral.model.errors import BadRequest
from tests.rig.receiver import LoopbackServer

REAL = "sk-real-0123456789abcdef"


class Provider(LoopbackServer, http.server.ThreadingHTTPServer):
    """A provider that lists its models to who has a key that it knows."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Models)
        self.status, self.body = 200, b'{"data": []}'
        self.got: list[tuple[str, dict[str, str]]] = []
        self.start()


class Models(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Provider)
        self.server.got.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        self.send_response(self.server.status)
        self.send_header("content-length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- its name there
        pass


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Generator[Provider]:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with Provider() as served:
        yield served


def settings(agent: str, address: str, url: str, key: str, *, value: str = REAL, try_key: bool = True) -> Config:
    return Config(agents={agent: AgentProfile(settings={address: url, key: value}, try_key=try_key)})


def check(state: Path, agent: str, config: Config, *, anew: bool = False) -> None:
    asyncio.run(key_trial.check((resolve_agent(agent, config),), state, anew=anew))


@pytest.mark.parametrize(
    ("agent", "address", "below", "variable", "asked", "field", "said"),
    [
        ("anthropic", "ANTHROPIC_BASE_URL", "", "ANTHROPIC_API_KEY", "/v1/models?limit=1", "x-api-key", REAL),
        ("claude", "ANTHROPIC_BASE_URL", "", "ANTHROPIC_AUTH_TOKEN", "/v1/models?limit=1", "authorization", f"Bearer {REAL}"),
        ("openai", "OPENAI_BASE_URL", "/v1", "OPENAI_API_KEY", "/v1/models", "authorization", f"Bearer {REAL}"),
        ("google", "GOOGLE_GEMINI_BASE_URL", "", "GEMINI_API_KEY", "/v1beta/models?pageSize=1", "x-goog-api-key", REAL),
    ],
)  # fmt: skip
def test_a_good_key_is_tried_once(
    tmp_path: Path, provider: Provider, agent: str, address: str, below: str, variable: str, asked: str, field: str, said: str
) -> None:  # fmt: skip
    config = settings(agent, address, f"http://127.0.0.1:{provider.port}{below}", variable)
    check(tmp_path, agent, config)
    check(tmp_path, agent, config)
    ((path, fields),) = provider.got
    assert (path, fields[field]) == (asked, said)
    check(tmp_path, agent, config, anew=True)
    assert len(provider.got) == 2
    assert REAL not in (tmp_path / key_trial.FILE).read_text()
    assert (tmp_path / key_trial.FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("status", "body"), [(401, b"invalid x-api-key"), (400, b'{"reason": "API_KEY_INVALID"}')])
def test_a_refused_key_is_refused_each_time_in_one_line(
    tmp_path: Path, provider: Provider, status: int, body: bytes
) -> None:
    provider.status, provider.body = status, body
    url = f"http://127.0.0.1:{provider.port}"
    config = settings("anthropic", "ANTHROPIC_BASE_URL", url, "ANTHROPIC_API_KEY")
    for _ in range(2):
        with pytest.raises(BadRequest) as caught:
            check(tmp_path, "anthropic", config)
        assert str(caught.value) == f"{url} refuses the key of the agent `anthropic` in ANTHROPIC_API_KEY ({status})"
        assert REAL not in caught.value.hint
    assert len(provider.got) == 2
    provider.status = 200
    check(tmp_path, "anthropic", config)


@pytest.mark.parametrize(
    ("status", "body"),
    [(500, b""), (404, b""), (403, b""), (429, b""), (400, b"bad"), (401, b"Missing scopes: api.model.read")],
)
def test_what_says_nothing_of_the_key_is_left_to_the_agent(
    tmp_path: Path, provider: Provider, status: int, body: bytes
) -> None:
    provider.status, provider.body = status, body
    url = f"http://127.0.0.1:{provider.port}/v1"
    check(tmp_path, "openai", settings("openai", "OPENAI_BASE_URL", url, "OPENAI_API_KEY"))
    assert len(provider.got) == 1


def test_a_login_and_what_settings_exclude_are_never_tried(tmp_path: Path, provider: Provider) -> None:
    url = f"http://127.0.0.1:{provider.port}"
    provider.status = 401
    check(tmp_path, "claude", settings("claude", "ANTHROPIC_BASE_URL", url, "CLAUDE_CODE_OAUTH_TOKEN"))
    token = settings("claude", "ANTHROPIC_BASE_URL", url, "ANTHROPIC_AUTH_TOKEN", value="sk-ant-oat01-abc")
    check(tmp_path, "claude", token)
    check(tmp_path, "claude", settings("claude", "ANTHROPIC_BASE_URL", url, "ANTHROPIC_API_KEY", try_key=False))
    check(tmp_path, "ollama", settings("ollama", "OLLAMA_HOST", url, "OLLAMA_API_KEY"))
    assert provider.got == []


def test_nobody_at_the_address_is_left_to_the_agent(tmp_path: Path, provider: Provider) -> None:
    provider.server_close()
    url = f"http://127.0.0.1:{provider.port}/v1"
    check(tmp_path, "openai", settings("openai", "OPENAI_BASE_URL", url, "OPENAI_API_KEY"))
