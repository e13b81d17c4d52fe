"""What an agent reaches: its own provider and what was named; all else is refused, and told."""

import json
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.rig.command import Corral, Outcome
from tests.rig.person import Person
from tests.rig.proxies import Upstream, answering
from tests.rig.repository import Repo

CURL = "curl -sS -m 5"
TOUCH = "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 3)' 2>/dev/null && echo reached"


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo()


@pytest.fixture
def server() -> Generator[Upstream]:
    with Upstream(answering(b"hello\n")) as served:
        yield served


def asks(corral: Corral, repo: Repo, script: str, *arguments: str) -> Outcome:
    """Run an agent that does something with the network, and always leaves work."""
    if not (corral.config_file.exists() and "[agents.mine]" in corral.config_file.read_text()):
        corral.agent("mine", 'sh -c "$1" 2>&1; echo x > x')
    outcome = corral.run(repo, script, "--agent", "mine", "--retries", "0", *arguments)
    assert outcome.code == 0, outcome
    return outcome


def refused_hosts(outcome: Outcome) -> list[str]:
    return [each["path"] for each in outcome.attempt["sandbox"]["violations"] if each["kind"] == "net"]


# --- by default


def test_a_server_of_this_machine_is_not_reached(corral: Corral, repo: Repo, server: Upstream) -> None:
    outcome = asks(corral, repo, f"{TOUCH.format(port=server.port)}; {CURL} --noproxy '*' {server.url}")
    assert "reached" not in outcome.attempt["output"]
    assert "hello" not in outcome.attempt["output"]
    assert server.came == 0


def test_nor_by_the_proxy(corral: Corral, repo: Repo, server: Upstream) -> None:
    outcome = asks(corral, repo, f"{CURL} --noproxy '' {server.url}; {CURL} -p --noproxy '' {server.url}")
    assert "hello" not in outcome.attempt["output"]
    assert server.came == 0
    assert refused_hosts(outcome) == [f"127.0.0.1:{server.port}"]
    told = [event for event in corral.events() if event["type"] == "reached"]
    assert told
    assert not any(event["allowed"] for event in told)


@contextmanager
def datagrams() -> Generator[tuple[int, list[bytes]]]:
    """Listen for datagrams on this machine's loopback."""
    got: list[bytes] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as heard:
        heard.bind(("127.0.0.1", 0))

        def hear() -> None:
            while (data := heard.recv(4096)) != b"over":
                got.append(data)

        thread = threading.Thread(target=hear, daemon=True)
        thread.start()
        yield heard.getsockname()[1], got
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ends:
            ends.sendto(b"over", heard.getsockname())
        thread.join(120)


def test_datagrams_and_names_lead_nowhere(corral: Corral, repo: Repo) -> None:
    with datagrams() as (port, got):
        send = f"import socket; socket.socket(2, 2).sendto(b'x', ('127.0.0.1', {port}))"
        name = "import socket; print('found', socket.getaddrinfo('example.org', 80))"
        outcome = asks(corral, repo, f'python3 -c "{send}"; python3 -c "{name}"; getent ahosts example.org')
    assert got == []
    assert "found" not in outcome.attempt["output"]
    assert "STREAM" not in outcome.attempt["output"]


def test_sockets_by_name_are_not_shared(corral: Corral, repo: Repo) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0corral-test-{corral.root.name}")
        listener.listen()
        listener.settimeout(0)
        dial = f"import socket; socket.socket(1).connect('\\0corral-test-{corral.root.name}'); print('reached')"
        outcome = asks(corral, repo, f'python3 -c "{dial}"')
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert "reached" not in outcome.attempt["output"].split()


# --- as named


def test_exactly_the_named_port_is_reached(corral: Corral, repo: Repo, server: Upstream) -> None:
    with Upstream(answering(b"other\n")) as other:
        script = f"{CURL} {server.url}; {CURL} {other.url}; {CURL} --noproxy '' {server.url} {other.url}"
        outcome = asks(corral, repo, script, "--net", f"127.0.0.1:{server.port}")
        assert other.came == 0
    assert outcome.attempt["output"].count("hello") == 2
    assert "other" not in outcome.attempt["output"]
    assert refused_hosts(outcome) == [f"127.0.0.1:{other.port}"]


def test_a_name_of_this_machine_is_reached_if_named(corral: Corral, repo: Repo, server: Upstream) -> None:
    word = f"localhost:{server.port}"
    outcome = asks(corral, repo, f"{CURL} --noproxy '' http://{word}/; {CURL} http://{word}/", "--net", word)
    assert outcome.attempt["output"].count("hello") == 2
    told = [(event["host"], event["allowed"]) for event in corral.events() if event["type"] == "reached"]
    assert told == [("localhost", True)]


def test_a_port_that_only_root_may_listen_on_can_be_named(corral: Corral, repo: Repo) -> None:
    outcome = asks(corral, repo, f"{CURL} --noproxy '' http://localhost:81/", "--net", "localhost:81")
    assert refused_hosts(outcome) == []


def test_a_name_that_leads_to_this_machine_is_refused(corral: Corral, repo: Repo, server: Upstream) -> None:
    host = socket.gethostname()
    words = f"{host}:{server.port}"
    outcome = asks(corral, repo, f"{CURL} http://{words}/", "--net", words)
    assert server.came == 0
    assert "hello" not in outcome.attempt["output"]


@pytest.mark.parametrize(
    "url", ["http://127.1:{port}/", "http://0x7f000001:{port}/", "http://[::ffff:127.0.0.1]:{port}/"]
)
def test_other_ways_to_write_an_address_open_nothing(corral: Corral, repo: Repo, server: Upstream, url: str) -> None:
    where = url.format(port=server.port)
    host = where.removeprefix("http://").rstrip("/")
    connect = f"printf 'CONNECT {host} HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n' | timeout 3 nc 127.0.0.1 8118"
    asks(
        corral,
        repo,
        f"{CURL} --noproxy '' '{where}'; {CURL} -p --noproxy '' '{where}'; {connect}",
        "--net",
        "example.org",
    )
    assert server.came == 0


def test_on_reaches_everything_and_says_so(corral: Corral, repo: Repo, server: Upstream) -> None:
    outcome = asks(corral, repo, f"{CURL} {server.url}", "--net", "on")
    assert "hello" in outcome.attempt["output"]
    notes = [event["text"] for event in corral.events() if event["type"] == "noted"]
    assert any("every host" in note for note in notes), notes
    assert outcome.attempt["sandbox"]["net"] == "open"
    assert "open network" in corral("show", "@last").out
    assert repo.receipt(outcome.attempt["commit"])["sandbox"]["net"] == "open"


def test_a_repository_adds_no_host(corral: Corral, server: Upstream) -> None:
    word = f"127.0.0.1:{server.port}"
    repo = corral.repo(files={"corral.toml": f'[scope]\nnet = ["{word}"]\n', "a.txt": "one\n"})
    asks(corral, repo, f"{CURL} {server.url}; {CURL} --noproxy '' {server.url}")
    assert server.came == 0
    on = corral.repo("on", files={"corral.toml": '[scope]\nnet = "on"\n', "a.txt": "one\n"})
    asks(corral, on, f"{CURL} {server.url}")
    assert server.came == 0


def test_a_repository_takes_hosts_away(corral: Corral, server: Upstream) -> None:
    word = f"127.0.0.1:{server.port}"
    corral.config(f'[scope]\nnet = ["{word}"]')
    asks(corral, corral.repo("free"), f"{CURL} {server.url}")
    assert server.came == 1
    asks(corral, corral.repo("held", files={"corral.toml": '[scope]\nnet = "off"\n'}), f"{CURL} {server.url}")
    assert server.came == 1


# --- checks and setup


def test_a_check_reaches_what_the_scope_names_and_nothing_else(corral: Corral, repo: Repo, server: Upstream) -> None:
    corral.agent("mine", "echo x > x")
    words = ("--agent", "mine", "--retries", "0", "--check", f"{CURL} {server.url}")
    held = corral.run(repo, "t", *words)
    assert held.attempt["error"]["class"] == "check_failed"
    assert server.came == 0
    assert corral.run(repo, "t", *words, "--net", f"127.0.0.1:{server.port}").code == 0


def test_setup_has_a_list_of_its_own(corral: Corral, repo: Repo, server: Upstream) -> None:
    corral.config(f'[workspace]\nsetup = "{CURL} {server.url} > made"\nsetup_net = ["127.0.0.1:{server.port}"]')
    outcome = asks(corral, repo, f"cat made; rm made; {CURL} {server.url}")
    assert outcome.attempt["output"].count("hello") == 1
    assert server.came == 1


def test_setup_reaches_nothing_unless_named(corral: Corral, repo: Repo, server: Upstream) -> None:
    corral.config(f'[workspace]\nsetup = "{CURL} {server.url}"')
    corral.agent("mine", "echo x > x")
    outcome = corral.run(repo, "t", "--agent", "mine", "--retries", "0", "--net", f"127.0.0.1:{server.port}")
    assert outcome.code == 1
    assert "setup" in outcome.attempt["error"]["message"]
    assert server.came == 0


@pytest.mark.parametrize("where", ["check", "setup"])
def test_no_provider_answers_there(corral: Corral, repo: Repo, server: Upstream, where: str) -> None:
    corral.env["ANTHROPIC_API_KEY"] = "sk-test-0123456789"
    corral.env["ANTHROPIC_BASE_URL"] = server.url
    look = f'! {CURL} http://127.0.0.1:8119/v1/messages && test -z \\"$ANTHROPIC_API_KEY\\"'
    corral.agent("mine", "echo x > x")
    if where == "setup":
        corral.config(f'[workspace]\nsetup = "{look}"')
    outcome = corral.run(repo, "t", "--agent", "mine", "--retries", "0", "--check", look.replace("\\", ""))
    assert outcome.code == 0, outcome
    assert server.came == 0


# --- an ordinary user


@pytest.mark.slow
def test_an_ordinary_user_is_connected_alike(person: Person, server: Upstream) -> None:
    with Upstream(answering(b"other\n")) as other:
        script = f"{CURL} {server.url}; {CURL} {other.url}; {CURL} --noproxy '' {other.url}"
        outcome = asks(person, person.repo(), script, "--net", f"127.0.0.1:{server.port}")
        assert other.came == 0
    assert outcome.attempt["output"].count("hello") == 1
    assert refused_hosts(outcome) == [f"127.0.0.1:{other.port}"]
    assert Path(person.home).exists()


# --- a failure of our own making


ACP = """\
import json, socket, sys
proxy = socket.create_connection(("127.0.0.1", 8118))
proxy.sendall(b"CONNECT api.mistral.example:443 HTTP/1.1\\r\\n\\r\\n")
status = proxy.recv(4096).decode().split("\\r\\n")[0].partition(" ")[2]
for line in sys.stdin:
    asked = json.loads(line)
    answer = {"result": {"protocolVersion": 1}}
    if asked["method"] == "session/new":
        answer = {"error": {"code": -32000, "message": status}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""


@pytest.mark.parametrize("kind", ["command", "acp"])
def test_an_attempt_that_fails_for_a_refusal_of_ours_is_denied(corral: Corral, repo: Repo, kind: str) -> None:
    if kind == "acp":
        corral.config(f'[agents.mine]\noutput = "acp"\ncommand = ["python3", "-c", {json.dumps(ACP)}]\n')
    else:
        corral.agent("mine", f"{CURL} https://api.mistral.example")
    outcome = corral.run(repo, "x", "--agent", "mine")
    (attempt,) = outcome.json["nodes"][0]["attempts"]  # the same again would end the same
    assert attempt["error"]["class"] == "denied", attempt["error"]
    assert "api.mistral.example" in attempt["error"]["message"]
    assert "--net api.mistral.example" in attempt["error"]["hint"]
