"""Records that stores before 0.2 contain, read in their present form."""

from pathlib import Path

from corral.model import ENCODER
from corral.model.forge import IssueWork
from corral.model.merge import QueueRecord
from corral.store.parts.merges import ForgeRecords, Merges
from tests.rig.stores import opened


def test_an_issue_whose_result_was_reported_is_not_reported_again(tmp_path: Path) -> None:
    store = opened(tmp_path)
    forge = ForgeRecords(store)
    forge.put_issue_work(IssueWork(repository="o/r", number="7", url="u", label="corral", run="a", reported=True))
    record = ENCODER.encode({"repository": "o/r", "number": "8", "url": "u", "label": "l", "run": "b", "told": True})
    with store.transaction():
        store.do("put_issue_work", repository="o/r", number="8", run="b", record=record)
    assert [(each.number, each.reported) for each in forge.issue_work("o/r")] == [("7", True), ("8", True)]


def test_a_queue_knows_what_it_merged(tmp_path: Path) -> None:
    store = opened(tmp_path)
    queue = QueueRecord(git_dir="/r/.git", into="main", runs=("c",))
    older = ENCODER.encode({"git_dir": "/r/.git", "into": "main", "runs": ["c"], "landed": ["a", "b"]})
    with store.transaction():
        store.rows("add_queue", git_dir=queue.git_dir, record=older)
    assert [each.merged for each in Merges(store).open_queues("/r/.git")] == [("a", "b")]
