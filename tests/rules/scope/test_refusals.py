"""A failure that our own proxy caused is `denied`, with what to allow; others stay what they are."""

import pytest

from corral.model import ErrorClass, Failure
from corral.rules.checks.verdict import Verdict
from corral.rules.scope import hosts
from corral.rules.scope.hosts import api_paths
from corral.rules.scope.refusals import NetRefusal, of_refusals

RULE = hosts.read(("example.org",))


def refused(host: str, port: int = 443, *, needless: bool = False) -> NetRefusal:
    return NetRefusal(host, RULE.refusal(host, port) or "", needless)


MISTRAL, GITHUB = refused("api.mistral.ai"), refused("github.com", needless=True)


def judged(kind: ErrorClass, words: str, *refusals: NetRefusal, stderr: str = "", reached: bool = False) -> Failure:
    verdict = of_refusals(Verdict("failed", Failure(kind, words, "log in")), refusals, stderr, reached=reached)
    assert verdict
    assert verdict.error
    return verdict.error


@pytest.mark.parametrize(
    ("kind", "words", "stderr", "reached"),
    [
        ("auth", "403 Refused", "", False),
        ("auth", "API Error: 403 Refused", "", True),
        ("crash", "it ended with 56", "curl: (56) CONNECT tunnel failed, response 403", True),
        ("crash", "it ended with 1", "urllib3: Tunnel connection failed: 403 Refused", True),
        ("network", "fetch failed", "tunneling socket could not be established, statusCode=403", True),
        ("network", "fetch failed: connect to api.mistral.ai:443", "", True),
        ("network", "error sending request for url (https://api.mistral.ai/v1/chat)", "", True),
        ("network", "Connection error.", "", False),
        ("tls", "ssl handshake", "", False),
        ("overloaded", "proxy responded with 403", "", True),
        ("crash", "it ended with 22", "curl: (22) The requested URL returned error: 403", True),
        ("crash", "it ended with 8", "http://x/v1:\n2026-11-17 15:00:00 ERROR 403: Refused.", True),
        ("crash", "it ended with 4", "Proxy tunneling failed: RefusedUnable to establish SSL connection.", True),
        ("crash", "it ended with 1", "AxiosError: Request failed with status code 403", False),
        ("bad_output", "it did not print JSON: cannot reach api.mistral.ai", "", True),
        ("not_found", "no answer", "cannot reach api.mistral.ai", True),
    ],
)
def test_a_refusal_of_ours_is_denied_with_the_host_to_add(
    kind: ErrorClass, words: str, stderr: str, reached: bool
) -> None:
    error = judged(kind, words, GITHUB, MISTRAL, stderr=stderr, reached=reached)
    assert error.kind == "denied"
    assert error.message == "refused by corral: api.mistral.ai:443 is not in the net list"
    assert error.hint == '--net api.mistral.ai, or [scope] net = ["api.mistral.ai"]'


@pytest.mark.parametrize(
    ("kind", "words", "refusals", "reached"),
    [
        ("auth", "401 invalid api key", (MISTRAL,), True),  # its provider said so
        ("auth", "401 invalid api key", (GITHUB,), False),
        ("network", "Connection error.", (GITHUB,), False),
        ("network", "Connection error.", (MISTRAL,), True),
        ("network", "no route to xapi.mistral.ai.evil.example", (MISTRAL,), True),
        ("crash", "it ended with 1: AssertionError", (MISTRAL,), False),
        ("crash", "it ended with 1: line 403 of 1403", (MISTRAL,), True),
        ("crash", "it ended with 1: report it at https://github.com/x/issues", (MISTRAL, GITHUB), True),
        ("crash", "it ended with 22: The requested URL returned error: 403", (GITHUB,), True),
        ("crash", "it ended with 56: CONNECT tunnel failed, response 502", (MISTRAL,), True),
        ("crash", "it ended with 4: Proxy tunneling failed: Failed", (MISTRAL,), True),
        ("auth", "API Error: 403 Forbidden", (MISTRAL,), True),  # its provider said so
        ("rate_limit", "429 proxy 403 Refused", (MISTRAL,), False),
        ("auth", "403 Refused", (), False),
    ],
)
def test_other_failures_stay_what_they_are(
    kind: ErrorClass, words: str, refusals: tuple[NetRefusal, ...], reached: bool
) -> None:
    assert judged(kind, words, *refusals, reached=reached) == Failure(kind, words, "log in")


def test_where_nobody_was_reached_the_hint_says_what_was_refused() -> None:
    def hint(*refusals: NetRefusal, reached: bool) -> str:
        failed = Verdict("failed", Failure("crash", "it ended with 4: failed"))
        verdict = of_refusals(failed, refusals, "", reached=reached)
        assert verdict
        assert verdict.error
        assert verdict.error.kind == "crash"
        return verdict.error.hint

    told = hint(MISTRAL, GITHUB, reached=False)
    assert told.startswith(
        "corral refused a connection: api.mistral.ai:443 is not in the net list; to allow it: --net "
    )
    assert hint(MISTRAL, reached=True) == ""
    assert hint(GITHUB, reached=False) == ""


def test_the_host_that_is_named_counts_more_than_the_last_one() -> None:
    error = judged("network", "cannot connect to api.mistral.ai", MISTRAL, refused("packages.example.org", 8443))
    assert "api.mistral.ai" in error.message
    assert judged("auth", "403 Refused", MISTRAL, refused("packages.example.org", 8443)).hint.startswith(
        "--net packages.example.org:8443,"
    )
    assert "github.com" in judged("network", "cannot reach github.com", MISTRAL, GITHUB).message


def test_a_path_that_does_not_pass_is_denied_with_the_key_to_set() -> None:
    why = api_paths("codex", "OPENAI_BASE_URL", ()).refusal("POST", "/v1/files") or ""
    error = judged(
        "auth", "unexpected status 403 Refused", NetRefusal("POST api.openai.com/v1/files", why), reached=True
    )
    assert (error.kind, error.message) == ("denied", "refused by corral: POST /v1/files does not pass with the key")
    assert error.hint == '[agents.codex] paths = ["POST /v1/files"]'


def test_what_did_not_fail_is_left_alone() -> None:
    assert of_refusals(None, (MISTRAL,), "403 Refused", reached=False) is None
    assert of_refusals(Verdict("stopped"), (MISTRAL,), "403 Refused", reached=False) == Verdict("stopped")
