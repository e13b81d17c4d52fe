"""Signatures of webhooks: what we make holds, what others make is known, nothing else passes."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.rules.text import signing

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = b'{"test": 2432232314}'


def test_the_published_example_of_standard_webhooks() -> None:
    made = signing.sign(SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, BODY)
    assert made["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_published_example_of_github() -> None:
    signed = {"x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}
    assert signing.holds("It's a Secret to Everybody", signed, b"Hello, World!", 0.0)
    assert not signing.holds("It's a secret to Everybody", signed, b"Hello, World!", 0.0)


@given(st.binary(max_size=200), st.text(st.characters(codec="ascii"), min_size=1, max_size=30))
def test_what_is_signed_holds_and_nothing_else(body: bytes, secret: str) -> None:
    headers = signing.sign(secret, "id", 1000, body)
    assert signing.holds(secret, headers, body, 1100.0)
    assert not signing.holds(secret, headers, body + b".", 1100.0)
    assert not signing.holds(secret + "x", headers, body, 1100.0) or secret.startswith("whsec_")
    assert not signing.holds(secret, headers, body, 1000.0 + 301)
    assert not signing.holds(secret, {**headers, "webhook-id": "other"}, body, 1100.0)


@pytest.mark.parametrize("missing", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_every_header_is_needed(missing: str) -> None:
    headers = signing.sign(SECRET, "id", 1000, BODY)
    del headers[missing]
    assert not signing.holds(SECRET, headers, BODY, 1000.0)


CALL = b'{"action": "create", "webhookTimestamp": 1700000000000}'
DIGEST = hmac.new(b"the secret of it", CALL, hashlib.sha256).hexdigest()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-hub-signature-256", f"sha256={DIGEST}"),
        ("x-forgejo-signature", DIGEST),
        ("x-gitea-signature", DIGEST),
        ("x-gitlab-token", "the secret of it"),
        ("linear-signature", DIGEST),
    ],
)
def test_what_forges_sign_holds_for_their_body_alone(name: str, value: str) -> None:
    now = 1_700_000_030.0
    assert signing.holds("the secret of it", {name: value}, CALL, now)
    assert not signing.holds("another secret", {name: value}, CALL, now)
    assert not signing.holds("the secret of it", {name: value + "0"}, CALL, now)
    assert not signing.holds("the secret of it", {name: ""}, CALL, now)
    if name != "x-gitlab-token":  # that is no signature, but a word that both know
        assert not signing.holds("the secret of it", {name: value}, CALL + b" ", now)


def test_an_old_call_of_linear_is_a_replay() -> None:
    headers = {"linear-signature": DIGEST}
    assert not signing.holds("the secret of it", headers, CALL, 1_700_000_061.0)
    assert not signing.holds("the secret of it", headers, CALL, 1_699_999_000.0)
    for body in (b"{}", b"[1]", b"no JSON"):
        signed = {"linear-signature": hmac.new(b"s", body, hashlib.sha256).hexdigest()}
        assert not signing.holds("s", signed, body, 0.0)
