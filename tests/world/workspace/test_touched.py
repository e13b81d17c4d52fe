"""Files of a checkout that were changed: seen whatever was done to hide it."""

import os
from pathlib import Path

import pytest

from corral.world import untrusted_files

NAMES = ["a.txt", "b.txt", "run.sh", "same.txt", "gone/before.txt"]


def test_what_is_changed_removed_or_of_another_mode_is_seen(tmp_path: Path) -> None:
    for name in NAMES[:4]:
        (tmp_path / name).write_text("1\n")
    before = untrusted_files.marks(tmp_path, NAMES)
    times = (tmp_path / "a.txt").stat()
    (tmp_path / "a.txt").write_text("2\n")
    os.utime(tmp_path / "a.txt", ns=(times.st_atime_ns, times.st_mtime_ns))
    (tmp_path / "b.txt").unlink()
    (tmp_path / "run.sh").chmod(0o700)
    (tmp_path / "new.txt").write_text("new")
    (tmp_path / "same.txt").read_text()
    found = untrusted_files.between(before, untrusted_files.marks(tmp_path, NAMES))
    assert found == ("a.txt", "b.txt (removed)", "run.sh (mode)")


def test_a_folder_that_becomes_a_link_changes_what_is_in_it(tmp_path: Path) -> None:
    for folder in ("cases", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "1.json").write_text("1")
    before = untrusted_files.marks(tmp_path, ["cases/1.json"])
    (tmp_path / "cases").rename(tmp_path / "aside")
    (tmp_path / "cases").symlink_to("other")
    assert untrusted_files.between(before, untrusted_files.marks(tmp_path, ["cases/1.json"])) == ("cases/1.json",)


def test_what_is_too_much_is_counted_as_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untrusted_files, "MOST_TOUCHED", 1)
    for name in NAMES[:3]:
        (tmp_path / name).touch()
    before = untrusted_files.marks(tmp_path, NAMES)
    for name in NAMES[:3]:
        (tmp_path / name).unlink()
    assert untrusted_files.between(before, untrusted_files.marks(tmp_path, NAMES)) == (
        "a.txt (removed)",
        untrusted_files.MORE,
    )
