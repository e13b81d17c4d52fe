"""Which commands are sure to start a program that the box does not show, and what is told then."""

import re
import sys
from pathlib import Path

import pytest
from msgspec import structs

from corral.config.settings import Config
from corral.engine.planning import preflight
from corral.engine.planning.hidden_programs import Surroundings, refuse_missing
from corral.engine.planning.problems import Findings
from corral.machines.resolved_agent import resolve_agent
from corral.model.agent_api import AgentProfile, Command
from corral.model.errors import BadRequest
from corral.model.flow import AgentChoice, Flow, Node, Task
from corral.world.sandbox import program_files
from corral.world.sandbox.program_files import Shown
from tests.rig.elsewhere import Elsewhere

SYSTEM_PATH = ":".join(program_files.SYSTEM_PATH)
READ = re.compile(r"--read (\S+?)(?=,|\s)")


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Elsewhere:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return Elsewhere(tmp_path / "away", tmp_path / "home")


@pytest.fixture
def around(tmp_path: Path, elsewhere: Elsewhere) -> Surroundings:
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    for name, first in (("run.sh", str(elsewhere.tool)), ("plain.sh", "/bin/sh"), ("found.py", "/usr/bin/env sh")):
        (folder / name).write_text(f"#!{first}\n")
        (folder / name).chmod(0o755)
    return Surroundings(folder=folder, shown=Shown(), search=SYSTEM_PATH)


REFUSED = {
    "first": "{0.python} -m pytest -q",
    "after a variable": "A=1 {0.tool}",
    "in bash": "bash -c 'cd . && {0.tool}'",
    "after env": "env A=1 {0.tool} x",
    "after cd": "cd . && {0.tool}",
    "in a pipe": "{0.tool} | cat",
    "behind wrappers": "nice -n 3 timeout 9 {0.tool}",
    "by xargs": "echo a | xargs {0.tool}",
    "at home": "~/bin/own",
    "by HOME": '"$HOME/bin/own" x',
    "by a link": "{0.linked}",
    "by its first line": "./run.sh",
    "as a script": "sh {0.tool}",
    "on PATH alone": "cat a.txt && own",
    "sourced": ". {0.tool} && true",
}
FINE = {
    "data": "grep -c a a.txt {0.real}; true",
    "a number": "echo 1 2>{0.tool}",
    "a word": "echo {0.tool} http://a{0.tool}",
    "a fallback": "{0.tool} || true",
    "looked for": "test ! -e {0.tool}",
    "not reached": "if false; then {0.tool}; fi",
    "a function": "own() {{ true; }}; own",
    "made by the command": "mkdir -p {0.tool.parent} && cp /bin/true {0.tool} && {0.tool}",
    "read by a shell": "sh run.sh && bash ./run.sh",
    "a long word": f"{'a' * 300} || true; . ./{'b' * 300}",
    "a function of the name": "own() {{ true; }} && own",
    "after a sourced file": ". ./dev && own",
    "after eval": "eval true && own",
    "of /etc": ". /etc/profile && . /etc/os-release && sh /etc/hosts",
    "below another folder": "cd sub && ./run.sh",
    "found in the box by env": "./found.py",
    "in the workspace": "chmod +x plain.sh && ./plain.sh",
}


@pytest.mark.parametrize("kind", list(REFUSED))
def test_it_is_refused_and_the_line_that_is_named_helps(
    around: Surroundings, elsewhere: Elsewhere, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{elsewhere.own.parent}:{SYSTEM_PATH}")
    check = REFUSED[kind].format(elsewhere)
    with pytest.raises(BadRequest, match="on this machine, but not in the box") as refused:
        refuse_missing("--check", check, around)
    hint = str(refused.value.hint)
    shown = Shown(places=tuple(map(Path, READ.findall(hint))))
    assert shown.places, hint
    assert all(path.resolve() == path for path in shown.places), "a scope takes no links"
    if named := re.search(r"name it (\S+?),", hint):
        check = re.sub(r"~/bin/own|\"\$HOME/bin/own\"|\S*/links/linked|\bown$", named.group(1), check)
    refuse_missing("--check", check, Surroundings(folder=around.folder, shown=shown, search=SYSTEM_PATH))


@pytest.mark.parametrize("kind", list(FINE))
def test_what_may_be_right_is_not_refused(
    around: Surroundings, elsewhere: Elsewhere, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{elsewhere.own.parent}:{SYSTEM_PATH}")
    (elsewhere.own.parent / "sh").symlink_to(elsewhere.own)  # env finds another one in the box
    refuse_missing("--check", FINE[kind].format(elsewhere), around)


def test_what_a_setup_may_install_is_not_refused(around: Surroundings, elsewhere: Elsewhere) -> None:
    prepared = Surroundings(
        folder=around.folder, shown=around.shown, search=SYSTEM_PATH, setup=f"python3 -m venv {elsewhere.environment}"
    )
    for check in ("~/bin/own", "./run.sh", "own", str(elsewhere.tool)):
        refuse_missing("--check", check, prepared)


def test_a_path_into_the_checkout_is_named_from_its_top(around: Surroundings) -> None:
    with pytest.raises(BadRequest) as refused:
        refuse_missing("--check", f"{around.folder}/plain.sh", around)
    assert refused.value.hint == "name it from the top of the repository: ./plain.sh"


def test_the_python_that_runs_this_is_found_whole(around: Surroundings) -> None:
    """A real virtual environment: what is named suffices for its interpreter, by whatever links it is reached."""
    with pytest.raises(BadRequest) as refused:
        refuse_missing("--check", f"{sys.executable} -m pytest", around)
    shown = Shown(places=tuple(map(Path, READ.findall(str(refused.value.hint)))))
    assert shown.lacks(Path(sys.executable), {}) is None


def test_links_of_the_system_are_in_every_box(around: Surroundings) -> None:
    linked = [path for path in Path("/usr/bin").iterdir() if path.is_symlink()]
    behind = [path for path in linked if path.readlink().is_relative_to(program_files.ALTERNATIVES) and path.exists()]
    for program in behind:
        refuse_missing("--check", str(program), around)
        assert not [path for path in program_files.needs(program, {}) if path.is_relative_to("/etc")]


def test_a_long_script_of_an_agent_is_no_name_of_a_file(tmp_path: Path) -> None:
    script = "true; " * 600  # longer than a file's name, and than a path
    for length in (300, 3_600):
        profile = AgentProfile(command=("sh", "-c", script[:length]), folder=str(tmp_path))
        dressed = resolve_agent("long", Config(agents={"long": profile}))
        words, shown = dressed.resolve(Command(argv=profile.command))
        assert words[1:] == ["-c", script[:length]]
        assert tmp_path not in [path.parent for path in shown]


@pytest.mark.parametrize("check", ["PATH=$PWD/bin:$PATH mytool", "A=1 PATH=bin:$PATH mytool -q"])
def test_a_check_that_changes_path_is_left_to_the_run(tmp_path: Path, check: str) -> None:
    def tried(check: str) -> None:
        task = Task(prompt="x", checks=(check,))
        flow = Flow(name="f", strategy="single", nodes=(Node(id="main", task=task, agent=AgentChoice("x")),))
        preflight.checks(flow, Config(), tmp_path, Findings(None))

    tried(check)
    with pytest.raises(BadRequest, match="there is no program `mytool`"):
        tried("A=1 mytool")


def test_what_the_commit_does_not_hold_may_be_made(around: Surroundings) -> None:
    made = structs.replace(around, held=frozenset({"plain.sh"}))
    refuse_missing("--check", "make && ./run.sh", made)
    with pytest.raises(BadRequest):
        refuse_missing("--check", "make && ./run.sh", structs.replace(around, held=frozenset({"run.sh"})))


def test_a_link_on_the_search_path_is_followed(around: Surroundings, elsewhere: Elsewhere) -> None:
    """As /usr/local/bin/tool leads to /opt/tool; where a later folder has the program, a shell finds that one."""
    first, second = around.folder.parent / "first", around.folder.parent / "second"
    for folder in (first, second):
        folder.mkdir()
    (first / "linked").symlink_to(elsewhere.own)
    shown = structs.replace(around, shown=Shown(places=(first, second)), search=f"{first}:{second}")
    with pytest.raises(BadRequest, match=re.escape(f"`linked` needs {elsewhere.own}")):
        refuse_missing("--check", "linked", shown)
    (second / "linked").write_text("#!/bin/sh\n")
    (second / "linked").chmod(0o755)
    refuse_missing("--check", "linked", shown)
