"""Raw HTTP against a scripted model, and reading what it streams."""

import json
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

Json = dict[str, Any]


@dataclass(frozen=True)
class Received:
    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Json:
        return json.loads(self.text)

    @property
    def events(self) -> list[Json]:
        """The data of server-sent events, without the closing [DONE]."""
        blocks = [block for block in self.text.split("\n\n") if block]
        data = [block.partition("data: ")[2] for block in blocks]
        return [json.loads(each) for each in data if each != "[DONE]"]

    @property
    def lines(self) -> list[Json]:
        return [json.loads(line) for line in self.text.splitlines()]


def connect(url: str) -> HTTPConnection:
    return HTTPConnection(urlsplit(url).netloc, timeout=60)


def send(url: str, method: str, path: str, body: object = None) -> Received:
    connection = connect(url)
    try:
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": "application/json", "X-Api-Key": "sk-fake"})
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Received(response.status, headers, response.read().decode())
    finally:
        connection.close()


def post(url: str, path: str, body: object) -> Received:
    return send(url, "POST", path, body)


def get(url: str, path: str) -> Received:
    return send(url, "GET", path)


def schema(*names: str) -> Json:
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}}
