"""The real claude program, driven by a scripted model."""

import importlib.util
import json
import os
import subprocess
from pathlib import Path

import pytest

from corral.testing import Call, ScriptedModel, Turn, Usage

pytestmark = pytest.mark.slow  # left out of `make quick`

SDK = importlib.util.find_spec("claude_agent_sdk")
assert SDK is not None
assert SDK.origin is not None
CLAUDE = Path(SDK.origin).parent / "_bundled" / "claude"
OPTIONS = [
    *("--output-format", "stream-json", "--verbose"),
    *("--model", "claude-sonnet-4-5", "--max-turns", "6", "--strict-mcp-config"),
    *("--permission-mode", "acceptEdits", "--allowedTools", "Write,Read,Bash"),
]


def run_claude(model, tmp_path, *more):
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir(exist_ok=True)
    work.mkdir(exist_ok=True)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "sk-fake",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    done = subprocess.run(
        [str(CLAUDE), "-p", "Do the work", *OPTIONS, *more],
        cwd=work,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        start_new_session=True,
        check=False,
    )
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events, done.stderr
    (result,) = [event for event in events if event["type"] == "result"]
    return done.returncode, result, work


def test_it_thinks_writes_runs_reads_and_reports_what_was_scripted(tmp_path):
    file = tmp_path / "work" / "hello.txt"
    turns = [
        Turn(
            thinking="A file is wanted.",
            text="I will write the file.",
            write={"path": str(file), "content": "hello\n"},
            usage=Usage(input=1000, output=50, cache_read=300, cache_write=200),
        ),
        Turn(
            calls=(Call(sh="tr a-z A-Z < hello.txt > loud.txt"), Call(read=str(file))),
            usage=Usage(input=20, output=6, cache_read=7, cache_write=8),
        ),
        Turn(text="Both files are there.", usage=Usage(input=1, output=2)),
    ]
    with ScriptedModel(turns) as model:
        code, result, work = run_claude(model, tmp_path)
        requests = [request for request in model.requests if request.path == "/v1/messages"]
    assert (code, result["is_error"], result["result"]) == (0, False, "Both files are there.")
    assert file.read_text() == "hello\n"
    assert (work / "loud.txt").read_text() == "HELLO\n"
    assert len(requests) == 3
    assert requests[0].headers["x-api-key"] == "sk-fake"
    usage = result["modelUsage"]["claude-sonnet-4-5"]
    assert (usage["inputTokens"], usage["outputTokens"]) == (1021, 58)
    assert (usage["cacheReadInputTokens"], usage["cacheCreationInputTokens"]) == (307, 208)


def test_a_resumed_session_goes_on_with_the_next_turn(tmp_path):
    with ScriptedModel([Turn(text="First answer."), Turn(text="Second answer.")]) as model:
        _, first, _ = run_claude(model, tmp_path)
        _, second, _ = run_claude(model, tmp_path, "--resume", first["session_id"])
    assert (first["result"], second["result"]) == ("First answer.", "Second answer.")


def test_a_refused_key_is_reported(tmp_path):
    with ScriptedModel([Turn(status=401, message="that key is not known")]) as model:
        code, result, _ = run_claude(model, tmp_path)
    assert (code, result["is_error"], result["api_error_status"]) == (1, True, 401)
    assert "that key is not known" in result["result"]


def test_trouble_that_passes_is_survived(tmp_path):
    turns = [
        Turn(status=529, times=1, sh="echo one > one.txt"),
        Turn(text="Everything was done as asked.", drop=True, times=1),
    ]
    with ScriptedModel(turns) as model:
        code, result, work = run_claude(model, tmp_path)
        requests = model.wait_for("/v1/messages", 4)
    assert (code, result["result"]) == (0, "Everything was done as asked.")
    assert (work / "one.txt").read_text() == "one\n"
    assert len(requests) == 4
