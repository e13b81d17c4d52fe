"""What a shell command is sure to start, and where nothing can be said."""

import pytest

from corral.rules.checks.shell_commands import of_words, starts, tokenize


def words(text: str) -> list[str]:
    return [start.word for start in starts(text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("/opt/v/bin/python -m pytest -q", ["/opt/v/bin/python"]),
        ("A=1 B='2 3' /opt/x --flag", ["/opt/x"]),
        ("cd sub && /opt/x", ["cd", "/opt/x"]),
        ("/opt/x | /opt/y > out.txt 2>&1", ["/opt/x", "/opt/y"]),
        ("make; /opt/x", ["/opt/x"]),
        ("make\n/opt/x\n", ["/opt/x"]),
        ("bash -c '/opt/x --a && /opt/y'", ["bash", "/opt/x", "/opt/y"]),
        ('sh -ec "cd a; exec /opt/x"', ["sh", "exec", "/opt/x"]),
        ("env -i A=1 -u B /opt/x", ["env", "/opt/x"]),
        ("nice -n 5 timeout -k 3 60s /opt/x", ["nice", "timeout", "/opt/x"]),
        ("time nohup stdbuf -oL /opt/x", ["time", "nohup", "stdbuf", "/opt/x"]),
        ("ls | xargs -n 1 /opt/x", ["ls", "xargs", "/opt/x"]),
        ("( cd a && /opt/x )", ["cd", "/opt/x"]),
        ("{ /opt/x; }", []),
        ('~/bin/x && "$HOME/bin/y" && ${HOME}/z', ["~/bin/x", "$HOME/bin/y", "${HOME}/z"]),
        (". /opt/v/bin/activate && pytest", ["/opt/v/bin/activate", "pytest"]),
        ("python3 -u /opt/check.py /opt/data", ["python3", "/opt/check.py"]),
        ("python3 -m pytest /opt/x", ["python3"]),
        ("bash /opt/run.sh", ["bash", "/opt/run.sh"]),
        ("echo '&&' /opt/x # && /opt/y", ["echo"]),
        (r"/opt/with\ space/x 'a b'", ["/opt/with space/x"]),
        ("grep -q /opt/x file && curl http://a/opt/x", ["grep", "curl"]),
        ("set -e; /opt/x; echo ok", ["set", "/opt/x", "echo"]),
        ("set -euo pipefail\n/opt/x a\ncd b && /opt/y\necho ok\n", ["set", "/opt/x", "echo"]),
        ("test -f a.txt && /opt/x", ["/opt/x"]),
        ("[ -d a ] && ! grep -q b c && /opt/x", ["/opt/x"]),
        ("/opt/x || exit 1", ["/opt/x"]),
        ("/opt/x || false", ["/opt/x"]),
        ("/opt/x && /opt/y || exit 3; echo ok", ["/opt/x", "/opt/y", "echo"]),
        ("if ! /opt/x; then exit 1; fi", ["/opt/x"]),
        ("if ! /opt/x a\nthen\n echo bad\n exit 1\nfi\necho ok", ["/opt/x", "echo"]),
        ("flock -w 3 F /opt/x a", ["flock", "/opt/x"]),
        ("flock F -c '/opt/x a'", ["flock", "/opt/x"]),
        ("taskset -c 0,1 /opt/x", ["taskset", "/opt/x"]),
        ("xvfb-run -a -s '-screen 0' /opt/x", ["xvfb-run", "/opt/x"]),
        # It may well not be started, or its failure is meant.
        ("/opt/x || true", []),
        ("test -x /opt/x && /opt/x", []),
        ("! /opt/x", []),
        ("command -v /opt/x && /opt/x", []),
        ("if true; then /opt/x; fi", []),
        ("for f in a b; do /opt/x $f; done", []),
        ("/opt/x; true", ["true"]),
        ("/opt/x & true", ["true"]),
        ("/opt/x || exit 0", []),
        ("/opt/x || exit 256", []),
        ("/opt/x || exit 1 || true", []),
        ("set -e; /opt/x || true; echo ok", ["set", "echo"]),
        ("set -e; /opt/x && true; echo ok", ["set", "echo"]),
        ("set -e; /opt/x & echo ok", ["set", "echo"]),
        ("set -e; set +e; /opt/x; echo ok", ["echo"]),
        ("set -e; f() { /opt/x; }; echo ok", ["echo"]),
        ("(set -e; /opt/x); echo ok", ["echo"]),
        ("( /opt/x || exit 1 ); echo ok", ["echo"]),
        ("test -d /opt/v && /opt/v/bin/x", []),
        ('test -x "$V" && /opt/x', []),
        ("which x || exit 0; x", []),
        ("[ -f a ] || exit 0; /opt/x", []),
        ("set -e; [ -f a ] || exit 0; /opt/x; echo ok", ["set"]),
        ("which x || exit 1; x", []),
        ("if ! which x; then exit 1; fi; x", []),
        ("if ! /opt/x; then echo bad; fi", []),
        ("if ! /opt/x; then exit 0; fi", []),
        ("if ! /opt/x; then exit 1; else /opt/y; fi", []),
        ("if ! /opt/x; then test -f a && exit 0; exit 1; fi", []),
        ("if ! /opt/x && true; then exit 1; fi", []),
        ("if ! /opt/x; then for a in b; do exit 1; done; fi", []),
        ("taskset -p 3 44", ["taskset"]),
        # It cannot be told.
        ("$(which x) a", []),
        ("$TOOL/bin/x", []),
        ("/opt/*/bin/x", []),
        ("cat <<E\n/opt/x\nE", []),
        ("'open", []),
        ("", []),
    ],
)  # fmt: skip
def test_what_is_started(text: str, found: list[str]) -> None:
    assert words(text) == found


def test_words_of_their_own_are_no_text_for_a_shell() -> None:
    assert [each.word for each in of_words(["sh", "-c", "/opt/x {prompt}"])] == ["sh", "/opt/x"]
    assert [each.word for each in of_words(["env", "A=1", "/opt/x", "a && b"])] == ["env", "/opt/x"]
    assert [each.program for each in of_words(["python3", "/opt/x.py"])] == [True, False]


def test_quotes_are_taken_as_a_shell_takes_them() -> None:
    tokens = tokenize(r"""a"b c"'d'\ e '$X' "$X" "~/x" """)
    assert tokens
    assert [(each.text, each.certain) for each in tokens] == [
        ("ab cd e", True),
        ("$X", True),
        ("$X", False),
        ("~/x", False),
    ]
