"""Receipts hold, and tampering is found, wherever it is done."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from corral.model import Receipt
from corral.rules.checks import receipts
from corral.world import trust
from tests.rig.command import Corral, Outcome
from tests.rig.repository import Repo


@pytest.fixture
def proven(corral: Corral) -> tuple[Corral, Repo, Outcome]:
    corral.agent("mine", "echo good > b.txt")
    repo = corral.repo()
    outcome = corral.run(repo, "mend it", "--agent", "mine", "--check", "grep good b.txt")
    assert outcome.code == 0, outcome
    return corral, repo, outcome


def broken(corral: Corral) -> list[str]:
    """Return what `verify` finds wrong."""
    found = corral("verify", "@last", "--json")
    assert found.code == (0 if found.json["holds"] else 1)
    return [point["what"] for each in found.json["receipts"] for point in each["points"] if not point["holds"]]


def stored(corral: Corral, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the stored record of the last attempt behind corral's back."""
    with sqlite3.connect(corral.home / "corral.db") as database:
        name, text = database.execute("SELECT id, record FROM attempts ORDER BY place DESC").fetchone()
        record = json.loads(text)
        change(record)
        database.execute("UPDATE attempts SET record = ? WHERE id = ?", (json.dumps(record).encode(), name))
    database.close()


def note(repo: Repo, commit: str, text: str) -> None:
    repo.git("notes", "--ref=refs/notes/corral", "add", "-f", "-m", text, commit)


def test_a_receipt_is_shown_and_holds(proven: tuple[Corral, Repo, Outcome]) -> None:
    corral, repo, outcome = proven
    receipt = corral("show", "@last", "--receipt", "--json").json
    assert receipt == repo.receipt(outcome.attempt["commit"])
    assert receipt["tree"] == repo.git("rev-parse", outcome.attempt["commit"] + "^{tree}")
    assert receipt["checks"][0]["command"] == "grep good b.txt"
    assert receipt["sandbox"]["level"] == outcome.attempt["sandbox"]["level"]
    assert len(receipt["seal"]) == 64
    assert (corral.home / "receipt.key").stat().st_mode & 0o777 == 0o600
    assert corral("show", "@last", "--receipt").out.startswith("{")
    assert broken(corral) == []
    assert corral("verify", "@last").out.startswith("holds")


def test_other_versions_of_programs_are_named_when_checks_run_again(corral: Corral) -> None:
    corral.agent("mine", "echo 'VALUE = 2' > values.py")
    repo = corral.repo(files={"values.py": "VALUE = 1\n"})
    check = "python3 -c 'from values import VALUE; assert VALUE == 2'"
    outcome = corral.run(repo, "set VALUE to 2", "--agent", "mine", "--check", check)
    assert outcome.code == 0, outcome
    (now,) = corral("show", "@last", "--receipt", "--json").json["programs"]
    assert now.startswith("Python 3.")
    again = corral("verify", "@last", "--rerun")
    assert (again.code, "ran with" in again.out) == (0, False)
    key = trust.receipt_key(corral.home)
    assert key is not None

    def older(record: dict[str, Any]) -> None:
        receipt = msgspec.convert({**record["receipt"], "programs": ["Python 2.7.18"]}, Receipt)
        record["receipt"] = msgspec.to_builtins(receipts.seal(receipt, key))
        note(repo, receipt.commit, receipts.text(receipts.seal(receipt, key)).decode())

    stored(corral, older)
    assert broken(corral) == []
    again = corral("verify", "@last", "--rerun")
    assert again.code == 0, again
    assert f"its checks ran with Python 2.7.18, and run with {now} now" in again.out


def test_a_changed_note_is_found(proven: tuple[Corral, Repo, Outcome]) -> None:
    corral, repo, outcome = proven
    receipt = repo.receipt(outcome.attempt["commit"])
    note(repo, outcome.attempt["commit"], json.dumps({**receipt, "cost": {"usd": 0.0, "source": "reported"}}))
    assert broken(corral) == ["note"]
    repo.git("notes", "--ref=refs/notes/corral", "remove", outcome.attempt["commit"])
    assert broken(corral) == ["note"]


def test_a_changed_record_is_found(proven: tuple[Corral, Repo, Outcome]) -> None:
    corral, _, _ = proven
    stored(corral, lambda record: record["attempt"].update(cost={"usd": 0.01, "source": "reported"}))
    assert broken(corral) == ["record"]


def test_a_receipt_that_was_changed_everywhere_lacks_its_seal(proven: tuple[Corral, Repo, Outcome]) -> None:
    corral, repo, outcome = proven
    command = "grep better b.txt"

    def lie(record: dict[str, Any]) -> None:
        for held in (record["attempt"], record["receipt"]):
            held["checks"][0]["command"] = command

    stored(corral, lie)
    note(repo, outcome.attempt["commit"], corral("show", "@last", "--receipt").out)
    assert broken(corral) == ["seal"]


def test_another_tree_under_the_same_receipt_is_found(proven: tuple[Corral, Repo, Outcome]) -> None:
    corral, repo, _ = proven
    other = repo.commit({"a.txt": "good, but other\n"})

    def swap(record: dict[str, Any]) -> None:
        record["attempt"]["commit"] = record["receipt"]["commit"] = other

    stored(corral, swap)
    assert broken(corral) == ["tree", "diff", "ref", "note", "seal"]


def test_a_moved_ref_is_found(proven: tuple[Corral, Repo, Outcome]) -> None:
    corral, repo, outcome = proven
    repo.git("update-ref", f"refs/corral/attempts/{outcome.attempt['id']}", repo.head)
    assert broken(corral) == ["ref"]


def test_a_commit_that_is_gone_is_told(proven: tuple[Corral, Repo, Outcome]) -> None:
    corral, repo, _ = proven
    for ref in repo.refs("refs/corral", "refs/heads/corral", "refs/notes"):
        repo.git("update-ref", "-d", ref)
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "--prune=now", "--quiet")
    assert broken(corral) == ["commit"]


def test_another_key_is_found(proven: tuple[Corral, Repo, Outcome]) -> None:
    corral, _, _ = proven
    (corral.home / "receipt.key").write_bytes(b"x" * 32)
    assert broken(corral) == ["seal"]


def test_the_checks_are_run_again_if_asked_for(corral: Corral) -> None:
    corral.agent("mine", "echo good > b.txt")
    outside = corral.root / "outside"
    outside.mkdir()
    sign = outside / "sign"
    sign.touch()
    outcome = corral.run(
        corral.repo(), "t", "--agent", "mine", "--check", f"test -e {sign}", "--read", "**", "--read", str(outside)
    )
    assert outcome.code == 0, outcome
    again = corral("verify", "@last", "--rerun", "--json")
    assert again.code == 0, again
    sign.unlink()
    assert corral("verify", "@last").code == 0
    found = corral("verify", "@last", "--rerun")
    assert found.code == 1
    assert "it ended with 1, and with 0 before" in found.out
    assert corral.leavings() == []


def test_a_run_without_a_receipt_proves_nothing(corral: Corral) -> None:
    corral.agent("mine", "exit 3")
    corral.run(corral.repo(), "t", "--agent", "mine", "--retries", "0")
    assert corral("verify", "@last").code == 1
    assert corral("show", "@last", "--receipt").code == 2


def test_a_key_made_by_two_at_once_is_one(tmp_path: Path) -> None:
    assert trust.receipt_key(tmp_path) is None
    assert trust.make_receipt_key(tmp_path) == trust.make_receipt_key(tmp_path) == trust.receipt_key(tmp_path)
