"""A typed client of corral's HTTP API: standard library and msgspec, no more."""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec
from msgspec import Struct, field

from corral.model import InboxEntry, Run
from corral.model.merge import Conflicts, Preview, Strategy
from corral.model.review import Comment, NewComment
from corral.model.server import Diff, QueueState, RunPage, RunSummary

__all__ = ["Client", "Event", "Trouble"]
T = TypeVar("T")
RECONNECT_SECONDS = 1.0
MOST_BEATS_MISSED = 60.0  #: the server says every 15 s that it is still here


class Client:
    """Talks to one server: `Client("http://127.0.0.1:4747", token)`."""

    def __init__(self, address: str, token: str, timeout_seconds: float = 600.0) -> None:
        self.wire = ApiConnection(address, token, timeout_seconds)

    # --- runs

    def submit(self, task: str, *, key: str | None = None, **more: Any) -> Run:  # noqa: ANN401 -- as the API has it
        """Put a task into the queue. `more` is what POST /runs takes; the same key and body twice is one run."""
        headers = {"Idempotency-Key": key} if key is not None else {}
        return self.wire.ask("POST", "/runs", Run, send={"task": task, **more}, headers=headers)

    def show(self, run: str) -> Run:
        return self.wire.ask("GET", f"/runs/{run}", Run)

    def runs(self, *, limit: int = 50, before: str | None = None, **filters: str) -> RunPage:
        """Return a page of runs, newest first; filters: status, label, repo, agent, unmerged, q, since."""
        return self.wire.ask("GET", query("/runs", limit=limit, before=before, **filters), RunPage)

    def all_runs(self, **filters: str) -> Iterator[RunSummary]:
        """Yield every run, newest first, a page at a time."""
        before: str | None = None
        while True:
            page = self.runs(limit=500, before=before, **filters)
            yield from page.runs
            if page.next is None:
                return
            before = page.next

    def events(self, run: str, *, after: int = 0, node: str | None = None) -> Iterator[Event]:
        """Yield the events of a run as they come, without gap or duplicate, until it is over."""
        return self.wire.events(query(f"/runs/{run}/events", node=node), after)

    def wait(self, run: str) -> Run:
        """Return a run once it is over, or waits for a user."""
        for _ in self.events(run):
            pass  # only the end of the events matters
        return self.show(run)

    def run(self, task: str, **more: Any) -> Run:  # noqa: ANN401
        """Submit a task and wait until it is over."""
        return self.wait(self.submit(task, **more).run)

    # --- act

    def stop(self, run: str) -> Run:
        return self.wire.ask("POST", f"/runs/{run}/stop", Run)

    def rename(self, run: str, name: str) -> Run:
        """Give a run a name; an empty one takes it away."""
        return self.wire.ask("POST", f"/runs/{run}/rename", Run, send={"name": name})

    def pause(self, run: str, node: str | None = None) -> str:
        return self._post_action(f"/runs/{run}/pause", {"node": node})

    def resume(self, run: str, node: str | None = None) -> Run:
        return self.wire.ask("POST", f"/runs/{run}/resume", Run, send={"node": node})

    def comment(self, run: str, *comments: NewComment) -> list[Comment]:
        return self.wire.ask("POST", f"/runs/{run}/comments", list[Comment], send={"comments": comments})

    def revise(self, run: str, text: str = "", attempt: str | None = None) -> Run:
        return self.wire.ask("POST", f"/runs/{run}/revise", Run, send={"text": text, "attempt": attempt})

    def retry(self, run: str, node: str | None = None) -> Run:
        return self.wire.ask("POST", f"/runs/{run}/retry", Run, send={"node": node})

    def steer(self, run: str, text: str) -> str:
        """Tell the agents of a run something; return what became of it, in words."""
        return self._post_action(f"/runs/{run}/steer", {"text": text})

    def _post_action(self, path: str, send: object) -> str:
        return str(self.wire.ask("POST", path, dict[str, Any], send=send)["answer"])

    # --- keep or take back

    def diff(self, run: str, attempt: str | None = None) -> Diff:
        return self.wire.ask("GET", query(f"/runs/{run}/diff", attempt=attempt), Diff)

    def preview(self, run: str, *, strategy: Strategy = "auto", into: str | None = None) -> Preview:
        send = {"strategy": strategy, "into": into}
        return self.wire.ask("POST", f"/runs/{run}/merge/preview", Preview, send=send)

    def merge(self, run: str, *, strategy: Strategy = "auto", into: str | None = None) -> Run:
        """Merge a run; where it is in conflict nothing was moved, and `merge.status` says so."""
        return self._post_merge(run, {"strategy": strategy, "into": into})

    def resolve(self, run: str, choices: dict[str, str]) -> Run:
        """Merge a run with each file in conflict settled: `{"a.py": "theirs"}`."""
        return self._post_merge(run, {"resolve": choices})

    def conflicts(self, run: str, *, into: str | None = None) -> Conflicts:
        """Return what prevents merging a run, with the texts of all sides."""
        return self.wire.ask("GET", query(f"/runs/{run}/conflicts", into=into), Conflicts)

    def _post_merge(self, run: str, send: object) -> Run:
        return msgspec.json.decode(self.wire.raw("POST", f"/runs/{run}/merge", send=send, fine=(409,)), type=Run)

    def undo(self, run: str) -> Run:
        return self.wire.ask("POST", f"/runs/{run}/undo", Run)

    # --- inbox and queue

    def inbox(self, *, whole: bool = False) -> list[InboxEntry]:
        return self.wire.ask("GET", query("/inbox", all="true" if whole else None), list[InboxEntry])

    def answer(self, entry: str, text: str) -> InboxEntry:
        return self.wire.ask("POST", f"/inbox/{entry}", InboxEntry, send={"answer": text})

    def queue(self) -> QueueState:
        return self.wire.ask("GET", "/queue", QueueState)

    def agents(self) -> Sequence[dict[str, Any]]:
        return self.wire.ask("GET", "/agents", list[dict[str, Any]])


class Trouble(Exception):
    """What the server refused, as its problem document says it."""

    def __init__(self, status: int, code: str, detail: str, hint: str = "", retry_seconds: float = 0.0) -> None:
        super().__init__(f"{detail} ({hint})" if hint else detail)
        self.status, self.code, self.detail, self.hint, self.retry_seconds = status, code, detail, hint, retry_seconds


class Event(Struct, frozen=True, kw_only=True):
    """An event of a run; what belongs to its type is in `fields`."""

    seq: int
    at: str
    run: str
    type: str
    node: str | None = None
    attempt: str | None = None
    fields: dict[str, Any] = field(default_factory=dict[str, Any])


class _ServerProblem(Struct):
    detail: str = ""
    code: str = ""
    hint: str = ""


class ApiConnection:
    """One server, one token. A connection is made for each call: it may be used from several threads."""

    def __init__(self, address: str, token: str, timeout_seconds: float = 60.0) -> None:
        self._parts, self._token, self._timeout = urlsplit(address), token, timeout_seconds

    def ask(
        self, method: str, path: str, kind: type[T], *, send: object = None, headers: Mapping[str, str] | None = None
    ) -> T:
        """Call the API and decode the answer."""
        return msgspec.json.decode(self.raw(method, path, send=send, headers=headers), type=kind)

    def raw(
        self, method: str, path: str, *, send: object = None, headers: Mapping[str, str] | None = None,
        fine: tuple[int, ...] = (),
    ) -> bytes:  # fmt: skip
        """Call the API; return the body, or raise what the server says is wrong."""
        connection = self._connection(self._timeout)
        try:
            answer = self._request(connection, method, path, send, headers or {})
            body = answer.read()
        finally:
            connection.close()
        problem = "problem" in answer.headers.get("Content-Type", "")  # 409 may also come with a document
        if answer.status >= 300 and (problem or answer.status not in fine):
            raise _trouble(answer, body)
        return body

    def events(self, path: str, after: int) -> Iterator[Event]:
        """Yield events as they come; a connection that breaks is made again where it broke, until the run is over."""
        while True:
            connection = self._connection(MOST_BEATS_MISSED)
            try:
                answer = self._request(connection, "GET", path, None, {"Last-Event-ID": str(after)})
                if answer.status == 204:
                    return
                if answer.status != 200:
                    raise _trouble(answer, answer.read())
                for name, data in _messages(answer):
                    if name == "end":
                        return
                    event = _event(data)
                    after = event.seq
                    yield event
            except (OSError, http.client.HTTPException):
                pass  # the server, or something between, went away: it is asked again
            finally:
                connection.close()
            time.sleep(RECONNECT_SECONDS)

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=timeout, context=ssl.create_default_context())
        return http.client.HTTPConnection(host, port, timeout=timeout)

    def _request(
        self, connection: http.client.HTTPConnection, method: str, path: str, send: object, more: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        headers = {"Authorization": f"Bearer {self._token}", **more}
        body = None
        if send is not None:
            headers["Content-Type"], body = "application/json", msgspec.json.encode(send)
        connection.request(method, f"{self._parts.path.rstrip('/')}/api/v1{path}", body, headers)
        return connection.getresponse()


def query(path: str, **values: object) -> str:
    """Return a path with what is given as its query."""
    given = {name: value for name, value in values.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def _messages(answer: http.client.HTTPResponse) -> Iterator[tuple[str, bytes]]:
    name, data = "message", b""
    for line in answer:
        text = line.rstrip(b"\r\n")
        if not text and data:
            yield name, data
            name, data = "message", b""
        elif text.startswith(b"data: "):
            data += text[6:]
        elif text.startswith(b"event: "):
            name = text[7:].decode()


def _event(data: bytes) -> Event:
    found = msgspec.json.decode(data, type=dict[str, Any])
    known = {name: found.pop(name, None) for name in ("seq", "at", "run", "type", "node", "attempt")}
    return Event(**known, fields=found)  # type: ignore[arg-type]


def _trouble(answer: http.client.HTTPResponse, body: bytes) -> Trouble:
    try:
        problem = msgspec.json.decode(body, type=_ServerProblem)
    except msgspec.DecodeError:
        problem = _ServerProblem(detail=body[:200].decode(errors="replace") or answer.reason)
    wait = answer.headers.get("Retry-After", "0")
    return Trouble(answer.status, problem.code, problem.detail, problem.hint, float(wait) if wait.isdecimal() else 0.0)
