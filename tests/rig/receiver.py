"""Servers on the loopback; among them a web address that answers what a test says, and keeps what came."""

import http.server
import queue
import socketserver
import threading
from typing import Self


class LoopbackServer(socketserver.ThreadingTCPServer):
    """A server on the loopback that answers from `start` on, until it is left."""

    daemon_threads = True
    allow_reuse_address = True

    def start(self) -> None:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    @property
    def port(self) -> int:
        return self.server_address[1]


class Receiver(LoopbackServer, http.server.ThreadingHTTPServer):
    """A server on the loopback that hears posts."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Hook)
        self.answers: list[int] = []
        self.pause = 0.0  #: seconds until each answer
        self.got: queue.Queue[tuple[dict[str, str], bytes]] = queue.Queue()
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"


class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Receiver)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.answers.pop(0) if self.server.answers else 204
        self.server.got.put(({name.lower(): value for name, value in self.headers.items()}, body))
        threading.Event().wait(self.server.pause)
        self.send_response(status)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- its name there
        pass
