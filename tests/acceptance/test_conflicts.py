"""Conflicts as a person sees them, side by side, and how each file is settled; nothing is told of a run that is not so."""

from pathlib import Path

import pytest

from tests.rig.command import Corral
from tests.rig.merging import looks, merge_state, work
from tests.rig.repository import Repo
from tests.rig.server import Server, serving

pytestmark = pytest.mark.slow

NAMES = ("base.txt", "crlf.txt", "ours.txt", "text.txt", "theirs.txt")


def clashing(corral: Corral) -> tuple[Repo, str]:
    """Make a run that clashes with its branch in text of every sort."""
    crlf = "one\r\ntwo\r\nthree\r\n"
    repo = corral.repo(files=dict.fromkeys(NAMES, "one\ntwo\nthree\n"))
    for name, content in (("crlf.txt", crlf.encode()), ("bin", b"x\0"), ("big.txt", b"long\n" * 200_000)):
        (repo.folder / name).write_bytes(content)
    repo.commit({})
    edits = "sed -i s/two/{0}/ *.txt; printf '{0}\\0' > bin; echo {0} >> big.txt"
    run = work(corral, repo, edits.format("THEIRS"), "--check", "! grep -q nonsense text.txt")["run"]
    for path in repo.folder.glob("*.txt"):
        path.write_bytes(path.read_bytes().replace(b"two", b"OURS"))
    (repo.folder / "bin").write_bytes(b"OURS\0")
    with (repo.folder / "big.txt").open("a") as big:
        big.write("OURS\n")
    repo.commit({})
    return repo, run


def test_every_side_is_shown_and_each_file_settled_its_own_way(corral: Corral) -> None:
    repo, run = clashing(corral)
    before = looks(repo)
    with serving(corral, corral.root) as server:
        _shown(server, repo, run)
        _refused(server, run)
        assert looks(repo) == before
        _settled(server, repo, run)
        assert server.ask("POST", f"runs/{run}/undo").status == 200
        assert looks(repo) == before


def _shown(server: Server, repo: Repo, run: str) -> None:
    told = server.ask("GET", f"runs/{run}/conflicts").json
    assert (told["into"], told["before"], told["waits"], told["agent"]) == ("main", repo.head, False, True)
    files = {each["path"]: each for each in told["conflicts"]}
    assert sorted(files) == sorted((*NAMES, "bin", "big.txt"))
    text = files["text.txt"]
    assert [text[side]["text"] for side in ("base", "ours", "theirs")] == [
        f"one\n{word}\nthree\n" for word in ("two", "OURS", "THEIRS")
    ]
    assert "<<<<<<<" in text["merged"]["text"]
    assert files["crlf.txt"]["ours"]["text"] == "one\r\nOURS\r\nthree\r\n"
    assert (files["bin"]["kind"], files["bin"]["ours"]["binary"], files["bin"]["ours"]["text"]) == (
        "binary",
        True,
        None,
    )
    assert (files["big.txt"]["ours"]["large"], files["big.txt"]["ours"]["text"]) == (True, None)
    assert files["big.txt"]["ours"]["size"] > 1_000_000
    only = server.ask("GET", f"runs/{run}/conflicts?path=bin").json["conflicts"]
    assert [each["path"] for each in only] == ["bin"]


def _refused(server: Server, run: str) -> None:
    path = f"runs/{run}/conflicts"
    assert server.ask("POST", path, {"choices": {"other.txt": "ours"}}).status == 400
    assert server.ask("POST", path, {"choices": {"../x": "ours"}}).status == 403
    assert server.ask("POST", path, {"choices": {"text.txt": "mine"}}).status == 422
    moved = server.ask("POST", path, {"choices": {"text.txt": "ours"}, "seen": "0" * 40})
    assert (moved.status, moved.json["code"]) == (409, "conflict")
    assert "has moved since you looked" in moved.json["detail"]


def _settled(server: Server, repo: Repo, run: str) -> None:
    path, seen = f"runs/{run}/conflicts", repo.head
    some = {"base.txt": "base", "ours.txt": "ours", "theirs.txt": "theirs", "bin": "theirs", "big.txt": "ours"}
    first = server.ask("POST", path, {"choices": some, "seen": seen})
    assert (first.status, first.json["merge"]["status"]) == (409, "conflict")
    assert sorted(first.json["merge"]["conflicts"]) == ["crlf.txt", "text.txt"]
    kept = {each["path"]: each["choice"] for each in server.ask("GET", path).json["conflicts"]}
    assert kept == {**some, "crlf.txt": None, "text.txt": None}
    fails = server.ask("POST", path, {"texts": {"crlf.txt": "a\nb\n", "text.txt": "nonsense\n"}})
    assert (fails.status, fails.json["code"], repo.head) == (412, "checks_failed", seen)
    done = server.ask("POST", path, {"texts": {"text.txt": "one\r\nboth\r\n"}, "seen": seen})
    assert (done.status, done.json["merge"]["status"]) == (200, "merged"), done
    words = {name: (repo.folder / name).read_bytes() for name in NAMES}
    assert words == {
        "base.txt": b"one\ntwo\nthree\n",
        "ours.txt": b"one\nOURS\nthree\n",
        "theirs.txt": b"one\nTHEIRS\nthree\n",
        "crlf.txt": b"a\r\nb\r\n",  # as both sides have it
        "text.txt": b"one\nboth\n",
    }
    assert (repo.folder / "bin").read_bytes() == b"THEIRS\0"


def test_an_agent_settles_what_nothing_was_chosen_for(corral: Corral) -> None:
    repo = corral.repo(files={"a.txt": "a\n", "b.txt": "b\n"})
    run = work(corral, repo, "echo ta > a.txt; echo tb > b.txt")["run"]
    repo.commit({"a.txt": "oa\n", "b.txt": "ob\n"})
    corral.agent("wise", "grep -q '<<<<<<<' a.txt && exit 1; grep -q '<<<<<<<' b.txt || exit 1; echo both > b.txt")
    with serving(corral, corral.root) as server:
        body = {"choices": {"a.txt": "theirs"}, "agent": "wise", "tries": 1}
        done = server.ask("POST", f"runs/{run}/conflicts", body)
        assert (done.status, done.json["merge"]["status"]) == (200, "merged"), done
    assert [(repo.folder / name).read_text() for name in ("a.txt", "b.txt")] == ["ta\n", "both\n"]


def test_a_choice_counts_only_for_the_versions_it_was_made_for(corral: Corral) -> None:
    repo = corral.repo(files={"a.txt": "a\n", "b.txt": "b\n"})
    work(corral, repo, "echo ta > a.txt; echo tb > b.txt")
    repo.commit({"a.txt": "oa\n", "b.txt": "ob\n"})
    assert corral("merge", "@last", "--resolve", "a.txt=theirs").code == 3  # at the first go, too, it is kept
    assert merge_state(corral)["conflicts"] == ["b.txt"]
    repo.commit({"a.txt": "newer work\n"})
    left = corral("merge", "@last", "--resolve", "b.txt=base", "--json")
    assert (left.code, left.json["merge"]["conflicts"]) == (3, ["a.txt"])
    assert corral("merge", "@last", "--resolve", "a.txt=ours").code == 0
    assert [(repo.folder / name).read_text() for name in ("a.txt", "b.txt")] == ["newer work\n", "b\n"]


def test_what_landed_is_told_as_landed_whatever_clashes_later(corral: Corral) -> None:
    repo = corral.repo(files={"a.txt": "a\n"})
    repo.git("branch", "release")
    run = work(corral, repo, "echo theirs > a.txt")["run"]
    folder = Path(corral.root / "release")
    repo.git("worktree", "add", "--quiet", str(folder), "release")
    Repo(folder).commit({"a.txt": "released\n"})
    merged = corral("merge", run, "--json").json["merge"]
    assert (merged["status"], merged["into"], merged["commit"]) == ("merged", "main", repo.head)
    clash = corral("merge", run, "--into", "release", "--json")
    assert clash.code == 3
    others = [{"status": "conflict", "into": "release", "commit": None, "conflicts": ["a.txt"]}]
    assert clash.json["merge"] == {**merged, "others": others}
    assert corral("merge", run).code == 0  # main has it: what waits elsewhere is another matter
    landed = corral("merge", run, "--resolve", "a.txt=theirs", "--json")  # goes on with the one that waits
    assert (landed.code, landed.json["merge"]["into"]) == (0, "release"), landed
    assert "others" not in landed.json["merge"]
    assert (folder / "a.txt").read_text() == "theirs\n"
    assert corral("inbox", "--json").json == []
    back = corral("undo", run, "--json").json["merge"]
    assert (back["status"], back["into"]) == ("merged", "main")
    assert (folder / "a.txt").read_text() == "released\n"
    assert corral("undo", run, "--json").json["merge"]["status"] == "undone"
