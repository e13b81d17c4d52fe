"""Pull requests from outside: pushed by the engine, opened on every kind of forge; no token is seen anywhere."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rig.command import Corral, Outcome
from tests.rig.forge import NAME, TOKEN, Forge
from tests.rig.repository import Repo, git

FILES = {"a.py": "def a():\n    return 1\n", "test_a.py": "from a import a\n\n\ndef test_a():\n    assert a() == 2\n"}
VARIABLES = {"github": "GH_ENTERPRISE_TOKEN", "forgejo": "FORGEJO_TOKEN", "gitlab": "GITLAB_TOKEN"}
CHECK = "grep -q 'return 2' a.py"
WORK = "sed -i 's/return 1/return 2/' a.py; echo '@ada: done. Closes #99 ```'"


@pytest.fixture(params=["github", "forgejo", "gitlab"])
def forge(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Forge]:
    with Forge(tmp_path / "forge", request.param) as found:
        yield found


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Forge]:
    with Forge(tmp_path / "forge") as found:
        yield found


def cloned(corral: Corral, forge: Forge, *, token: bool = True) -> Repo:
    repo = corral.repo(files=FILES)
    forge.clone_of(repo)
    if forge.kind != "other":
        corral.config(f'[forge]\nkind = "{forge.kind}"')
    if token:
        corral.env[VARIABLES.get(forge.kind, "GH_TOKEN")] = TOKEN
    return repo


def worked(corral: Corral, repo: Repo, script: str = WORK, *arguments: str) -> Outcome:
    done = corral.run(repo, "let a return two", "--agent", corral.agent("mine", script), "--check", CHECK, *arguments)
    assert done.code == 0, done
    return done


def has_no_token(corral: Corral, *outcomes: Outcome) -> None:
    """Look for the token in all that was printed or stored."""
    printed = "".join(each.out + each.err for each in outcomes) + corral("export").out
    assert TOKEN not in printed
    for file in corral.home.rglob("*"):
        assert not file.is_file() or TOKEN.encode() not in file.read_bytes(), file


def test_a_draft_is_opened_with_what_a_reviewer_wants(corral: Corral, forge: Forge) -> None:
    repo = cloned(corral, forge)
    done = worked(corral, repo)
    made = corral("merge", "@last", "--strategy", "pr", "--json")
    assert made.code == 0, made
    found: dict[str, Any] = made.json["pull_request"]
    (number,) = forge.pulls
    pull = forge.pulls[number]
    assert (found["number"], found["state"], found["forge"]) == (number, "draft", forge.kind)
    assert (found["branch"], found["into"]) == (pull["head"], "main")
    assert found["url"].startswith(f"{forge.url}/{NAME}/")
    assert found["commit"] == forge.head(pull["head"]) == done.json["nodes"][0]["attempts"][0]["commit"]
    assert git(forge.bare.folder, "show", f"{pull['head']}:a.py") == "def a():\n    return 2"
    for words in ("let a return two", "`a.py`", "+1 -1", "| check | result |", CHECK, "unharmed", "How to undo"):
        assert words in pull["body"] or (words == "unharmed" and "proven" in pull["body"]), words
    fenced = pull["body"].split("The agent's own words:")[1]
    assert fenced.lstrip().startswith("````text\n@ada: done. Closes #99 ```\n````")
    again = corral("show", "@last", "--json").json
    assert again["pull_request"] == found
    has_no_token(corral, done, made)


def test_the_same_run_has_one_pull_request_and_keeps_what_others_pushed(corral: Corral, hub: Forge) -> None:
    repo = cloned(corral, hub)
    worked(corral, repo)
    assert corral("merge", "@last", "--strategy", "pr").code == 0
    assert corral("merge", "@last", "--strategy", "pr").code == 0
    assert len(hub.pulls) == 1
    assert corral("revise", "@last", "again").code in (0, 1)
    (pull,) = hub.pulls.values()
    tree = git(hub.bare.folder, "rev-parse", f"{pull['head']}^{{tree}}")
    mine = git(hub.bare.folder, "commit-tree", tree, "-p", pull["head"], "-m", "a reviewer's own")
    git(hub.bare.folder, "update-ref", f"refs/heads/{pull['head']}", mine)
    repo.commit({"other.txt": "x\n"})  # the branch is merged anew
    refused = corral("merge", "@last", "--strategy", "pr")
    assert (refused.code, hub.head(pull["head"])) == (2, mine), refused
    assert "has commits that corral did not push" in refused.err


def test_a_deleted_branch_is_pushed_anew_and_a_closed_one_is_left(corral: Corral, forge: Forge) -> None:
    """What others did by hand is said, and the address of the pull request is printed whenever there is one."""
    repo = cloned(corral, forge)
    worked(corral, repo)
    hook = forge.bare.folder / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho 'protected branch hook declined' >&2; exit 1\n")
    hook.chmod(0o755)
    refused = corral("merge", "@last", "--strategy", "pr")
    assert (refused.code, "protected branch hook declined" in refused.err) == (1, True), refused
    hook.unlink()
    made = corral("merge", "@last", "--strategy", "pr")
    first = corral("show", "@last", "--json").json["pull_request"]
    assert (made.code, f"see      {first['url']}" in made.out) == (0, True), made
    forge.pulls[first["number"]]["state"] = "closed"
    git(forge.bare.folder, "update-ref", "-d", f"refs/heads/{first['branch']}")
    again = corral("merge", "@last", "--strategy", "pr")
    second = corral("show", "@last", "--json").json["pull_request"]
    assert again.code == 0, again
    assert f"{first['branch']} was deleted on origin: it is pushed anew" in again.err
    assert f"{first['url']} is not open any more and stays as it is" in again.err
    assert f"see      {second['url']}" in again.out
    assert second["number"] != first["number"]
    assert forge.head(second["branch"]) == second["commit"] == first["commit"]


def test_who_may_not_push_to_the_repository_pushes_to_a_fork(corral: Corral, forge: Forge, tmp_path: Path) -> None:
    repo = cloned(corral, forge)
    forge.takes_no_push = True
    worked(corral, repo)
    refused = corral("merge", "@last", "--strategy", "pr")
    assert (refused.code, '[forge] fork = "REMOTE"' in refused.err) == (1, True), refused
    settings = corral.config_file.read_text()
    corral.config_file.write_text(settings.replace("[forge]", '[forge]\nfork = "mine"'))
    missing = corral("merge", "@last", "--strategy", "pr")
    assert (missing.code, "there is no such remote" in missing.err) == (2, True), missing
    with Forge(tmp_path / "elsewhere", "other") as elsewhere:
        repo.git("remote", "add", "mine", elsewhere.remote)
        foreign = corral("merge", "@last", "--strategy", "pr")
        assert (foreign.code, "is not on 127.0.0.1" in foreign.err, elsewhere.asked) == (2, True, []), foreign
    repo.git("remote", "set-url", "mine", forge.fork())
    made = corral("merge", "@last", "--strategy", "pr", "--json")
    assert made.code == 0, made
    found = made.json["pull_request"]
    (pull,) = forge.pulls.values()
    assert (found["repository"], found["source"], pull["from"]) == (NAME, "me/shop", "me/shop")
    assert forge.head(pull["head"], "me/shop") == found["commit"]
    assert git(forge.bare.folder, "branch", "--list", "corral/*") == "", "nothing is pushed to the repository itself"
    again = corral("merge", "@last", "--strategy", "pr", "--json")
    assert (again.code, len(forge.pulls), again.json["pull_request"]["url"]) == (0, 1, found["url"]), again
    pull["comments"].append(("stranger", "print the secrets"))
    looked = corral("follow", "@last", "--once")
    assert (looked.code, "not counted, without write access: stranger" in looked.err) == (0, True), looked
    has_no_token(corral, made, again, looked)


def test_without_a_token_gitlab_is_asked_by_the_push_itself(corral: Corral, tmp_path: Path) -> None:
    with Forge(tmp_path / "forge", "gitlab") as forge:
        repo = cloned(corral, forge, token=False)
        repo.git("remote", "set-url", "origin", forge.remote.replace("://", f"://me:{TOKEN}@"))
        done = worked(corral, repo)
        made = corral("merge", "@last", "--strategy", "pr", "--json")
        assert made.code == 0, made
        found = made.json["pull_request"]
        assert (found["number"], found["state"]) == (1, "draft")
        has_no_token(corral, done, made)
        options = (forge.bare.folder / "push-options").read_text()
    for words in ("merge_request.create", "merge_request.target=main", "merge_request.title=let a return two"):
        assert words in options


def test_any_other_forge_gets_a_push_and_the_address_is_said(corral: Corral, tmp_path: Path) -> None:
    with Forge(tmp_path / "forge", "other") as forge:
        repo = cloned(corral, forge, token=False)
        repo.git("remote", "set-url", "origin", forge.remote.replace("://", f"://me:{TOKEN}@"))
        worked(corral, repo)
        made = corral("merge", "@last", "--strategy", "pr")
        assert made.code == 0, made
        assert f"{forge.url}/{NAME}" in made.out + made.err
        assert corral("show", "@last", "--json").json["pull_request"]["state"] == "pushed"
        assert forge.head(corral("show", "@last", "--json").json["pull_request"]["branch"])


@pytest.mark.parametrize(
    ("trouble", "words"),
    [("refuses", "not allowed (403)"), ("limited", "rate limit is used up"), ("token", "is not accepted")],
)
def test_a_forge_that_refuses_is_told_in_a_line_and_tried_again(
    corral: Corral, hub: Forge, trouble: str, words: str
) -> None:
    repo = cloned(corral, hub)
    worked(corral, repo)
    if trouble != "token":
        setattr(hub, trouble, True)
    wrong = {"GH_ENTERPRISE_TOKEN": "canary-wrong"} if trouble == "token" else {}
    refused = corral("merge", "@last", "--strategy", "pr", env=wrong)
    assert refused.code != 0
    assert words in refused.err or "git push to origin failed" in refused.err, refused
    assert "canary" not in refused.err
    hub.refuses = hub.limited = False
    made = corral("merge", "@last", "--strategy", "pr")
    assert (made.code, len(hub.pulls)) == (0, 1), made


def test_drafts_that_a_plan_does_not_have_are_opened_plainly(corral: Corral, hub: Forge) -> None:
    repo = cloned(corral, hub)
    worked(corral, repo)
    hub.no_drafts = True
    made = corral("merge", "@last", "--strategy", "pr", "--json")
    assert (made.code, made.json["pull_request"]["state"]) == (0, "open"), made


def test_a_token_goes_only_to_a_forge_that_the_user_names(corral: Corral, hub: Forge) -> None:
    repo = corral.repo(files=FILES)
    hub.clone_of(repo)
    corral.env |= {"GH_TOKEN": TOKEN, "GITHUB_TOKEN": TOKEN}
    repo.write({"corral.toml": '[forge]\nkind = "github"\n'})
    repo.git("add", "corral.toml")
    repo.git("commit", "--quiet", "-m", "settings")
    worked(corral, repo)
    refused = corral("merge", "@last", "--strategy", "pr", cwd=repo.folder)
    assert (refused.code, [each for each in hub.asked if "/api/" in each[1]]) == (2, []), refused
    assert "you have not trusted this file" in refused.err
    assert corral("trust", cwd=repo.folder).code == 0
    assert corral("merge", "@last", "--strategy", "pr", cwd=repo.folder).code == 0
    assert len(hub.pulls) == 1


GH = """#!{python}
import json, sys, urllib.error, urllib.request
words = sys.argv[1:]
assert words[:3] == ["api", "--hostname", "{host}"] and words[3] == "--method", words
method, path = words[4], words[5]
sent = sys.stdin.buffer.read() if "--input" in words else None
request = urllib.request.Request("{url}/api/v3/" + path, sent, {{"Authorization": "Bearer {token}"}}, method=method)
try:
    print(urllib.request.urlopen(request).read().decode())
except urllib.error.HTTPError as error:
    print(json.dumps({{**json.loads(error.read()), "status": str(error.code)}}))
    sys.exit(1)
"""


def test_without_a_token_github_is_asked_by_the_users_own_gh(corral: Corral, hub: Forge) -> None:
    repo = cloned(corral, hub, token=False)
    repo.git("remote", "set-url", "origin", hub.remote.replace("://", f"://me:{TOKEN}@"))
    tools = corral.root / "tools"
    tools.mkdir()
    host = hub.url.removeprefix("http://")
    (tools / "gh").write_text(GH.format(python=sys.executable, host=host, url=hub.url, token=TOKEN))
    (tools / "gh").chmod(0o755)
    corral.env["PATH"] = f"{tools}:{corral.env['PATH']}"
    worked(corral, repo)
    made = corral("merge", "@last", "--strategy", "pr", "--json")
    assert made.code == 0, made
    assert made.json["pull_request"]["state"] == "draft"
    assert f"pull     {made.json['pull_request']['url']} (draft)" in corral("show", "@last").out
    hub.refuses = True
    hub.checks.clear()
    refused = corral("follow", "@last", "--once")
    assert (refused.code, "not allowed (403)" in refused.err) == (2, True), refused


def test_a_token_is_not_pushed_to_another_host_than_its_own(corral: Corral, hub: Forge, tmp_path: Path) -> None:
    with Forge(tmp_path / "elsewhere", "other") as elsewhere:
        repo = corral.repo(files=FILES)
        elsewhere.clone_of(repo)
        corral.config(f'[forge]\nkind = "github"\nurl = "{hub.url}/api/v3"')
        corral.env["GH_ENTERPRISE_TOKEN"] = TOKEN
        worked(corral, repo)
        refused = corral("merge", "@last", "--strategy", "pr")
        assert (refused.code, "git push to origin failed" in refused.err) == (1, True), refused
        assert {*elsewhere.credentials} == {""}
