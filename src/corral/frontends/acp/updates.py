"""The updates that a client gets of a session, each kind as it is on the wire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from corral.frontends.acp.connection import EditorConnection

Content = dict[str, object]


def text_block(text: str) -> Content:
    return {"type": "text", "text": text}


def text_content(text: str) -> Content:
    """Return text as a tool call has it."""
    return {"type": "content", "content": text_block(text)}


def diff_content(path: str, old: str | None, new: str) -> Content:
    return {"type": "diff", "path": path, "oldText": old, "newText": new}


class ShownCall(Struct, frozen=True):
    """A tool call about which the user is asked."""

    id: str
    title: str
    kind: str
    content: Sequence[Content] = ()

    def pending(self) -> dict[str, object]:
        """Return it whole, as in a request too: not every client looks a call up by its id."""
        title, content = self.title, list(self.content)
        return {"toolCallId": self.id, "title": title, "kind": self.kind, "status": "pending", "content": content}


class Updates:
    """The updates of one session."""

    def __init__(self, connection: EditorConnection, session: str) -> None:
        self._connection, self.session = connection, session

    @property
    def is_congested(self) -> bool:
        return self._connection.is_congested

    def send(self, kind: str, /, **fields: object) -> None:
        update = {"sessionUpdate": kind, **fields}
        self._connection.notify("session/update", {"sessionId": self.session, "update": update})

    def say(self, text: str) -> None:
        self.send("agent_message_chunk", content=text_block(text))

    def repeat_prompt(self, text: str) -> None:
        self.send("user_message_chunk", content=text_block(text))

    def plan(self, entries: Sequence[Mapping[str, str]]) -> None:
        self.send("plan", entries=list(entries))

    def begin_call(self, call: str, title: str, kind: str, status: str, content: Sequence[Content] = ()) -> None:
        self.send("tool_call", toolCallId=call, title=title, kind=kind, status=status, content=list(content))

    def begin_question(self, call: ShownCall) -> None:
        self.send("tool_call", **call.pending())

    def change_call(self, call: str, **fields: object) -> None:
        self.send("tool_call_update", toolCallId=call, **fields)

    def usage(self, used: int, size: int, usd: float | None) -> None:
        cost = {} if usd is None else {"cost": {"amount": usd, "currency": "USD"}}
        self.send("usage_update", used=used, size=size, **cost)

    def title(self, title: str, updated: str) -> None:
        self.send("session_info_update", title=title, updatedAt=updated)
