"""Named files of a flow's nodes: kept after the run, handed to the nodes that need them."""

import hashlib
import os
from datetime import datetime, timedelta

from tests.rig.command import Corral
from tests.rig.flows import doer, nodes, run_flow, statuses, winner
from tests.rig.server import serving

FLOW = """
name: report
nodes:
  build:
    task: "DO: mkdir -p out; echo '<b>fine</b>' > out/report.html; echo out > .gitignore"
    artifacts: {report: out/report.html}
  measure:
    run: "printf '%s' 42 > size; cat ~/artifacts/build/report.html >> size"
    needs: [build]
    artifacts: {size: size}
  read:
    task: 'DO: printf "%s" "$PROMPT" > prompt.txt; cat ~/artifacts/build/report.html ~/artifacts/measure/size > both.txt'
    needs: [build, measure]
"""


def test_they_are_kept_by_hash_and_handed_to_who_needs_them(corral: Corral) -> None:
    doer(corral)
    repo = corral.repo()
    outcome = run_flow(corral, repo, FLOW)
    assert outcome.json["status"] == "done", outcome
    report = b"<b>fine</b>\n"
    found = {each["name"]: each for each in outcome.json["artifacts"]}
    assert found["report"] == {
        "name": "report",
        "node": "build",
        "attempt": nodes(outcome)["build"]["winner"],
        "path": "out/report.html",
        "sha256": hashlib.sha256(report).hexdigest(),
        "size": len(report),
    }
    branch = winner(nodes(outcome)["read"])["branch"]
    assert repo.read(branch, "both.txt") == "<b>fine</b>\n42<b>fine</b>"
    assert "- ~/artifacts/build/report.html: `report` of the step `build`" in repo.read(branch, "prompt.txt")
    assert repo.git("ls-tree", "-r", "--name-only", branch).split() == [
        ".gitignore", "a.txt", "both.txt", "prompt.txt", "size", "src/b.txt",
    ]  # fmt: skip
    assert corral("artifacts", "@last", "build/report").bytes == report
    assert corral("artifacts", "--json", cwd=repo.folder).json == outcome.json["artifacts"]
    assert corral("artifacts", "report", cwd=repo.folder).bytes == report
    assert "out/report.html" in corral("artifacts", "@last").out
    copy = corral.root / "copy.html"
    assert corral("artifacts", "@last", "report", "--out", copy).code == 0
    assert copy.read_bytes() == report
    again = corral("artifacts", "@last", "report", "--out", copy)
    assert (again.code, "exists already" in again.err) == (2, True)
    unknown = corral("artifacts", "@last", "nothing")
    assert (unknown.code, "it has: build/report, measure/size" in unknown.err) == (2, True)


def test_what_a_failed_node_left_reaches_the_node_that_explains_it(corral: Corral) -> None:
    doer(corral)
    flow = """
name: explain
nodes:
  test: {run: "echo broken > tests.xml; exit 1", retries: 0, artifacts: {tests: tests.xml}}
  explain: {task: "DO: cp ~/artifacts/test/tests.xml why.txt", needs: [{node: test, on: always}]}
"""
    repo = corral.repo()
    outcome = run_flow(corral, repo, flow)
    assert statuses(outcome) == {"test": "failed", "explain": "done"}, outcome
    assert repo.read(winner(nodes(outcome)["explain"])["branch"], "why.txt") == "broken"
    assert [each["name"] for each in outcome.json["artifacts"]] == ["tests"]


def test_a_node_that_leaves_no_such_file_has_failed(corral: Corral) -> None:
    doer(corral)
    repo, outside = corral.repo(), corral.root / "secret.txt"
    outside.write_text("secret")
    flow = f"""
name: none
defaults: {{retries: 0}}
nodes:
  forgets: {{task: "DO: echo x > x", artifacts: {{report: out/report.html}}}}
  links: {{task: "DO: ln -s {outside} report.html; echo x > x", artifacts: {{report: report.html}}}}
  pipes: {{task: "DO: mkfifo report.html; echo x > x", artifacts: {{report: report.html}}}}
  large: {{task: "DO: truncate -s 65M report.html; echo x > x", artifacts: {{report: report.html}}}}
"""
    outcome = run_flow(corral, repo, flow)
    assert set(statuses(outcome).values()) == {"failed"}, outcome
    for node in outcome.json["nodes"]:
        (attempt,) = node["attempts"]
        assert attempt["error"]["class"] == "bad_output", attempt
        assert "`artifacts` of the node" in attempt["error"]["hint"]
        assert repo.read(attempt["branch"], "x") == "x"
    assert outcome.json["artifacts"] == []
    assert "secret" not in corral("export").out
    assert "larger than 64 MB" in corral("logs", "@last").out


def test_mistakes_in_a_flow_file_are_found_before_anything_starts(corral: Corral) -> None:
    doer(corral)
    flow = """
name: wrong
nodes:
  a: {task: x, artifacts: {"Bad name": x}}
  b: {task: x, artifacts: {climbs: ../x}}
  c: {task: x, artifacts: {absolute: /etc/passwd}}
  d: {task: x, artifacts: {git: .git/config}}
  e: {gate: "Go?", artifacts: {report: x}}
"""
    refused = run_flow(corral, corral.repo(), flow)
    assert refused.code == 2
    for words in (
        "`Bad name` cannot be the name",
        "`../x` is no file",
        "`/etc/passwd` is",
        "`.git/config` is",
        "unknown key",
    ):
        assert words in refused.err
    assert corral("ls", "--json").json == []


def test_clean_removes_those_of_runs_that_it_cleans(corral: Corral) -> None:
    doer(corral)
    repo = corral.repo()
    for text in ("one", "two"):
        flow = f'name: x\nnodes: {{a: {{task: "DO: echo {text} > r.txt", artifacts: {{r: r.txt}}}}}}'
        assert run_flow(corral, repo, flow).json["status"] == "done"
    kept = sorted((corral.home / "artifacts").iterdir())
    assert len(kept) == 2
    assert corral("clean", "--keep", "0").code == 0
    assert sorted((corral.home / "artifacts").iterdir()) == kept  # they may belong to an attempt that is not stored yet
    for file in kept:
        os.utime(file, (1, 1))
    assert corral("clean", "--keep", "1").code == 0
    (left,) = (corral.home / "artifacts").iterdir()
    assert left.read_text() == "two\n"
    assert corral("artifacts", "@last", "r").out == "two\n"


def test_the_user_knows_until_when_they_are_kept_and_what_a_clean_would_take(corral: Corral) -> None:
    doer(corral)
    repo = corral.repo()
    flow = 'name: x\nnodes: {a: {task: "DO: echo one > r.txt", artifacts: {report: r.txt}}}'
    run = run_flow(corral, repo, flow).json
    assert "kept until `corral clean` removes the run" in corral("artifacts", "@last").err
    corral.config('[clean]\nolder = "30d"\n')
    ended = datetime.fromisoformat(run["started"]) + timedelta(seconds=run["seconds"], days=30)
    assert f"kept until {ended.date().isoformat()}: [clean] older" in corral("artifacts", "@last").err
    assert "; artifacts: a/report" in corral("clean", "--keep", "0", "--dry-run").out
    (content,) = (corral.home / "artifacts").iterdir()
    os.utime(content, (1, 1))
    assert corral("clean", "--keep", "0", "--json").json[0]["artifacts"] == ["a/report"]
    after = corral("artifacts", "@last")
    assert ("cleaned" in after.out, after.err) == (True, "")
    assert "is gone" in corral("artifacts", "@last", "report").err


def test_a_browser_downloads_them_and_never_shows_them(corral: Corral) -> None:
    doer(corral)
    repo = corral.repo()
    flow = "name: x\nnodes: {a: {task: \"DO: echo '<script>x</script>' > r.html\", artifacts: {r: r.html}}}"
    run = run_flow(corral, repo, flow).json
    with serving(corral, repo.folder) as server:
        assert server.ask("GET", f"runs/{run['run']}/artifacts").json == run["artifacts"]
        answer = server.ask("GET", f"runs/{run['run']}/artifacts/a/r")
        assert answer.body == b"<script>x</script>\n"
        assert answer.headers["Content-Type"] == "application/octet-stream"
        assert answer.headers["Content-Disposition"] == 'attachment; filename="r.html"'
        assert server.ask("GET", f"runs/{run['run']}/artifacts/nothing").status == 404


def test_the_page_shows_them_and_runs_nothing(corral: Corral) -> None:
    doer(corral)
    repo = corral.repo()
    outcome = run_flow(corral, repo, FLOW)
    run = outcome.json["run"]
    with serving(corral, corral.root) as server:
        listed = server.ask("GET", f"/runs/{run}").body.decode()
        assert f'href="/runs/{run}/artifacts/build/report"' in listed
        shown = server.ask("GET", f"/runs/{run}/artifacts/build/report")
        page = shown.body.decode()
        assert 'srcdoc="&lt;b&gt;fine&lt;/b&gt;' in page
        assert "<iframe sandbox title=" in page, "a frame without any leave: no scripts, no forms"
        assert "<b>fine</b>" not in page
        assert "script-src 'self' 'nonce-" in shown.headers["Content-Security-Policy"]
        assert server.ask("GET", f"/runs/{run}/artifacts/nothing").status == 404
