"""Answers from outside: by signed links, by buttons of Slack, and in a chat of Telegram."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

import msgspec
from msgspec import Struct, field

from corral.attempt.user_questions import answer_secret
from corral.config import loader
from corral.config.settings import NotifySettings
from corral.engine.inbox.inbox import Inbox
from corral.model import Entry
from corral.model.errors import BadRequest, CorralError, NotFound
from corral.rules.text import signing
from corral.store.interface import Store
from corral.world.notify.http_post import call_bot, post_again

LOOK_SECONDS = 3.0
POLL_SECONDS = 3  #: that the bot's server may wait for an answer; a server that stops waits as long
TROUBLE_SECONDS = 30.0
OFFSET = "telegram_offset"
SLACK = "hooks.slack.com"
MOST_WORDS = 2000
STALE = "this link or button is not valid, or the question has changed since"
log = logging.getLogger("corral.answers")


class SlackUser(Struct, frozen=True):
    id: str = ""
    username: str = ""


class SlackAction(Struct, frozen=True):
    value: str | None = None
    action_id: str = ""
    block_id: str = ""


class SlackPress(Struct, frozen=True):
    """What Slack posts when a user presses a button."""

    type: str = ""
    user: SlackUser = SlackUser()
    actions: tuple[SlackAction, ...] = ()
    response_url: str = ""


class BotUser(Struct, frozen=True):
    id: int = 0
    username: str = ""
    first_name: str = ""


class BotChat(Struct, frozen=True):
    id: int = 0


class BotMessage(Struct, frozen=True):
    chat: BotChat = BotChat()
    sender: BotUser = field(default=BotUser(), name="from")
    text: str = ""


class BotPress(Struct, frozen=True):
    id: str = ""
    sender: BotUser = field(default=BotUser(), name="from")
    message: BotMessage = BotMessage()
    data: str = ""


class BotUpdate(Struct, frozen=True):
    """What the bot's server tells of one event in a chat."""

    update_id: int
    message: BotMessage | None = None
    callback_query: BotPress | None = None


class RemoteAnswers:
    """The ways to answer that need no token of the server."""

    def __init__(self, store: Store, inbox: Inbox) -> None:
        self._store, self._inbox = store, inbox
        self._presses: dict[str, float] = {}  #: signatures of Slack that were used, and when

    # --- links

    def question(self, code: str) -> tuple[Entry, tuple[str, ...]]:
        """Return what a code asks, and the choices that it allows; none: any words."""
        entry = self._store.inbox.find(code.partition(".")[0])
        if entry is None or not signing.code_allows(answer_secret(self._store), entry, code):
            raise NotFound(STALE, hint="see `corral inbox`")
        chosen = code.split(".")[1]
        return entry.as_of(time.time()), (entry.choices[int(chosen)],) if chosen else entry.choices

    async def answer(self, code: str, words: str, by: str) -> Entry:
        """Answer a question by a code, which counts once, until its deadline; some codes say the answer themselves."""
        entry, choices = self.question(code)
        said = choices[0] if code.split(".")[1] else words.strip()
        if (choices and said not in choices) or not said or len(said) > MOST_WORDS:
            allowed = ", ".join(choices) or f"at most {MOST_WORDS} characters"
            raise BadRequest(f"that is no answer to: {entry.text}", hint=f"say one of: {allowed}")
        return await self._inbox.answer(entry.id, said, by)

    # --- Slack

    def slack_press(self, headers: Mapping[str, str], body: bytes) -> SlackPress | None:
        """Return what a user of Slack pressed; nothing if Slack did not send this, a moment ago, for the first time."""
        now, signature = time.time(), headers.get("x-slack-signature", "")
        secret = os.environ.get("SLACK_SIGNING_SECRET", "").strip()
        if not signing.slack_holds(secret, headers, body, now) or signature in self._presses:
            return None
        limit = now - 2 * signing.TOLERANCE_SECONDS
        self._presses = {each: at for each, at in self._presses.items() if at > limit} | {signature: now}
        fields = parse_qs(body.decode(errors="replace"))
        try:
            return msgspec.json.decode(fields.get("payload", [""])[0], type=SlackPress)
        except msgspec.MsgspecError as error:
            raise BadRequest(
                "the payload is not that of a button of Slack", hint="its type is block_actions"
            ) from error

    async def answer_slack(self, press: SlackPress) -> None:
        """Answer what a user of Slack pressed, and tell them there what came of it."""
        action = press.actions[0] if press.actions else SlackAction()
        typed = action.action_id == "corral_words"
        code, words = (action.block_id, action.value or "") if typed else (action.value or "", "")
        settings = loader.notify()
        if press.user.id not in settings.slack_users:
            said, good = f"you may not answer here: {press.user.id[:40]} is not in slack_users", False
        else:
            said, good = await self._settle(code, words, f"slack {_name(press.user.username or press.user.id)}")
        if _is_of_slack(press.response_url, settings):
            shown = {"text": said.translate({38: "&amp;", 60: "&lt;", 62: "&gt;"}), "replace_original": good}
            more = {} if good else {"response_type": "ephemeral"}
            said_back = json.dumps({**shown, **more}).encode()
            trouble = await post_again("slack", press.response_url, {"Content-Type": "application/json"}, said_back)
            if trouble:
                log.warning("%s", trouble)

    async def _settle(self, code: str, words: str, by: str) -> tuple[str, bool]:
        """Answer by a code; return what to tell the user, and whether it was taken."""
        try:
            entry = await self.answer(code, words, by)
        except CorralError as error:
            return f"{error}" + (f" ({error.hint})" if error.hint else ""), False
        return f"{entry.text}\n{entry.answer}, by {by}" + (f"; {entry.outcome}" if entry.outcome else ""), True

    # --- Telegram

    async def keep(self) -> None:
        """Ask the bot's server for answers, again and again, where the settings allow them, until cancelled."""
        bell, pause, before = self._store.watch(), 0.0, ""
        try:
            while True:
                trouble = await self._poll()
                if trouble and trouble != before:
                    log.warning("telegram: %s", trouble)
                before, pause = trouble, time.monotonic() + (TROUBLE_SECONDS if trouble else 0.0)
                await bell.listen(LOOK_SECONDS)
                while (left := pause - time.monotonic()) > 0:
                    await bell.listen(min(LOOK_SECONDS, left))
        finally:
            bell.close()

    async def _poll(self) -> str:
        """Take what was said since; return what went wrong."""
        try:
            settings = loader.notify()
        except CorralError as error:
            return str(error)
        chat = settings.others.get("telegram")
        if not chat or not settings.telegram_users:
            return ""
        wait = POLL_SECONDS if self._inbox.entries() else 0
        offset = int(self._store.queue.value(OFFSET) or 0)
        asked = {"offset": offset, "timeout": wait, "allowed_updates": ["message", "callback_query"]}
        got = await call_bot("getUpdates", asked)
        if not got.get("ok"):
            return str(got.get("description", ""))[:200]
        for raw in got.get("result") or ():
            try:
                update = msgspec.convert(raw, BotUpdate)
            except msgspec.ValidationError:
                return "an update is not as documented"
            self._store.queue.set_value(OFFSET, str(update.update_id + 1))  # first: it is never carried out twice
            await self._take(update, chat, settings)
        return ""

    async def _take(self, update: BotUpdate, chat: str, settings: NotifySettings) -> None:
        """Answer what a user of the chat said; what comes from elsewhere is not even answered."""
        press, message = update.callback_query, update.message
        sender = press.sender if press else message.sender if message else BotUser()
        place = press.message.chat if press else message.chat if message else BotChat()
        if str(place.id) != chat or str(sender.id) not in settings.telegram_users:
            log.warning("telegram: ignored what user %d said in chat %d", sender.id, place.id)
            return
        by = f"telegram {_name(sender.username or sender.first_name or str(sender.id))}"
        if press:
            said, _ = await self._settle(press.data, "", by)
            await call_bot("answerCallbackQuery", {"callback_query_id": press.id, "text": said[:200]})
        else:
            said = await self._answer_words(message.text if message else "", by)
        if said:
            await call_bot("sendMessage", {"chat_id": chat, "text": said[:4000], "disable_web_page_preview": True})

    async def _answer_words(self, text: str, by: str) -> str:
        """Carry out `/answer NUMBER WORDS`; return what to say about it. All else is talk among users."""
        command, _, rest = text.strip().partition(" ")
        if command.partition("@")[0] != "/answer":
            return ""
        number, _, words = rest.strip().partition(" ")
        if not number or not words.strip():
            return "write it as /answer NUMBER WORDS"
        entry = self._store.inbox.find(number)
        if entry is None:
            return f"nothing in the inbox is called {number[:40]}"
        code = signing.answer_code(answer_secret(self._store), entry)
        return (await self._settle(code, words, by))[0]


def _name(text: str) -> str:
    """Return a name from outside as it is stored and shown."""
    return "".join(each for each in text if each.isprintable())[:60]


def _is_of_slack(address: str, settings: NotifySettings) -> bool:
    """Tell whether an address is where Slack takes replies, or on the server of the user's own webhook."""
    try:
        parts, own = urlsplit(address), urlsplit(settings.others.get("slack") or "")
    except ValueError:
        return False
    if parts.scheme == "https" and parts.hostname == SLACK:
        return True
    return bool(own.netloc) and (parts.scheme, parts.netloc) == (own.scheme, own.netloc)
