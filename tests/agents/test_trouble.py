"""What went wrong, told by a status or by words."""

import pytest

from corral.agents.formats.error_words import error_class, failed, no_result, own_retries, status_in
from corral.model.events import Ended, Limited


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


@pytest.mark.parametrize(("text", "times"), [("0", 0), ("7", 7), ("99", 10), ("", 2), ("-1", 2), ("²", 2)])
def test_how_often_a_program_asks_again_itself(text: str, times: int) -> None:
    assert own_retries({"AGENT_RETRIES": text}) == times
