"""Who may write to whom, and how much."""

import pytest

from corral.model.errors import BadRequest
from corral.rules.context import mail
from corral.rules.context.mail import MailAddress, MailNode, MailRecipients

PLACES = (
    MailNode(node="design", over=True),
    MailNode(node="build", attempts=("r-2",)),
    MailNode(node="race", attempts=("r-3", "r-4")),
    MailNode(node="later"),
)


def circle(node: str = "build", attempt: str = "r-2", **more: object) -> MailRecipients:
    return MailRecipients(run="r", node=node, attempt=attempt, places=PLACES, **more)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("to", "boxes"),
    [
        ("later", ["later"]),
        ("race", ["r-3", "r-4"]),
        ("r-4", ["r-4"]),
        ("all", ["r-3", "r-4", "later"]),
    ],
)
def test_a_letter_goes_to(to: str, boxes: list[str]) -> None:
    assert mail.addresses_of(to, circle()) == [MailAddress("r", name) for name in boxes]


@pytest.mark.parametrize(
    ("to", "words"),
    [
        ("design", "is over"),
        ("build", "that is you"),
        ("r-2", "that is you"),
        ("parent", "no parent"),
        ("r-9", "nobody called"),
        ("other-run", "nobody called"),
        ("x" * 5000, "nobody called"),
    ],
)
def test_a_letter_does_not_go_to(to: str, words: str) -> None:
    with pytest.raises(BadRequest, match=words) as refused:
        mail.addresses_of(to, circle())
    assert len(str(refused.value)) < 200


def test_those_who_race_write_to_each_other_but_not_to_themselves() -> None:
    who = circle("race", "r-3")
    assert mail.addresses_of("race", who) == [MailAddress("r", "r-4")]
    assert MailAddress("r", "r-3") not in mail.addresses_of("all", who)
    assert mail.signature(who, MailAddress("r", "later")) == "r-3"
    assert mail.others(who) == ["build", "later", "r-4"]
    assert mail.others(circle(parent=MailAddress("top", "top-1"))) == ["race", "later", "parent"]


def test_parents_and_children_are_answered_by_name() -> None:
    parent, child = MailAddress("top", "top-1"), MailAddress("below", "main")
    who = circle(parent=parent, children=[child])
    assert mail.addresses_of("parent", who) == [parent]
    assert mail.addresses_of("below", who) == [child]
    assert mail.signature(who, parent) == "r"
    assert mail.signature(who, child) == "parent"


def test_bounds() -> None:
    mail.check_length("x" * mail.MOST_BYTES)
    for text in ("", "  \n", "x" * (mail.MOST_BYTES + 1), "ü" * (mail.MOST_BYTES // 2 + 1)):
        with pytest.raises(BadRequest):
            mail.check_length(text)
    mail.check_capacity(mail.MOST_SENT - 1, 1, mail.MOST_WAITING - 1)
    for counts in ((mail.MOST_SENT, 1, 0), (0, mail.MOST_SENT + 1, 0), (0, 1, mail.MOST_WAITING)):
        with pytest.raises(BadRequest):
            mail.check_capacity(*counts)
