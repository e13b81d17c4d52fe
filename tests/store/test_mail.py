"""Letters in the store: taken with a lease, handed out again, acknowledged once, bounded."""

from pathlib import Path

import pytest
from msgspec import structs

from corral.model import Attempt, AttemptRecord, RunPlan, RunRecord
from corral.model.errors import BadRequest
from corral.model.flow import Flow
from corral.rules.context import mail as rules
from corral.store.parts.families import Mail
from corral.store.parts.runs import Runs
from corral.store.records import MailMessage, Reader
from tests.rig.stores import opened

WRITER, READER = "r-1", Reader("r", "build", "r-2")


@pytest.fixture
def store(tmp_path: Path) -> Runs:
    return opened(tmp_path)


@pytest.fixture
def mail(store: Runs) -> Mail:
    return Mail(store, rules.MOST_DELIVERIES)


def letter(text: str, box: str = "build", priority: int = 1, thread: str = "t", run: str = "r") -> MailMessage:
    return MailMessage(
        run=run,
        box=box,
        sender="design",
        sender_run="r",
        sender_attempt=WRITER,
        thread=thread,
        priority=priority,
        text=text,
        at=1.0,
    )


def send(mail: Mail, *letters: MailMessage) -> list[int]:
    return mail.send(letters, rules.check_capacity)


def take(mail: Mail, now: float, seconds: float = 60.0, who: Reader = READER) -> list[str]:
    return [each.text for each in mail.take(who, 20, now, now + seconds)]


def test_the_most_urgent_come_first_and_then_the_oldest(mail: Mail) -> None:
    send(mail, letter("a"), letter("b", priority=3), letter("c"), letter("d", priority=0))
    assert take(mail, 10) == ["b", "a", "c", "d"]


@pytest.mark.slow
def test_a_thousand_are_read_in_the_order_in_which_they_were_written(mail: Mail) -> None:
    """Ten writers, a hundred each, one reader who keeps up: nothing is lost, doubled or overtaken."""
    read: list[str] = []
    for number in range(50):
        for writer in range(10):
            mine = [
                structs.replace(letter(f"{number}.{writer}.{copy}"), sender_attempt=f"w-{writer}") for copy in (0, 1)
            ]
            send(mail, *mine)
        found = mail.take(READER, 20, number, number + 60.0)
        assert mail.read(READER, [each.id for each in found], number) == 20
        read += [each.text for each in found]
    assert read == [f"{number}.{writer}.{copy}" for number in range(50) for writer in range(10) for copy in (0, 1)]


def test_taken_letters_come_again_when_the_lease_is_over(mail: Mail) -> None:
    (first,) = send(mail, letter("a"))
    assert take(mail, 10, 60) == ["a"]
    assert take(mail, 69) == []
    assert take(mail, 70) == ["a"]
    assert mail.read(READER, [first], 71) == 1
    assert mail.read(READER, [first], 72) == 0
    assert take(mail, 1000) == []


def test_one_that_is_never_acknowledged_is_a_dead_one_in_the_end(mail: Mail) -> None:
    send(mail, letter("a"))
    seen = [take(mail, 100 * turn) for turn in range(1, 10)]
    assert seen == [["a"]] * rules.MOST_DELIVERIES + [[]] * (9 - rules.MOST_DELIVERIES)
    assert mail.waiting("r", "build") == 0
    assert [each.deliveries for each in mail.of_run("r")] == [rules.MOST_DELIVERIES]


def test_a_lease_ends_with_the_attempt_that_holds_it(mail: Mail, store: Runs) -> None:
    send(mail, letter("a"))
    assert take(mail, 10, 3600) == ["a"]
    again = Reader("r", "build", "r-3")
    assert take(mail, 11, who=again) == []
    plan = RunPlan(flow=Flow(name="f", strategy="flow", nodes=()), repo="/r", git_dir="/r", base=None, into=None)
    store.add_run(RunRecord(id="r", status="running", reason=None, plan=plan, created=0.0))
    store.save_attempt(
        AttemptRecord(attempt=Attempt(id="r-2", agent="x"), run="r", node="build", phase="over", started=0.0)
    )
    assert take(mail, 12, who=again) == ["a"]


def test_nobody_reads_or_acknowledges_another_s(mail: Mail) -> None:
    ours, theirs = send(mail, letter("a", box="r-9"), letter("b", run="other"))
    assert take(mail, 10) == []
    assert mail.read(READER, [ours, theirs], 11) == 0
    assert mail.thread(READER, "t", 50) == []
    assert take(mail, 12, who=Reader("other", "build", "other-1")) == ["b"]


def test_what_was_not_taken_is_not_acknowledged(mail: Mail) -> None:
    (first,) = send(mail, letter("a"))
    assert mail.read(READER, [first], 5) == 0
    assert take(mail, 6) == ["a"]


def test_floods_are_bounded(mail: Mail) -> None:
    for number in range(rules.MOST_WAITING):
        send(mail, letter(str(number)))
    with pytest.raises(BadRequest, match="the box is full"):
        send(mail, letter("one more"))
    with pytest.raises(BadRequest, match="the box is full"):
        send(mail, letter("x", box="later"), letter("one more"))
    assert mail.waiting("r", "later") == 0, "all or none"
    for number in range(rules.MOST_SENT - rules.MOST_WAITING):
        send(mail, letter("x", box=f"box{number % 10}"))
    with pytest.raises(BadRequest, match="messages; 200 are the most"):
        send(mail, letter("one more", box="elsewhere"))


def test_letters_that_were_read_are_forgotten_after_a_while(mail: Mail) -> None:
    first, _ = send(mail, letter("a"), letter("b"))
    take(mail, 10)
    mail.read(READER, [first], 20)
    mail.close("nobody", before=21)
    assert [each.text for each in mail.of_run("r")] == ["b"]
