"""Somebody's web address: answers with what a test says, and keeps what came."""

import http.server
import queue
import threading
from typing import Self


class Receiver(http.server.ThreadingHTTPServer):
    """A server on the loopback that hears posts."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Hook)
        self.answers: list[int] = []
        self.got: queue.Queue[tuple[dict[str, str], bytes]] = queue.Queue()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook"


class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Receiver)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.answers.pop(0) if self.server.answers else 204
        self.server.got.put(({name.lower(): value for name, value in self.headers.items()}, body))
        self.send_response(status)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- its name there
        pass
