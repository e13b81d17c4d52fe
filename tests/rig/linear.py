"""Linear on the loopback: its GraphQL API for apps that issues are delegated to, and its signed webhooks."""

import hashlib
import hmac
import json
import queue
import time
from typing import Any

from tests.rig.chats import ChatServer, Said
from tests.rig.server import Answer, Server

KINDS = ("thought", "action", "elicitation", "response", "error")
STATES = ("pending", "inProgress", "completed", "canceled")


class FakeLinear(ChatServer):
    """Takes activities and updates as https://linear.app/developers/agent-interaction describes them."""

    def __init__(self, token: str, secret: str) -> None:
        self.token, self.secret = token, secret
        self.activities: queue.Queue[Said] = queue.Queue()
        self.plans: list[list[Said]] = []
        self.links: list[Said] = []
        self.refuses = 0  #: so many requests get no answer but 500
        super().__init__()

    def take(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        assert path == "/graphql"
        if headers.get("authorization") != f"Bearer {self.token}":
            return 401, b'{"errors":[{"message":"Authentication required"}]}'
        if self.refuses:
            self.refuses -= 1
            return 500, b"{}"
        asked = json.loads(body)
        query, given = asked["query"], asked["variables"]
        if "agentActivityCreate" in query:
            if not self._activity(given["input"]):
                return 200, b'{"errors":[{"message":"Argument Validation Error"}]}'
            return 200, b'{"data":{"agentActivityCreate":{"success":true}}}'
        if "agentSessionUpdate" in query:
            plan = given["input"].get("plan", [])
            if not all(step["content"] and step["status"] in STATES for step in plan):
                return 200, b'{"errors":[{"message":"Argument Validation Error"}]}'
            self.plans += [plan] if plan else []
            self.links += given["input"].get("externalUrls", [])
            return 200, b'{"data":{"agentSessionUpdate":{"success":true}}}'
        found = {"identifier": given["id"], "title": "make it so", "description": "two, please", "url": ISSUE["url"],
                 "state": {"type": "started"}, "creator": {"name": "Ada"}, "comments": {"nodes": []}}  # fmt: skip
        return 200, json.dumps({"data": {"issue": found}}).encode()

    def _activity(self, given: Said) -> bool:
        content = given["content"]
        if given["agentSessionId"] != THREAD or content["type"] not in KINDS or not content["body"]:
            return False
        self.activities.put(given)
        return True

    def said(self, kind: str) -> Said:
        """Return the next activity of a kind; those before it are passed over, but never another last word."""
        while True:
            given = self.activities.get(timeout=120)
            found = given["content"]["type"]
            if found == kind:
                return given
            assert found == "thought", given

    def call(self, server: Server, action: str, delivery: str, at: float | None = None, **more: Any) -> Answer:
        """Send a webhook about the delegated issue."""
        payload = {
            "type": "AgentSessionEvent", "action": action, "organizationId": "o", "oauthClientId": "c",
            "agentSession": {"id": THREAD, "issue": ISSUE}, "webhookTimestamp": int((at or time.time()) * 1000), **more,
        }  # fmt: skip
        body = json.dumps(payload).encode()
        digest = hmac.new(self.secret.encode(), body, hashlib.sha256).hexdigest()
        headers = {"Linear-Signature": digest, "Linear-Delivery": delivery, "Linear-Event": "AgentSessionEvent"}
        return server.ask("POST", "triggers/linear", body, token=None, headers=headers)


THREAD = "5d0c5c5e-0000-4000-8000-000000000001"
ISSUE = {
    "id": "i",
    "identifier": "ENG-7",
    "title": "make it so",
    "url": "https://linear.app/acme/issue/ENG-7/make-it-so",
}
