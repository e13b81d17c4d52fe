"""`corral init`: three answers, two commented files, and nothing overwritten."""

import tomllib

from tests.rig.command import Corral
from tests.rig.screen import on_terminal


def test_answers_as_options_make_two_files_that_hold(corral: Corral) -> None:
    corral.agent("mine", "echo x > x.txt")
    repo = corral.repo(files={"go.mod": "module x\n"})
    before = corral.config_file.read_text()
    done = corral("init", "--agent", "mine", "--check", "test -f x.txt", "--budget", "3", "--json", cwd=repo.folder)
    assert done.code == 0, done.err
    assert done.json["agent"] == "mine"
    assert done.json["checks"] == ["test -f x.txt"]
    assert done.json["budget_usd"] == 3.0
    assert [each["state"] for each in done.json["files"]] == ["merged", "written"]
    merged = corral.config_file.read_text()
    assert merged.startswith(before.rstrip("\n")), "what was there stays, word for word"
    assert tomllib.loads(merged)["defaults"] == {"agent": "mine", "budget_usd": 3.0}
    shared = (repo.folder / "corral.toml").read_text()
    assert "# [workspace]" in shared
    assert "# commands that must succeed" in shared
    repo.git("add", "corral.toml")
    repo.git("commit", "-qm", "settings")
    run = corral("run", "x", "--json", cwd=repo.folder).json
    assert run["status"] == "done"
    attempt = run["nodes"][0]["attempts"][0]
    assert attempt["agent"] == "mine"
    assert [each["command"] for each in attempt["checks"]] == ["test -f x.txt"]


def test_an_empty_folder_gets_plain_words_and_a_next_step(corral: Corral) -> None:
    folder = corral.root / "empty"
    folder.mkdir()
    done = corral("init", cwd=folder)
    assert done.code == 0, done.err
    assert "this folder is no git repository" in done.err
    assert "hint: git init && " in done.err
    rows = dict(line.split(None, 1) for line in done.out.splitlines())
    assert rows["agent"] == "none is installed; corral agents says how to get one"
    assert rows["checks"].startswith("none found")
    assert rows["written"].endswith("corral.toml")
    assert dict(line.split(None, 1) for line in corral("init", cwd=folder).out.splitlines())["unchanged"]
    assert "git repository" not in corral("init", cwd=corral.repo().folder).err


def test_a_check_whose_program_is_missing_is_named(corral: Corral) -> None:
    repo = corral.repo(files={"mix.exs": "x\n"})
    said = corral("init", cwd=repo.folder, env={"PATH": "/usr/bin:/bin"})
    assert said.code == 0, said.err
    assert "not found here: mix; without it that check fails\nhint: install it, or change checks" in said.err
    there = corral("init", "--check", "test -f x", "--check", "cd . && true", cwd=corral.repo("other").folder)
    assert "not found here" not in there.err


def test_what_is_there_is_never_overwritten(corral: Corral) -> None:
    repo = corral.repo(files={"Makefile": "test: all\n\ttrue\n"})
    first = corral("init", "--agent", "scripted", cwd=repo.folder)
    assert first.code == 0, first.err
    assert 'checks = ["make test"]' in (repo.folder / "corral.toml").read_text(), "found in the repository"
    assert "# budget_usd = 5.0" in corral.config_file.read_text(), "nobody said it"
    texts = [corral.config_file.read_text(), (repo.folder / "corral.toml").read_text()]
    refused = corral("init", "--agent", "claude", "--budget", "2", cwd=repo.folder)
    assert refused.code == 2
    assert 'says agent = "scripted" already' in refused.err
    assert 'change it there to agent = "claude"' in refused.err
    assert [corral.config_file.read_text(), (repo.folder / "corral.toml").read_text()] == texts
    again = corral("init", "--json", cwd=repo.folder).json
    assert [each["state"] for each in again["files"]] == ["unchanged", "unchanged"]
    added = corral("init", "--budget", "2", "--json", cwd=repo.folder).json
    assert (added["agent"], added["budget_usd"]) == ("scripted", 2.0)
    unknown = corral("init", "--agent", "cluade", cwd=corral.repo("other").folder)
    assert (unknown.code, "did you mean `claude`?" in unknown.err) == (2, True), unknown.err


def test_a_terminal_is_asked_three_questions(corral: Corral) -> None:
    corral.agent("mine", "true")
    repo = corral.repo(files={"Cargo.toml": "[package]\n"})
    with on_terminal(corral, "init", "--repo", repo.folder) as screen:
        screen.sees(r"Default agent \[\w+\]: ")
        screen.type("mine\n")
        screen.sees(r"Checks, separated by ; \[cargo test\]: ")
        screen.type("\n")
        screen.sees(r"Budget for each task in USD .*\[5\.0\]: ")
        screen.type("1.5\n")
        assert screen.end() == 0, screen.text
    assert tomllib.loads(corral.config_file.read_text())["defaults"] == {"agent": "mine", "budget_usd": 1.5}
    assert tomllib.loads((repo.folder / "corral.toml").read_text())["defaults"] == {"checks": ["cargo test"]}
