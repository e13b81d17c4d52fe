"""`corral merge` lands what is proven and moves nothing else; `corral undo` takes it back exactly."""

import subprocess
from pathlib import Path

import pytest

from tests.rig.command import Corral
from tests.rig.merging import looks, merge_state, work
from tests.rig.person import Person, own, owners
from tests.rig.repository import GIT_ENV, Repo, git
from tests.rig.waiting import until

SCRIPT = "echo new > n.txt; echo more >> a.txt; chmod +x src/b.txt; rm c.txt; mkdir -p deep/er; echo d > deep/er/d.txt"
FILES = {"a.txt": "one\n", "src/b.txt": "two\n", "c.txt": "three\n"}


def test_it_lands_on_the_branch_and_undo_takes_it_back_exactly(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    before = looks(repo)
    run = work(corral, repo, SCRIPT, "--check", "test -f n.txt")
    assert run["merge"] == {"status": "ready", "into": "main", "commit": None, "conflicts": []}
    assert looks(repo) == before

    preview = corral("merge", "@last", "--preview", "--json")
    assert preview.code == 0, preview
    assert (preview.json["into"], preview.json["fast_forward"]) == ("main", True)
    assert sorted(preview.json["files"]) == ["a.txt", "c.txt", "deep/er/d.txt", "n.txt", "src/b.txt"]
    assert looks(repo) == before

    merged = corral("merge", "@last", "--json")
    assert merged.code == 0, merged
    landed = {"status": "merged", "into": "main", "commit": repo.head, "conflicts": []}
    assert merged.json["merge"] == {**landed, "attempts": [run["nodes"][0]["attempts"][0]["id"]]}
    assert repo.git("status", "--porcelain") == ""
    assert (repo.folder / "a.txt").read_text() == "one\nmore\n"
    assert (repo.folder / "src/b.txt").stat().st_mode & 0o111
    assert not (repo.folder / "c.txt").exists()

    undone = corral("undo", cwd=repo.folder)
    assert undone.code == 0, undone
    assert looks(repo) == before
    assert merge_state(corral)["status"] == "undone"
    assert corral("undo", "@last").code == 2

    again = corral("merge", "@last")
    assert again.code == 0, again
    assert again.out.startswith("merged ")
    assert merge_state(corral)["status"] == "merged"
    twice = corral("merge", "@last")
    assert twice.code == 0, twice
    assert twice.out == f"nothing  main has the work of {run['run']} already\n"


@pytest.mark.parametrize(
    ("strategy", "parents", "commits"),
    [("auto", 2, 3), ("squash", 1, 2), ("rebase", 1, 3), ("ours", 2, 3), ("theirs", 2, 3)],
)
def test_every_strategy_on_a_branch_that_went_on_and_its_undo(
    corral: Corral, strategy: str, parents: int, commits: int
) -> None:
    repo = corral.repo(files=FILES)
    script = "echo 1 > n.txt; git add .; git commit -qm first; echo 2 >> n.txt"
    work(corral, repo, script, "--check", "grep 2 n.txt")
    there = repo.commit({"other.txt": "meanwhile\n"})
    before = looks(repo)
    merged = corral("merge", "@last", "--strategy", strategy)
    assert merged.code == 0, merged
    assert len(repo.git("show", "--no-patch", "--format=%P", "HEAD").split()) == parents
    assert int(repo.git("rev-list", "--count", f"{there}..HEAD")) == commits - (1 if parents == 1 else 0)
    assert {"n.txt", "other.txt", "a.txt"} <= set(repo.files("HEAD"))
    assert repo.git("status", "--porcelain") == ""
    assert repo.git("show", "--no-patch", "--format=%cn", "HEAD") != ""
    assert corral("undo", "@last").code == 0
    assert looks(repo) == before


def test_rebased_commits_keep_author_and_words(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    work(corral, repo, "echo 1 > n.txt; git add .; git commit -qm 'first words' --author 'Ann <ann@example.org>'")
    repo.commit({"other.txt": "meanwhile\n"})
    assert corral("merge", "@last", "--strategy", "rebase").code == 0
    assert repo.git("log", "-1", "--format=%an|%ae|%s") == "Ann|ann@example.org|first words"


def test_a_check_that_passes_on_each_side_and_fails_on_both_keeps_it_out(corral: Corral) -> None:
    repo = corral.repo(files={"count.txt": "x\n", "limit.sh": "test $(cat *.txt | wc -l) -le 2\n"})
    work(corral, repo, "echo y > y.txt", "--check", "sh ./limit.sh")
    repo.commit({"z.txt": "z\n"})
    before = looks(repo)
    merged = corral("merge", "@last")
    assert merged.code == 1
    assert "fails on the merged tree" in merged.err
    assert looks(repo) == before
    assert merge_state(corral)["status"] == "ready"
    assert corral("merge", "@last", "--no-checks").code == 0


def test_a_dirty_checkout_is_refused_and_autostash_carries_it_over(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    work(corral, repo, "echo new > n.txt; echo more >> a.txt")
    repo.write({"src/b.txt": "mine\n", "untracked.txt": "mine too\n"})
    (repo.folder / "staged.txt").write_text("staged\n")
    repo.git("add", "staged.txt")
    before = looks(repo)
    refused = corral("merge", "@last")
    assert refused.code == 2
    assert "src/b.txt" in refused.err
    assert looks(repo) == before

    merged = corral("merge", "@last", "--autostash")
    assert merged.code == 0, merged
    assert (repo.folder / "n.txt").read_text() == "new\n"
    assert (repo.folder / "src/b.txt").read_text() == "mine\n"
    assert (repo.folder / "untracked.txt").read_text() == "mine too\n"
    status = repo.git("-c", "core.quotePath=false", "status", "--porcelain").split("\n")
    assert sorted(line.strip() for line in status) == ["?? untracked.txt", "A  staged.txt", "M src/b.txt"]


def test_changes_that_do_not_fit_on_top_stay_in_the_stash(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    work(corral, repo, "echo theirs > a.txt")
    repo.write({"a.txt": "mine\n"})
    merged = corral("merge", "@last", "--autostash")
    assert merged.code == 0, merged
    assert "git stash list" in merged.err
    assert (repo.folder / "a.txt").read_text() == "theirs\n"
    assert repo.read("stash@{0}", "a.txt") == "mine"


@pytest.mark.parametrize("ignored", [True, False])
def test_a_file_that_git_does_not_know_is_never_overwritten(corral: Corral, ignored: bool) -> None:
    repo = corral.repo(files={**FILES, ".gitignore": "*.env\n"})
    name = "secret.env" if ignored else "secret.txt"
    work(corral, repo, f"echo theirs > {name}; git add -f {name}; git commit -qm x")
    repo.write({name: "precious\n"})
    before = looks(repo)
    refused = corral("merge", "@last", "--autostash")
    assert refused.code == 2
    assert name in refused.err
    assert looks(repo) == before


def test_every_clean_checkout_of_the_branch_follows_and_others_stay(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    work(corral, repo, "echo new > n.txt")
    repo.git("checkout", "--quiet", "-b", "elsewhere")
    repo.git("worktree", "add", "--quiet", str(corral.root / "second"), "main")
    repo.write({"a.txt": "dirty, but on another branch\n"})
    before = (looks(repo), looks(repo, corral.root / "second"))
    assert corral("merge", "@last").code == 0
    assert (corral.root / "second/n.txt").read_text() == "new\n"
    assert git(corral.root / "second", "status", "--porcelain") == ""
    assert not (repo.folder / "n.txt").exists()
    assert corral("undo", "@last").code == 0
    assert (looks(repo), looks(repo, corral.root / "second")) == before


def test_undo_is_refused_when_newer_work_would_be_lost(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    work(corral, repo, "echo new > n.txt")
    assert corral("merge", "@last").code == 0
    newer = repo.commit({"later.txt": "later\n"})
    refused = corral("undo", "@last")
    assert refused.code == 2
    assert "1 newer commit" in refused.err
    assert repo.head == newer
    repo.git("reset", "--quiet", "--hard", "HEAD~1")
    repo.write({"n.txt": "changed by hand\n"})
    assert corral("undo", "@last").code == 2
    assert (repo.folder / "n.txt").read_text() == "changed by hand\n"


def test_the_same_work_of_another_run_is_to_merge_again_once_it_is_taken_back(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    first, second = (work(corral, repo, "echo new > n.txt", name=name)["run"] for name in ("one", "two"))
    assert corral("merge", first).code == 0
    assert corral("merge", second).out.startswith("nothing ")
    assert corral("undo", cwd=repo.folder).code == 0
    assert [corral("show", run, "--json").json["merge"]["status"] for run in (first, second)] == ["undone", "undone"]
    assert corral("merge", second).out.startswith("merged ")
    assert repo.git("show", "main:n.txt").strip() == "new"


def test_outside_of_a_repository_undo_touches_no_other_one_and_a_result_can_be_applied(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    merged_run = work(corral, repo, "echo new > n.txt")["run"]
    assert corral("merge", "@last").code == 0
    merged, folder = repo.head, corral.root / "plain"
    folder.mkdir()
    refused = corral("undo", cwd=folder)
    assert (refused.code, repo.head) == (2, merged)
    assert refused.err.endswith(f"hint: the last merge is that of {merged_run}: corral undo {merged_run}\n")
    corral.agent("maker", "echo made > made.txt")
    said = corral("run", "t", "--agent", "maker", cwd=folder).out
    patch = corral("diff", cwd=folder).bytes
    offered = next(line for line in said.splitlines() if line.startswith("next "))
    assert offered.endswith(" | git apply")
    assert "--into" not in offered
    subprocess.run(["git", "apply"], cwd=folder, input=patch, env=GIT_ENV, check=True, timeout=60)
    assert (folder / "made.txt").read_text() == "made\n"


def test_a_branch_that_is_not_checked_out_and_a_detached_head(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    repo.git("branch", "release")
    repo.git("checkout", "--quiet", "--detach")
    run = work(corral, repo, "echo new > n.txt")
    assert run["merge"]["into"] is None
    refused = corral("merge", "@last")
    assert refused.code == 2
    assert "--into" in refused.err
    assert corral("merge", "@last", "--into", "nowhere").code == 2
    before = looks(repo)
    assert corral("merge", "@last", "--into", "release").code == 0
    assert repo.read("release", "n.txt") == "new"
    assert looks(repo) | {"refs": ""} == before | {"refs": ""}


def test_the_first_commit_of_a_repository_lands_and_goes_again(corral: Corral) -> None:
    repo = corral.repo(files={})
    work(corral, repo, "echo new > n.txt")
    merged = corral("merge", "@last")
    assert merged.code == 0, merged
    assert (repo.folder / "n.txt").read_text() == "new\n"
    assert repo.git("status", "--porcelain") == ""
    assert corral("undo", "@last").code == 0
    assert repo.refs("refs/heads/main") == []
    assert not (repo.folder / "n.txt").exists()


def test_a_bare_repository(corral: Corral) -> None:
    source = corral.repo(files=FILES)
    git(corral.root, "clone", "--quiet", "--bare", str(source.folder), "bare.git")
    repo = Repo(corral.root / "bare.git")
    work(corral, repo, "echo new > n.txt")
    assert corral("merge", "@last").code == 0
    assert repo.read("main", "n.txt") == "new"
    assert corral("undo", "@last").code == 0
    assert repo.git("rev-parse", "main") == source.head


def test_what_cannot_be_merged_is_refused(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    assert corral("merge", "@last").code == 2
    outcome = corral.run(repo, "t", "--agent", corral.agent("bad", "echo x > x; exit 1"), "--retries", "0")
    assert outcome.code == 1
    refused = corral("merge", "@last")
    assert refused.code == 2
    assert "--pick" in refused.err
    picked = corral("merge", "@last", "--pick", "1")
    assert picked.code == 0, picked
    assert (repo.folder / "x").exists()


def rivals(corral: Corral) -> Repo:
    """Have two scripts of one agent do the same task, each in a file of its own."""
    repo = corral.repo(files=FILES)
    names = ("one", "two")
    scripts = [corral.script(f'[[step]]\nwrite = "{name}.txt"\ntext = "x\\n"\n', f"{name}.toml") for name in names]
    outcome = corral.run(repo, "t", "--agent", ",".join(scripts), "--retries", "0")
    assert outcome.json["status"] == "done", outcome
    return repo


def test_a_name_that_several_attempts_have_is_refused(corral: Corral) -> None:
    repo = rivals(corral)
    before = looks(repo)
    for wrong in (("--pick", "scripted"), ("--take", "one.txt=scripted")):
        refused = corral("merge", "@last", *wrong)
        assert refused.code == 2
        assert "several attempts are `scripted`: 1 (scripted:one.toml), 2 (scripted:two.toml)" in refused.err
    assert looks(repo) == before
    both = "one.txt=scripted:one.toml,two.txt=scripted:two.toml"
    preview = corral("merge", "@last", "--take", both, "--preview", "--json")
    assert sorted(preview.json["files"]) == ["one.txt", "two.txt"]
    assert corral("merge", "@last", "--pick", "scripted:two.toml").code == 0
    run, shown = corral("show", "@last", "--json").json, corral("show", "@last").out
    assert run["merge"]["attempts"] == [f"{run['run']}-2"]
    assert f"merged   into main as {repo.head[:12]}: {run['run']}-2 by scripted (two.toml)\n" in shown
    raced = [line.split()[2] for line in shown.splitlines() if line.startswith(("agent  ", "beside "))]
    assert sorted(name[:9] for name in raced) == ["(one.toml", "(two.toml"]
    assert [name for name in ("one.txt", "two.txt") if (repo.folder / name).exists()] == ["two.txt"]


def test_another_attempt_of_a_node_is_not_landed_on_top_of_one(corral: Corral) -> None:
    repo = rivals(corral)
    repo.git("branch", "release")
    assert corral("merge", "@last", "--pick", "1").code == 0
    landed = looks(repo)
    for other in (("--pick", "2"), ("--pick", "2", "--preview"), ("--take", "two.txt=2"), ("--queue", "--pick", "2")):
        refused = corral("merge", "@last", *other)
        assert refused.code == (1 if "--queue" in other else 2), refused
        assert "attempt 1 of this run is merged into main already" in refused.out + refused.err
        assert looks(repo) == landed
    assert corral("merge", "@last", "--pick", "1").code == 0
    assert looks(repo) == landed
    assert corral("merge", "@last", "--pick", "2", "--into", "release").code == 0
    assert repo.files("release") == sorted((*FILES, "two.txt"))
    assert [corral("undo", "@last").code for _ in ("release", "main")] == [0, 0]

    both = ("--take", "one.txt=1,two.txt=2")
    assert corral("merge", "@last", *both).code == 0
    assert corral("show", "@last", "--json").json["merge"]["taken"] == ["one.txt=1", "two.txt=2"]
    assert ": one.txt=1, two.txt=2 of " in corral("show", "@last").out
    assert corral("merge", "@last", *both).code == 0
    repo.git("rm", "--quiet", "one.txt")
    repo.git("commit", "--quiet", "-m", "not that one")
    refused = corral("merge", "@last", "--pick", "1", "--strategy", "squash")
    assert refused.code == 2
    assert "attempts 1, 2 of this run are merged into main already" in refused.err
    repo.git("reset", "--quiet", "--hard", "HEAD~2")  # a person may take it back, too
    assert corral("merge", "@last", "--pick", "2").code == 0
    assert sorted(repo.files("main")) == sorted((*FILES, "two.txt"))


def test_a_patch_and_a_branch_leave_the_target_alone(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    work(corral, repo, SCRIPT)
    repo.commit({"other.txt": "meanwhile\n"})
    before = looks(repo)
    patch = corral("merge", "@last", "--strategy", "patch")
    assert patch.code == 0, patch
    (corral.root / "p.patch").write_bytes(patch.bytes)
    repo.git("apply", "--check", str(corral.root / "p.patch"))
    assert looks(repo) == before
    manual = corral("merge", "@last", "--strategy", "manual")
    assert manual.code == 0, manual
    assert looks(repo) == before
    made = corral("merge", "@last", "--strategy", "branch", "--json")
    assert made.code == 0, made
    name = made.json["merge"]["into"]
    assert {"n.txt", "other.txt"} <= set(repo.files(name))
    assert looks(repo) == before
    assert corral("undo", "@last").code == 0
    assert repo.refs(f"refs/heads/{name}") == []


def test_a_pull_request_is_made_with_the_persons_own_program(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    git(corral.root, "init", "--quiet", "--bare", "remote.git")
    repo.git("remote", "add", "origin", str(corral.root / "remote.git"))
    work(corral, repo, "echo new > n.txt")
    assert corral("merge", "@last", "--strategy", "pr").code == 2
    tools = corral.root / "tools"
    tools.mkdir()
    (tools / "gh").write_text(f'#!/bin/sh\necho "$@" > {corral.root}/asked\necho https://example.org/pull/1\n')
    (tools / "gh").chmod(0o755)
    made = corral("merge", "@last", "--strategy", "pr", env={"PATH": f"{tools}:{corral.env['PATH']}"})
    assert made.code == 0, made
    assert "https://example.org/pull/1" in made.out
    asked = (corral.root / "asked").read_text()
    assert "pr create --head corral/merged/" in asked
    assert "--base main" in asked
    (pushed,) = git(corral.root / "remote.git", "for-each-ref", "--format=%(refname)").splitlines()
    assert git(corral.root / "remote.git", "show", f"{pushed}:n.txt") == "new"


def test_hooks_filters_and_drivers_of_the_repository_do_not_run(corral: Corral) -> None:
    repo = corral.repo(files={**FILES, ".gitattributes": "a.txt filter=evil merge=evil\n"})
    work(corral, repo, "printf '* filter=evil merge=evil\\n' > .gitattributes; echo x >> a.txt; ln -s /etc/passwd out")
    repo.commit({"a.txt": "zero\none\n"})
    proof = corral.root / "it-ran"
    for key in (
        "filter.evil.smudge",
        "filter.evil.clean",
        "filter.evil.process",
        "merge.evil.driver",
        "core.fsmonitor",
    ):
        repo.git("config", key, f"touch {proof}; cat")
    repo.git("config", "filter.evil.required", "true")
    for name in ("post-checkout", "post-merge", "reference-transaction", "post-index-change", "pre-commit"):
        hook = repo.folder / ".git/hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {proof}\n")
        hook.chmod(0o755)
    proof.unlink(missing_ok=True)
    merged = corral("merge", "@last", "--strategy", "theirs")
    assert merged.code == 0, merged
    assert (repo.folder / "out").is_symlink()
    assert (repo.folder / "a.txt").read_text().endswith("x\n")
    assert corral("undo", "@last").code == 0
    assert not proof.exists()


def test_two_merges_at_once_land_both(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    runs = [work(corral, repo, f"echo {name} > {name}.txt; sleep 0", "--check", "sleep 0.3")["run"] for name in "kl"]
    going = [corral.start("merge", run) for run in runs]
    for each in going:
        _, err = each.communicate(timeout=120)
        assert each.returncode == 0, err
    assert {"k.txt", "l.txt"} <= set(repo.files("main"))
    assert repo.git("status", "--porcelain") == ""


def test_a_branch_that_a_person_moves_while_checks_run(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    gate = corral.root / "gate"
    gate.mkdir()
    (gate / "open").touch()
    check = f"until test -e {gate}/open; do sleep 0.05; done"
    work(corral, repo, "echo new > n.txt", "--check", check, "--read", f"{gate}/**", "--read", "**")
    repo.commit({"one.txt": "1\n"})
    (gate / "open").unlink()
    with corral.going("merge", "@last") as going:
        until(lambda: list(corral.home.glob("logs/*-merge/*.log")), "the check runs")
        repo.git("commit", "--quiet", "--allow-empty", "-m", "meanwhile")
        moved = repo.head
        (gate / "open").touch()
        outcome = going.end()
    assert outcome.code == 0, outcome
    assert "once more" in outcome.err
    assert repo.git("merge-base", "HEAD", moved) == moved
    assert {"n.txt", "one.txt"} <= set(repo.files("HEAD"))
    assert repo.git("status", "--porcelain") == ""


def test_it_lands_by_itself_when_asked(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    run = work(corral, repo, "echo new > n.txt", "--check", "test -f n.txt", "--merge", "auto")
    assert run["merge"]["status"] == "merged"
    assert (repo.folder / "n.txt").exists()


def test_root_merges_as_the_owner_of_the_repository(corral: Corral, open_folder: Path) -> None:
    repo = Repo.make(open_folder / "repo", FILES)
    own(repo.folder, 54321)
    work(corral, repo, SCRIPT, "--check", "test -f n.txt")
    merged = corral("merge", "@last")
    assert merged.code == 0, merged
    assert owners(repo.folder) == {54321}
    assert corral("undo", "@last").code == 0
    assert owners(repo.folder) == {54321}


@pytest.mark.slow
def test_an_ordinary_user_merges(person: Person) -> None:
    repo = person.repo(files=FILES)
    work(person, repo, SCRIPT, "--check", "test -f n.txt")
    repo_head = git(repo.folder, "rev-parse", "HEAD")
    merged = person("merge", "@last")
    assert merged.code == 0, merged
    assert git(repo.folder, "status", "--porcelain") == ""
    assert person("undo", "@last").code == 0
    assert git(repo.folder, "rev-parse", "HEAD") == repo_head
