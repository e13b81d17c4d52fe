"""Files of odd sorts in a merge: pointers of large files, line endings, modes, names that differ by case only."""

import pytest

from tests.rig.command import Corral
from tests.rig.merging import looks, merge_state, work
from tests.rig.repository import Repo

pytestmark = pytest.mark.slow

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{0}\nsize {1}\n"
ATTRIBUTES = "*.bin filter=lfs diff=lfs merge=lfs -text\n*.dos text eol=crlf\n"


def with_filters(corral: Corral) -> Repo:
    """Make a repository whose large files are pointers, as one has who has not fetched them."""
    files = {
        ".gitattributes": ATTRIBUTES,
        "clean.bin": POINTER.format("a" * 64, 10),
        "clash.bin": POINTER.format("b" * 64, 10),
        "win.dos": "one\ntwo\nthree\nfour\nfive\n",
    }
    repo = corral.repo(files=files)
    (repo.folder / "win.dos").unlink()
    repo.git("checkout", "--", "win.dos")
    return repo


def trip(corral: Corral, repo: Repo) -> None:
    """Have every program that the attributes may name leave a trace, and fail."""
    program = corral.root / "lfs.sh"
    program.write_text(f"#!/bin/sh\necho $1 >> {corral.root}/ran\nexit 1\n")
    program.chmod(0o755)
    for key in ("filter.lfs.clean", "filter.lfs.smudge", "filter.lfs.process", "merge.lfs.driver", "diff.lfs.textconv"):
        repo.git("config", key, f"{program} {key}")
    repo.git("config", "filter.lfs.required", "true")


def test_pointers_of_large_files_are_text_and_line_endings_stay(corral: Corral) -> None:
    repo = with_filters(corral)
    assert (repo.folder / "win.dos").read_bytes().startswith(b"one\r\ntwo\r\n")
    trip(corral, repo)
    script = (
        f"sed -i s/{'a' * 64}/{'c' * 64}/ clean.bin; sed -i s/{'b' * 64}/{'d' * 64}/ clash.bin; "
        "sed -i 's/^five/FIVE/' win.dos"
    )
    work(corral, repo, script)
    assert not (corral.root / "ran").exists(), (corral.root / "ran").read_text()
    for key in ("clean", "smudge", "process", "required"):
        repo.git("config", "--unset", f"filter.lfs.{key}")
    (repo.folder / "win.dos").write_bytes(b"ONE\r\ntwo\r\nthree\r\nfour\r\nfive\r\n")
    repo.commit({"clash.bin": POINTER.format("e" * 64, 10)})
    before = looks(repo)
    trip(corral, repo)
    clash = corral("merge", "@last", "--json")
    assert (clash.code, clash.json["merge"]["conflicts"]) == (3, ["clash.bin"]), clash
    landed = corral("merge", "@last", "--resolve", "clash.bin=theirs")
    assert landed.code == 0, landed
    assert (repo.folder / "clean.bin").read_text() == POINTER.format("c" * 64, 10)
    assert (repo.folder / "clash.bin").read_text() == POINTER.format("d" * 64, 10)
    assert (repo.folder / "win.dos").read_bytes() == b"ONE\r\ntwo\r\nthree\r\nfour\r\nFIVE\r\n"
    assert repo.git("cat-file", "blob", "HEAD:win.dos") == "ONE\ntwo\nthree\nfour\nFIVE"
    assert corral("undo", "@last").code == 0
    assert not (corral.root / "ran").exists(), (corral.root / "ran").read_text()
    for key in ("clean", "smudge", "process", "required"):
        repo.git("config", "--unset", f"filter.lfs.{key}")
    assert looks(repo) == before


def test_modes_alone_and_names_that_differ_by_case(corral: Corral) -> None:
    repo = corral.repo(files={"run.sh": "echo 1\n", "Readme.md": "read\n" * 9, "tool": "t\n"})
    repo.git("config", "core.ignorecase", "true")  # as a repository has that came from another machine
    work(
        corral,
        repo,
        "chmod +x run.sh; git mv Readme.md README.md; echo both > new.sh; chmod +x new.sh; echo x > TOOL",
    )
    repo.commit({"run.sh": "echo 2\n", "Readme.md": "read\n" * 9 + "more\n", "new.sh": "both\n"})
    before = looks(repo)
    clash = corral("merge", "@last", "--json")
    assert (clash.code, clash.json["merge"]["conflicts"]) == (3, ["new.sh"]), clash
    landed = corral("merge", "@last", "--resolve", "new.sh=theirs")
    assert landed.code == 0, landed
    assert merge_state(corral)["status"] == "merged"
    modes = {line.split("\t")[1]: line.split()[0] for line in repo.git("ls-tree", "HEAD").splitlines()}
    assert (modes["run.sh"], modes["new.sh"]) == ("100755", "100755")
    assert (repo.folder / "run.sh").read_text() == "echo 2\n"
    assert (repo.folder / "run.sh").stat().st_mode & 0o111
    assert (repo.folder / "README.md").read_text().endswith("more\n")
    assert {"README.md", "TOOL", "tool"} <= set(modes)
    assert "Readme.md" not in modes
    assert (repo.folder / "TOOL").read_text() == "x\n"
    assert (repo.folder / "tool").read_text() == "t\n"
    assert corral("undo", "@last").code == 0
    assert looks(repo) == before
