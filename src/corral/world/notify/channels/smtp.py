"""A mail server, as smtps://me@mail.example.org?to=me@example.org; the password is in CORRAL_SMTP_PASSWORD."""

from __future__ import annotations

import asyncio
import os
import smtplib
import ssl
from email.message import EmailMessage
from urllib.parse import parse_qs, unquote, urlsplit

from corral.model import Entry
from corral.world.notify.notify import AnswerWays, message

SECONDS = 20.0


async def send(entry: Entry, setting: str) -> str:
    """Send it as a mail; a password only goes over TLS."""
    return await asyncio.to_thread(_send, entry, setting, message(entry))


async def send_answerable(entry: Entry, setting: str, answers: AnswerWays) -> str:
    """Send it with a link to a page that takes the answer; programs that open links of mails answer nothing by that."""
    link = answers.link(answers.open_code)
    words = f"{message(entry)}\n\nAnswer here: {link}\n" if link else message(entry)
    return await asyncio.to_thread(_send, entry, setting, words)


def _send(entry: Entry, setting: str, words: str) -> str:
    try:
        parts = urlsplit(setting)
        port, user = parts.port, unquote(parts.username or "")
    except ValueError:
        return "smtp: the address is invalid"
    asked = parse_qs(parts.query)
    to = asked.get("to", [""])[0] or user
    if parts.scheme not in ("smtp", "smtps") or not parts.hostname or "@" not in to:
        return "smtp: the address is invalid; write it as smtps://me@mail.example.org?to=me@example.org"
    mail = EmailMessage()
    mail["Subject"] = f"Corral: run {entry.run} waits"
    mail["From"], mail["To"] = asked.get("from", [user if "@" in user else to])[0], to
    mail.set_content(words)
    try:
        _deliver(mail, parts.hostname, port, user, secure=parts.scheme == "smtps")
    except (OSError, smtplib.SMTPException, ValueError) as error:
        return f"smtp at {parts.hostname}: {type(error).__name__}"
    return ""


def _deliver(mail: EmailMessage, host: str, port: int | None, user: str, *, secure: bool) -> None:
    context, password = ssl.create_default_context(), os.environ.get("CORRAL_SMTP_PASSWORD", "")
    opened = (
        smtplib.SMTP_SSL(host, port or 465, timeout=SECONDS, context=context)
        if secure
        else smtplib.SMTP(host, port or 25, timeout=SECONDS)
    )
    with opened as server:
        server.ehlo()
        if not secure and (password or server.has_extn("starttls")):
            server.starttls(context=context)
        if password:
            server.login(user, password)
        server.send_message(mail)
