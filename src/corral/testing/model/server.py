"""The scripted model as a server on 127.0.0.1: plays the script, records the requests, closes promptly."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Self

from corral.testing.model.connection import Listener
from corral.testing.model.routes import Reply, Request, route
from corral.testing.model.script import Script, Turn
from corral.testing.model.wire import ModelRequest

LOOK_FOR_STOP_SECONDS = 0.05


class ScriptedModel:
    """A model provider for tests: `with ScriptedModel([Turn(text="hello")]) as model: ... model.url ...`."""

    def __init__(self, turns: Iterable[Turn] | Script, *, port: int = 0, log: Path | None = None) -> None:
        self._script = turns if isinstance(turns, Script) else Script(turns=tuple(turns))
        self._log = log
        self._changed = threading.Condition()
        self._requests: list[Request] = []
        self._attempts: Counter[int | None] = Counter()
        self._served = 0
        self._listener = Listener(port, self)
        self._thread = threading.Thread(
            target=self._listener.serve_forever, args=(LOOK_FOR_STOP_SECONDS,), name="scripted model", daemon=True
        )
        self.url = f"http://127.0.0.1:{self._listener.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown()
        self._thread.join()
        self._listener.close()

    @property
    def requests(self) -> list[Request]:
        """All requests that came so far, in order."""
        with self._changed:
            return list(self._requests)

    @property
    def work_requests(self) -> list[Request]:
        """Those requests that hand the model tools and ask for work; no probe, no count of tokens, no title."""
        routes = [(request, route(request)) for request in self.requests]
        return [request for request, found in routes if not isinstance(found, Reply) and found[1].offers]

    def wait_for(self, path: str, count: int = 1, timeout_seconds: float = 60) -> list[Request]:
        """Wait until `count` requests have come whose path ends so, and return them."""

        def matching() -> list[Request]:
            return [request for request in self._requests if request.path.endswith(path)]

        with self._changed:
            if not self._changed.wait_for(lambda: len(matching()) >= count, timeout_seconds):
                raise TimeoutError(f"{len(matching())} of {count} requests for {path} in {timeout_seconds} s")
            return matching()

    def record(self, request: Request) -> None:
        with self._changed:
            self._requests.append(request)
            if self._log:
                with self._log.open("a", encoding="utf-8") as log:
                    log.write(json.dumps(asdict(request)) + "\n")
            self._changed.notify_all()

    def turn_for(self, asked: ModelRequest) -> Turn:
        with self._changed:
            position = self._script.position(asked.history, self._served, has_tools=bool(asked.offers))
            self._attempts[position] += 1
            self._served += position is not None
            turn = self._script.turn(position, self._attempts[position])
        if position is None and asked.side_text is not None and turn.status is None:
            return Turn(text=asked.side_text, hang_seconds=turn.hang_seconds)
        return turn
