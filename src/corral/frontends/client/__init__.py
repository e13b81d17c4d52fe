"""A typed client of corral's HTTP API: standard library and msgspec, no more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from corral.frontends.client.http import ApiConnection, Event, Trouble, query
from corral.model import InboxEntry, Run
from corral.model.merge import Conflicts, Preview, Strategy
from corral.model.review import Comment, NewComment
from corral.model.server import Diff, QueueState, RunPage, RunSummary

__all__ = ["Client", "Event", "Trouble"]


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
        """Return a run once it is over, or waits for a person."""
        for _ in self.events(run):
            pass
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
        """Land a run; where it is in conflict nothing was moved, and `merge.status` says so."""
        return self._post_merge(run, {"strategy": strategy, "into": into})

    def resolve(self, run: str, choices: dict[str, str]) -> Run:
        """Land a run with each file in conflict settled: `{"a.py": "theirs"}`."""
        return self._post_merge(run, {"resolve": choices})

    def conflicts(self, run: str, *, into: str | None = None) -> Conflicts:
        """Return what stands against landing a run, with the texts of all sides."""
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
