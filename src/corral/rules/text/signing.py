"""Signatures: of webhooks in and out, of what Slack and forges send, and of links that answer a question."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping

import msgspec

from corral.model import Entry
from corral.model.forge import ForgeKind

PREFIX = "whsec_"
TOLERANCE_SECONDS = 300.0  #: what is older, or from the future, may be a replay
LINEAR_SECONDS = 60.0  #: the same for Linear, as it documents
#: Headers of forges that hold the plain hexadecimal digest of the body.
DIGESTS = ("x-forgejo-signature", "x-gitea-signature", "linear-signature")


#: Headers by which each forge proves that it calls.
PROOFS: dict[ForgeKind, tuple[str, ...]] = {
    "github": ("x-hub-signature-256",),
    "forgejo": ("x-forgejo-signature", "x-gitea-signature"),
    "gitea": ("x-gitea-signature",),
    "gitlab": ("x-gitlab-token",),
}


def secret_of(random: bytes) -> str:
    """Return a secret as users copy it."""
    return PREFIX + base64.b64encode(random).decode()


def sign(secret: str, name: str, at: int, body: bytes) -> dict[str, str]:
    """Return the headers that prove who sends a body, and when."""
    text = b"%b.%d.%b" % (name.encode(), at, body)
    signature = base64.b64encode(hmac.new(_key(secret), text, hashlib.sha256).digest()).decode()
    return {"webhook-id": name, "webhook-timestamp": str(at), "webhook-signature": f"v1,{signature}"}


def holds(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    """Tell whether a call was signed with this secret, a moment ago; headers of most forges have no time in them."""
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    if (github := headers.get("x-hub-signature-256")) is not None:
        return hmac.compare_digest(f"sha256={digest}".encode(), github.encode())
    if named := next((name for name in DIGESTS if name in headers), None):
        fits = hmac.compare_digest(digest.encode(), headers[named].encode())
        return fits and (named != "linear-signature" or _is_recent(body, now))
    if (token := headers.get("x-gitlab-token")) is not None:
        return hmac.compare_digest(secret.encode(), token.encode())
    name, moment = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not name or not moment.isdecimal() or len(moment) > 15 or abs(now - int(moment)) > TOLERANCE_SECONDS:
        return False
    good = sign(secret, name, int(moment), body)["webhook-signature"].encode()
    given = headers.get("webhook-signature", "").split()
    return any(hmac.compare_digest(good, each.encode()) for each in given)


def forge_holds(kind: ForgeKind, secret: str, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    """Tell whether a call comes from a forge of this kind, by its own proof and no other."""
    return any(name in headers for name in PROOFS.get(kind, ())) and holds(secret, headers, body, now)


def slack_holds(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    """Tell whether Slack sent this body a moment ago, as its documentation says."""
    moment = headers.get("x-slack-request-timestamp", "")
    if not secret or not moment.isdecimal() or len(moment) > 15 or abs(now - int(moment)) > TOLERANCE_SECONDS:
        return False
    digest = hmac.new(secret.encode(), b"v0:%b:%b" % (moment.encode(), body), hashlib.sha256).hexdigest()
    return hmac.compare_digest(f"v0={digest}".encode(), headers.get("x-slack-signature", "").encode())


def answer_code(secret: str, entry: Entry, choice: int | None = None) -> str:
    """Return what allows to answer a question: with one of its choices, or with any.

    It counts for the question as it is shown: until its deadline, with these words and no others.
    """
    words = "" if choice is None else entry.choices[choice]
    shown = msgspec.json.encode(["answer", entry.id, choice, words, entry.text, int(entry.deadline)])
    digest = base64.urlsafe_b64encode(hmac.new(_key(secret), shown, hashlib.sha256).digest()).decode().rstrip("=")
    return f"{entry.id}.{'' if choice is None else choice}.{digest}"


def code_allows(secret: str, entry: Entry, code: str) -> bool:
    """Tell whether a code was made for this question."""
    choice = code.split(".")[1] if code.count(".") == 2 else "x"
    if choice and (not choice.isdecimal() or len(choice) > 4 or int(choice) >= len(entry.choices)):
        return False
    good = answer_code(secret, entry, int(choice) if choice else None)
    return hmac.compare_digest(good.encode(), code.encode())


def _is_recent(body: bytes, now: float) -> bool:
    """Tell whether the body of a call of Linear says that it was sent a moment ago."""
    try:
        found = msgspec.json.decode(body, type=_LinearTime)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return abs(now - found.webhookTimestamp / 1000) <= LINEAR_SECONDS


class _LinearTime(msgspec.Struct, frozen=True):
    webhookTimestamp: int  # noqa: N815 -- its name there; in milliseconds


def _key(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return secret.encode()
