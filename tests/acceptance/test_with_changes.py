"""Work as it is: runs that start from uncommitted changes, and folders in which results are tried."""

from pathlib import Path

from tests.rig.command import Corral
from tests.rig.repository import Repo


def dirty(corral: Corral) -> Repo:
    repo = corral.repo(files={"a.txt": "a\n", "b.txt": "b\n", "gone.txt": "x\n", ".gitignore": "*.log\n"})
    (repo.folder / "a.txt").write_text("a staged\n")
    repo.git("add", "a.txt")
    (repo.folder / "b.txt").write_text("b unstaged\n")
    (repo.folder / "gone.txt").unlink()
    (repo.folder / "new").mkdir()
    (repo.folder / "new" / "c.txt").write_text("untracked\n")
    (repo.folder / "noise.log").write_text("ignored\n")
    return repo


def test_a_run_starts_from_the_checkout_as_it_is_and_leaves_it_alone(corral: Corral) -> None:
    corral.agent("mine", "cat a.txt b.txt new/c.txt > seen.txt; ls >> seen.txt")
    repo = dirty(corral)
    head, state, index = (
        repo.git("rev-parse", "HEAD"),
        repo.git("status", "--porcelain"),
        (repo.folder / ".git" / "index").read_bytes(),
    )
    below = repo.folder / "new"
    done = corral("run", "look", "--agent", "mine", "--with-changes", "--json", cwd=below)
    assert done.code == 0, done.err
    attempt = done.json["nodes"][0]["attempts"][0]
    assert attempt["files_changed"] == ["seen.txt"], "what was there before is no change of the agent's"
    seen = repo.git("show", f"{attempt['commit']}:seen.txt").splitlines()
    assert seen == ["a staged", "b unstaged", "untracked", "a.txt", "b.txt", "new", "seen.txt"]
    base = done.json["base"]
    assert repo.git("rev-parse", f"{base}^") == head
    assert repo.git("rev-parse", "HEAD") == head
    assert repo.git("status", "--porcelain") == state
    assert (repo.folder / ".git" / "index").read_bytes() == index


def test_its_base_is_held_until_the_run_is_done(corral: Corral) -> None:
    corral.agent("bad", "exit 3")
    repo = dirty(corral)
    run = corral("run", "x", "--agent", "bad", "--retries", "0", "--with-changes", "--json", cwd=repo.folder).json
    assert run["status"] == "failed"
    repo.git("gc", "--quiet", "--prune=now")
    assert repo.git("show", f"{run['base']}:new/c.txt") == "untracked"
    (corral.config_file.parent / "bad.sh").write_text("#!/bin/sh\necho x > x.txt\n")
    assert corral("retry", "--json", cwd=repo.folder).json["status"] == "done"


def test_without_changes_it_is_the_last_commit_and_the_note_names_the_option(corral: Corral) -> None:
    corral.agent("mine", "echo x > x.txt")
    repo = dirty(corral)
    told = corral("run", "x", "--agent", "mine", cwd=repo.folder)
    assert "4 files are not committed" in told.err
    assert "--with-changes" in told.err
    repo.git("stash", "--include-untracked")
    clean = corral("run", "x", "--agent", "mine", "--with-changes", "--json", cwd=repo.folder).json
    assert clean["base"] == repo.git("rev-parse", "HEAD"), "nothing to snapshot"
    both = corral("run", "x", "--agent", "mine", "--with-changes", "--base", "main", cwd=repo.folder)
    assert (both.code, "contradict" in both.err) == (2, True)


def test_a_result_is_opened_in_a_folder_that_clean_lists_and_removes(corral: Corral) -> None:
    corral.agent("mine", "echo x > x.txt")
    repo = corral.repo(files={"a.txt": "a\n", ".gitignore": "*.log\n"})
    run = corral.run(repo, "x", "--agent", "mine").json["run"]
    opened = corral("open", cwd=repo.folder)
    folder = Path(opened.out.strip())
    assert sorted(each.name for each in folder.iterdir()) == [".gitignore", "a.txt", "x.txt"]
    (folder / "build.log").write_text("ignored\n")
    (folder / "x.txt").write_text("tried\n")
    again = corral("open", run, "1", "--json", cwd=repo.folder).json
    assert (again["folder"], again["new"], again["attempt"]) == (str(folder), False, f"{run}-1")
    assert (folder / "x.txt").read_text() == "tried\n"
    kept = corral("clean", "--keep", "0")
    assert f"you changed x.txt in {folder}" in kept.out
    assert folder.exists()
    (folder / "x.txt").write_text("x\n")
    listed = corral("clean", "--keep", "0", "--dry-run", "--json").json
    assert str(folder) in listed[0]["removed"]
    assert corral("clean", "--keep", "0").code == 0
    assert not folder.exists()
    assert repo.git("status", "--porcelain") == ""


def test_there_is_nothing_to_open_where_nothing_changed(corral: Corral) -> None:
    corral.agent("mine", "true")
    repo = corral.repo()
    corral.run(repo, "look", "--agent", "mine", "--read-only")
    refused = corral("open", cwd=repo.folder)
    assert (refused.code, "nothing to try" in refused.err) == (2, True)


def test_show_and_merge_say_when_the_base_has_moved(corral: Corral) -> None:
    corral.agent("mine", "echo x > x.txt")
    repo = corral.repo()
    corral.run(repo, "x", "--agent", "mine")
    assert "moved" not in corral("show", cwd=repo.folder).out
    repo.commit({"later.txt": "1\n"})
    repo.git("pack-refs", "--all")
    assert "moved    main has 1 commit since this run started" in corral("show", cwd=repo.folder).out
    repo.commit({"later.txt": "2\n"})
    assert corral("show", "--json", cwd=repo.folder).json["merge"]["behind"] == 2
    assert "behind   main has 2 commits" in corral("merge", "--preview", cwd=repo.folder).out
    merged = corral("merge", cwd=repo.folder)
    assert merged.code == 0, merged.err
    assert "main has moved: 2 commits since this run started" in merged.err
