"""A conflict of any kind moves nothing, is told file by file, and is settled by a side, a file, an agent, or given up."""

import contextlib
import re
import sqlite3
import subprocess

import pytest

from tests.rig.command import Corral
from tests.rig.merging import looks, merge_state, work
from tests.rig.repository import Repo, git

FILES = {"a.txt": "one\ntwo\nthree\n", "b.txt": "b\n" * 20, "dir/c.txt": "c\n", "crlf.txt": "x\r\ny\r\nz\r\n"}
#: what the agent does, what the person does meanwhile, which path is told, and of which kind
KINDS = {
    "contents": ("sed -i s/two/THEIRS/ a.txt", "sed -i s/two/OURS/ a.txt", "a.txt", "contents"),
    "add/add": ("echo t > new.txt", "echo o > new.txt", "new.txt", "add/add"),
    "modify/delete": ("echo more >> a.txt", "git rm -q a.txt", "a.txt", "modify/delete"),
    "delete/modify": ("rm a.txt", "echo more >> a.txt", "a.txt", "modify/delete"),
    "rename/rename": ("git mv b.txt theirs.txt", "git mv b.txt ours.txt", "b.txt", "rename/rename"),
    "rename/delete": ("git mv b.txt theirs.txt", "git rm -q b.txt", "theirs.txt", "rename/delete"),
    "binary": ("printf 'x\\0t' > bin", "printf 'x\\0o' > bin", "bin", "binary"),
    "file/directory": ("rm -r dir; echo file > dir", "echo more > dir/d.txt", "dir", "file/directory"),
    "line endings": (
        "printf 'x\\r\\nT\\r\\nz\\r\\n' > crlf.txt",
        "printf 'x\\r\\nO\\r\\nz\\r\\n' > crlf.txt",
        "crlf.txt",
        "contents",
    ),
    "link and file": ("rm a.txt; ln -s b.txt a.txt", "echo more >> a.txt", "a.txt", ""),
}


def together(corral: Corral, kind: str) -> Repo:
    repo = corral.repo(files=FILES)
    (repo.folder / "bin").write_bytes(b"x\0b")
    repo.commit({})
    script, meanwhile, _, _ = KINDS[kind]
    work(corral, repo, script)
    subprocess.run(["sh", "-ec", meanwhile], cwd=repo.folder, check=True, timeout=60)
    repo.commit({})
    return repo


@pytest.mark.parametrize("kind", KINDS)
def test_a_conflict_of_every_kind_moves_nothing_and_can_be_settled(corral: Corral, kind: str) -> None:
    repo = together(corral, kind)
    before = looks(repo)
    merged = corral("merge", "@last", "--json")
    assert merged.code == 3, merged
    assert merged.json["merge"]["status"] == "conflict"
    assert looks(repo) == before

    preview = corral("merge", "@last", "--preview", "--json")
    assert preview.code == 3
    told = {conflict["path"]: conflict["kind"] for conflict in preview.json["conflicts"]}
    path, word = KINDS[kind][2:]
    found = [name for name in told if name == path or name.startswith(f"{path}~")]
    assert found, told
    assert word in told[found[0]]
    assert sorted(told) == sorted(merged.json["merge"]["conflicts"])
    shown = corral("show", "@last").out
    assert "conflict into main, nothing was moved: " in shown
    assert "next     corral answer " in shown

    settled = corral("merge", "@last", *[word for name in told for word in ("--resolve", f"{name}=theirs")])
    assert settled.code == 0, settled
    assert repo.git("status", "--porcelain") == ""
    assert merge_state(corral)["status"] == "merged"
    assert corral("undo", "@last").code == 0
    assert looks(repo) == before


@pytest.mark.parametrize(("side", "line"), [("ours", "OURS"), ("theirs", "THEIRS")])
def test_a_preferred_side_wins_only_where_both_changed_the_same_lines(corral: Corral, side: str, line: str) -> None:
    text = "".join(f"line {number}\n" for number in range(30))
    repo = corral.repo(files={"a.txt": text})
    work(corral, repo, "sed -i 's/^line 3$/THEIRS/; s/^line 25$/of the agent/' a.txt")
    repo.commit({"a.txt": text.replace("line 3\n", "OURS\n").replace("line 15\n", "of the person\n")})
    assert corral("merge", "@last", "--strategy", side).code == 0
    merged = (repo.folder / "a.txt").read_text().splitlines()
    assert (merged[3], merged[15], merged[25]) == (line, "of the person", "of the agent")


def test_a_submodule_in_conflict(corral: Corral) -> None:
    library = corral.repo("library", {"lib.txt": "library\n"})
    repo = corral.repo()
    repo.git("submodule", "--quiet", "add", str(library.folder), "lib")
    repo.git("commit", "--quiet", "-m", "with a library")
    work(corral, repo, "cd lib; echo theirs > t.txt; git add .; git commit -qm t")
    (repo.folder / "lib/o.txt").write_text("ours")
    git(repo.folder / "lib", "add", ".")
    git(repo.folder / "lib", "commit", "--quiet", "-m", "ours")
    repo.git("commit", "--quiet", "-am", "ours")
    mine = repo.git("rev-parse", "HEAD:lib")
    merged = corral("merge", "@last", "--json")
    assert merged.code == 3, merged
    assert merged.json["merge"]["conflicts"] == ["lib"]
    assert corral("merge", "@last", "--resolve", "lib=ours").code == 0
    assert repo.git("rev-parse", "HEAD:lib") == mine


def test_files_are_settled_one_after_another_and_the_choices_are_kept(corral: Corral) -> None:
    repo = corral.repo(files={"a.txt": "a\n", "b.txt": "b\n"})
    work(corral, repo, "echo ta > a.txt; echo tb > b.txt")
    repo.commit({"a.txt": "oa\n", "b.txt": "ob\n"})
    answer = corral.root / "answer"
    answer.write_text("both\n")
    assert corral("merge", "@last").code == 3
    first = corral("merge", "@last", "--resolve", f"a.txt={answer}", "--json")
    assert first.code == 3
    assert first.json["merge"]["conflicts"] == ["b.txt"]
    assert corral("merge", "@last", "--resolve", "nothing.txt=ours").code == 2
    assert corral("merge", "@last", "--resolve", "b.txt=ours").code == 0
    assert (repo.folder / "a.txt").read_text() == "both\n"
    assert (repo.folder / "b.txt").read_text() == "ob\n"


def test_a_merge_in_conflict_is_given_up(corral: Corral) -> None:
    repo = together(corral, "contents")
    before = looks(repo)
    assert corral("merge", "@last", "--abort").code == 2
    assert corral("merge", "@last").code == 3
    assert corral("merge", "@last", "--abort").code == 0
    assert merge_state(corral)["status"] == "ready"
    assert looks(repo) == before
    assert corral("inbox", "--json").json == []
    assert corral("merge", "@last").code == 3
    (asked_again,) = corral("inbox", "--json").json
    assert corral("answer", asked_again["id"], "abort").code == 0
    assert corral("merge", "@last").code == 3
    assert len(corral("inbox", "--json").json) == 1


def test_a_conflict_waits_in_the_inbox_and_its_answer_counts(corral: Corral) -> None:
    repo = together(corral, "contents")
    assert corral("merge", "@last").code == 3
    (entry,) = corral("inbox", "--json").json
    assert entry["kind"] == "conflict"
    assert "a.txt" in entry["text"]
    assert "either answer merges the run" in entry["context"]
    assert corral("answer", entry["id"], "theirs").code == 0
    assert merge_state(corral)["commit"] == repo.head  # as it was told: nothing else is needed
    merged = corral("merge", "@last")
    assert merged.code == 0, merged
    assert "THEIRS" in (repo.folder / "a.txt").read_text()
    assert corral("inbox", "--json").json == []


def week_later(corral: Corral) -> None:
    """Let the time be over that a person has to answer."""
    with sqlite3.connect(corral.home / "corral.db") as database:
        database.execute("UPDATE inbox SET deadline = 1 WHERE answered_at IS NULL")
    database.close()


def dump(corral: Corral) -> list[str]:
    with contextlib.closing(sqlite3.connect(corral.home / "corral.db")) as database:
        return list(database.iterdump())


def test_a_conflict_that_nobody_settles_ends_and_the_run_can_be_merged_again(corral: Corral) -> None:
    repo = together(corral, "contents")
    before = looks(repo)
    assert corral("merge", "@last").code == 3
    week_later(corral)
    stored = dump(corral)
    assert merge_state(corral)["status"] == "ready"  # it is told wherever one looks first
    assert corral("inbox", "--json").json == []
    assert dump(corral) == stored, "looking writes nothing"
    assert corral("merge", "@last", "--abort").code == 2
    assert looks(repo) == before
    (entry, *_) = corral("inbox", "--all", "--json").json
    assert (entry["answer"], entry["answered_by"]) == ("abort", "deadline")
    assert "to try again: corral merge" in entry["outcome"]
    assert "nobody settled it in time" in corral("logs", "@last").out
    assert corral("merge", "@last").code == 3
    (asked_again,) = corral("inbox", "--json").json
    assert corral("answer", asked_again["id"], "theirs").code == 0
    assert merge_state(corral)["status"] == "merged"


def test_an_answer_that_cannot_land_is_asked_again(corral: Corral) -> None:
    repo = together(corral, "contents")
    assert corral("merge", "@last").code == 3
    (entry,) = corral("inbox", "--json").json
    repo.write({"a.txt": "not committed\n"})
    refused = corral("answer", entry["id"], "theirs")
    assert refused.code == 2
    assert "not clean" in refused.err
    (again,) = corral("inbox", "--json").json
    assert again["id"] != entry["id"]
    repo.git("checkout", "--quiet", "--", "a.txt")
    assert corral("answer", again["id"], "theirs").code == 0
    assert merge_state(corral)["status"] == "merged"


@pytest.mark.parametrize("by", ["deadline", "person"])
def test_a_step_of_a_flow_whose_conflict_is_given_up_fails_and_can_be_done_again(corral: Corral, by: str) -> None:
    repo = corral.repo(files={"price.txt": "4\n"})
    flow = corral.root / "lands.yaml"
    flow.write_text(
        'nodes:\n  a: {run: "echo 7 > price.txt"}\n  ok: {gate: "Land?", needs: [a]}\n'
        "  land: {merge: {into: main}, needs: [ok]}\n"
    )
    begun = corral("flow", "run", flow, "--repo", repo.folder, "--json")
    run = begun.json["run"]
    repo.commit({"price.txt": "9\n"})
    (gate,) = corral("inbox", "--json").json
    assert corral("answer", gate["id"], "yes").code == 0
    assert corral("resume", run, "--json").code == 3
    (entry,) = corral("inbox", "--json").json
    if by == "deadline":
        week_later(corral)
    else:
        assert f"corral resume {run}" in corral("answer", entry["id"], "abort").out
    shown = corral("show", run).out
    assert "is answered: abort" in shown
    over = corral("resume", run, "--json")
    assert over.json["status"] in ("failed", "partial"), over
    assert "has ended: it was in conflict in price.txt" in over.json["nodes"][-1]["reason"]
    assert corral("inbox", "--json").json == []
    again = corral("retry", run, "--json")
    assert again.code == 3, again
    (entry,) = corral("inbox", "--json").json
    assert corral("answer", entry["id"], "theirs").code == 0
    assert corral("resume", run, "--json").code == 0
    assert (repo.folder / "price.txt").read_text() == "7\n"


def test_an_agent_settles_it_and_the_result_is_proven(corral: Corral) -> None:
    repo = corral.repo(files={"a.txt": "one\ntwo\nthree\n"})
    run = work(corral, repo, "sed -i s/two/THEIRS/ a.txt", "--check", "! grep -q nonsense a.txt")["run"]
    repo.commit({"a.txt": "one\nOURS\nthree\n"})
    corral.agent("lazy", "touch done.txt")
    corral.agent("wise", "grep -q '<<<<<<<' a.txt || exit 1; printf 'one\\nOURS and THEIRS\\nthree\\n' > a.txt")
    before = looks(repo)
    left = corral("merge", run, "--resolve-with", "lazy", "--tries", "2")
    assert left.code == 3, left
    assert "still has marks" in left.err
    assert left.err.count("try ") == 2
    assert looks(repo) == before
    settled = corral("merge", run, "--resolve-with", "wise")
    assert settled.code == 0, settled
    assert (repo.folder / "a.txt").read_text() == "one\nOURS and THEIRS\nthree\n"
    assert len(repo.git("show", "--no-patch", "--format=%P", "HEAD").split()) == 2
    assert merge_state(corral, run)["status"] == "merged"
    assert corral("undo", run).code == 0
    assert looks(repo) == before


TRIES = """
[[step]]
try = 1
run = "echo first > a.txt; echo wrong > b.txt; mkdir d; echo 1 > d/one.txt"
[[step]]
try = 2
run = "echo bad > a.txt; echo second > b.txt; rm old.txt"
[[step]]
end = "done"
"""


def test_parts_of_several_attempts_become_one_checked_result(corral: Corral) -> None:
    repo = corral.repo(files={"a.txt": "a\n", "b.txt": "b\n", "old.txt": "old\n"})
    check = ("--check", "cat *.txt | grep second")
    outcome = corral.run(repo, "t", "--agent", corral.script(TRIES), "--retries", "1", *check)
    assert outcome.json["status"] == "done", outcome
    wrong = corral("merge", "@last", "--take", "a.txt=2,b.txt=1")
    assert wrong.code == 1, wrong
    assert "grep second` fails" in wrong.err
    assert corral("merge", "@last", "--take", "nowhere.txt=1").code == 2
    assert corral("merge", "@last", "--take", "a.txt=7").code == 2
    taken = corral("merge", "@last", "--take", "a.txt=1,b.txt=2", "--take", "d=1", "--take", "old.txt=2")
    assert taken.code == 0, taken
    files = {name: (repo.folder / name).read_text() for name in ("a.txt", "b.txt", "d/one.txt")}
    assert files == {"a.txt": "first\n", "b.txt": "second\n", "d/one.txt": "1\n"}
    assert not (repo.folder / "old.txt").exists()
    assert corral("undo", "@last").code == 0
    assert (repo.folder / "a.txt").read_text() == "a\n"


SIDES = """
[[step]]
try = 1
run = "sed -i 's/^line 2$/first 2/; s/^line 20$/first 20/; s/^line 40$/first 40/' a.txt; chmod +x a.txt; rm old.txt; echo 1 > new.txt; printf 'x\\\\0' > bin"
[[step]]
try = 2
run = "sed -i 's/^line 10$/second 10/; s/^line 20$/second 20/; s/^line 30$/&\\\\nsecond 30/' a.txt; echo more >> old.txt; sed -i 's/^b\\\\r$/second\\\\r/' crlf.txt; echo ok > done.txt"
[[step]]
end = "done"
"""


def test_hunks_of_several_attempts_become_one_checked_file(corral: Corral) -> None:
    text = "".join(f"line {number}\n" for number in range(1, 41))
    repo = corral.repo(files={"a.txt": text, "old.txt": "old\n", "odd#1": "x\n"})
    (repo.folder / "crlf.txt").write_bytes(b"a\r\nb\r\nc")
    repo.commit({})
    run = corral.run(repo, "t", "--agent", corral.script(SIDES), "--retries", "1", "--check", "test -f done.txt").json
    assert run["status"] == "done", run
    told = {each["attempt"][-1]: each for each in corral("diff", "@last", "--hunks", "--json").json}
    files = {who: {file["path"]: file for file in each["files"]} for who, each in told.items()}
    numbers = {who: [hunk["number"] for hunk in each["a.txt"]["hunks"]] for who, each in files.items()}
    assert numbers == {"1": [1, 2, 3], "2": [1, 2, 3]}
    assert files["1"]["a.txt"]["hunks"][1]["text"] == " line 19\n-line 20\n+first 20\n line 21\n"
    assert files["1"]["bin"]["whole"] == "not text"
    shown = corral("diff", "@last", "2", "--hunks").out
    assert "a.txt#3   @@ -30,2 +30,3 @@" in shown
    assert "  +second 30" in shown

    before = looks(repo)
    one = corral("merge", "@last", "--preview", "--take", "a.txt#2=1", "--json").json
    assert (one["files"], one["insertions"], one["deletions"]) == (["a.txt"], 1, 1)
    clash = corral("merge", "@last", "--take", "a.txt#1,2=1,a.txt#1-3=2", "--no-checks")
    assert clash.code == 2
    assert "hunk 2 of" in clash.err
    assert "do not go together: both change line 20" in clash.err
    for wrong, why in (
        ("a.txt#4=1", "has no hunk 4"), ("bin#1=1", "only"), ("old.txt#1=1,old.txt#1=2", "removed that file"),
        ("crlf.txt#1=1", "did not change that file"), ("a.txt#0=1", "numbered from 1"), ("a.txt,1", "not FILE=WHAT"),
    ):  # fmt: skip
        refused = corral("merge", "@last", "--take", wrong)
        assert (refused.code, looks(repo)) == (2, before), (wrong, refused)
        assert why in refused.err or why == "only", (wrong, refused)

    taken = corral(
        "merge", "@last", "--no-checks", "--take", "a.txt#1,3=1,a.txt#1-3=2,crlf.txt#1=2,old.txt#1=1,new.txt#1=1"
    )
    assert taken.code == 0, taken
    changed = {2: "first 2", 10: "second 10", 20: "second 20", 30: "line 30\nsecond 30", 40: "first 40"}
    wanted = "".join(f"{changed.get(number, f'line {number}')}\n" for number in range(1, 41))
    assert (repo.folder / "a.txt").read_text() == wanted
    assert not (repo.folder / "a.txt").stat().st_mode & 0o111  # hunks are lines; the mode comes with the whole file
    assert (repo.folder / "crlf.txt").read_bytes() == b"a\r\nsecond\r\nc"
    assert (repo.folder / "new.txt").read_text() == "1\n"
    assert not (repo.folder / "old.txt").exists()
    assert corral("undo", "@last").code == 0
    assert looks(repo) == before
    rest = corral("merge", "@last", "--no-checks", "--take", "a.txt=1,a.txt#1,3=2", "--take", "odd#1#all=2")
    assert rest.code == 0, rest
    assert (repo.folder / "a.txt").read_text() == wanted.replace("second 20", "first 20")
    assert (repo.folder / "a.txt").stat().st_mode & 0o111


def test_tasks_of_one_run_that_clash_are_settled_like_any_conflict(corral: Corral) -> None:
    repo = corral.repo(files={"price.txt": "4\n"})
    flow = corral.root / "two.yaml"
    flow.write_text('nodes:\n  a: {run: "echo 7 > price.txt"}\n  b: {run: "echo 8 > price.txt"}\n')
    ended = corral("flow", "run", flow, "--repo", repo.folder)
    assert ended.code == 0, ended
    known = "conflict a and b both changed price.txt: the merge will ask whose version counts"
    assert known in ended.out
    assert known in corral("show", "@last").out
    shown = corral("show", "@last", "--json").json["merge"]
    assert (shown["status"], shown["clashes"]) == ("ready", [{"one": "a", "other": "b", "files": ["price.txt"]}])
    preview = corral("merge", "@last", "--preview")
    assert (preview.code, "between  a and b, two nodes of this run" in preview.out) == (3, True)
    merged = corral("merge", "@last")
    assert merged.code == 3
    assert "into main between a and b: nothing was moved" in merged.out
    (waits,) = corral("inbox", "--json").json
    assert re.match(r"a and b of run \S+ both changed price.txt", waits["text"])
    assert "ours: what a wrote, theirs: what b wrote" in waits["context"]
    assert "conflict a and b both changed price.txt, nothing was moved" in corral("show", "@last").out
    assert (repo.folder / "price.txt").read_text() == "4\n"
    landed = corral("merge", "@last", "--resolve", "price.txt=theirs")
    assert landed.code == 0, landed
    assert (repo.folder / "price.txt").read_text() == "8\n"
    assert corral("undo", "@last").code == 0
    assert corral("merge", "@last", "--strategy", "ours").code == 0
    assert (repo.folder / "price.txt").read_text() == "7\n"


def test_tasks_that_changed_one_file_in_different_places_do_not_clash(corral: Corral) -> None:
    repo = corral.repo(files={"a.txt": "".join(f"{number}\n" for number in range(20))})
    flow = corral.root / "two.yaml"
    flow.write_text("nodes:\n  a: {run: sed -i s/^1$/x/ a.txt}\n  b: {run: sed -i s/^18$/x/ a.txt}\n")
    ended = corral("flow", "run", flow, "--repo", repo.folder)
    assert (ended.code, "conflict" in ended.out) == (0, False), ended


def test_a_conflict_with_what_was_taken_back_is_none_any_more(corral: Corral) -> None:
    repo = corral.repo(files={"price.txt": "4\n"})
    flow = corral.root / "two.yaml"
    flow.write_text('nodes:\n  a: {run: "echo 7 > price.txt"}\n  b: {run: "echo 8 > price.txt"}\n')
    assert corral("flow", "run", flow, "--repo", repo.folder, "--json").code == 0
    repo.git("branch", "release")
    for into in ("release", "main"):
        assert corral("merge", "@last", "--pick", "1", "--into", into).code == 0
        assert corral("merge", "@last", "--pick", "2", "--into", into).code == 3
    assert corral("undo", "@last").code == 0
    (waits,) = corral("inbox", "--json").json
    assert "and release both changed" in waits["text"]
    (closed,) = [each for each in corral("inbox", "--all", "--json").json if each["id"] != waits["id"]]
    assert (closed["answer"], closed["answered_by"]) == ("taken back", "corral undo")
    assert corral("undo", "@last").code == 0
    assert corral("inbox", "--json").json == []
    assert merge_state(corral) == {"status": "undone", "into": "main", "commit": None, "conflicts": []}
    assert corral("merge", "@last", "--pick", "2").code == 0
    assert (repo.folder / "price.txt").read_text() == "8\n"
