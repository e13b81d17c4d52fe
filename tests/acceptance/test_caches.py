"""Package caches belong to the project: an attempt finds what the last one fetched, and nothing of the person's."""

from tests.rig.command import Corral


def test_an_attempt_finds_what_an_earlier_one_of_the_project_fetched(corral: Corral) -> None:
    (corral.user_home / ".cache" / "uv").mkdir(parents=True)
    (corral.user_home / ".cache" / "uv" / "mine").write_text("mine")
    corral.agent("fetch", 'mkdir -p "$UV_CACHE_DIR"; ls "$UV_CACHE_DIR" > seen.txt; echo x > "$UV_CACHE_DIR/fetched"')
    repo, other = corral.repo(), corral.repo("other")
    first = corral.run(repo, "t", "--agent", "fetch")
    assert repo.read(first.attempt["branch"], "seen.txt") == ""
    second = corral.run(repo, "t", "--agent", "fetch")
    assert repo.read(second.attempt["branch"], "seen.txt") == "fetched"
    elsewhere = corral.run(other, "t", "--agent", "fetch")
    assert other.read(elsewhere.attempt["branch"], "seen.txt") == ""
    assert [file.name for file in (corral.user_home / ".cache" / "uv").iterdir()] == ["mine"]


def test_two_at_once_do_not_share_one(corral: Corral) -> None:
    corral.agent(
        "first",
        'mkdir -p "$UV_CACHE_DIR"; echo x > "$UV_CACHE_DIR/a"; echo ready; until test -e go; do sleep 0.02; done',
    )
    corral.agent("second", 'ls -A "$UV_CACHE_DIR" > seen.txt 2>&1; echo b > b.txt')
    repo = corral.repo(files={".gitignore": "go\n"})
    with corral.going("run", "t", "--repo", repo.folder, "--agent", "first", "--read-only") as going:
        corral.until_said("ready")
        outcome = corral.run(repo, "t", "--agent", "second")
        next((corral.home / "workspaces").glob("*/work")).joinpath("go").touch()
        assert going.end().code == 0
    assert outcome.code == 0, outcome
    assert repo.read(outcome.attempt["branch"], "seen.txt") != "a"
    assert corral.leavings() == []
