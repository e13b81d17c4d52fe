"""Signatures of webhooks, in and out: the Standard Webhooks headers, and GitHub's."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping

PREFIX = "whsec_"
TOLERANCE_SECONDS = 300.0  #: what is older, or from the future, may be a replay


def secret_of(random: bytes) -> str:
    """Return a secret as people copy it."""
    return PREFIX + base64.b64encode(random).decode()


def sign(secret: str, name: str, at: int, body: bytes) -> dict[str, str]:
    """Return the headers that prove who sends a body, and when."""
    text = b"%b.%d.%b" % (name.encode(), at, body)
    signature = base64.b64encode(hmac.new(_key(secret), text, hashlib.sha256).digest()).decode()
    return {"webhook-id": name, "webhook-timestamp": str(at), "webhook-signature": f"v1,{signature}"}


def holds(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    """Tell whether a call was signed with this secret, a moment ago; GitHub's own header has no time in it."""
    github = headers.get("x-hub-signature-256")
    if github is not None:
        good = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        return hmac.compare_digest(good.encode(), github.encode())
    name, moment = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not name or not moment.isdecimal() or len(moment) > 15 or abs(now - int(moment)) > TOLERANCE_SECONDS:
        return False
    good = sign(secret, name, int(moment), body)["webhook-signature"].encode()
    given = headers.get("webhook-signature", "").split()
    return any(hmac.compare_digest(good, each.encode()) for each in given)


def _key(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return secret.encode()
