"""The inbox in the store: asked once, answered once, by whoever comes first or by its deadline."""

import asyncio
import json
import os
import pty
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from corral.config.settings import NotifySettings
from corral.model import Entry, Question, RunPlan
from corral.model.flow import Flow
from corral.model.money import Limit, Refusal, Window
from corral.rules.money import limits
from corral.rules.text import questions as rules
from corral.store.opening import open_store
from corral.store.parts.runs import Runs
from corral.world.notify.notify import notify
from tests.rig.stores import opened


@pytest.fixture
def store(tmp_path: Path) -> Runs:
    return opened(tmp_path)


def gate(node: str = "ok", deadline: float = 100.0) -> Question:
    return rules.gate_question(("run1", node, 0), "Land it?", "no", deadline)


def test_the_same_question_is_asked_once(store: Runs) -> None:
    first, new = store.inbox.ask(gate(), 1.0)
    again, new_again = store.inbox.ask(gate(deadline=200.0), 2.0)
    assert (new, new_again) == (True, False)
    assert again == first
    assert [entry.id for entry in store.inbox.waiting()] == [first.id]


def money(more: float, window: Window = "run") -> Question:
    who = limits.Spender(run="run1", node="a", agent="x", repo="/r")
    return limits.budget_question(who, "run1-1", Refusal(Limit(window=window, usd=1.0), 1.0, 0.0, 0.5), more, 1.0)


def ask_for_money(store: Runs, question: Question) -> tuple[Entry, bool]:
    return store.inbox.ask(question, 1.0, lambda entry: limits.offered_usd(question) > limits.offered_usd(entry))


def test_a_run_asks_once_about_a_limit_and_offers_the_largest_raise(store: Runs) -> None:
    first, _ = ask_for_money(store, money(3.0))
    asked: tuple[tuple[float, Window], ...] = ((3.5, "run"), (2.0, "run"), (0.5, "node"))
    for more, window in asked:  # nodes that stop at the same moment
        entry, new = ask_for_money(store, money(more, window))
        assert (entry.id, new, entry.choices[0]) == (first.id, False, "raise 3.50")
    other, new = ask_for_money(store, money(0.5, "day"))
    assert new
    assert [entry.id for entry in store.inbox.waiting()] == [first.id, other.id]


def test_a_limit_that_was_raised_and_reached_again_is_asked_about_again(store: Runs) -> None:
    first, _ = ask_for_money(store, money(3.0))
    store.inbox.answer(first.id, "raise", "me", 2.0)
    again, new = ask_for_money(store, money(2.0))
    assert new
    assert again.id != first.id
    kept = store.inbox.find(first.id)
    assert kept
    assert limits.granted_raise(kept) == (3.0, ("node", "run"))


def test_the_end_of_an_attempt_takes_back_its_questions_but_not_those_about_money(store: Runs) -> None:
    entry, _ = ask_for_money(store, money(3.0))  # of the whole run, whichever attempt came first
    store.inbox.ask(structs.replace(gate(), attempt="run1-1"), 1.0)
    store.inbox.withdraw("run1", "it ended", 2.0, attempt="run1-1")
    assert [each.id for each in store.inbox.waiting()] == [entry.id]


@pytest.mark.parametrize(
    ("window", "windows"), [("node", ("node", "run")), ("run", ("node", "run")), ("day", ("day",))]
)
def test_an_entry_of_an_older_corral_is_still_answered(window: str, windows: tuple[Window, ...]) -> None:
    asked = structs.replace(money(3.0), key=f"run1/budget/{window}/3.0000/1.0000/run1-1")
    old = Entry(**structs.asdict(asked), id="1", created=1.0, answer="yes")
    assert limits.granted_raise(old) == (3.0, windows)


@pytest.mark.parametrize(
    ("window", "words", "limits_for_all", "needed"),
    [
        ("run", "raise", [], "run"),
        ("node", "5", [], "run"),
        ("node", "5", [Limit(window="run", usd=2.0)], "admin"),  # a raise would lift that one, too
        ("day", "raise", [], "admin"),
        ("day", "stop", [], "run"),
    ],
)
def test_who_may_raise_a_limit(window: Window, words: str, limits_for_all: list[Limit], needed: str) -> None:
    entry = Entry(**structs.asdict(money(3.0, window)), id="1", created=1.0)
    plan = RunPlan(
        flow=Flow(name="f", nodes=(), strategy="single"), repo="/r", base="b", git_dir="/r/.git", into="main"
    )
    assert rules.scope_for(entry, words, plan, limits_for_all) == needed


def test_one_answer_counts(store: Runs, tmp_path: Path) -> None:
    entry, _ = store.inbox.ask(gate(), 1.0)
    wins: list[str] = []

    def answer(name: str) -> None:
        own = open_store(tmp_path)  # closed in the thread that opened it
        if own.inbox.answer(entry.id, name, name, 2.0):
            wins.append(name)
        own.close()

    threads = [threading.Thread(target=answer, args=(f"person{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = store.inbox.find(entry.id)
    assert found is not None
    assert wins == [found.answered_by] == [found.answer]
    assert store.inbox.waiting() == []


def test_a_deadline_answers_with_the_default(store: Runs) -> None:
    due, _ = store.inbox.ask(gate("one", 10.0), 1.0)
    later, _ = store.inbox.ask(gate("two", 20.0), 1.0)
    assert store.inbox.answer_due(9.9) == []
    (answered,) = store.inbox.answer_due(10.0)
    assert (answered.id, answered.answer, answered.answered_by) == (due.id, "no", "deadline")
    assert [entry.id for entry in store.inbox.waiting()] == [later.id]
    assert store.inbox.answer_due(10.0) == []
    assert not store.inbox.answer(due.id, "yes", "late", 11.0)


def test_what_nobody_would_hear_is_taken_back(store: Runs) -> None:
    mine, _ = store.inbox.ask(rules.agent_question(("run1", "main", "run1-1"), "a", "May I?", (), "no"), 1.0)
    other, _ = store.inbox.ask(gate(), 1.0)
    store.inbox.withdraw("run1", "it ended", 2.0, "run1-1")
    found = store.inbox.find(mine.id)
    assert found is not None
    assert (found.is_open, found.outcome, found.answered_by) == (False, "it ended", "corral")
    assert [entry.id for entry in store.inbox.waiting()] == [other.id]


@pytest.mark.parametrize("number", ["", "x", "-1", "99", "1 ", "٣", "9" * 30])
def test_no_such_entry(store: Runs, number: str) -> None:
    assert store.inbox.find(number) is None


def test_how_words_are_understood() -> None:
    assert rules.match_answer(("yes", "no"), " Y ") == "yes"
    assert rules.match_answer(("yes", "no"), "NO") == "no"
    assert rules.match_answer(("yes", "no"), "maybe") is None
    assert rules.match_answer(("Allow once", "Allow always", "Reject"), "rej") == "Reject"
    assert rules.match_answer(("Allow once", "Allow always", "Reject"), "allow") is None
    assert rules.match_answer((), " any words ") == "any words"
    assert rules.match_answer((), "  ") is None


@given(st.lists(st.text(min_size=1), min_size=1, max_size=5, unique_by=str.lower), st.text())
def test_what_is_understood_is_a_choice(choices: list[str], text: str) -> None:
    meant = rules.match_answer(choices, text)
    assert meant is None or meant in choices


def test_a_quota_asks_until_it_is_back() -> None:
    known = rules.quota_question("run1", "main", "claude is limited", 500.0, 100.0)
    assert (known.deadline, known.default) == (500.0, "yes")
    assert rules.quota_question("run1", "main", "limited", None, 100.0).deadline == 100.0 + rules.DAY
    assert rules.quota_question("run1", "main", "limited", 50.0, 100.0).deadline == 100.0 + rules.DAY


@pytest.mark.slow
def test_notices_that_fail_are_told_and_hold_nothing_up(store: Runs, tmp_path: Path) -> None:
    entry, _ = store.inbox.ask(gate(), 1.0)
    file = tmp_path / "told"
    ways = NotifySettings(command=f"cat > {file}; exit 3", webhook="http://127.0.0.1:1/nobody")
    told = asyncio.run(notify(entry, ways))
    assert len(told) == 2, told
    assert "ended with 3" in told[0]
    assert "Land it?" in file.read_text()


def test_a_notice_comes_by_every_way_that_is_wanted(
    store: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The desktop by its own program, a command, and the bell of a terminal."""
    shown, file = tmp_path / "shown", tmp_path / "told"
    program = tmp_path / "notify-send"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {shown}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("DISPLAY", ":0")
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        entry, _ = store.inbox.ask(gate(), 1.0)
        assert asyncio.run(notify(entry, NotifySettings(command=f"cat > {file}"))) == []
    assert os.read(leader, 10) == b"\a"
    os.close(leader)
    assert "corral: gate" in shown.read_text()
    assert "Land it?" in shown.read_text()
    assert json.loads(file.read_text())["id"] == entry.id
    monkeypatch.delenv("DISPLAY")
    shown.unlink()
    assert asyncio.run(notify(entry, NotifySettings(bell=False))) == []
    assert not shown.exists()
