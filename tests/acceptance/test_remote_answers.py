"""Answers from chats and phones: signed, once, until the deadline; the first wins everywhere, the other hears of it."""

import email
import email.policy
import http.client
import re
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from tests.rig.chats import FakeNtfy, FakeSlack, FakeTelegram
from tests.rig.command import Corral
from tests.rig.mail_server import MailServer
from tests.rig.repository import Repo
from tests.rig.server import Answer, Server, serving
from tests.rig.waiting import until

ASKS = """
[[step]]
ask = "Which colour? <!channel>"
wait = true
choices = ["red", "blue"]
default = "blue"
[[step]]
write = "colour.txt"
text = "{answer}"
[[step]]
ask = "Which name?"
wait = true
[[step]]
write = "name.txt"
text = "{answer}"
"""
SIGNING = "CANARY-signing"
TOKEN = "123:CANARY-bot"


@pytest.fixture
def slack(corral: Corral) -> Iterator[FakeSlack]:
    corral.env["SLACK_SIGNING_SECRET"] = SIGNING
    with FakeSlack(SIGNING) as found:
        yield found


@pytest.fixture
def telegram(corral: Corral) -> Iterator[FakeTelegram]:
    with FakeTelegram(TOKEN) as found:
        corral.env |= {"TELEGRAM_BOT_TOKEN": TOKEN, "TELEGRAM_API_URL": found.url}
        yield found


def started(corral: Corral, server: Server) -> tuple[Repo, str]:
    """Start a run that asks for a colour, then for a name."""
    repo = corral.repo()
    wish = {"task": "t", "repo": str(repo.folder), "agents": [corral.script(ASKS)]}
    answer = server.ask("POST", "runs", wish)
    assert answer.status in (201, 202), answer
    return repo, answer.json["run"]


def entry(server: Server, text: str) -> dict[str, Any]:
    """Wait for a question; return its entry."""

    def found() -> list[dict[str, Any]]:
        return [each for each in server.ask("GET", "inbox").json if text in each["text"]]

    return until(found, f"it asks: {text}")[0]


def closed(server: Server, number: str) -> dict[str, Any]:
    def found() -> list[dict[str, Any]]:
        every = server.ask("GET", "inbox?all=true").json
        return [each for each in every if each["id"] == number and each["answered_at"]]

    return until(found, f"{number} is answered")[0]


def finished(corral: Corral, server: Server, repo: Repo, run: str) -> tuple[str, str]:
    """Wait until a run is done; return what its agent wrote, and see that no log has a secret."""

    def document() -> dict[str, Any]:
        found = server.ask("GET", f"runs/{run}").json
        return found if found["status"] in ("done", "failed", "incomplete") else {}

    branch = until(document, "the run is over")["nodes"][0]["attempts"][0]["branch"]
    seen = server.log.read_text() + corral("logs", run).out + corral("export").out + corral("show", "--json").out
    assert "CANARY" not in seen
    assert not re.search(r"\d+\.\d?\.[\w-]{43}", seen), "no code that answers"
    return repo.read(branch, "colour.txt"), repo.read(branch, "name.txt")


def follow(server: Server, url: str, method: str = "GET", **fields: str) -> Answer:
    """Open a link as a phone does, without any token."""
    parts = urlsplit(url)
    assert f"{parts.scheme}://{parts.netloc}" == server.address
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html"}
    try:
        connection.request(method, f"{parts.path}?{parts.query}", urlencode(fields) if fields else None, headers)
        return Answer(connection.getresponse())
    finally:
        connection.close()


def test_buttons_and_words_in_slack_answer_once(corral: Corral, slack: FakeSlack) -> None:
    corral.config(f'[notify]\nslack = "{slack.url}/services/CANARY"\nslack_users = ["U1"]')
    with serving(corral, corral.root) as server:
        repo, run = started(corral, server)
        message = slack.messages.get(timeout=60)
        assert "&lt;!channel&gt;" in message["blocks"][0]["text"]["text"]
        red, blue = message["blocks"][1]["elements"]
        body, signature = slack.pressed(red, "U1")
        wrong = {**signature, "X-Slack-Signature": "v0=" + "0" * 64}
        assert slack.post(server, body, wrong).status == 401
        assert slack.press(server, red, "U1", at=time.time() - 301).status == 401
        assert slack.press(server, {**red, "value": red["value"][:-4] + "AAAA"}, "U1").status == 200
        assert "not valid" in slack.replies.get(timeout=60)["text"]
        assert slack.press(server, red, "U2").status == 200
        refused = slack.replies.get(timeout=60)
        assert (refused["response_type"], "U2 is not in slack_users" in refused["text"]) == ("ephemeral", True)
        number = entry(server, "Which colour?")["id"]
        assert slack.post(server, body, signature).status == 200
        taken = slack.replies.get(timeout=60)
        assert (taken["replace_original"], "red, by slack u1" in taken["text"]) == (True, True)
        assert closed(server, number)["answered_by"] == "slack u1"
        assert slack.post(server, body, signature).status == 401, "replayed"
        assert slack.press(server, blue, "U1").status == 200
        late = slack.replies.get(timeout=60)
        assert (late["replace_original"], "answered already: red (slack u1)" in late["text"]) == (False, True)
        field = slack.messages.get(timeout=60)["blocks"][1]
        typed = {**field["element"], "block_id": field["block_id"], "value": "Anna"}
        assert slack.press(server, typed, "U1").status == 200
        assert finished(corral, server, repo, run) == ("red", "Anna")


def test_slack_and_the_page_at_once(corral: Corral, slack: FakeSlack) -> None:
    corral.config(f'[notify]\nslack = "{slack.url}/services/CANARY"\nslack_users = ["U1"]')
    with serving(corral, corral.root) as server:
        started(corral, server)
        red, _ = slack.messages.get(timeout=60)["blocks"][1]["elements"]
        number = entry(server, "Which colour?")["id"]
        both, page = threading.Barrier(2), list[Answer]()

        def click() -> None:
            both.wait()
            sent = {"Content-Type": "application/x-www-form-urlencoded"}
            page.append(server.ask("POST", f"/inbox/{number}", b"answer=blue", headers=sent))

        clicking = threading.Thread(target=click)
        clicking.start()
        both.wait()
        assert slack.press(server, red, "U1").status == 200
        clicking.join()
        seen = slack.replies.get(timeout=60)
        kept = closed(server, number)
        if kept["answer"] == "red":
            assert (seen["replace_original"], page[0].status) == (True, 400)
            assert b"answered already: red (slack u1)" in page[0].body
        else:
            assert (seen["replace_original"], page[0].status) == (False, 200)
            assert f"answered already: blue ({kept['answered_by']})" in seen["text"]


def test_a_chat_of_telegram_answers_and_strangers_do_not(corral: Corral, telegram: FakeTelegram) -> None:
    corral.config('[notify]\ntelegram = "42"\ntelegram_users = ["42"]')
    with serving(corral, corral.root) as server:
        repo, run = started(corral, server)
        ((red,), (blue,)) = telegram.messages.get(timeout=60)["reply_markup"]["inline_keyboard"]
        number = entry(server, "Which colour?")["id"]
        telegram.press(blue["callback_data"], user=66, chat=66)
        telegram.press(blue["callback_data"], user=66, chat=42)
        telegram.say(f"/answer {number} blue", user=42, chat=66)
        telegram.say("good morning", user=42, chat=42)
        telegram.press("1.0.forged", user=42, chat=42)
        assert "not valid" in telegram.notices.get(timeout=60)["text"]
        assert entry(server, "Which colour?")["id"] == number
        telegram.press(red["callback_data"], user=42, chat=42)
        assert "red, by telegram user42" in telegram.notices.get(timeout=60)["text"]
        telegram.press(blue["callback_data"], user=42, chat=42)
        assert "answered already: red" in telegram.notices.get(timeout=60)["text"]
        name = entry(server, "Which name?")["id"]
        telegram.say(f"/answer@bot {name} Anna", user=42, chat=42)
        assert closed(server, name)["answered_by"] == "telegram Ada"
        assert finished(corral, server, repo, run) == ("red", "Anna")
    before = len(telegram.updates)
    with serving(corral, corral.root):
        seen = len(telegram.offsets)
        until(lambda: len(telegram.offsets) > seen, "the next server asks the bot")
        assert telegram.offsets[-1] == telegram.updates[before - 1]["update_id"] + 1, "nothing is taken twice"


def test_buttons_of_ntfy_and_links_of_mails_answer(corral: Corral) -> None:
    with FakeNtfy() as ntfy, MailServer() as mail, serving(corral, corral.root) as server:
        corral.config(
            f'[notify]\nntfy = "{ntfy.url}/CANARY"\nsmtp = "smtp://127.0.0.1:{mail.port}?to=ada@example.org"\n'
            f'answer_url = "{server.address}/"'
        )
        repo, run = started(corral, server)
        _, (red, blue) = ntfy.messages.get(timeout=60)
        letter = email.message_from_string(mail.got.get(timeout=60), policy=email.policy.default)
        link = re.search(r"Answer here: (\S+)", letter.get_content())
        assert link, "the mail has a link"
        number = entry(server, "Which colour?")["id"]
        assert follow(server, red["url"][:-3] + "AAA", red["method"]).status == 404
        page = follow(server, link[1])
        assert (page.status, b'value="red"' in page.body, b"&lt;!channel&gt;" in page.body) == (200, True, True)
        assert follow(server, link[1], "POST", answer="green").status == 400
        assert entry(server, "Which colour?")["id"] == number, "who only opens a link answers nothing"
        assert follow(server, red["url"], red["method"]).status == 200
        assert closed(server, number)["answered_by"] == "link"
        late = follow(server, blue["url"], blue["method"])
        assert (late.status, b"answered already: red (link)" in late.body) == (409, True)
        assert b"red</strong> (link)" in follow(server, link[1]).body
        _, (view,) = ntfy.messages.get(timeout=60)
        assert view["action"] == "view"
        assert follow(server, view["url"], "POST", answer="Anna").status == 200
        assert finished(corral, server, repo, run) == ("red", "Anna")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('answer_url = "phone.example.org"', "an answer_url begins with http:// or https://"),
        ('slack_users = "U1"', "`slack_users` must be a list, not text in quotes"),
        ("telegram_users = [42]", "each entry of `telegram_users` must be text in quotes"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(corral: Corral, line: str, words: str) -> None:
    corral.config(f"[notify]\n{line}")
    outcome = corral.run(corral.repo(), "t", "--agent", corral.script(ASKS), "--idle", "1s")
    assert words in outcome.err + corral("logs", "@last").out, outcome
