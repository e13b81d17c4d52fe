"""Which commands are sure to start a program that the box does not show, and what is told then."""

import re
import sys
from pathlib import Path

import pytest
from msgspec import structs

from corral.config.settings import Config
from corral.engine.planning import preflight
from corral.engine.planning.hidden_programs import Surroundings, refuse_missing
from corral.engine.planning.preflight import Findings
from corral.machines.resolved_agent import resolve_agent
from corral.model.agent_api import AgentProfile, Command
from corral.model.errors import BadRequest
from corral.model.flow import AgentChoice, Flow, Node, Task
from corral.world.sandbox import program_files
from corral.world.sandbox.program_files import VisiblePaths
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
    return Surroundings(folder=folder, shown=VisiblePaths(), search=SYSTEM_PATH)


REFUSED = {
    "first": "{0.python} -m pytest -q",
    "after a variable": "A=1 {0.tool}",
    "in bash": "bash -c 'cd . && {0.tool}'",
    "in a shell in a shell": "sh -c 'bash -c \"{0.tool} a\"'",
    "after env": "env A=1 {0.tool} x",
    "split by env": "env -S 'A=1 {0.tool} x'",
    "after cd": "cd . && {0.tool}",
    "from its folder": "cd {0.environment}/bin && ./tool",
    "in a pipe": "{0.tool} | cat",
    "behind wrappers": "nice -n 3 timeout 9 {0.tool}",
    "by command": "command {0.tool}",
    "by exec": "exec {0.tool}",
    "timed": "time {0.tool}",
    "by xargs": "echo a | xargs {0.tool}",
    "at home": "~/bin/own",
    "by HOME": '"$HOME/bin/own" x',
    "by a link": "{0.linked}",
    "by its first line": "./run.sh",
    "as a script": "sh {0.tool}",
    "on PATH alone": "cat a.txt && own",
    "sourced": ". {0.tool} && true",
    "sourced first": ". {0.tool}; true",
    "in an if": "if true; then {0.tool}; fi",
    "as a condition": "if {0.tool}; then true; else exit 1; fi",
    "not": "if ! {0.tool}; then exit 1; fi",
    "in both branches": "if [ -f a.txt ]; then {0.tool}; else {0.tool} -b; fi",
    "in a loop": "for a in 1 2; do {0.tool} $a; done",
    "in a loop over files": "for a in *; do {0.tool} $a || exit 1; done",
    "in a loop without end": "while true; do {0.tool} || exit 1; exit 0; done",
    "in every case": "case $A in a) {0.tool};; *) {0.tool} b;; esac",
    "in braces": "{{ {0.tool}; }}",
    "in brackets": "( cd . && {0.tool} )",
    "with a change of PATH": "PATH={0.environment}/bin:$PATH tool",
    "with PATH exported": "export PATH={0.environment}/bin:$PATH; tool",
    "with PATH by env": "env PATH=$PATH:{0.environment}/bin tool",
    "in a variable": "P={0.tool}; $P a",
    "in a part of a variable": "P={0.environment}; $P/bin/tool a",
    "exported": "export P={0.tool}; sh -c '$P a'",
    "an argument of sh": "sh -c '\"$@\"' sh {0.tool}",
    "in a function": "t() {{ {0.tool} $1; }}; t a",
    "in eval": "eval '{0.tool} a'",
    "a document": "sh <<E\n{0.tool}\nE\n",
    "by echo": "echo {0.tool} | sh",
    "in an assignment": "A=$({0.tool}) && echo $A",
    "or exit": "{0.tool} || exit 1; true",
    "strict": "set -e; {0.tool}; true",
    "a makefile": "make -f {0.tool}",
    "a makefile's folder": "make -C {0.makefile.parent}",
    "nowhere else either": "{0.tool} || {0.python}",
}
#: With the program that is named in the warning.
WARNED = {
    "{0.tool} || true": "{0.tool}",
    "{0.tool}; true": "{0.tool}",
    "! {0.tool}": "{0.tool}",
    "true || {0.tool}; cat a.txt || {0.tool}": "{0.tool}",
    "if [ -f a.txt ]; then {0.tool}; fi": "{0.tool}",
    "if {0.tool}; then true; fi": "{0.tool}",
    "while read a; do {0.tool} $a; done < a.txt": "{0.tool}",
    "case $A in a) {0.tool};; esac": "{0.tool}",
    "find . -name '*.py' -exec {0.tool} {{}} +": "{0.tool}",
    "find . -print0 | xargs -0 -r {0.tool}": "{0.tool}",
    "test -x {0.tool} && {0.tool}": "{0.tool}",
    'test "$({0.tool})" = 1': "{0.tool}",
    "${{PYTHON:-{0.python}}} -m pytest": "{0.python}",
    "CC={0.tool} make": "{0.tool}",
    "make CC={0.tool}": "{0.tool}",
    "make; {0.tool}": "{0.tool}",
    "trap '{0.tool}' EXIT; true": "{0.tool}",
    "PATH={0.away}:$PATH python3 x.py": "python3",
    "sh ./inner.sh": "{0.tool}",
    "./outer.sh": "{0.tool}",
}
FINE = {
    "data": "grep -c a a.txt {0.real}; true",
    "a number": "echo 1 2>{0.tool}",
    "a word": "echo {0.tool} http://a{0.tool}",
    "looked for": "test ! -e {0.tool}",
    "not reached": "if false; then {0.tool}; fi",
    "a function": "own() {{ true; }}; own",
    "made by the command": "mkdir -p {0.tool.parent} && cp /bin/true {0.tool} && {0.tool}",
    "made in a shell": "bash -c 'mkdir -p {0.tool.parent} && cp /bin/true {0.tool} && {0.tool}'",
    "built": "gcc -o {0.tool} a.c && {0.tool}",
    "written": "cat > {0.tool} <<E\ntrue\nE\nsh {0.tool}",
    "written by a group": "{{ echo true; }} > {0.tool} && sh {0.tool}",
    "an environment": "python3 -m venv {0.environment} && {0.environment}/bin/tool",
    "installed": "pip install own && own",
    "read by a shell": "sh run.sh && bash ./run.sh",
    "a long word": f"{'a' * 300} || true; . ./{'b' * 300}",
    "a function of the name": "own() {{ true; }} && own",
    "after a sourced file": ". ./dev && own",
    "after eval": 'eval "$SETUP" && own',
    "of /etc": ". /etc/profile && . /etc/os-release && sh /etc/hosts",
    "below another folder": "cd sub && ./run.sh",
    "found in the box by env": "./found.py",
    "in the workspace": "chmod +x plain.sh && ./plain.sh",
    "exported only": "P={0.tool}; sh -c 'echo $P'",
    "a comment": "true # {0.tool}",
    "a document of text": "cat <<E\n{0.tool}\nE\n",
    "a pattern": "case {0.tool} in *) true;; esac",
    "a path in an option": "python3 -m pytest --rootdir={0.environment}",
    "scratch that is not here": "make && /tmp/no/such/program",
    "the home of the box": "/home/agent/bin/made",
}
#: Commands as they are written every day; nothing of them is on this machine alone.
EVERY_DAY = r"""
true
make test
make -j4 -s check
make -C sub test CC=gcc
python3 -m pytest -q
python3 -c 'import sys; sys.exit(0)'
python3 - <<'E'\nprint(1)\nE
sh -c 'test -f a.txt'
[ -f a.txt ]
[ -f a.txt ] && [ ! -s a.txt ] || grep -q a a.txt
[[ -f a.txt && "$A" =~ ^(a|b)$ ]] || true
test "$(cat a.txt)" = a
test $(grep -c a a.txt) -gt 0
diff <(sort a.txt) <(sort b.txt)
grep -q a a.txt && echo yes || echo no
! grep -rn TODO src
for f in *.py; do python3 -m py_compile "$f" || exit 1; done
for i in $(seq 3); do echo $i; done
for ((i = 0; i < 3; i++)); do echo $i; done
while read -r line; do echo "$line"; done < a.txt
until test -f a.txt; do sleep 1; done
if grep -q a a.txt; then echo a; elif test -f b; then echo b; else exit 1; fi
case "$(uname)" in Linux|Darwin) make;; *) exit 1;; esac
set -euo pipefail; cat a.txt | sort | uniq -c | head -n 1
cd sub && make && cd .. && ./plain.sh
(cd sub; make) && echo ok
{ echo a; echo b; } > out.txt; cmp out.txt a.txt
find . -name '*.sh' -exec sh -n {} +
find . -type f -print0 | xargs -0 grep -l a
ls | xargs -I{} sh -c 'echo {}'
env -u A -i PATH=/usr/bin:/bin sh -c true
A=1 B="2 3" C=$(date) make
export A=1; make
PATH=$PWD/bin:$PATH mytool
PATH="$PWD/node_modules/.bin:$PATH" eslint .
export PATH=bin:$PATH && mytool
PATH=$(pwd)/bin:$PATH mytool
. ./env.sh && mytool
source .venv/bin/activate && pytest
. .venv/bin/activate; pytest -q
python3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/pytest
npm ci && npm test
npm run build --silent
npx --no-install tsc --noEmit
uv run pytest -q
poetry run pytest
go build ./... && go vet ./... && go test ./...
cargo test --quiet
./gradlew test
bash run.sh a "b c"
bash -euxc 'cat a.txt'
timeout 60 nice -n 5 sh -c 'cat a.txt'
time -p true
command -v ruff >/dev/null && ruff check . || true
which node || exit 0; node -e 1
type jq >/dev/null 2>&1 || exit 0
ulimit -n 256; true
umask 022 && make
shopt -s globstar 2>/dev/null; true
trap 'rm -rf tmp' EXIT; mkdir -p tmp && touch tmp/a
t() { echo "$1" | grep -q "$2"; }; t abc b
function t { echo "${1:-x}"; }; t
f () { local a=1; return $a; }; f || true
eval "$(cat env.txt)"; make
exec python3 -m unittest
x=$((1 + 2)); test $x -eq 3
a=(1 2 3); echo "${a[@]}"
echo "a && /opt/none; b" | grep -q none
printf '%s\n' "it's" 'a "quote"' | wc -l
cat a.txt | while read l; do case $l in a*) continue;; esac; break; done
git diff --exit-code -- . ':!b'
git stash list | grep -c . || true
make 2>&1 | tee log.txt; test ${PIPESTATUS[0]} -eq 0
tmp=$(mktemp -d) && cp a.txt "$tmp" && "$tmp/run" || true
sleep 0 & wait
wait $! 2>/dev/null; true
kill -0 $$ && echo alive
test -x /opt/none/bin/x && /opt/none/bin/x || true
docker compose up -d && ./plain.sh
sudo -n true || true
""".strip().splitlines()


@pytest.mark.parametrize("kind", list(REFUSED))
def test_it_is_refused_and_the_line_that_is_named_helps(
    around: Surroundings, elsewhere: Elsewhere, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{elsewhere.own.parent}:{SYSTEM_PATH}")
    check = REFUSED[kind].format(elsewhere)
    with pytest.raises(BadRequest, match="on this machine, but not in the box") as refused:
        refuse_missing("--check", check, around)
    hint = str(refused.value.hint)
    shown = VisiblePaths(places=tuple(map(Path, READ.findall(hint))))
    assert shown.places, hint
    assert all(path.resolve() == path for path in shown.places), "a scope takes no links"
    if named := re.search(r"name it (\S+?),", hint):
        check = re.sub(r"~/bin/own|\"\$HOME/bin/own\"|\S*/links/linked|\bown$", named.group(1), check)
    helped = structs.replace(around, shown=shown)
    other = str(elsewhere.python) if kind == "nowhere else either" else None
    assert [each for each in refuse_missing("--check", check, helped) if not other or other not in each] == []


@pytest.mark.parametrize("check", list(WARNED))
def test_what_may_be_started_is_warned_of_with_the_line_that_helps(
    around: Surroundings, elsewhere: Elsewhere, check: str
) -> None:
    for name, text in (("inner.sh", f"#!/bin/sh\n{elsewhere.tool} a\n"), ("outer.sh", "#!/bin/sh\nsh inner.sh\n")):
        (around.folder / name).write_text(text)
        (around.folder / name).chmod(0o755)
    warnings = refuse_missing("--check", check.format(elsewhere), around)
    assert warnings
    named = WARNED[check].format(elsewhere)
    assert all(
        f"`{named}` may be started and is not visible in the box; hint: show it: --read " in each for each in warnings
    )


@pytest.mark.parametrize("check", EVERY_DAY)
def test_everyday_commands_are_taken_without_a_word(
    around: Surroundings, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = check.replace(r"\n", "\n")
    monkeypatch.setenv("PATH", SYSTEM_PATH)
    assert refuse_missing("--check", check, around) == []
    task = Task(prompt="x", checks=(check,))
    flow = Flow(name="f", strategy="single", nodes=(Node(id="main", task=task, agent=AgentChoice("x")),))
    if not re.search(r"\b(cargo|go|uv|poetry|npm|npx|docker|sudo|pytest)\b", check):  # may not be installed
        preflight.checks(flow, Config(), around.folder, Findings(None))


@pytest.mark.parametrize(
    "check",
    [
        "/opt/no/such/program -q",
        "true && /opt/no/such/program",
        "python3 /opt/no/such.py",
        "/usr/bin/no-such-program",
        "make; /srv/x/y",
    ],
)
def test_a_path_that_is_nowhere_is_not_called_invisible(around: Surroundings, check: str) -> None:
    with pytest.raises(BadRequest, match=r"does not exist: there is no such (program|file) on this machine") as refused:
        refuse_missing("--check", check, around)
    assert "--read" not in str(refused.value.hint)


def test_a_path_of_the_checkout_that_is_nowhere_is_named_from_its_top(around: Surroundings) -> None:
    with pytest.raises(BadRequest, match="where the repository has another path") as refused:
        refuse_missing("--check", f"make && {around.folder}/build/x", around)
    assert refused.value.hint == "name it from the top of the repository: ./build/x"


@pytest.mark.parametrize("kind", list(FINE))
def test_what_may_be_right_is_not_refused(
    around: Surroundings, elsewhere: Elsewhere, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{elsewhere.own.parent}:{SYSTEM_PATH}")
    (elsewhere.own.parent / "sh").symlink_to(elsewhere.own)  # env finds another one in the box
    assert refuse_missing("--check", FINE[kind].format(elsewhere), around) == []


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
    shown = VisiblePaths(places=tuple(map(Path, READ.findall(str(refused.value.hint)))))
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
    shown = structs.replace(around, shown=VisiblePaths(places=(first, second)), search=f"{first}:{second}")
    with pytest.raises(BadRequest, match=re.escape(f"`linked` needs {elsewhere.own}")):
        refuse_missing("--check", "linked", shown)
    (second / "linked").write_text("#!/bin/sh\n")
    (second / "linked").chmod(0o755)
    refuse_missing("--check", "linked", shown)
