"""Finding runs again: names, labels, `corral rename` and the filters of lists, alike on every way in."""

import asyncio
from typing import Any

import pytest

import corral as library
from tests.rig.command import Corral
from tests.rig.mcp import connected
from tests.rig.repository import Repo
from tests.rig.server import serving

pytestmark = pytest.mark.both_stores


@pytest.fixture
def repo(corral: Corral) -> Repo:
    corral.agent("mine", "echo x > x.txt")
    corral.agent("other", "exit 3")
    return corral.repo()


def ids(corral: Corral, *filters: str) -> list[str]:
    return [line["name"] for line in corral("ls", "--json", *filters).json]


def test_runs_are_found_by_their_labels_status_repository_agent_time_and_merge(corral: Corral, repo: Repo) -> None:
    first = corral.run(
        repo, "a", "--agent", "mine", "--name", "first", "--label", "team=web", "--label", "kind=fix"
    ).json
    assert (first["name"], first["labels"]) == ("first", {"team": "web", "kind": "fix"})
    elsewhere = corral.repo("elsewhere")
    corral.run(elsewhere, "b", "--agent", "mine", "--name", "second", "--label", "team=web")
    corral.run(repo, "c", "--agent", "other", "--retries", "0", "--name", "third", "--label", "team=app")
    assert ids(corral) == ["third", "second", "first"]
    assert ids(corral, "--label", "team=web") == ["second", "first"]
    assert ids(corral, "--label", "team") == ["third", "second", "first"]
    assert ids(corral, "--label", "team=web", "--label", "kind") == ["first"]
    assert ids(corral, "--status", "failed") == ["third"]
    assert ids(corral, "--status", "done,failed", "--agent", "mine") == ["second", "first"]
    assert ids(corral, "--repo", str(repo.folder)) == ["third", "first"]
    assert [line["name"] for line in corral("ls", "--repo", ".", "--json", cwd=repo.folder).json] == ["third", "first"]
    assert ids(corral, "--unmerged") == ["second", "first"]
    assert corral("show", first["run"]).out.splitlines()[0].split() == ["done", first["run"], "first"]
    assert corral("merge", first["run"]).code == 0
    assert ids(corral, "--unmerged") == ["second"]
    corral.stored(f"UPDATE runs SET created = created - 3 * 86400 WHERE id = '{first['run']}' RETURNING id")
    assert ids(corral, "--since", "2d") == ["third", "second"]
    assert ids(corral, "--since", "1w") == ["third", "second", "first"]
    table = corral("ls", "--label", "kind=fix").out
    assert "first" in table, "a list shows the name instead of the task"
    assert corral("ls", "--label", "kind=none").err.strip() == "no run fits"


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (["--label", "team"], "what is its value?"),
        (["--label", "a b=c"], "cannot be the key of a label"),
        (["--name", ""], "cannot name a run"),
        (["--name", "two\nlines"], "cannot name a run"),
    ],
)
def test_bad_names_and_labels_are_refused_before_anything_starts(
    corral: Corral, repo: Repo, option: list[str], words: str
) -> None:
    refused = corral("run", "a", "--repo", repo.folder, "--agent", "mine", *option)
    assert (refused.code, words in refused.err) == (2, True), refused
    assert corral("ls", "--json").json == []


@pytest.mark.parametrize("option", [["--status", "dead"], ["--since", "yesterday"], ["--label", "="]])
def test_filters_that_mean_nothing_are_refused(corral: Corral, option: list[str]) -> None:
    refused = corral("ls", *option)
    assert refused.code == 2
    assert "hint: " in refused.err


def test_a_run_is_renamed(corral: Corral, repo: Repo) -> None:
    run = corral.run(repo, "a", "--agent", "mine").json["run"]
    assert corral("show", run, "--json").json["name"] is None
    assert corral("rename", run, "better").out == f"run {run} is named better\n"
    assert corral("show", run, "--json").json["name"] == "better"
    assert "better" in corral("ls").out
    assert "named `better`" in corral("logs", run).out
    assert corral("rename", run, "", "--json").json["name"] is None
    assert corral("rename", run, "x" * 101).code == 2
    assert corral("rename", "nosuchrun", "x").code == 2


def test_http_and_its_client_take_names_labels_and_filters(corral: Corral, repo: Repo) -> None:
    with serving(corral, corral.root) as server:
        run = server.client.run("a", repo=str(repo.folder), agents=["mine"], name="first", labels={"team": "web"})
        assert (run.status, run.name, run.labels) == ("done", "first", {"team": "web"})
        assert server.client.rename(run.run, "better").name == "better"
        for query in ("label=team=web", "label=team", "unmerged=true", "since=1h", "status=done&q=BETTER"):
            (line,) = server.ask("GET", f"/api/v1/runs?{query}").json["runs"]
            assert (line["name"], line["labels"]) == ("better", {"team": "web"})
        assert line == corral("ls", "--json").json[0], "one summary for all"
        assert server.ask("GET", "/api/v1/runs?label=team=app").json["runs"] == []
        assert server.ask("GET", "/api/v1/runs?since=soon").status == 422
        assert server.ask("POST", "/api/v1/runs", {"task": "a", "name": "a\nb"}).status == 400
        page = server.ask("GET", "/runs?label=team=web").body.decode()
        assert "better" in page
        assert "team=web" in page


def test_mcp_takes_names_labels_and_filters(corral: Corral, repo: Repo) -> None:
    async def play() -> None:
        async with connected(corral) as client:

            async def called(tool: str, **arguments: Any) -> Any:
                return (await client.call_tool(tool, arguments)).structured_content

            run = await called(
                "engine_execute",
                path=str(repo.folder),
                task="a",
                agents=["mine"],
                name="first",
                labels={"team": "web"},
            )
            assert (run["status"], run["name"], run["labels"]) == ("done", "first", {"team": "web"})
            assert (await called("engine_rename", run=run["run"], name="better"))["name"] == "better"
            (line,) = (await called("engine_list", label=["team=web"], unmerged=True, since="1h"))["runs"]
            assert line == corral("ls", "--json").json[0]
            assert (await called("engine_list", label=["team=app"]))["runs"] == []

    asyncio.run(play())


def test_programs_take_names_and_labels(corral: Corral, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in corral.env.items():
        monkeypatch.setenv(name, value)

    async def play() -> None:
        async with library.Engine(corral.home) as engine:
            run = await engine.run(
                library.Task("a", agents=["mine"]), repo.folder, name="first", labels={"team": "web"}
            )
            assert (run.status, run.name, run.labels) == ("done", "first", {"team": "web"})
            assert engine.rename(run.run, "better").name == "better"

    asyncio.run(play())
