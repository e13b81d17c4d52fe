"""Slack, Telegram and ntfy on the loopback, as their documentation describes them."""

import hashlib
import hmac
import http.server
import itertools
import json
import queue
import time
from typing import Any
from urllib.parse import urlencode

from tests.rig.receiver import LoopbackServer
from tests.rig.server import Answer, Server

Said = dict[str, Any]


class ChatServer(LoopbackServer, http.server.ThreadingHTTPServer):
    """Answers posts by `take`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Posts)
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def take(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        raise NotImplementedError


class Posts(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, ChatServer)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, answer = self.server.take(self.path, headers, body)
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- its name there
        pass


class FakeSlack(ChatServer):
    """Incoming webhooks, response addresses, and users who press buttons."""

    def __init__(self, secret: str) -> None:
        self.secret = secret
        self.messages: queue.Queue[Said] = queue.Queue()
        self.replies: queue.Queue[Said] = queue.Queue()
        super().__init__()

    def take(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        del headers
        said = json.loads(body)
        for block in said.get("blocks", []):
            if not _is_block(block):
                return 400, b"invalid_blocks"
        (self.replies if path.startswith("/response/") else self.messages).put(said)
        return 200, b"ok"

    def press(self, server: Server, action: Said, user: str, at: float | None = None) -> Answer:
        """Have a user press a button, or type words and press enter."""
        return self.post(server, *self.pressed(action, user, at))

    def pressed(self, action: Said, user: str, at: float | None = None) -> tuple[bytes, dict[str, str]]:
        """Return what Slack posts then."""
        payload = {
            "type": "block_actions", "user": {"id": user, "username": user.lower(), "team_id": "T1"},
            "api_app_id": "A1", "token": "old", "trigger_id": "1.2", "actions": [action],
            "response_url": f"{self.url}/response/1",
        }  # fmt: skip
        body = urlencode({"payload": json.dumps(payload)}).encode()
        moment = str(int(at or time.time()))
        digest = hmac.new(self.secret.encode(), f"v0:{moment}:".encode() + body, hashlib.sha256).hexdigest()
        return body, {"X-Slack-Request-Timestamp": moment, "X-Slack-Signature": f"v0={digest}"}

    def post(self, server: Server, body: bytes, signature: dict[str, str]) -> Answer:
        headers = {"Content-Type": "application/x-www-form-urlencoded", **signature}
        return server.ask("POST", "slack", body, token=None, headers=headers)


def _is_block(block: Said) -> bool:
    """Tell whether Slack would take a block: https://docs.slack.dev/reference/block-kit/blocks."""
    match block:
        case {"type": "section", "text": {"type": "mrkdwn", "text": str(text)}}:
            return 0 < len(text) <= 3000
        case {"type": "actions", "elements": [*elements]}:
            names = [each["action_id"] for each in elements]
            texts = [each["text"]["text"] for each in elements]
            values = [each["value"] for each in elements]
            sizes = all(len(text) <= 75 for text in texts) and all(len(value) <= 2000 for value in values)
            return 0 < len(elements) <= 25 and len(set(names)) == len(names) and sizes
        case {"type": "input", "block_id": str(name), "label": _, "element": {"type": "plain_text_input"}}:
            return len(name) <= 255
        case _:
            return False


class FakeTelegram(ChatServer):
    """The bot API: https://core.telegram.org/bots/api."""

    def __init__(self, token: str) -> None:
        self.token, self._numbers = token, itertools.count(100)
        self.updates: list[Said] = []
        self.offsets: list[int] = []
        self.messages: queue.Queue[Said] = queue.Queue()
        self.notices: queue.Queue[Said] = queue.Queue()
        super().__init__()

    def take(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        del headers
        bot, _, method = path.removeprefix("/bot").partition("/")
        if bot != self.token:
            return 401, json.dumps({"ok": False, "error_code": 401, "description": "Unauthorized"}).encode()
        said = json.loads(body)
        if method == "getUpdates":
            self.offsets.append(said["offset"])
            found = [each for each in self.updates if each["update_id"] >= said["offset"]]
            return 200, json.dumps({"ok": True, "result": found}).encode()
        if method == "sendMessage":
            rows = said.get("reply_markup", {}).get("inline_keyboard", [])
            if not all(1 <= len(key["callback_data"].encode()) <= 64 for row in rows for key in row):
                return 400, b'{"ok":false,"error_code":400,"description":"Bad Request: BUTTON_DATA_INVALID"}'
            self.messages.put(said)
        elif method == "answerCallbackQuery":
            self.notices.put(said)
        return 200, json.dumps({"ok": True, "result": {}}).encode()

    def press(self, data: str, user: int, chat: int) -> None:
        who = {"id": user, "is_bot": False, "first_name": "Ada", "username": f"user{user}"}
        press = {"id": "77", "from": who, "message": {"message_id": 1, "chat": {"id": chat}}, "data": data}
        self.updates.append({"update_id": next(self._numbers), "callback_query": press})

    def say(self, text: str, user: int, chat: int) -> None:
        who = {"id": user, "is_bot": False, "first_name": "Ada"}
        said = {"message_id": 2, "from": who, "chat": {"id": chat, "type": "private"}, "date": 1, "text": text}
        self.updates.append({"update_id": next(self._numbers), "message": said})


class FakeNtfy(ChatServer):
    """A server of ntfy: https://docs.ntfy.sh/publish/#action-buttons."""

    def __init__(self) -> None:
        self.messages: queue.Queue[tuple[str, list[Said]]] = queue.Queue()
        super().__init__()

    def take(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        del path
        actions = json.loads(headers.get("actions", "[]"))
        good = all(each["action"] in ("http", "view") and each["label"] and each["url"] for each in actions)
        if len(actions) > 3 or not good:
            return 400, b'{"code":40018,"http":400,"error":"invalid request: actions invalid"}'
        self.messages.put((body.decode(), actions))
        return 200, b"{}"
