"""Events that older stores hold are read as those of today."""

import pytest

from corral.model.events import Event, Noted, StatusChanged, StoredEvent, UserAsked


@pytest.mark.parametrize(
    ("body", "event"),
    [
        (b'{"type":"moved","what":"run 01q","status":"done"}', StatusChanged("run", "01q", "done")),
        (
            b'{"type":"moved","what":"node a b","status":"failed","reason":"x"}',
            StatusChanged("node", "a b", "failed", "x"),
        ),
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
