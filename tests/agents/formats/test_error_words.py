"""What went wrong, told by a status or by words."""

import pytest

from corral.agents.formats.command_output import READERS
from corral.agents.formats.error_words import error_class, failed, no_result, own_retries, status_in
from corral.model import Failure
from corral.model.agent_api import AgentProfile, End
from corral.model.events import Ended, Limited
from corral.model.missing_programs import hint_for_lacking, lacking_part, telling_line


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("unexpected status 401 Unauthorized: no", 401),
        ("exceeded retry limit, last status: 429 Too Many Requests", 429),
        ('[API Error: {"error":{"code":500,"message":"no","status":"INTERNAL"}}]', 500),
        ("[API Error: 503 no]", 503),
        ("401 no key", 401),
        ("Authentication failed with provider at x (HTTP 401).", 401),
        ("Last error: 429 no", 429),
        ("429 status code (no body)", 429),
        ("it read 500 lines and wrote 404.html", None),
        ("listening on port 4293", None),
    ],
)
def test_the_status_in_words(text: str, status: int | None) -> None:
    assert status_in(text) == status


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (403, "", "auth"),
        (404, "", "not_found"),
        (529, "", "overloaded"),
        (400, "This model's maximum context length is 8192 tokens", "context_too_long"),
        (400, "The input token count exceeds the maximum number of tokens allowed (1048576).", "context_too_long"),
        (None, "Please set an Auth method in your settings", "auth"),
        (None, "You've hit your usage limit.", "rate_limit"),
        (None, "We are currently experiencing high demand", "overloaded"),
        (None, "stream disconnected before completion", "network"),
        (None, "Cannot connect to API: Unable to connect. Is the computer able to access the url?", "network"),
        (None, "[API Error: Connection error. (cause: fetch failed)]", "network"),
        (None, "Could not connect to local model provider at ******.", "network"),
        (400, "API key expired. Please renew the API key.", "auth"),
        (None, "unable to verify the first certificate", "tls"),
        (None, "blocked: PROHIBITED_CONTENT", "refused"),
        (None, "ProviderModelNotFoundError", "not_found"),
        (None, "Segmentation fault", "crash"),
    ],
)
def test_classes(status: int | None, text: str, kind: str) -> None:
    assert error_class(status, text) == kind


def test_a_limit_is_told_before_the_ending() -> None:
    limited, ended = failed(429, "slow down", text="so far", hints={"rate_limit": "wait"})
    assert limited == Limited("slow down")
    assert isinstance(ended, Ended)
    assert (ended.ok, ended.text) == (False, "so far")
    assert ended.error is not None
    assert ended.error.hint == "wait"


def test_no_result_takes_the_line_that_tells_most() -> None:
    (ended,) = no_result("x", 3, "start\nfetch failed\n    at line 7\n")
    assert isinstance(ended, Ended)
    assert ended.error is not None
    assert (ended.error.kind, ended.error.message) == ("network", "x ended with 3 and no result: fetch failed")


NODE = """/usr/lib/node_modules/@openai/codex/bin/codex.js:90
      throw new Error(
            ^

Error: Missing optional dependency @openai/codex-linux-x64. Reinstall Codex: npm install -g @openai/codex@latest
    at file:///usr/lib/node_modules/@openai/codex/bin/codex.js:90:13
    at ModuleJob.run (node:internal/modules/esm/module_job:325:25)

Node.js v20.20.2
"""
LACKING = [
    (NODE, "@openai/codex-linux-x64"),
    (("node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\nError: Cannot find module '/x/codex.js'\n    at f (a:1:2) {\n"
     "  code: 'MODULE_NOT_FOUND',\n  requireStack: []\n}\n\nNode.js v20.20.2\n"), "/x/codex.js"),
    (('Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    import llm\n'
     "ModuleNotFoundError: No module named 'llm'\n"), "llm"),
    ("x: error while loading shared libraries: libssl.so.3: cannot open shared object file\n", "libssl.so.3"),
]  # fmt: skip


@pytest.mark.parametrize(("printed", "part"), LACKING)
def test_a_missing_part_is_named_and_is_not_found(printed: str, part: str) -> None:
    (ended,) = no_result("codex", 1, printed, hints={"not_found": "is the model's name right?"})
    assert isinstance(ended, Ended)
    assert ended.error is not None
    assert (ended.error.kind, ended.error.hint) == ("not_found", hint_for_lacking(part))
    assert part in ended.error.message
    assert "Node.js v20" not in ended.error.message


@pytest.mark.parametrize(("printed", "part"), LACKING)
def test_a_missing_part_of_a_command_is_not_tried_again(printed: str, part: str) -> None:
    (ended,) = command_ended(printed, 1)
    assert (ended.kind, ended.lasting, ended.hint) == ("crash", True, hint_for_lacking(part))
    assert part in ended.message


def test_what_a_test_of_the_agent_lacked_hides_no_limit() -> None:
    noise = "ModuleNotFoundError: No module named 'yaml'\n1 failed\n"
    limited, ended = no_result("x", 1, f"{noise}API Error: 429 Too Many Requests: usage limit reached\n")
    assert isinstance(limited, Limited)
    assert isinstance(ended, Ended)
    assert ended.error is not None
    assert ended.error.kind == "rate_limit"
    (failed,) = command_ended(f"{noise}lost connection\n", 1)
    assert (failed.lasting is True, failed.hint) == (False, "")


def test_a_name_with_escape_sequences_is_no_part() -> None:
    assert not lacking_part("ModuleNotFoundError: No module named 'foo\x1b[2J'")


@pytest.mark.parametrize(
    ("printed", "code", "lasting"),
    [
        ("Error: unknown model gpt-9\n    at x (y:1:2)\n\nNode.js v20.20.2\n", 1, True),
        ("401 invalid api key\n", 1, True),
        ("sh: 1: codex: not found\n", 127, True),
        ("fetch failed\n", 1, False),
        ("segmentation fault\n", 139, False),
    ],
)
def test_what_cannot_get_better_is_not_tried_again(printed: str, code: int, *, lasting: bool) -> None:
    (ended,) = command_ended(printed, code)
    assert (ended.kind, ended.lasting is True) == ("crash", lasting)
    assert ended.message.endswith(printed.splitlines()[0])


def test_noise_alone_is_still_shown() -> None:
    assert telling_line("Node.js v20.20.2\n") == "Node.js v20.20.2"
    assert not telling_line("\n")


def command_ended(printed: str, code: int) -> list[Failure]:
    """Return how a command agent failed that printed this to stderr."""
    events = READERS["text"](AgentProfile(command=("x",))).exited(End(code, printed))
    return [event.error for event in events if isinstance(event, Ended) and event.error]


@pytest.mark.parametrize(("text", "times"), [("0", 0), ("7", 7), ("99", 10), ("", 2), ("-1", 2), ("²", 2)])
def test_how_often_a_program_asks_again_itself(text: str, times: int) -> None:
    assert own_retries({"AGENT_RETRIES": text}) == times
