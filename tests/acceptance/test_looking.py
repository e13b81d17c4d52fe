"""ls, show, logs, diff, export, agents, doctor: what is printed, as text and as data."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from corral.frontends.cli import COMMANDS
from tests.rig.command import Corral, Outcome
from tests.rig.levels import BOXED
from tests.rig.repository import GIT_ENV

FLOW = "nodes: {{{}: {{agent: claude, task: dig}}}}\n"


@pytest.fixture
def ran(corral: Corral) -> Outcome:
    corral.agent("mine", "echo x > x; echo i made x", "cost_usd = 0.5")
    return corral.run(corral.repo(), "make x", "--agent", "mine", "--check", "echo check words; test -f x")


def test_ls_lists_runs_newest_first(corral: Corral, ran: Outcome) -> None:
    again = corral.run(Path(ran.json["repo"]), "make x again", "--agent", "mine")
    rows = corral("ls", "--json").json
    assert [row["run"] for row in rows] == [again.json["run"], ran.json["run"]]
    assert rows[1]["status"] == "done"
    assert rows[1]["task"] == "make x"
    assert rows[1]["cost"]["usd"] == 0.5
    assert rows[1]["agents"] == ["mine"]
    text = corral("ls").out.splitlines()
    assert text[0].split() == ["RUN", "STATUS", "AGE", "COST", "AGENT", "TASK"]
    assert text[1].startswith(again.json["run"])
    assert len(corral("ls", "-n", "1", "--json").json) == 1


def test_ls_without_any_run(corral: Corral) -> None:
    assert corral("ls", "--json").json == []
    outcome = corral("ls")
    assert (outcome.code, outcome.out) == (0, "")
    assert "corral run" in outcome.err


@pytest.mark.parametrize("command", ["show", "logs", "diff", "export"])
def test_a_run_is_named_by_id_prefix_or_last(corral: Corral, ran: Outcome, command: str) -> None:
    name = ran.json["run"]
    said = [corral(command, spoken) for spoken in (name, name[:-2], "@last")]
    assert [outcome.code for outcome in said] == [0, 0, 0], said
    assert said[0].out == said[1].out == said[2].out
    assert said[0].out


def test_names_that_fit_none_or_many(corral: Corral, ran: Outcome) -> None:
    corral.run(Path(ran.json["repo"]), "again", "--agent", "mine")
    none, many, empty = corral("show", "zzz"), corral("show", ran.json["run"][:2]), corral("show", "")
    assert (none.code, many.code, empty.code) == (2, 2, 2)
    assert "no run is called `zzz`" in none.err
    assert ran.json["run"] in many.err
    assert all(outcome.err.splitlines()[1].startswith("hint: ") for outcome in (none, many, empty))
    assert corral("show", "@last", env={"CORRAL_HOME": str(corral.root / "fresh")}).code == 2


def test_show_tells_of_every_attempt(corral: Corral, ran: Outcome) -> None:
    text = corral("show", "@last").out
    assert ran.attempt["id"] in text
    assert ran.attempt["branch"] in text
    assert "$0.50 fixed" in text


def test_logs_are_what_the_agent_said_and_what_the_engine_did(corral: Corral, ran: Outcome) -> None:
    text = corral("logs", "@last").out
    assert "i made x" in text
    events = corral("logs", "@last", "--json").json_lines
    assert [event["seq"] for event in events] == sorted({event["seq"] for event in events})
    assert all({"seq", "at", "node", "attempt", "type"} <= set(event) for event in events)
    assert {event["node"] for event in events} <= {"main", None}
    said = next(event for event in events if event["type"] == "said")
    assert (said["text"], said["attempt"]) == ("i made x", ran.attempt["id"])
    assert events[-1]["type"] == "status_changed"
    assert events[-1]["status"] == "done"


def test_logs_show_what_a_failed_check_printed(corral: Corral) -> None:
    corral.agent("mine", "echo x > x")
    outcome = corral.run(corral.repo(), "make x", "--agent", "mine", "--check", "printf '%s %s' its words; false")
    assert "corral logs" in outcome.attempt["error"]["hint"]
    assert "its words" in corral("logs", "@last").out


def test_diff_is_a_patch_that_git_applies(corral: Corral, ran: Outcome) -> None:
    patch = corral("diff", "@last").bytes
    copy = corral.repo("copy")
    done = subprocess.run(["git", "apply"], cwd=copy.folder, input=patch, env=GIT_ENV, check=False, timeout=60)
    assert done.returncode == 0
    assert (copy.folder / "x").read_text() == "x\n"
    assert corral("diff", "@last", "1").bytes == corral("diff", "@last", ran.attempt["id"]).bytes == patch
    assert corral("diff", "@last", "--stat").out == "x\n+1 -0\n"
    assert corral("diff", "@last", "--json").json["files_changed"] == ["x"]
    assert corral("diff", "@last", "7").code == 2


def test_diff_of_binary_files_applies_too(corral: Corral) -> None:
    corral.agent("mine", r"printf '\000\001\377' > data.bin")
    corral.run(corral.repo(), "make data", "--agent", "mine")
    copy = corral.repo("copy")
    patch = corral("diff", "@last").bytes
    subprocess.run(["git", "apply"], cwd=copy.folder, input=patch, env=GIT_ENV, check=True, timeout=60)
    assert (copy.folder / "data.bin").read_bytes() == b"\x00\x01\xff"


def test_export_is_everything_as_json_lines(corral: Corral, ran: Outcome) -> None:
    corral.run(Path(ran.json["repo"]), "again", "--agent", "mine")
    lines = corral("export").json_lines
    runs = [line for line in lines if "strategy" in line]
    assert [run["task"] for run in runs] == ["make x", "again"]
    assert runs[0] == ran.json
    assert lines[1 : len(corral.events(ran.json["run"])) + 1] == corral.events(ran.json["run"])
    one = corral("export", ran.json["run"]).json_lines
    assert [line for line in one if "strategy" in line] == [ran.json]


def test_agents_lists_what_can_be_asked_for(corral: Corral) -> None:
    corral.agent("mine", "true")
    corral.config('[agents.absent]\ncommand = ["./nowhere.sh"]')
    rows = {row["name"]: row for row in corral("agents", "--json").json}
    assert {"claude", "scripted", "mine", "absent"} <= set(rows)
    assert rows["mine"]["program"].endswith("mine.sh")
    assert rows["absent"]["program"] is None
    assert rows["claude"]["remedy"]
    assert "mine.sh" in corral("agents", env={"COLUMNS": "300"}).out


def test_doctor_finds_what_can_run(corral: Corral) -> None:
    corral.agent("mine", "true")
    outcome = corral("doctor", "--json")
    assert outcome.code == 0, outcome
    report = outcome.json
    assert report["ok"] is True
    parts = {part["name"]: part for part in report["parts"]}
    assert {"sandbox", "git", "store", "settings"} <= set(parts)
    assert parts["sandbox"]["found"].startswith(BOXED)
    assert "ready" in corral("doctor").out


def test_doctor_says_what_is_missing_and_how_to_mend_it(corral: Corral) -> None:
    outcome = corral("doctor", "--json")
    assert outcome.code == 1
    bad = [part for part in outcome.json["parts"] if not part["ok"]]
    assert [part["name"] for part in bad] == ["agents"]
    assert bad[0]["remedy"]


def test_doctor_tells_of_broken_settings(corral: Corral) -> None:
    corral.agent("mine", "true")
    repo = corral.repo(files={"corral.toml": "[defaults\n"})
    outcome = corral("doctor", "--json", cwd=repo.folder)
    assert outcome.code == 1
    settings = next(part for part in outcome.json["parts"] if part["name"] == "settings")
    assert "corral.toml" in settings["found"]
    assert "line 1" in settings["found"]


def test_doctor_tells_of_the_persons_own_broken_settings(corral: Corral) -> None:
    corral.config("[defaults\n")
    outcome = corral("doctor", "--json")
    assert outcome.code == 1
    settings = next(part for part in outcome.json["parts"] if part["name"] == "settings")
    assert "config.toml" in settings["found"]


def test_version_help_and_completion(corral: Corral) -> None:
    assert corral("--version").out.startswith("corral ")
    text = corral("--help").out
    for command in ("run", "ls", "show", "logs", "diff", "stop", "resume", "export", "doctor", "agents", "trust"):
        assert f"  {command} " in text
        assert corral(command, "--help").code == 0
    for shell in ("bash", "zsh", "fish"):
        assert "_CORRAL_COMPLETE" in corral("completion", shell).out


def test_help_lists_each_command_once_on_one_line_below_a_section(corral: Corral) -> None:
    lines = corral("--help", env={"COLUMNS": "80"}).out.splitlines()
    assert max(map(len, lines)) <= 80
    listed = lines[lines.index("Start:") :]
    sections = [line.rstrip(":") for line in listed if line.endswith(":") and line[0] != " "]
    assert sections[:6] == ["Start", "Watch", "Decide", "Merge", "Control", "Money"]
    rows = [line.split() for line in listed if line.startswith("  ")]
    assert len(rows) + len(sections) == len([line for line in listed if line]), "no line is the rest of another one"
    assert rows[0][:2] == ["run", "Run"]
    names = [row[0] for row in rows]
    assert sorted(names) == sorted(COMMANDS)
    page = (Path(__file__).parents[2] / "docs/reference/cli.md").read_text()
    assert [name for name in sections if f"**{name}**" not in page] == [], "the reference has the same sections"


def test_completion_offers_the_ids_of_runs(corral: Corral, ran: Outcome) -> None:
    env = {"_CORRAL_COMPLETE": "bash_complete", "COMP_WORDS": "corral show 0", "COMP_CWORD": "2"}
    assert ran.json["run"] in corral(env=env).out


def test_a_reader_that_leaves_early_does_no_harm(corral: Corral, ran: Outcome) -> None:
    assert ran.code == 0
    line = f"{corral.program[0]} export | head -c 10"
    done = subprocess.run(["sh", "-c", line], env=corral.env, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.dumps(ran.json)[:1] == done.stdout.decode()[:1]


def test_an_agent_a_role_and_a_flow_are_explained(corral: Corral) -> None:
    corral.agent("mine", "true", 'role = "tester"\n[agents.other]\nlike = "claude"\nfallback = ["mine"]\n')
    repo = corral.repo()
    place = repo.folder / ".corral"
    (place / "roles").mkdir(parents=True)
    (place / "flows").mkdir()
    (place / "roles" / "tester.md").write_text("You test tulips.\x1b[31m\n")
    flow = "nodes: {dig: {agent: mine, task: dig, checks: [pytest -q]}, ask: {gate: 'Plant?', needs: [dig]}}\n"
    (place / "flows" / "garden.yaml").write_text(flow)

    def explained(*words: str) -> dict[str, Any]:
        outcome = corral("explain", *words, "--json", cwd=repo.folder)
        assert outcome.code == 0, outcome
        return outcome.json

    mine = explained("agent", "mine")
    assert (mine["kind"], mine["name"], mine["source"]) == ("agent", "mine", f"[agents.mine] in {corral.config_file}")
    assert (mine["points"]["role"], mine["points"]["used by"]) == ("tester", "agent other, flow garden.yaml")
    assert explained("agent", "claude")["points"]["used by"] == "agent other"
    tester = explained("role", "tester")
    assert (tester["source"], tester["points"]["hides"]) == (str(place / "roles" / "tester.md"), "built in")
    assert tester["text"] == "You test tulips.\x1b[31m"
    assert {"agent mine", "flow tdd"} <= {*tester["points"]["used by"].split(", ")}
    garden = explained("flow", "garden")
    assert garden["points"]["dig"] == "mine; dig; checked by `pytest -q`"
    assert garden["points"]["ask"] == "asks: Plant?; after dig"
    assert explained("flow", "feature")["source"] == "built in"  # its agents are not installed
    for words in (("agent", "nobody"), ("role", "../tester"), ("flow", "none")):
        refused = corral("explain", *words, cwd=repo.folder)
        assert (refused.code, "hint:" in refused.err) == (2, True), refused
    shown = corral("explain", "role", "tester", cwd=repo.folder).out
    assert "You test tulips." in shown
    assert "\x1b" not in shown


def test_a_subfolder_of_a_repository_is_explained_as_its_top(corral: Corral, tmp_path: Path) -> None:
    repo = corral.repo(files={"src/deep/a.txt": "a\n"})
    place, below = repo.folder / ".corral", repo.folder / "src" / "deep"
    for name, text in {"roles/gardener.md": "You dig.\n", "flows/garden.yaml": FLOW.format("dig")}.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    (below / "own.yaml").write_text(FLOW.format("below"))
    (tmp_path / "own.yaml").write_text(FLOW.format("beside"))
    for words in (("role", "gardener"), ("flow", "garden")):
        for outcome in (
            corral("explain", *words, "--json", cwd=below),
            corral("explain", *words, "--repo", below, "--json", cwd=tmp_path),
        ):
            assert outcome.code == 0, outcome
            assert outcome.json["source"].startswith(f"{place}/"), outcome
    users = corral("explain", "agent", "claude", "--json", cwd=below).json["points"]["used by"]
    assert users == "flow garden.yaml"
    named = corral("explain", "flow", "own.yaml", "--repo", below, "--json", cwd=tmp_path).json
    assert (named["source"], "below" in named["points"]) == (str(below / "own.yaml"), True)
    beside = corral("explain", "flow", "own.yaml", "--repo", repo.folder, "--json", cwd=tmp_path).json
    assert beside["source"] == str(tmp_path / "own.yaml")
    missing = corral("explain", "role", "gardener", "--repo", below / "none")
    assert (missing.code, "no such folder" in missing.err) == (2, True), missing
