"""The scripted model as a program of its own."""

import json
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest

from tests.testing.exchange import post, schema

COMMAND = [sys.executable, "-m", "corral.testing.model"]
BODY = {"messages": [], "tools": [{"name": "Bash", "input_schema": schema("command")}]}
EVERYTHING = [
    {
        "text": "I will.",
        "thinking": "Hm.",
        "calls": [{"sh": "ls"}, {"tool": "mcp__x__y", "input": {"a": 1}}],
        "usage": {"input": 1, "output": 2, "cache_read": 3, "cache_write": 4},
        "hang_seconds": 0,
        "slow_seconds": 0,
        "drop": False,
    }
]


@contextmanager
def running(script, *options):
    command = [*COMMAND, str(script), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        try:
            yield program, program.stdout.readline().strip()
        finally:
            program.kill()


def write_script(folder, turns):
    path = folder / "script.json"
    path.write_text(json.dumps(turns))
    return path


def test_it_prints_its_url_plays_the_script_and_logs_the_requests(tmp_path):
    log = tmp_path / "log"
    with running(write_script(tmp_path, EVERYTHING), "--log", str(log)) as (_, url):
        message = post(url, "/v1/messages", BODY).json
    assert [block["type"] for block in message["content"]] == ["thinking", "text", "tool_use", "tool_use"]
    assert list(message["usage"].values()) == [1, 4, 3, 2]
    assert json.loads(log.read_text())["body"] == BODY


def test_its_options_are_heeded(tmp_path):
    script = write_script(tmp_path, [{"text": "one"}, {"text": "two"}])
    with running(script, "--toolless", "--in-order") as (_, url):
        answers = [post(url, "/v1/messages", {"messages": []}).json for _ in range(2)]
    assert [answer["content"][0]["text"] for answer in answers] == ["one", "two"]
    with running(script, "--side-text", "A title") as (_, url):
        assert post(url, "/v1/messages", {"messages": []}).json["content"][0]["text"] == "A title"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_when_told_to_also_while_a_request_hangs(tmp_path, number):
    with running(write_script(tmp_path, [{"hang_seconds": 3600}])) as (program, url):
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client:
            data = json.dumps(BODY).encode()
            client.sendall(b"POST /v1/messages HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(data), data))
            assert post(url, "/v1/messages/count_tokens", {}).status == 200
            program.send_signal(number)
            assert program.communicate(timeout=60) == ("", "")
    assert program.returncode == 0


@pytest.mark.parametrize(
    ("text", "problem", "hint"),
    [
        ("{", "not JSON", "a JSON list of turns"),
        ("{}", "not a list", "a JSON list of turns"),
        ('["x"]', "turn 1: not an object", "write it as"),
        ('[{}, {"wirte": 1}]', "turn 2: unknown field 'wirte'", "the fields are write, read, sh"),
        ('[{"text": 1}]', "turn 1: text cannot be 1", "text takes a string"),
        ('[{"times": true}]', "turn 1: times cannot be True", "times takes a whole number"),
        ('[{"hang_seconds": "1"}]', "turn 1: hang_seconds cannot be '1'", "hang_seconds takes a number"),
        ('[{"calls": {}}]', "turn 1: calls cannot be {}", "calls takes a list"),
        ('[{"usage": {"in": 1}}]', "turn 1: unknown field 'in'", "the fields are input, output"),
        ('[{"usage": {"input": {}}}]', "turn 1: input cannot be {}", "input takes a whole number"),
        ('[{"write": {"path": "a"}}]', "turn 1: write needs a path and a content", "write it as"),
        ('[{"write": {"path": "a", "content": 1}}]', "turn 1: write cannot be", "write it as"),
        ('[{"status": 200}]', "turn 1: status 200 is not an HTTP error", "from 400 to 599"),
    ],
)
def test_a_bad_script_gets_a_clear_error_and_a_hint(tmp_path, text, problem, hint):
    script = tmp_path / "script.json"
    script.write_text(text)
    done = subprocess.run([*COMMAND, str(script)], capture_output=True, text=True, check=False)
    error, hinted = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert error.startswith(f"error: {script}: {problem}")
    assert hinted.startswith("hint: ")
    assert hint in hinted


def test_a_missing_file_and_a_taken_port_get_a_hint_too(tmp_path):
    missing = subprocess.run([*COMMAND, str(tmp_path / "none")], capture_output=True, text=True, check=False)
    assert (missing.returncode, missing.stderr.splitlines()[1]) == (2, "hint: name a script file that can be read")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [*COMMAND, str(write_script(tmp_path, [])), "--port", port]
        refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stderr.splitlines()[1]) == (2, "hint: leave --port out to get a free one")
