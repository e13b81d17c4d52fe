"""The server: what it records, how it fails on demand, and that it always closes."""

import gzip
import json
import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException, IncompleteRead
from urllib.parse import urlsplit

import pytest

from corral.testing import Script, ScriptedModel, Turn
from tests.testing.exchange import connect, get, post, schema, send

PATH = "/v1/messages"
BODY = {"model": "m", "messages": [], "tools": [{"name": "Bash", "input_schema": schema("command")}]}
STREAM = {**BODY, "stream": True}
LONG = "an answer that is long enough to come in several pieces"


def connection_threads():
    return [thread for thread in threading.enumerate() if "process_request_thread" in thread.name]


def wait_for_connections_to_end():
    for thread in connection_threads():
        thread.join(60)
    assert not connection_threads()


def said(received):
    return received.json["content"][0]["text"]


def test_requests_are_recorded_with_path_query_headers_and_body():
    with ScriptedModel([]) as model:
        post(model.url, PATH + "?beta=true", BODY)
        (request,) = model.requests
    assert (request.method, request.path, request.query) == ("POST", PATH, "beta=true")
    assert request.headers["x-api-key"] == "sk-fake"
    assert request.body == BODY


def test_many_clients_at_once_are_all_answered_and_recorded():
    with ScriptedModel([Turn(text="one")]) as model:
        with ThreadPoolExecutor(8) as clients:
            answers = list(clients.map(lambda number: post(model.url, PATH, {**BODY, "number": number}), range(40)))
        assert {said(answer) for answer in answers} == {"one"}
        assert {request.body["number"] for request in model.requests} == set(range(40))


def test_one_connection_carries_many_requests():
    with ScriptedModel([Turn(text=LONG)]) as model:
        connection = connect(model.url)
        for body in (STREAM, BODY, STREAM):
            connection.request("POST", PATH, json.dumps(body))
            assert connection.getresponse().read()
        connection.close()
        assert len(model.requests) == 3


def test_an_error_comes_so_often_as_scripted_with_its_headers():
    with ScriptedModel([Turn(status=429, times=2, retry_after_seconds=0.5, message="slower", text="at last")]) as model:
        answers = [post(model.url, PATH, BODY) for _ in range(3)]
    assert [answer.status for answer in answers] == [429, 429, 200]
    assert answers[0].headers["retry-after"] == "0.5"
    assert answers[0].json["error"]["message"] == "slower"
    assert said(answers[2]) == "at last"


@pytest.mark.parametrize("status", [401, 429, 500, 529])
def test_an_error_without_times_comes_always_and_for_side_requests_too(status):
    with ScriptedModel([Turn(status=status)]) as model:
        answers = [post(model.url, PATH, body) for body in (BODY, BODY, {**BODY, "tools": []})]
    assert [answer.status for answer in answers] == [status] * 3
    assert f"scripted error {status}" in answers[0].text


def test_requests_in_order_get_the_turns_in_order():
    with ScriptedModel(Script(turns=(Turn(text="one"), Turn(text="two")), in_order=True, toolless=True)) as model:
        assert [said(post(model.url, PATH, {"messages": []})) for _ in range(3)] == ["one", "two", "done"]


def test_a_hang_ends_in_the_answer():
    with ScriptedModel([Turn(hang_seconds=0.01, text="late")]) as model:
        assert said(post(model.url, PATH, BODY)) == "late"


def test_closing_ends_a_hang():
    with ThreadPoolExecutor(1) as clients:
        with ScriptedModel([Turn(hang_seconds=3600)]) as model:
            waiting = clients.submit(post, model.url, PATH, BODY)
            model.wait_for(PATH)
        with pytest.raises((HTTPException, ConnectionError)):
            waiting.result(60)
    wait_for_connections_to_end()


def test_chunks_come_one_by_one_and_closing_ends_a_slow_stream():
    with ScriptedModel([Turn(text=LONG, slow_seconds=3600)]) as model:
        connection = connect(model.url)
        connection.request("POST", PATH, json.dumps(STREAM))
        response = connection.getresponse()
        assert response.readline() == b"event: message_start\n"
    with pytest.raises((IncompleteRead, ConnectionError)):
        response.read()
    connection.close()
    wait_for_connections_to_end()


def test_a_slow_stream_is_complete():
    with ScriptedModel([Turn(text=LONG, slow_seconds=0.001)]) as model:
        assert post(model.url, PATH, STREAM).events[-1]["type"] == "message_stop"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (PATH, STREAM),
        (PATH, BODY),
        ("/v1/chat/completions", {"stream": True}),
        ("/v1/responses", {"stream": True}),
        ("/v1beta/models/m:streamGenerateContent", {}),
        ("/api/chat", {}),
    ],
)
def test_a_dropped_answer_breaks_off_in_the_middle_and_comes_whole_when_asked_again(path, body):
    with ScriptedModel(Script(turns=(Turn(text=LONG, drop=True, times=1),), toolless=True)) as model:
        with pytest.raises(IncompleteRead) as broken:
            post(model.url, path, body)
        assert broken.value.partial
        whole = post(model.url, path, body)
    assert whole.status == 200
    assert len(whole.text) > len(broken.value.partial)


def test_a_client_that_goes_away_leaves_no_trace_on_standard_error(capfd):
    with ScriptedModel([Turn(text=LONG, hang_seconds=0.01, slow_seconds=0.001)]) as model:
        for _ in range(3):
            client = socket.create_connection((urlsplit(model.url).hostname, urlsplit(model.url).port))
            data = json.dumps(STREAM).encode()
            client.sendall(b"POST %s HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (PATH.encode(), len(data), data))
            # closing so sends a reset, the rudest way to leave
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
        model.wait_for(PATH, 3)
        wait_for_connections_to_end()
        assert get(model.url, "/v1/models").status == 200
    assert capfd.readouterr() == ("", "")


def test_an_idle_connection_does_not_keep_it_open():
    with ScriptedModel([]) as model:
        connection = connect(model.url)
        connection.request("GET", "/v1/models")
        connection.getresponse().read()
    wait_for_connections_to_end()
    connection.close()


def test_bodies_may_come_in_chunks_and_compressed():
    with ScriptedModel([Turn(text="one")]) as model:
        connection = connect(model.url)
        data = gzip.compress(json.dumps(BODY).encode())
        pieces = iter([data[:20], data[20:]])
        connection.request("POST", PATH, pieces, {"Content-Encoding": "gzip"}, encode_chunked=True)
        assert connection.getresponse().status == 200
        connection.close()
        assert model.requests[0].body == BODY


@pytest.mark.parametrize("data", [b"{not json", b"[1, 2]", b"\xff\xfe"])
def test_a_body_that_is_no_json_object_is_refused(data):
    with ScriptedModel([]) as model:
        assert post(model.url, PATH, data).status == 400


@pytest.mark.parametrize("path", [PATH, "/v1/chat/completions", "/v1/responses", "/v1beta/models/m:generateContent"])
def test_fields_of_an_unexpected_shape_are_taken_as_absent(path):
    with ScriptedModel([]) as model:
        odd = {"model": 1, "messages": "x", "input": "x", "contents": {}, "tools": [1, {"function": "x"}]}
        assert post(model.url, path, odd).status == 200


def test_models_are_listed_and_unknown_paths_are_not_found():
    with ScriptedModel([]) as model:
        assert get(model.url, "/v1/models?limit=9").json["data"][0]["id"] == "fake-model"
        assert get(model.url, "/v1/models/claude-x").json["id"] == "claude-x"
        assert send(model.url, "HEAD", "/").status == 200
        assert "nothing at /v1/else" in post(model.url, "/v1/else", {}).text
        assert get(model.url, "/else").status == 404


def test_waiting_for_a_request_that_never_comes_says_so():
    with ScriptedModel([]) as model, pytest.raises(TimeoutError, match="0 of 1 requests for /v1/messages"):
        model.wait_for(PATH, timeout_seconds=0.01)


def test_what_asks_for_work_is_told_from_probes_counts_and_titles():
    with ScriptedModel([]) as model:
        for path in (PATH, "/v1/messages/count_tokens", "/v1beta/models/m:countTokens"):
            post(model.url, path, BODY)
        post(model.url, PATH, {"model": "m", "messages": []})
        send(model.url, "HEAD", "/")
        assert len(model.requests) == 5
        assert model.work_requests == model.requests[:1]
