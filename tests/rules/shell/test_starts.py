"""What a shell command starts, and whether it can succeed where that is missing."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from corral.rules.shell.starts import ProgramStart, of_text, of_words

#: The command cannot succeed where /opt/x is missing, although another program is there.
NEEDED = [
    "/opt/x -m pytest -q",
    "A=1 B='2 3' /opt/x --flag",
    "cd . && /opt/x",
    "/opt/x > out.txt 2>&1",
    "true; /opt/x",
    "true\n/opt/x\n",
    "bash -c '/opt/x --a && true'",
    'sh -ec "cd .; exec /opt/x"',
    "sh -c 'sh -c \"/opt/x\"'",
    "env -i A=1 -u B /opt/x",
    "env -S 'A=1 /opt/x b'",
    "env -C . /opt/x",
    "nice -n 5 timeout -k 3 60s /opt/x",
    "time nohup stdbuf -oL /opt/x",
    "command /opt/x",
    "command -p -- /opt/x",
    "exec /opt/x",
    "time /opt/x",
    "echo a | xargs -n 1 /opt/x",
    "( cd . && /opt/x )",
    "{ /opt/x; }",
    "{ true && { /opt/x; }; }",
    "set -e; /opt/x; echo ok",
    "set -euo pipefail 2>/dev/null\n/opt/x a\necho ok\n",
    "bash -e -c '/opt/x; true'",
    "bash -o errexit -c '/opt/x; true'",
    "/opt/x || exit 1",
    "/opt/x || false",
    "/opt/x || exit 1 || true; true",
    "/opt/x && true || exit 3; echo ok",
    "if ! /opt/x; then exit 1; fi",
    "if ! /opt/x a\nthen\n echo bad\n exit 1\nfi\necho ok",
    "if true; then /opt/x; fi",
    "if /opt/x; then true; else exit 1; fi",
    "if grep -q a b 2>/dev/null; then /opt/x; else /opt/x -v; fi",
    "if false; then true; elif true; then /opt/x; fi",
    "for f in a b; do /opt/x $f; done",
    'for f in *.none; do /opt/x "$f" || exit 1; done',
    "for p in /opt/x; do $p; done",
    "case a in a) /opt/x;; *) /opt/x -b;; esac",
    "case $A in *) /opt/x;; esac",
    'f() { /opt/x "$1"; }; f a',
    "function f { /opt/x; }\nf",
    "f() { /opt/x || return 1; }; f",
    "P=/opt/x; $P a",
    'P=/opt; "$P/x" a',
    "P=/opt; ${P}/x",
    "export P=/opt/x; sh -c '$P a'",
    "P=/opt/x sh -c '$P'",
    "P='/opt/x -a'; $P",
    "sh -c '\"$@\"' _ /opt/x a",
    "sh -c '$0 a' /opt/x",
    'set -- /opt/x a; "$@"',
    "eval '/opt/x a'",
    'eval "/opt/x" a',
    ". /opt/x; true",
    "sh <<E\n/opt/x\nE\n",
    "bash -s <<'E'\ntrue && /opt/x\nE\n",
    "P=/opt/x; sh <<E\n$P a\nE\n",
    "bash -c \"bash <<< '/opt/x'\"",
    "echo /opt/x | sh",
    "A=$(/opt/x) && true",
    "true && (! false) && /opt/x",
    "flock F /opt/x a",
    "flock F -c '/opt/x a'",
    "[ -d . ] && ! grep -q b c && /opt/x",
    "/opt/x || /opt/x --again",
    "while true; do /opt/x || exit 1; exit 0; done",
    "until false; do /opt/x || exit 1; exit 0; done; exit 1",
    "true & /opt/x",
    "trap 'rm -f a' EXIT; /opt/x",
    "'/opt/x' \"a b\"",
    r"/opt/\x",
    "true \\\n && /opt/x # a comment",
    "python3 -u /opt/x",
    "make -f /opt/x",
]  # fmt: skip
#: The command may succeed without /opt/x, or does.
NOT_NEEDED = [
    "/opt/x || true",
    "/opt/x; true",
    "/opt/x & true",
    "! /opt/x",
    "/opt/x || exit 0",
    "/opt/x || exit 256",
    "if /opt/x; then true; fi",
    "if false; then /opt/x; fi",
    "if ! /opt/x; then echo bad; fi",
    "if ! /opt/x; then exit 0; fi",
    "while /opt/x; do true; done",
    "while false; do /opt/x; done",
    "for f in; do /opt/x; done",
    "for f in a; do break; /opt/x; done",
    "for f in a b; do /opt/x; true; done",
    "for f in $(true); do /opt/x; done",
    "case a in b) /opt/x;; esac",
    "set -e; /opt/x || true; echo ok",
    "set -e; /opt/x && true; echo ok",
    "set -e; /opt/x & echo ok",
    "set -e; set +e; /opt/x; echo ok",
    "set -e; if /opt/x; then true; fi; echo ok",
    "set -e; ! /opt/x; echo ok",
    "set -e; f() { /opt/x; }; echo ok",
    "(set -e; /opt/x); echo ok",
    "( /opt/x || exit 1 ); echo ok",
    "{ /opt/x || exit 0; }; false",
    "exit 0; /opt/x",
    "f() { return 0; /opt/x; }; f",
    "f() { /opt/x; }; true",
    "/opt/x() { true; }; true",
    "trap 'exit 0' EXIT; /opt/x",
    "find . -maxdepth 0 -exec /opt/x {} \\;",
    "true | xargs -r /opt/x",
    "echo /opt/x",
    "echo '&&' /opt/x # && /opt/x",
    "cat <<E\n/opt/x\nE\n",
    "P=/opt/x; sh -c '$P'",
    "P=/opt/x; P=true; $P",
    "(P=/opt/x); P=${P:-true}; $P",
    "test \"$(/opt/x)\" = ''",
    "A=$(/opt/x); true",
    "bash -c '. /opt/x; true'",
    "command -v /opt/x || true",
    '[ -n "$NOT_SET_AT_ALL" ] && /opt/x; true',
    "test -e /opt/x || true",
    "grep -c /opt/x F || true",
    "sh -c 'exit 0' /opt/x",
    "CC=/opt/x sh -c true",
]  # fmt: skip


def missing_x(text: str) -> frozenset[ProgramStart]:
    return frozenset(start for start in of_text(text).starts if start.word == "/opt/x")


@pytest.mark.parametrize("text", NEEDED)
def test_what_cannot_succeed_without_it(text: str) -> None:
    missing = missing_x(text)
    assert missing, "it is not found at all"
    assert of_text(text).can_succeed
    assert not of_text(text, missing).can_succeed


@pytest.mark.parametrize("text", NOT_NEEDED)
def test_what_may_succeed_without_it(text: str) -> None:
    assert of_text(text, missing_x(text)).can_succeed


@pytest.mark.parametrize("text", [*NEEDED, *NOT_NEEDED])
def test_a_real_shell_agrees(text: str, tmp_path: Path) -> None:
    """No command of these tables succeeds in a shell without the program if it is called needed; others do."""
    assert not Path("/opt/x").exists()
    path = os.pathsep.join(
        dict.fromkeys(str(Path(shutil.which(each) or "/bin/sh").parent) for each in ("make", "bash"))
    )
    ended = subprocess.run(
        ["sh", "-c", text],
        cwd=tmp_path,
        env={"PATH": f"{path}:/usr/bin:/bin"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    bashisms = text.startswith("function ")
    no_name = text.startswith("/opt/x()")
    assert (ended.returncode != 0) == (text in NEEDED or bashisms or no_name), ended


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("/opt/x | /opt/y > out.txt 2>&1", ["/opt/x", "/opt/y"]),
        ("find . -exec /opt/x {} \\; -exec /opt/y {} +", ["find", "/opt/x", "/opt/y"]),
        ('~/bin/x && "$HOME/bin/y" && ${HOME}/z', ["~/bin/x", "$HOME/bin/y", "${HOME}/z"]),
        (". /opt/v/bin/activate && pytest", ["/opt/v/bin/activate", "pytest"]),
        ("python3 -u /opt/check.py /opt/data", ["python3", "/opt/check.py"]),
        ("python3 -m pytest /opt/x", ["python3"]),
        ("bash /opt/run.sh", ["bash", "/opt/run.sh"]),
        ("make -C /opt/p test", ["make", "/opt/p/Makefile"]),
        ("make --file=/opt/M test", ["make", "/opt/M"]),
        ("uv run /opt/x", ["uv", "/opt/x"]),
        ("CC=/opt/cc make CXX=/opt/c++", ["/opt/cc", "make", "/opt/c++"]),
        ("${PYTHON:-/opt/py} -m x", ["/opt/py"]),
        ("taskset -p 3 44", ["taskset"]),
        ("[[ a =~ (x|y) ]] && /opt/x", ["/opt/x"]),
        ("if false; then /opt/x; fi", []),
        ("$(which x) a", []),
        ("$TOOL/bin/x", []),
        ("/opt/*/bin/x", []),
        ("/opt/{a,b}/x", []),
        ("'open", []),
        ("if true", []),
        ("", []),
    ],
)  # fmt: skip
def test_what_is_found(text: str, found: list[str]) -> None:
    assert [start.word for start in of_text(text).starts] == found


def test_where_it_is_started_and_looked_for() -> None:
    assert of_text("cd /opt/a && ./x").starts == [ProgramStart("./x", folder="/opt/a")]
    assert of_text("cd a && cd ../b && ./x").starts == [ProgramStart("./x", folder="b")]
    assert of_text("PATH=/opt/b:$PATH tool").starts == [ProgramStart("tool", search="/opt/b:$PATH")]
    assert of_text("export PATH=$PATH:/opt/b; tool").starts == [ProgramStart("tool", search="$PATH:/opt/b")]
    assert of_text("env PATH=/opt/b tool").starts[-1] == ProgramStart("tool", search="/opt/b")
    assert of_text("PATH=$(x):$PATH tool").starts[-1] == ProgramStart("tool", search=None)
    assert of_text(". ./env.sh; tool").starts[-1].search is None
    assert of_text("test -x /opt/x && /opt/x").starts == [ProgramStart("/opt/x", sought=True)]
    assert of_text("[ -d /opt ] && /opt/x").starts == [ProgramStart("/opt/x", sought=True)]


def test_loops_in_each_other_are_not_walked_through_for_ever() -> None:
    words = " ".join(map(str, range(20)))
    text = f"for a in {words}; do " * 8 + "/opt/x" + "; done" * 8
    started = time.process_time()
    assert of_text(text, missing_x(text)).can_succeed, "what is not known is not refused"
    assert time.process_time() - started < 5
    calls = "".join(f"f{each}() {{ f{each + 1}; f{each + 1}; f{each + 1}; }}; " for each in range(7))
    assert of_text(calls + "f7() { /opt/x; }; f0").starts == [ProgramStart("/opt/x")]


def test_words_of_their_own_are_no_text_for_a_shell() -> None:
    assert [each.word for each in of_words(["sh", "-c", "/opt/x {prompt}"]).starts] == ["sh", "/opt/x"]
    assert [each.word for each in of_words(["env", "A=1", "/opt/x", "a && b"]).starts] == ["env", "/opt/x"]
    assert [each.program for each in of_words(["python3", "/opt/x.py"]).starts] == [True, False]


@pytest.mark.parametrize(
    "text", ["(" * 500, "$(" * 500 + ")" * 500, "{ " * 500, "f() { f; f; }; f", "for a in b; do " * 30]
)
def test_deep_text_ends(text: str) -> None:
    assert len(of_text(text).starts) < 3000
