"""Events that older stores contain are read as those of today."""

import pytest

from corral.agents.formats.our_events import OurEvents
from corral.model.events import (
    ContextUsed,
    Event,
    Noted,
    QuotaReported,
    StatusChanged,
    SteerTaken,
    StoredEvent,
    UserAsked,
)


@pytest.mark.parametrize(
    ("body", "event"),
    [
        (b'{"type":"moved","what":"run 01q","status":"done"}', StatusChanged("run", "01q", "done")),
        (
            b'{"type":"moved","what":"node a b","status":"failed","reason":"x"}',
            StatusChanged("node", "a b", "failed", "x"),
        ),
        (b'{"type":"filled","tokens":5,"window":9}', ContextUsed(5, 9)),
        (b'{"type":"rationed","window":"5h","used":0.5}', QuotaReported("5h", 0.5)),
        (b'{"type":"heeded","text":"also b"}', SteerTaken("also b")),
        (b'{"type":"moved","what":"attempt 01q-1","status":"running"}', StatusChanged("attempt", "01q-1", "running")),
        (
            b'{"type":"noted","text":"waits for you: ok? (corral answer 3 yes|no)"}',
            UserAsked("", "ok? (corral answer 3 yes|no)"),
        ),
        (b'{"type":"noted","text":"it waits"}', Noted("it waits")),
        (b'{"type":"user_asked","entry":"3","text":"ok?","ways":"yes|no"}', UserAsked("3", "ok?", "yes|no")),
    ],
)
def test_an_event_of_an_older_store_is_read_as_one_of_today(body: bytes, event: Event) -> None:
    assert StoredEvent(1, 0.0, None, None, body).event() == event


def test_a_question_says_how_it_is_answered() -> None:
    assert UserAsked("3", "ok?", "yes|no").words == "ok? (corral answer 3 yes|no)"
    assert UserAsked("", "ok? (corral answer 3 yes|no)").words == "ok? (corral answer 3 yes|no)"


def test_an_agents_line_with_an_older_tag_is_stored_under_the_present_one() -> None:
    conversation = OurEvents("it")
    assert conversation.read('{"type":"heeded","text":"also b"}') == [SteerTaken("also b")]
    assert conversation.read('{"type":"rationed","window":"5h"}') == [QuotaReported("5h")]
