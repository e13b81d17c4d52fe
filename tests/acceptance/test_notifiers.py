"""Notification channels from outside: ntfy, Slack, Telegram, mail, and one that another package brings."""

import json

import pytest

from tests.rig.command import Corral
from tests.rig.mail_server import MailServer
from tests.rig.receiver import Receiver

ASKS = """
[[step]]
ask = "Which name? <!channel> & more"
wait = true
[[step]]
write = "name.txt"
text = "{answer}"
"""
CHANNEL = """
import pathlib
class Noting:
    async def send(self, entry, setting):
        pathlib.Path(setting).write_text(entry.text)
        return ""
noting = Noting()
"""


def noted(corral: Corral) -> list[str]:
    return [each["text"] for each in corral.events() if each["type"] == "noted" and "[notify]" in each["text"]]


def asked(corral: Corral) -> str:
    """Run what asks a question; return the number of its inbox entry."""
    outcome = corral.run(corral.repo(), "t", "--agent", corral.script(ASKS), "--idle", "6s")
    assert outcome.json["status"] == "done", outcome
    (entry,) = corral("inbox", "--all", "--json").json
    assert "SECRET" not in outcome.out + outcome.err + corral("logs", "@last").out
    return entry["id"]


def test_each_channel_is_told_what_waits_and_how_to_answer(corral: Corral) -> None:
    place = corral.root / "site"
    (place / "noting-1.dist-info").mkdir(parents=True)
    (place / "noting.py").write_text(CHANNEL)
    (place / "noting-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: noting\nVersion: 1\n")
    (place / "noting-1.dist-info" / "entry_points.txt").write_text("[corral.notifiers]\nnoting = noting:noting\n")
    corral.env |= {"PYTHONPATH": str(place), "NTFY_TOKEN": "SECRET-ntfy", "TELEGRAM_BOT_TOKEN": "123:SECRET-bot"}
    with Receiver() as ntfy, Receiver() as slack, Receiver() as telegram, MailServer() as mail:
        corral.env["TELEGRAM_API_URL"] = telegram.url
        corral.config(
            f'[notify]\nntfy = "{ntfy.url}"\nslack = "{slack.url}/SECRET"\ntelegram = "42"\n'
            f'smtp = "smtp://127.0.0.1:{mail.port}?to=ada@example.org"\nnoting = "{corral.root}/noted"'
        )
        number = asked(corral)
        headers, body = ntfy.got.get(timeout=30)
        assert headers["authorization"] == "Bearer SECRET-ntfy"
        assert b"Which name? <!channel> & more" in body
        assert f"corral answer {number} ANSWER".encode() in body
        said = json.loads(slack.got.get(timeout=30)[1])["text"]
        assert "Which name? &lt;!channel&gt; &amp; more" in said
        told = json.loads(telegram.got.get(timeout=30)[1])
        assert (told["chat_id"], "Which name?" in told["text"]) == ("42", True)
        letter = mail.got.get(timeout=30)
        assert "To: ada@example.org" in letter
        assert "Which name?" in letter
    assert (corral.root / "noted").read_text() == "Which name? <!channel> & more"
    assert noted(corral) == []
    kinds = [(each["kind"], each["name"]) for each in corral("plugins", "ls", "--json").json]
    assert kinds == [("notifier", "noting")]


def test_what_does_not_work_is_told_without_secrets(corral: Corral) -> None:
    with Receiver() as telegram:
        telegram.answers = [401]
        corral.env |= {"TELEGRAM_BOT_TOKEN": "123:SECRET-bot", "TELEGRAM_API_URL": telegram.url}
        corral.config(
            '[notify]\nslack = "http://127.0.0.1:1/services/SECRET"\ntelegram = "42"\nsmtp = "smtps://u:SECRET@nowhere"'
        )
        asked(corral)
    assert sorted(noted(corral)) == [
        "[notify] slack at 127.0.0.1: Connection refused",
        "[notify] smtp: the address is invalid; write it as smtps://me@mail.example.org?to=me@example.org",
        "[notify] telegram at 127.0.0.1: it answered 401",
    ]


@pytest.mark.parametrize("key", ["slakc", "noting"])
def test_a_channel_that_nobody_brings_is_an_unknown_key(corral: Corral, key: str) -> None:
    corral.config(f'[notify]\n{key} = "x"')
    refused = corral.run(corral.repo(), "t", "--agent", corral.agent("mine", "true"))
    assert (refused.code, f"unknown key `notify.{key}`" in refused.err) == (2, True), refused
