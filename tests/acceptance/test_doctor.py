"""`corral doctor`: why a better level does not hold, what helps, and a table that can be read at 100 columns."""

import json
from pathlib import Path

import pytest

from tests.acceptance.test_levels import with_bubblewrap
from tests.rig.command import Corral
from tests.rig.levels import BOXED
from tests.rig.person import Person

pytestmark = pytest.mark.slow  # left out of `make quick`

LEVELS = ["full", "strict", "container", "landlock", "none"]  #: of Linux, the best first
NOBODY = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}  #: nobody answers there


def better(report: dict[str, dict[str, str]]) -> list[str]:
    return LEVELS[: LEVELS.index(report["sandbox"]["level"])]


def sandbox(report: dict[str, list[dict[str, str]]]) -> str:
    """Return what was found about the box."""
    (part,) = [part for part in report["parts"] if part["name"] == "sandbox"]
    return part["found"]


def test_for_each_better_level_it_says_why_not_and_what_helps(person: Person) -> None:
    person.agent("mine", "true")
    report = person("doctor", "--json").json
    assert report["ok"] is True
    assert report["sandbox"]["level"] in BOXED
    told = person("doctor").out
    assert [each["level"] for each in report["sandbox"]["wanting"]] == better(report)
    for each in report["sandbox"]["wanting"]:
        assert each["reason"]
        assert each["remedy"]
        assert f"not {each['level']}: {each['reason']}\n" in told
        assert f"fix: {each['remedy']}\n" in told


def test_at_strict_it_says_what_memory_is_not_held_and_at_full_it_does_not(person: Person, corral: Corral) -> None:
    person.agent("mine", "true")
    report = person("doctor", "--json").json
    assert report["sandbox"]["level"] == "strict"
    counted = "memory of a box is counted twice a second, not limited by the kernel"
    not_counted = "small kernel objects (file locks, epoll entries, open files) are not counted: docs/security.md"
    for told in (sandbox(report), " ".join(person("doctor").out.split())):
        assert counted in told
        assert not_counted in told
    best = corral("doctor", "--json").json
    assert best["sandbox"]["level"] == "full"
    assert "counted" not in sandbox(best)


def test_without_bubblewrap_one_command_helps_and_nothing_is_ready(corral: Corral) -> None:
    with_bubblewrap(corral)
    corral.agent("mine", "true")
    outcome = corral("doctor", "--json")
    assert outcome.code == 1
    report = outcome.json
    assert [each["level"] for each in report["sandbox"]["wanting"]] == better(report)
    assert {"full", "strict", "container"} <= set(better(report))
    (part,) = [part for part in report["parts"] if not part["ok"]]
    assert part["name"] == "sandbox"
    assert "strict is asked for: bubblewrap is not installed" in part["found"]
    told = corral("doctor").out
    assert "not full or strict: bubblewrap is not installed" in told
    assert "not container: " in told
    assert "fix: sudo apt-get install bubblewrap" in told
    assert "nothing can run here yet" in told


@pytest.mark.parametrize(("value", "kind"), [("", "compiled"), ("1", "python")])
def test_it_says_which_launcher_is_used(corral: Corral, value: str, kind: str) -> None:
    env = {"CORRAL_PYTHON_LAUNCHER": value}
    report = corral("doctor", "--json", env=env).json
    assert report["sandbox"]["launcher"] == kind
    assert f"{kind} launcher" in corral("doctor", env=env).out


def test_it_asks_anew_and_does_not_repeat_what_was_once_true(corral: Corral) -> None:
    held = corral("doctor", "--json").json["sandbox"]
    remembered = corral.home / "probe.json"
    (key,) = json.loads(remembered.read_text())
    remembered.write_text(json.dumps({key: {**held, "level": "none", "reason": "long ago"}}))
    assert corral("doctor", "--json").json["sandbox"] == held


def test_at_100_columns_nothing_is_cut(corral: Corral) -> None:
    corral.agent("mine", "true")
    key = {"COLUMNS": "100", "ANTHROPIC_API_KEY": "x" * 20, **NOBODY}
    rows = {row["name"]: row for row in corral("agents", "--json", env=key).json}
    told = corral("agents", env=key).out
    assert "…" not in told
    table = told.partition("\n\n")[0].splitlines()
    assert len(table) == 1 + len(rows)
    assert max(map(len, table)) <= 100
    assert any(str(Path(rows["mine"]["program"])) in line for line in told.splitlines())
    for row in rows.values():
        assert row["program"] or row["remedy"]
        assert f"{row['remedy']}\n" in told


def test_it_is_ready_only_when_the_default_agent_can_start(corral: Corral) -> None:
    report = corral("doctor", "--json").json
    assert report["ready"] is False
    assert report["next"]
    assert f"next: {report['next']}\n" in corral("doctor").out
    corral.agent("mine", "echo x > x.txt")
    other = corral("doctor", "--json").json
    assert (other["ready"], other["next"]) == (False, 'corral run "..." --agent mine'), "claude is the default"
    assert other["why"] == "the default agent claude is not installed"
    corral.config('[defaults]\nagent = "mine"\n')
    ready = corral("doctor", "--json").json
    assert (ready["ready"], ready["next"], ready["why"]) == (True, 'corral run "..."', "")
    assert corral("doctor").out.endswith('ready: corral run "..."\n')


def test_it_lists_what_is_installed_and_names_the_rest_in_a_line(corral: Corral) -> None:
    corral.agent("mine", "true")
    table, _, rest = corral("doctor").out.partition("\n\n")
    assert [line.split()[0] for line in table.splitlines()] == ["AGENT", "mine", "replay", "scripted"]
    assert "not installed: aider, " in rest
    assert "npm install" not in rest.partition("\nok ")[0]


def test_what_is_wrong_with_the_default_agent_is_said_with_what_helps(corral: Corral) -> None:
    repo = corral.repo()
    for text, why, step in (
        ('agent = "cluade"', "no agent is called `cluade`", "did you mean `claude`?"),
        ('agent = "scripted"', "the default agent scripted plays a file, and none is named", "--agent scripted:FILE"),
        ('checks = "make"', "corral.toml:2: [defaults] `checks` must be a list, not text", 'write checks = ["..."]'),
        ('agent = "own"\n[agents.own]\ncommand = ["./own.sh"]', "a file that you have not trusted", "corral trust"),
    ):
        (repo.folder / "corral.toml").write_text(f"[defaults]\n{text}\n")
        outcome = corral("doctor", "--json", cwd=repo.folder)
        report = outcome.json
        assert (outcome.code, report["ready"], why in report["why"], step in report["next"]) == (
            1,
            False,
            True,
            True,
        ), report
    (repo.folder / "corral.toml").write_text('[defaults]\nagent = "scripted:x.toml"\n')
    played = corral("doctor", "--json", cwd=repo.folder)
    assert (played.code, played.json["ready"]) == (0, True), "a file is all that it needs"


def test_an_installed_agent_without_a_login_is_not_ready(corral: Corral) -> None:
    program = corral.root / "bin" / "claude"
    program.parent.mkdir(exist_ok=True)
    program.write_text("#!/bin/sh\necho 2.1.0\n")
    program.chmod(0o755)
    corral.config(f'[agents.claude]\nprogram = "{program}"\n')
    report = corral("doctor", "--json").json
    assert (report["ready"], report["next"]) == (False, "claude")
    assert report["why"] == "no key or login of claude is seen"
    assert corral("doctor", "--json", env={"ANTHROPIC_API_KEY": "x", **NOBODY}).json["ready"] is True


def test_an_agent_that_starts_outside_and_not_in_the_box_is_not_ready(corral: Corral) -> None:
    """As one whose installer left a part of it where the box does not look."""
    part = corral.root / "elsewhere" / "part"
    part.parent.mkdir()
    part.write_text("x")
    program = corral.root / "bin" / "claude"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\ncat {part} >/dev/null || exit 3\necho 2.1.0\n")
    program.chmod(0o755)
    corral.config(f'[agents.claude]\nprogram = "{program}"\n')
    report = corral("doctor", "--json", env={"ANTHROPIC_API_KEY": "x", **NOBODY}).json
    assert report["ready"] is False
    assert report["why"].startswith("claude does not start in the box: it ended with 3: cat: ")
    assert "[agents.claude] program" in report["next"]


def test_a_mistyped_command_is_answered_with_the_one_that_was_meant(corral: Corral) -> None:
    wrong = corral("shwo")
    assert (wrong.code, wrong.err) == (2, "error: No such command 'shwo'.\nhint: did you mean `corral show`?\n")
    assert corral("xyzzy").err.endswith("hint: see `corral --help`\n")


def workspaces(report: dict[str, list[dict[str, str]]]) -> str:
    """Return what was found about workspaces."""
    (part,) = [part for part in report["parts"] if part["name"] == "workspaces"]
    return part["found"]


def test_it_says_which_workspaces_are_used_and_why(person: Person, corral: Corral) -> None:
    assert workspaces(person("doctor", "--json").json) == (
        "pool for repositories of 1,000 files and more, clone for smaller ones; "
        "no overlay: only root can mount one that lets folders be renamed"
    )
    assert workspaces(corral("doctor", "--json").json).startswith("overlay for repositories of 1,000 files")
    corral.config('[workspace]\nkind = "clone"')
    assert workspaces(corral("doctor", "--json").json) == "clone, as settings say"
