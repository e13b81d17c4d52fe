"""Our own agent loop, in the box, against a scripted model in the wire format of every provider it speaks to."""

import shlex
import socket
import sys

import pytest

from corral.testing import Call, Script, ScriptedModel, Turn, Usage
from tests.rig.command import Corral
from tests.rig.levels import BOXED
from tests.rig.person import Person
from tests.rig.repository import Repo
from tests.rig.waiting import until

pytestmark = pytest.mark.slow  # left out of `make quick`

#: agent and model -> the setting that names the endpoint, what follows the address, where requests arrive
ENDPOINTS = {
    "ollama:qwen2.5-coder:32b": ("OLLAMA_HOST", "", "/chat/completions"),
    "openai:gpt-5": ("OPENAI_BASE_URL", "/v1", "/chat/completions"),
    "anthropic:claude-sonnet-4-5": ("ANTHROPIC_BASE_URL", "", "/messages"),
    "google:gemini-2.5-flash": ("GOOGLE_GEMINI_BASE_URL", "", ":streamGenerateContent"),
}
KEYS = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY", "google": "GEMINI_API_KEY"}
OPENAI = "openai:gpt-5"
#: Loading what speaks to a provider takes a second and a half of processor for each case.
ALSO = pytest.mark.night("the same with another provider, whose requests and answers are tried elsewhere")
#: By day the loop alone shows it, without a box: tests/boxed/loop/test_providers.py.
ALONE = pytest.mark.night("the loop alone shows it by day")
#: A new network has a loopback that is down: SIOCSIFFLAGS of `lo`, IFF_UP | IFF_RUNNING.
LOOPBACK_UP = 'import fcntl, socket, struct; fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh", b"lo", 0x41))'
#: By day ollama works in the middle of a kill, and google where the loop is alone.
BY_DAY = (OPENAI, "anthropic:claude-sonnet-4-5")
EVERY = pytest.mark.parametrize(
    "agent", [pytest.param(agent, marks=[] if agent in BY_DAY else [ALSO]) for agent in ENDPOINTS]
)


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo(files={"calc.py": "def add(a, b):\n    return a - b\n", "notes.md": "read me\n"})


def point(corral: Corral, agent: str, model: ScriptedModel, **settings: str) -> None:
    """Have an agent talk to the scripted model."""
    name = agent.partition(":")[0]
    variable, path, _ = ENDPOINTS[agent]
    given = {variable: f"{model.url}{path}", **settings}
    listed = ", ".join(f'{key} = "{value}"' for key, value in given.items())
    corral.config(f"[agents.{name}]\nsettings = {{ {listed} }}")
    if name in KEYS:
        corral.env[KEYS[name]] = "key-of-the-person"


def tools(corral: Corral) -> list[tuple[str, bool, str]]:
    """Return the tools that were called, whether each worked, and what it gave back."""
    events = corral.events()
    answers = {event["call"]: event for event in events if event["type"] == "tool_returned"}
    return [
        (event["tool"], answers[event["call"]].get("ok", True), answers[event["call"]].get("output", ""))
        for event in events
        if event["type"] == "called_tool"
    ]


WORKING = [
    Turn(text="I write it.", write={"path": "src/new.txt", "content": "made\n"}, usage=Usage(input=100, output=20)),
    Turn(sh="cat src/new.txt && echo run > ran.txt", usage=Usage(input=150, output=10, cache_read=30)),
    Turn(text="Both are done.", usage=Usage(input=200, output=5)),
]


@EVERY
def test_it_writes_a_file_and_runs_a_command(corral: Corral, repo: Repo, agent: str) -> None:
    before = repo.fingerprint()
    with ScriptedModel(WORKING) as model:
        point(corral, agent, model)
        outcome = corral.run(repo, "make it", "--agent", agent, "--check", "grep -q made src/new.txt")
    assert outcome.code == 0, outcome
    attempt = outcome.attempt
    name, _, asked = agent.partition(":")
    assert (attempt["agent"], attempt["model"]) == (name, asked)
    assert attempt["tokens"] == {"input": 450, "output": 35, "cache_read": 30, "cache_write": 0}
    free = name == "ollama"
    assert attempt["cost"]["source"] == (
        "reported" if free else "metered"
    )  # by its tokens on the way, and the model's price
    assert (attempt["cost"]["usd"] == 0.0) == free
    assert attempt["output"] == "Both are done."
    assert attempt["session"]
    assert attempt["sandbox"]["level"] in BOXED
    assert repo.read(attempt["branch"], "src/new.txt") == "made"
    assert repo.read(attempt["branch"], "ran.txt") == "run"
    assert set(repo.files(attempt["branch"])) == {"calc.py", "notes.md", "ran.txt", "src/new.txt"}
    assert repo.fingerprint() == before
    assert "make it" in str(model.posts[0].body)
    assert all(request.path.endswith(ENDPOINTS[agent][2]) for request in model.posts)
    assert {"path": "src/new.txt", "type": "changed"}.items() <= next(
        event for event in corral.events() if event["type"] == "changed"
    ).items()


def test_ollama_is_found_at_its_usual_address(corral: Corral, repo: Repo) -> None:
    """In a network of its own, where the port is free and nothing but the server is there."""
    corral.root.joinpath("turns.json").write_text(
        '[{"write": {"path": "new.txt", "content": "made"}}, {"text": "Done."}]'
    )
    python, log = shlex.quote(sys.executable), corral.root / "requests.jsonl"
    served = f"{python} -m corral.testing.model turns.json --port 11434 --log {log} > address & server=$!"
    ready = "until [ -s address ]; do sleep 0.05; done"
    steps = f"{python} -c '{LOOPBACK_UP}' && {served}; {ready}; {shlex.join(corral.program)} \"$@\"; code=$?"
    corral.program = ["unshare", "--net", "sh", "-c", f"{steps}; kill $server; exit $code", "corral"]
    outcome = corral.run(repo, "make it", "--agent", "ollama:qwen2.5-coder:32b")
    assert outcome.code == 0, outcome
    assert outcome.attempt["sandbox"]["level"] in BOXED
    assert repo.read(outcome.attempt["branch"], "new.txt") == "made"
    assert log.read_text().count("/chat/completions") == 2


@ALONE
def test_openais_newer_api(corral: Corral, repo: Repo) -> None:
    with ScriptedModel(WORKING) as model:
        point(corral, OPENAI, model, CORRAL_LOOP_API="responses")
        outcome = corral.run(repo, "make it", "--agent", OPENAI)
    assert outcome.code == 0, outcome
    assert {request.path for request in model.posts} == {"/v1/responses"}
    assert outcome.attempt["tokens"]["output"] == 35


# Every refusal of every provider: tests/boxed/loop/test_providers.py.
@pytest.mark.parametrize(
    ("agent", "status", "message", "kind"),
    [
        ("openai:gpt-5", 401, "wrong key", "auth"),
        pytest.param("anthropic:claude-sonnet-4-5", 404, "model not found", "not_found", marks=ALSO),
        pytest.param("google:gemini-2.5-flash", 429, "slow down", "rate_limit", marks=ALSO),
        pytest.param("ollama:qwen2.5-coder:32b", 503, "overloaded", "overloaded", marks=ALSO),
    ],
)
def test_what_a_provider_refuses_is_told_by_its_class(
    corral: Corral, repo: Repo, agent: str, status: int, message: str, kind: str
) -> None:
    with ScriptedModel([Turn(status=status, message=message, retry_after_seconds=0.01)]) as model:
        point(corral, agent, model)
        outcome = corral.run(repo, "make it", "--agent", agent, "--retries", "0")
    assert outcome.attempt["error"]["class"] == kind, outcome
    assert message in outcome.attempt["error"]["message"]
    assert outcome.code != 0


@ALONE
def test_a_context_that_is_too_small_is_told(corral: Corral, repo: Repo) -> None:
    words = "This model's maximum context length is 4096 tokens; your messages have 5000"
    with ScriptedModel([Turn(status=400, message=words)]) as model:
        point(corral, OPENAI, model)
        outcome = corral.run(repo, "make it", "--agent", OPENAI)
    assert outcome.attempt["error"]["class"] == "context_too_long", outcome


@ALONE
def test_an_answer_that_breaks_off_is_asked_for_again(corral: Corral, repo: Repo) -> None:
    turns = [
        Turn(text="I write it for you now.", write={"path": "a", "content": "b"}, drop=True, times=1),
        Turn(text="Done."),
    ]
    with ScriptedModel(turns) as model:
        point(corral, OPENAI, model)
        outcome = corral.run(repo, "make it", "--agent", OPENAI)
    assert outcome.code == 0, outcome
    assert len(outcome.json["nodes"][0]["attempts"]) == 1


def test_nobody_answers_at_the_address(corral: Corral, repo: Repo) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound, but it does not listen
        host = f"127.0.0.1:{closed.getsockname()[1]}"
        outcome = corral.run(repo, "x", "--agent", "ollama:llama3.2", "--retries", "0", env={"OLLAMA_HOST": host})
    assert outcome.attempt["error"]["class"] == "network", outcome
    assert "ollama serve" in outcome.attempt["error"]["hint"]


def test_without_a_key_nothing_is_asked(corral: Corral, repo: Repo) -> None:
    outcome = corral.run(repo, "make it", "--agent", OPENAI)
    assert outcome.attempt["error"] == {
        "class": "auth", "message": "there is no key for openai", "hint": "set OPENAI_API_KEY",
    }  # fmt: skip


def test_a_model_must_be_named(corral: Corral, repo: Repo) -> None:
    outcome = corral.run(repo, "make it", "--agent", "openai")
    assert outcome.code == 2
    assert "--agent openai:gpt-5" in outcome.err


def test_without_its_packages_the_command_that_brings_them_is_named(person: Person) -> None:
    repo = person.repo()
    outcome = person.run(repo, "make it", "--agent", OPENAI)
    assert outcome.code == 2, outcome
    assert "pip install 'corral[api]'" in outcome.err


TRAP = "raise SystemExit('the workspace was imported')\n"


def test_what_is_outside_the_workspace_is_refused(corral: Corral) -> None:
    """In the same session: modules in the workspace are not ours, commands do not see the key, images are shown."""
    repo = corral.repo(files={"msgspec.py": TRAP, "corral/__init__.py": TRAP, "openai.py": TRAP})
    (repo.folder / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n-a-dot-")
    repo.commit({"more.txt": "x"})
    calls = (
        Call(write={"path": "../out.txt", "content": "x"}),
        Call(write={"path": "/tmp/out.txt", "content": "x"}),
        Call(read="/etc/passwd"),
        Call(tool="edit", input={"path": "link/passwd", "old": "root", "new": "toor"}),
        Call(write={"path": ".git/hooks/post-checkout", "content": "x"}),
    )
    turns = [
        Turn(sh="ln -s /etc link; env > seen.txt"),
        Turn(calls=calls),
        Turn(read="dot.png"),
        Turn(write={"path": "in.txt", "content": "x"}),
        Turn(text="Done."),
    ]
    with ScriptedModel(turns) as model:
        point(corral, OPENAI, model)
        outcome = corral.run(repo, "make it", "--agent", OPENAI)
    assert outcome.code == 0, outcome
    told = tools(corral)[1:6]
    assert [ok for _, ok, _ in told] == [False] * 5
    assert all("not in the workspace" in words for _, _, words in told[:4])
    assert "belongs to git" in told[4][2]
    assert set(outcome.attempt["files_changed"]) == {"in.txt", "link", "seen.txt"}
    assert "key-of-the-person" not in repo.read(outcome.attempt["branch"], "seen.txt")
    assert model.posts[0].headers["authorization"] == "Bearer key-of-the-person"
    assert "data:image/png;base64" not in str(model.posts[2].body)
    assert "data:image/png;base64" in str(model.posts[3].body)


def test_every_tool_gives_back_data(corral: Corral, repo: Repo) -> None:
    repo.commit(
        {
            "test_calc.py": "import unittest\nimport calc\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(1, 2), 3)\n\n    def test_none(self):\n        pass\n"
        }
    )
    wanted = (
        Call(tool="list"),
        Call(tool="search", input={"pattern": "a - b"}),
        Call(tool="read", input={"path": "calc.py", "first_line": 2}),
        Call(tool="test", input={"runner": "unittest"}),
        Call(tool="edit", input={"path": "calc.py", "old": "a - b", "new": "a + b"}),
        Call(tool="test", input={"runner": "unittest"}),
        Call(tool="git", input={"action": "status"}),
        Call(tool="git", input={"action": "diff"}),
        Call(tool="git", input={"action": "commit", "message": "mend add"}),
        Call(tool="git", input={"action": "log", "count": 1}),
        Call(tool="packages", input={"action": "install"}),
        Call(tool="nothing"),
    )  # fmt: skip
    with ScriptedModel([*(Turn(calls=(call,)) for call in wanted), Turn(text="Done.")]) as model:
        point(corral, OPENAI, model)
        outcome = corral.run(repo, "mend add", "--agent", OPENAI, "--check", "python3 -m unittest")
    assert outcome.code == 0, outcome
    told = tools(corral)
    words = dict(enumerate(output for _, _, output in told))
    assert [ok for _, ok, _ in told] == [True, True, True, False, True, True, True, True, True, True, False, False]
    assert '"files": ["calc.py", "notes.md", "test_calc.py"]' in words[0]
    assert '"path": "calc.py", "line": 2' in words[1]
    assert '"text": "    return a - b\\n"' in words[2]
    assert '"passed": 1, "failed": 1' in words[3]
    assert '"passed": 2, "failed": 0' in words[5]
    assert '{"state": "M", "path": "calc.py"}' in words[6]
    assert "+    return a + b" in words[7]
    assert '"subject": "mend add"' in words[9]
    assert "no file of a package manager" in words[10]
    assert "there is no tool" in words[11]
    assert outcome.attempt["files_changed"] == ["calc.py"]


def test_saying_so_is_not_doing_so(corral: Corral, repo: Repo) -> None:
    with ScriptedModel([Turn(text="All done!")]) as model:
        point(corral, OPENAI, model)
        outcome = corral.run(repo, "make it", "--agent", OPENAI)
    assert outcome.attempt["error"]["class"] == "no_change"


@ALONE
def test_an_empty_answer_is_no_ending(corral: Corral, repo: Repo) -> None:
    with ScriptedModel([Turn(write={"path": "a", "content": "b"}), Turn(text=""), Turn(text="")]) as model:
        point(corral, OPENAI, model)
        outcome = corral.run(repo, "make it", "--agent", OPENAI, "--retries", "0")
    assert outcome.attempt["error"]["class"] == "bad_output"
    assert "without a word" in outcome.attempt["error"]["message"]


@ALONE
def test_turns_are_limited(corral: Corral, repo: Repo) -> None:
    with ScriptedModel([Turn(sh="true")] * 9) as model:
        point(corral, OPENAI, model, CORRAL_LOOP_TURNS="3")
        outcome = corral.run(repo, "make it", "--agent", OPENAI, "--retries", "0")
    assert "used up its 3 turns" in outcome.attempt["error"]["message"]
    assert len(model.posts) == 3


ANSWER = """Two changes.

FILE: docs/new.md
```
# New
```

FILE: calc.py
<<<<<<< SEARCH
    return a - b
=======
    return a + b
>>>>>>> REPLACE

FILE: ../out.txt
```
x
```
"""


@pytest.mark.parametrize("agent", ["openai:gpt-5", pytest.param("google:gemini-2.5-flash", marks=ALSO)])
def test_a_model_without_tools_answers_with_files(corral: Corral, repo: Repo, agent: str) -> None:
    turns = [Turn(text="READ: calc.py"), Turn(text=ANSWER), Turn(text="The other two are done.")]
    with ScriptedModel(Script(turns=tuple(turns), toolless=True)) as model:
        point(corral, agent, model, CORRAL_LOOP_MODE="text")
        outcome = corral.run(repo, "mend it", "--agent", agent)
    assert outcome.code == 0, outcome
    assert set(outcome.attempt["files_changed"]) == {"calc.py", "docs/new.md"}
    assert "a + b" in repo.read(outcome.attempt["branch"], "calc.py")
    assert outcome.attempt["tokens"]["output"] == 60
    bodies = [str(request.body) for request in model.posts]
    assert "notes.md" in bodies[0]  # the list of files
    assert "return a - b" in bodies[1]  # what it asked to see
    assert "not in the workspace" in bodies[2]  # what was refused


def test_an_endpoint_that_has_no_tools_is_found_out(corral: Corral, repo: Repo) -> None:
    words = "registry.ollama.ai/library/gemma:2b does not support tools"
    turns = [Turn(status=400, message=words, times=1, text="FILE: a.txt\n```\nmade\n```")]
    agent = "ollama:gemma:2b"
    with ScriptedModel(Script(turns=tuple(turns), toolless=True)) as model:
        outcome = corral.run(repo, "make a.txt", "--agent", agent, env={"OLLAMA_HOST": model.url})
    assert outcome.code == 0, outcome
    assert repo.read(outcome.attempt["branch"], "a.txt") == "made"
    assert "tools" in model.posts[0].body
    assert "tools" not in model.posts[1].body


@pytest.mark.parametrize("agent", ["ollama:qwen2.5-coder:32b", pytest.param("anthropic:claude-sonnet-4-5", marks=ALSO)])
def test_killed_in_the_middle_its_session_goes_on(corral: Corral, repo: Repo, agent: str) -> None:
    turns = [
        Turn(text="I start.", write={"path": "half.txt", "content": "half"}),
        Turn(hang_seconds=600, times=1, text="And the rest.", sh="echo whole > whole.txt"),
        Turn(text="Done."),
    ]
    with ScriptedModel(turns) as model:
        point(corral, agent, model)
        with corral.going("run", "do it", "--repo", repo.folder, "--agent", agent, "--json") as going:
            model.wait_for(ENDPOINTS[agent][2], count=2)
            until(lambda: any(event["type"] == "started" for event in corral.events()), "its session is known")
            going.process.kill()
            going.process.wait()
        outcome = corral("resume", "@last", "--json")
    assert outcome.code == 0, outcome
    first, second = outcome.json["nodes"][0]["attempts"]
    assert second["retry_of"] == first["id"]
    assert second["session"] == first["session"]
    assert set(second["files_changed"]) == {"half.txt", "whole.txt"}
    last = str(model.work_requests[-1].body)
    assert "do it" in last
    assert "half.txt" in last


def test_it_is_listed_with_what_it_needs(corral: Corral) -> None:
    rows = {row["name"]: row for row in corral("agents", "--json", env={"OPENAI_API_KEY": "k"}).json}
    assert rows["openai"]["version"]
    assert rows["openai"]["login"] == "OPENAI_API_KEY"
    assert rows["anthropic"]["program"] is None
    assert "ANTHROPIC_API_KEY" in rows["anthropic"]["remedy"]
    assert "ollama serve" in rows["ollama"]["remedy"]


def test_files_of_the_task_are_shown_to_a_model_that_can_read_none(corral: Corral) -> None:
    """An agent without tools gets the contents of what `--file` names, and of nothing else."""
    repo = corral.repo(files={f"part_{name}.py": f"VALUE = 'content of {name}'\n" for name in "abcd"})
    answer = "FILE: part_b.py\n```\nVALUE = 2\n```\n"
    with ScriptedModel(Script(turns=(Turn(text=answer),), toolless=True)) as model:
        point(corral, OPENAI, model, CORRAL_LOOP_MODE="text")
        outcome = corral.run(repo, "make it a number", "--agent", OPENAI, "--file", "part_b.py")
        asked = str(model.posts[0].body)
    assert outcome.attempt["files_changed"] == ["part_b.py"], outcome
    assert "content of b" in asked
    assert "content of a" not in asked
