"""What an agent may read, write and be given: as the person said, shown before the run and held during it."""

from pathlib import Path

import pytest

from tests.acceptance.test_bad_requests import refused
from tests.rig.command import Corral, Outcome
from tests.rig.person import Person
from tests.rig.repository import Repo

FILES = {"src/b.txt": "two\n", "docs/open/c.txt": "three\n", "docs/d.txt": "four\n", "a.txt": "one\n"}
BARE = ("--allow-unsandboxed", "--require-sandbox", "none")


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo(files=FILES)


def strays(outcome: Outcome, *paths: str) -> None:
    """Assert that an attempt failed for having written these paths, and that nothing of it can be merged."""
    assert outcome.code == 1, outcome
    attempt = outcome.attempt
    assert attempt["error"]["class"] == "scope_violation", outcome
    assert {each["path"] for each in attempt["sandbox"]["violations"]} >= set(paths), outcome
    assert outcome.json["merge"]["status"] == "none"
    assert outcome.json["status"] == "failed"


# --- in the box


def test_what_may_not_be_written_cannot_be_written(corral: Corral, repo: Repo) -> None:
    corral.agent("mine", "echo x > src/x; for f in a.txt new docs/d.txt; do echo y > $f || echo no $f; done")
    outcome = corral.run(repo, "t", "--agent", "mine", "--write", "src/**")
    assert outcome.code == 0, outcome
    assert outcome.attempt["files_changed"] == ["src/x"]
    for name in ("a.txt", "new", "docs/d.txt"):
        assert f"no {name}" in outcome.attempt["output"]


def test_what_is_hidden_is_empty_in_the_box_and_whole_in_the_commit(corral: Corral) -> None:
    repo = corral.repo(files={**FILES, ".agentignore": "docs/\n*.pem\n", "deep/key.pem": "private\n"})
    corral.agent("mine", "ls -A docs; cat docs/d.txt deep/key.pem; git status --porcelain; echo x > src/x")
    outcome = corral.run(repo, "t", "--agent", "mine", "--check", "grep four docs/d.txt && grep private deep/key.pem")
    assert outcome.code == 0, outcome
    attempt = outcome.attempt
    assert attempt["output"] == ""
    assert attempt["files_changed"] == ["src/x"]
    assert repo.read(attempt["commit"], "docs/d.txt") == "four"
    assert repo.read(attempt["commit"], "deep/key.pem") == "private"
    assert [check["exit_code"] for check in attempt["checks"]] == [0]


def test_what_it_does_not_see_it_cannot_delete(corral: Corral, repo: Repo) -> None:
    script = """
    echo x > src/x; git add -A; git commit -qm all
    git ls-files -z docs | git update-index -z --force-remove --stdin; git commit -qm less
    rm -f .git/index; git reset -q; git add -A
    """
    corral.agent("mine", script)
    outcome = corral.run(repo, "t", "--agent", "mine", "--read", "src/**")
    assert outcome.code == 0, outcome
    assert outcome.attempt["files_changed"] == ["src/x"]
    assert repo.read(outcome.attempt["commit"], "docs/d.txt") == "four"


def test_nothing_is_moved_out_of_the_way(corral: Corral) -> None:
    repo = corral.repo(files={**FILES, ".agentignore": "*.pem\n", "deep/er/key.pem": "private\n"})
    script = """
    mv deep other; mv deep/er deep/other; rm -rf deep docs; cat */*/key.pem */key.pem
    mv docs old; mkdir -p docs; echo y > docs/d.txt; ln -f src/b.txt docs/d.txt; ln -s ../docs src/docs; echo y > src/docs/d.txt
    mount --bind src docs; umount deep/er/key.pem docs; unshare -Urm umount deep/er/key.pem
    cat deep/er/key.pem; echo x > src/x
    """
    corral.agent("mine", script)
    outcome = corral.run(repo, "t", "--agent", "mine", "--write", "src/**")
    assert outcome.code == 0, outcome
    assert "private" not in outcome.attempt["output"]
    assert outcome.attempt["files_changed"] == ["src/docs", "src/x"]
    assert repo.read(outcome.attempt["commit"], "docs/d.txt") == "four"
    assert repo.read(outcome.attempt["commit"], "deep/er/key.pem") == "private"


@pytest.mark.parametrize("order", [["**", "!docs/**", "docs/open/**"], ["docs/open/**", "**", "!docs/**"]])
def test_the_most_specific_pattern_wins(corral: Corral, repo: Repo, order: list[str]) -> None:
    corral.agent("mine", "cat docs/d.txt docs/open/c.txt a.txt; echo x > x")
    words = [word for pattern in order for word in ("--read", pattern)]
    outcome = corral.run(repo, "t", "--agent", "mine", *words)
    assert outcome.code == 0, outcome
    assert outcome.attempt["output"].split() == ["three", "one"]


def test_readonly_wins_against_what_is_not_more_specific(corral: Corral, repo: Repo) -> None:
    corral.config('[scope]\nreadonly = ["docs/**"]\nwrite = ["**", "docs/open/**"]')
    corral.agent("mine", "echo x > docs/d.txt || echo no; echo x > docs/open/c.txt")
    outcome = corral.run(repo, "t", "--agent", "mine")
    assert outcome.code == 0, outcome
    assert outcome.attempt["files_changed"] == ["docs/open/c.txt"]


# --- where there is no box the change itself is looked at

STRAYING = {
    "an edit": ("echo y > a.txt", ["a.txt"]),
    "a new file": ("echo y > new", ["new"]),
    "a deletion": ("rm a.txt", ["a.txt"]),
    "a rename out of it": ("git mv src/b.txt b.txt", ["b.txt"]),
    "a rename into it": ("git mv a.txt src/a.txt", ["a.txt"]),
    "a link": ("ln -s src/b.txt link", ["link"]),
    "a mode": ("chmod +x a.txt", ["a.txt"]),
    "a commit of its own": ("echo y > a.txt; git commit -qam y; echo z > src/z", ["a.txt"]),
    "a name with a newline": ("printf y > 'n\newline'", ["n\newline"]),
}


@pytest.mark.parametrize(("script", "paths"), STRAYING.values(), ids=STRAYING)
def test_without_a_box_what_strayed_is_found_in_the_change(
    corral: Corral, repo: Repo, script: str, paths: list[str]
) -> None:
    corral.agent("mine", f"echo x > src/x; {script}")
    outcome = corral.run(repo, "t", "--agent", "mine", "--write", "src/**", "--retries", "0", *BARE)
    strays(outcome, *paths)
    assert outcome.attempt["branch"] in repo.git("branch", "--list", "--format=%(refname:short)")


def test_without_a_box_a_change_of_what_was_to_be_hidden_is_found(corral: Corral) -> None:
    repo = corral.repo(files={**FILES, ".agentignore": "docs/\n"})
    corral.agent("mine", "echo y > docs/d.txt; echo x > x")
    strays(corral.run(repo, "t", "--agent", "mine", "--retries", "0", *BARE), "docs/d.txt")


def test_without_a_box_what_stays_inside_is_done(corral: Corral, repo: Repo) -> None:
    corral.agent("mine", "echo x > src/x; rm src/b.txt")
    outcome = corral.run(repo, "t", "--agent", "mine", "--write", "src/**", *BARE)
    assert outcome.code == 0, outcome
    assert outcome.json["merge"]["status"] == "ready"


# --- who has a say


def test_an_agent_has_a_scope_of_its_own(corral: Corral, repo: Repo) -> None:
    corral.agent("held", "echo y > a.txt || echo no; echo x > src/x", 'scope = { write = ["src/**"] }')
    corral.agent("free", "echo y > a.txt || echo no; echo x > src/x")
    held, free = (corral.run(repo, "t", "--agent", name) for name in ("held", "free"))
    assert held.attempt["files_changed"] == ["src/x"]
    assert sorted(free.attempt["files_changed"]) == ["a.txt", "src/x"]


def test_a_repository_narrows_and_does_not_widen(corral: Corral) -> None:
    theirs = '[scope]\nwrite = ["**"]\nenv = ["GIVEN", "TAKEN"]\nnet = "on"\nmemory_mb = 99999\nprocesses = 100\n'
    repo = corral.repo(files={**FILES, "corral.toml": theirs})
    corral.config('[scope]\nwrite = ["src/**"]\nenv = ["GIVEN", "OTHER"]\nnet = "off"\nmemory_mb = 1024')
    corral.agent("mine", 'echo y > a.txt || echo no; echo x > src/x; echo "$GIVEN-$TAKEN-$OTHER-"')
    given = {name: name.lower() for name in ("GIVEN", "TAKEN", "OTHER")}
    outcome = corral.run(repo, "t", "--agent", "mine", env=given)
    assert outcome.code == 0, outcome
    assert outcome.attempt["output"].split() == ["no", "given---"]
    rows = explained(corral, repo, "--agent", "mine")
    assert (rows["net"], rows["memory_mb"], rows["processes"]) == (
        "off: the agent's own provider alone",
        "1024 MB",
        "100",
    )


def test_the_command_line_wins_against_a_repository(corral: Corral) -> None:
    repo = corral.repo(files={**FILES, "corral.toml": '[scope]\nwrite = ["docs/**"]\nread = ["docs/**"]\n'})
    corral.agent("mine", "cat a.txt; echo y > a.txt")
    outcome = corral.run(repo, "t", "--agent", "mine", "--write", "**", "--read", "**")
    assert outcome.code == 0, outcome
    assert (outcome.attempt["output"], outcome.attempt["files_changed"]) == ("one", ["a.txt"])


# --- the rest of the machine


def test_secrets_of_a_home_are_shown_only_by_their_own_name(corral: Corral, repo: Repo) -> None:
    for name in (".ssh/id_rsa", ".ssh/known_hosts", ".aws/credentials", "notes.txt", ".bash_history"):
        path = corral.user_home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"content of {path.name}\n")
    (corral.user_home / "way").symlink_to(corral.user_home / ".ssh" / "id_rsa")
    words = "notes.txt .ssh/id_rsa .ssh/known_hosts .aws/credentials .bash_history way"
    corral.agent("mine", f"cd {corral.user_home}; cat {words}; cd - >/dev/null; echo x > x")
    broad = corral.run(repo, "t", "--agent", "mine", "--read", "~/**")
    assert broad.code == 0, broad
    assert broad.attempt["output"] == "content of notes.txt"
    named = corral.run(repo, "t", "--agent", "mine", "--read", "~/**", "--read", "~/.ssh/known_hosts")
    assert named.attempt["output"].splitlines() == ["content of notes.txt", "content of known_hosts"]


def test_what_is_shown_of_the_machine_is_not_written(corral: Corral, repo: Repo) -> None:
    shared = corral.root / "shared"
    shared.mkdir(mode=0o777)
    (shared / "in").write_text("material\n")
    (shared / "in").chmod(0o666)
    shared.chmod(0o777)
    corral.agent("mine", f"cat {shared}/in; echo y > {shared}/in; echo y > {shared}/out; echo x > x")
    outcome = corral.run(repo, "t", "--agent", "mine", "--read", str(shared))
    assert outcome.attempt["output"] == "material"
    assert sorted(path.name for path in shared.iterdir()) == ["in"]
    written = corral.run(repo, "t", "--agent", "mine", "--write", str(shared), "--write", "**")
    assert written.code == 0, written
    assert (shared / "out").read_text() == "y\n"


def test_the_state_folder_is_never_shown(corral: Corral, repo: Repo) -> None:
    corral.agent("mine", f"ls {corral.home}; cat {corral.home}/corral.db; echo x > x")
    corral.run(repo, "t", "--agent", "mine")
    for word in (str(corral.home), str(corral.root), str(corral.home / "corral.db"), "/**"):
        refused(corral.run(repo, "t", "--agent", "mine", "--read", word), "own folder")
    assert len(corral("ls", "--json").json) == 1


def test_exactly_the_named_variables_are_passed(corral: Corral, repo: Repo) -> None:
    corral.agent("mine", "env | grep -o '^[A-Z]*_WORD=.*'; echo x > x")
    words = {"ONE_WORD": "first", "TWO_WORD": "second"}
    outcome = corral.run(repo, "t", "--agent", "mine", "--env", "ONE_WORD", "--env", "NONE_WORD", env=words)
    assert outcome.attempt["output"] == "ONE_WORD=first"


# --- told before


def explained(corral: Corral, repo: Repo, *arguments: str) -> dict[str, str]:
    outcome = corral.run(repo, "t", "--explain-scope", *arguments)
    assert outcome.code == 0, outcome
    return {row["key"]: row["value"] for row in outcome.json["rows"]}


def test_the_scope_is_explained_and_nothing_started(corral: Corral, repo: Repo) -> None:
    corral.agent("mine", "echo x > x")
    rows = explained(corral, repo, "--agent", "mine", "--write", "src/**", "--net", "docs.example.org")
    assert rows["write"] == "src/**"
    assert "docs.example.org" in rows["net"]
    told = corral("run", "t", "--repo", repo.folder, "--agent", "mine", "--write", "src/**", "--explain-scope")
    assert told.code == 0
    line = next(line for line in told.out.splitlines() if line.startswith("write"))
    assert "src/**" in line
    assert line.endswith("--write")
    assert corral("ls", "--json").json == []
    assert corral.leavings() == []
    assert repo.refs("refs/corral", "refs/heads/corral") == []


# --- bad input


@pytest.mark.parametrize(
    ("arguments", "words", "hint"),
    [
        (["--read", "nowhere.txt"], ["nowhere.txt", "is not there"], "top of the repository"),
        (["--read", "/no/such/place"], ["/no/such/place", "is not there"], "exists"),
        (["--read", "out/x"], ["out/x", "leads out"], "itself"),
        (["--write", "out/**"], ["out", "leads out"], "itself"),
        (["--read", "../else"], ["../else"], ""),
        (["--read", "~/away"], ["away", "leads to"], "itself"),
        (["--write", "/"], ["/"], ""),
        (["--read", "/proc/1/environ"], ["kernel"], "its own"),
        (["--net", "10.0.0.0/8"], ["10.0.0.0/8", "range"], "one by one"),
        (["--net", "exa mple.org"], ["exa mple.org"], "example.org"),
        (["--net", "https://example.org/"], ["URL"], "host"),
        (["--net", "host:99999"], ["99999"], "65535"),
        (["--net", "on,example.org"], ["on"], ""),
        (["--net", "@everything"], ["@everything"], "@registries"),
        (["--env", "A=b"], ["A=b"], "name"),
        (["--scope", "missing.toml"], ["missing.toml"], ""),
        (["--scope", "typo.toml"], ["typo.toml:1", "wirte"], "write"),
        (["--scope", "small.toml"], ["memory_mb"], ""),
        (["--scope", "broken.toml"], ["broken.toml"], ""),
        (["--scope", "few.toml"], ["processes"], ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_meant_is_refused(
    corral: Corral, repo: Repo, arguments: list[str], words: list[str], hint: str
) -> None:
    corral.agent("mine", "echo x > x")
    outside = corral.root / "outside"
    outside.mkdir()
    (outside / "x").write_text("x")
    (repo.folder / "out").symlink_to(outside)
    (corral.user_home / "away").symlink_to(outside)
    texts = {"typo": 'wirte = ["src/**"]', "small": "memory_mb = 1", "broken": "memory_mb = ", "few": "processes = 1"}
    for name, text in texts.items():
        (corral.root / f"{name}.toml").write_text(text + "\n")
    outcome = corral.run(repo, "t", "--agent", "mine", *arguments)
    refused(outcome, *words, hint=hint)
    assert len(outcome.err.splitlines()) == 2, outcome  # what to do stands there too
    assert corral("ls", "--json").json == []


# --- an ordinary user


@pytest.mark.slow
def test_an_ordinary_user_is_held_to_the_same(person: Person) -> None:
    repo = person.repo(files={**FILES, ".agentignore": "docs/\n"})
    (Path(person.user_home) / ".ssh").mkdir()
    (Path(person.user_home) / ".ssh" / "id").write_text("secret\n")
    (Path(person.user_home) / "notes").write_text("notes\n")
    person.agent(
        "mine", f"cat docs/d.txt {person.user_home}/.ssh/id {person.user_home}/notes; echo y > a.txt; echo x > src/x"
    )
    outcome = person.run(repo, "t", "--agent", "mine", "--write", "src/**", "--read", "~/**")
    assert outcome.code == 0, outcome
    assert outcome.attempt["output"] == "notes"
    assert outcome.attempt["files_changed"] == ["src/x"]
    assert repo.read(outcome.attempt["commit"], "docs/d.txt") == "four"
