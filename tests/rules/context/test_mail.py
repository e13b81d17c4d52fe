"""Who may write to whom, and how much."""

import pytest

from corral.model.errors import BadRequest
from corral.rules.context import mail
from corral.rules.context.mail import Box, Circle, Place

PLACES = (
    Place(node="design", over=True),
    Place(node="build", attempts=("r-2",)),
    Place(node="race", attempts=("r-3", "r-4")),
    Place(node="later"),
)


def circle(node: str = "build", attempt: str = "r-2", **more: object) -> Circle:
    return Circle(run="r", node=node, attempt=attempt, places=PLACES, **more)  # pyright: ignore[reportArgumentType]


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
    assert mail.addressed(to, circle()) == [Box("r", name) for name in boxes]


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
        mail.addressed(to, circle())
    assert len(str(refused.value)) < 200


def test_those_who_race_write_to_each_other_but_not_to_themselves() -> None:
    who = circle("race", "r-3")
    assert mail.addressed("race", who) == [Box("r", "r-4")]
    assert Box("r", "r-3") not in mail.addressed("all", who)
    assert mail.signature(who, Box("r", "later")) == "r-3"
    assert mail.others(who) == ["build", "later", "r-4"]
    assert mail.others(circle(parent=Box("top", "top-1"))) == ["race", "later", "parent"]


def test_parents_and_children_are_answered_by_name() -> None:
    parent, child = Box("top", "top-1"), Box("below", "main")
    who = circle(parent=parent, children=[child])
    assert mail.addressed("parent", who) == [parent]
    assert mail.addressed("below", who) == [child]
    assert mail.signature(who, parent) == "r"
    assert mail.signature(who, child) == "parent"


def test_bounds() -> None:
    mail.fits("x" * mail.MOST_BYTES)
    for text in ("", "  \n", "x" * (mail.MOST_BYTES + 1), "ü" * (mail.MOST_BYTES // 2 + 1)):
        with pytest.raises(BadRequest):
            mail.fits(text)
    mail.room(mail.MOST_SENT - 1, 1, mail.MOST_WAITING - 1)
    for counts in ((mail.MOST_SENT, 1, 0), (0, mail.MOST_SENT + 1, 0), (0, 1, mail.MOST_WAITING)):
        with pytest.raises(BadRequest):
            mail.room(*counts)
