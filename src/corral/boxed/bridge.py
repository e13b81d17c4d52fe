"""Between an agent that starts its MCP servers itself, and its toolbox: lines of JSON here, requests there.

It runs in the box by itself: the standard library is all it needs.
"""

import http.client
import json
import os
import sys
import threading
import urllib.parse

SECONDS = 120.0
MOST_AT_ONCE = 8


class Bridge:
    """Hands each line on as a request of its own, so that one that waits holds up no other."""

    def __init__(self, url: str, token: str) -> None:
        self._place, self._token = urllib.parse.urlsplit(url), token
        self._writing = threading.Lock()
        self._free = threading.Semaphore(MOST_AT_ONCE)

    def run(self) -> None:
        """Continue until the agent closes our stdin."""
        active: list[threading.Thread] = []
        for line in sys.stdin.buffer:
            if not line.strip():
                continue
            self._free.acquire()
            thread = threading.Thread(target=self._hand_on, args=(line,))
            thread.start()
            active = [each for each in active if each.is_alive()] + [thread]
        for thread in active:
            thread.join()

    def _hand_on(self, line: bytes) -> None:
        try:
            reply = self._ask(line)
        except (OSError, http.client.HTTPException) as error:
            reply = _sorry(line, f"the toolbox cannot be reached: {error}")
        finally:
            self._free.release()
        if reply.strip():
            with self._writing:
                sys.stdout.buffer.write(reply.strip() + b"\n")
                sys.stdout.buffer.flush()

    def _ask(self, line: bytes) -> bytes:
        connection = http.client.HTTPConnection(self._place.netloc, timeout=SECONDS)
        try:
            fields = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
            connection.request("POST", self._place.path, line, fields)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status >= 400:
                raise OSError(f"{answer.status} {body.decode(errors='replace').strip()}")
            return body
        finally:
            connection.close()


def _sorry(line: bytes, words: str) -> bytes:
    """Answer what cannot be handed on: an agent would wait for its answer."""
    try:
        message = json.loads(line)
    except ValueError:
        return b""
    if not isinstance(message, dict) or "id" not in message or "method" not in message:
        return b""
    error = {"code": -32000, "message": words}
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode()


if __name__ == "__main__":
    Bridge(os.environ["CORRAL_TOOLBOX"], os.environ["CORRAL_TOOLBOX_TOKEN"]).run()
