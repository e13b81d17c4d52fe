"""Scopes: the most specific pattern wins, narrowing never widens, and what cannot be meant is said in one line."""

from itertools import permutations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.model import Net, PathRules, Scope, ScopeSource, ScopeTable
from corral.model.errors import BadRequest
from corral.rules.scope import hosts
from corral.rules.scope.globs import glob, place_of, readable, top, writable
from corral.rules.scope.scope import EffectiveScope, effective, explain, named_keys, narrow, outside
from tests.rig.tries import tries

HOME = "/home/ada"


def said(**keys: object) -> ScopeTable:
    return msgspec.convert(keys, ScopeTable)


def hold(*sources: ScopeSource, agent: str = "claude") -> EffectiveScope:
    return effective(sources, agent=agent, home=HOME)


def mine(**keys: object) -> ScopeSource:
    return ScopeSource(table=said(**keys), where=dict.fromkeys(keys, "config.toml:1"), many=True)


def theirs(**keys: object) -> ScopeSource:
    return ScopeSource(table=said(**keys), where=dict.fromkeys(keys, "corral.toml:1"), narrows=True)


def option(**keys: object) -> ScopeSource:
    return ScopeSource(table=said(**keys), where={key: f"--{key}" for key in keys})


# --- patterns


@pytest.mark.parametrize(
    ("pattern", "fits", "not_fits"),
    [
        ("**", ["a", "a/b/c", ".hidden"], []),
        ("src", ["src", "src/a", "src/a/b"], ["srcs", "a/src"]),
        ("src/", ["src/a"], ["srcs"]),
        ("src/**", ["src/a", "src/a/b"], ["srcs/a"]),
        ("src/*", ["src/a"], ["src/a/b"]),
        ("*.md", ["a.md", ".md"], ["a/b.md", "a.mdx"]),
        ("**/*.md", ["a.md", "a/b.md", "a/b/c.md"], ["a/md"]),
        ("**/test/**", ["test/a", "a/test/b", "a/b/test/c/d"], ["tests/a"]),
        ("a/**/z", ["a/z", "a/b/z", "a/b/c/z", "a/b/z/below"], ["z", "b/a/z"]),
        ("file?.[ch]", ["file1.c", "filex.h"], ["file.c", "file1.o", "file12.c"]),
        ("./src//a", ["src/a"], ["a"]),
        ("/data/in", ["/data/in", "/data/in/x"], ["/data", "data/in"]),
    ],
)
def test_what_a_pattern_fits(pattern: str, fits: list[str], not_fits: list[str]) -> None:
    scope = Scope(read=(pattern,))
    assert [path for path in fits if not readable(scope, path)] == []
    assert [path for path in not_fits if readable(scope, path)] == []


def test_a_pattern_of_many_stars_takes_no_time() -> None:
    assert not readable(Scope(read=("/".join(["**", "a*a*a*a*a*b"] * 12),)), "/".join(["a" * 60] * 60))


@pytest.mark.parametrize(
    ("patterns", "path", "may"),
    [
        (("**", "!docs/**"), "docs/a", False),
        (("!docs/**", "**"), "docs/a", False),  # the longer literal beginning, wherever it stands
        (("docs/**", "!docs/private/**", "docs/private/open.md"), "docs/private/open.md", True),
        (("docs/**", "!docs/**/secret.md"), "docs/a/secret.md", False),  # as long, but with more literal parts
        (("!docs/*.md", "docs/*.*"), "docs/a.md", True),  # alike: the last named
        (("docs/*.*", "!docs/*.md"), "docs/a.md", False),
    ],
)
def test_the_most_specific_wins(patterns: tuple[str, ...], path: str, may: bool) -> None:
    assert writable(Scope(write=patterns), path) is may


def test_read_only_against_write() -> None:
    scope = Scope(write=("**", "src/gen/**"), readonly=("src/**",))
    assert not writable(scope, "src/a.py")
    assert readable(scope, "src/a.py")
    assert writable(scope, "src/gen/a.py")
    assert not writable(Scope(write=("src/**",), readonly=("src/**",)), "src/a")  # alike: the careful one


def test_what_may_not_be_read_may_not_be_written() -> None:
    assert not writable(Scope(read=("docs/**",)), "src/a")
    assert readable(Scope(write=("**", "/data/out")), "/data/out/x")  # outside, writing means reading


# --- properties

part = st.sampled_from(["a", "b", "src", "*", "**", "a*", "?"])
pattern = st.builds(lambda sign, parts: sign + "/".join(parts), st.sampled_from(["", "", "!"]), st.lists(part, min_size=1, max_size=4))  # fmt: skip
patterns = st.lists(pattern, max_size=4).map(tuple)
path = st.lists(st.sampled_from(["a", "b", "src", "ab", "c"]), min_size=1, max_size=4).map("/".join)
rules = st.builds(PathRules, read=patterns, write=patterns, readonly=patterns)
host = st.sampled_from(["a.org", "b.org", "*.a.org", "x.a.org", "a.org:443", "x.a.org:443", "*.a.org:443", "*.x.a.org", "a.org:8443", "@registries"])  # fmt: skip
nets = st.one_of(st.just("off"), st.just("on"), st.lists(host, max_size=3).map(tuple))
limit = st.none() | st.integers(300, 9000)
scopes = st.builds(
    Scope, read=patterns, write=patterns, readonly=patterns, bounds=st.lists(rules, max_size=2).map(tuple),
    env=st.lists(st.sampled_from(["A", "B", "C"]), unique=True).map(tuple), net=nets,
    memory_mb=st.integers(300, 9000), processes=st.integers(20, 900), cpu_seconds=limit, disk_mb=limit,
    timeout_seconds=st.none() | st.floats(1, 1e6),
)  # fmt: skip
REACHED = ["a.org:8443", "a.org:443", "a.org:80", "x.a.org:443", "x.a.org:80", "y.x.a.org:80", "b.org:80", "c.org:80"]


def reaches(allowed: Net, item: str) -> bool:
    if isinstance(allowed, str):
        return allowed == "on"
    host, _, port = item.partition(":")
    listed = hosts.read([word for word in allowed if word != hosts.REGISTRIES])
    return listed.refusal(host, int(port)) is None


@given(scopes, scopes, path)
@settings(max_examples=tries(100), deadline=None)
def test_narrowing_allows_what_both_allow(outer: Scope, inner: Scope, where: str) -> None:
    both = narrow(outer, inner)
    assert readable(both, where) == (readable(outer, where) and readable(inner, where))
    assert writable(both, where) == (writable(outer, where) and writable(inner, where))
    assert set(both.env) == set(outer.env) & set(inner.env)
    for item in REACHED:
        assert reaches(both.net, item) == (reaches(outer.net, item) and reaches(inner.net, item))
    for key in ("memory_mb", "processes", "cpu_seconds", "disk_mb", "timeout_seconds"):
        values = [value for value in (getattr(outer, key), getattr(inner, key)) if value is not None]
        assert getattr(both, key) == (min(values) if values else None)


@given(scopes, scopes, scopes, path)
@settings(max_examples=tries(30), deadline=None)
def test_in_whatever_order_scopes_narrow(one: Scope, two: Scope, three: Scope, where: str) -> None:
    answers = {
        (readable(found, where), writable(found, where), *(reaches(found.net, item) for item in REACHED))
        for first, second, third in permutations([one, two, three])
        for found in (narrow(narrow(first, second), third), narrow(first, narrow(second, third)))
    }
    assert len(answers) == 1


@given(scopes, scopes)
@settings(deadline=None)
def test_narrowing_twice_adds_nothing(outer: Scope, inner: Scope) -> None:
    once = narrow(outer, inner)
    assert narrow(once, once) == once
    again = narrow(once, inner)
    assert {*again.bounds} <= {*once.bounds, PathRules(read=once.read, write=once.write, readonly=once.readonly)}


@given(patterns, path)
@settings(max_examples=tries(100), deadline=None)
def test_order_matters_only_between_equals(listed: tuple[str, ...], where: str) -> None:
    if len({glob(text).specificity for text in listed}) == len(listed):
        assert len({writable(Scope(write=order), where) for order in permutations(listed)}) == 1


@given(scopes, path, path)
@settings(max_examples=tries(100), deadline=None)
def test_what_is_settled_stays_as_it_is(scope: Scope, folder: str, below: str) -> None:
    place = place_of(scope, folder)
    if place.is_settled():
        assert place.readable(below=True) == readable(scope, f"{folder}/{below}")
        assert place.writable(below=True) == writable(scope, f"{folder}/{below}")


# --- sources


def test_without_a_word_the_defaults_hold() -> None:
    found = hold()
    assert found.scope == Scope()
    assert (found.scope.memory_mb, found.scope.processes, found.scope.net) == (4096, 512, ())
    assert found.origins["memory_mb"] == ("built in",)


def test_a_repository_narrows_and_never_widens() -> None:
    found = hold(
        mine(write=["src/**", "docs/**"], net=("docs.example.org",), env=("TOKEN",), memory_mb=2000),
        theirs(write=["**", "/etc"], read=["!secret/**"], net="on", env=("TOKEN", "AWS_KEY"), memory_mb=9000, processes=99),
    )  # fmt: skip
    scope = found.scope
    assert writable(scope, "src/a")
    assert not writable(scope, "Makefile")
    assert not readable(scope, "/etc/passwd")
    assert not readable(scope, "secret/a")
    assert (scope.net, scope.env, scope.memory_mb, scope.processes) == (("docs.example.org",), ("TOKEN",), 2000, 99)
    assert found.origins["processes"] == ("corral.toml:1", "built in")


def test_the_command_line_is_the_persons_own_word() -> None:
    found = hold(
        theirs(write=["src/**"], net="off", memory_mb=500), option(write=["docs/**"], net=("a.org",), memory_mb=900)
    )
    assert writable(found.scope, "docs/a")
    assert not writable(found.scope, "src/a")
    assert (found.scope.net, found.scope.memory_mb) == (("a.org",), 900)
    assert found.origins["write"] == ("--write",)


def test_naming_a_path_outside_leaves_the_workspace_as_it_was() -> None:
    scope = hold(mine(write=["src/**"]), theirs(read=["!vendor"]), option(read=["~/data"])).scope
    assert readable(scope, f"{HOME}/data/x")
    assert readable(scope, "src/a")
    assert not readable(scope, "vendor/a")
    assert not writable(scope, f"{HOME}/data/x")
    assert writable(scope, "src/a")


def test_an_agents_own_scope_is_for_it_alone() -> None:
    own = ScopeSource(table=said(memory_mb=1000), agent="codex")
    assert hold(own, agent="codex").scope.memory_mb == 1000
    assert hold(own, agent="claude").scope.memory_mb == 4096


def test_an_empty_list_is_nothing() -> None:
    assert not writable(hold(option(write=[])).scope, "a")


def test_a_time_is_read() -> None:
    assert hold(mine(timeout="20m"), theirs(timeout="2h")).scope.timeout_seconds == 1200.0


BAD = [
    ("net", ("10.0.0.0/8",), "range", "one by one"),
    ("net", ("10.0.0.*",), "range", ""),
    ("net", ("10.0.0.1-10.0.0.9",), "range", ""),
    ("net", ("2001:db8::/32",), "range", ""),
    ("net", ("https://a.org/x",), "URL", "host alone"),
    ("net", ("*",), "everything", "on"),
    ("net", ("a b",), "no host", ""),
    ("net", ("a.org:99999",), "port", ""),
    ("net", ("a.org:",), "no host", ""),
    ("net", ("",), "no host", ""),
    ("net", ("on",), "must be alone", ""),
    ("net", ("@everything",), "no list", "@registries"),
    ("memory_mb", 100, "less than an agent needs", "256 MB"),
    ("memory_mb", -1, "less than", ""),
    ("processes", 2, "less than", "16"),
    ("disk_mb", 1, "less than", ""),
    ("read", ("../x",), "..", ""),
    ("write", ("",), "empty", ""),
    ("write", ("src/[a",), "never closed", ""),
    ("read", ("~bob/x",), "home", ""),
    ("env", ("A=b",), "no name", "name alone"),
    ("timeout", "soon", "length of time", "20m"),
]


@pytest.mark.parametrize(("key", "value", "words", "hint"), BAD)
def test_what_cannot_be_meant(key: str, value: object, words: str, hint: str) -> None:
    with pytest.raises(BadRequest) as caught:
        hold(mine(**{key: value}))
    assert str(caught.value).startswith("config.toml:1")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "item", ["a.org", "*.a.org", "a.org:8443", "127.0.0.1:8080", "localhost", "[::1]:80", "my_host"]
)
def test_hosts_that_are_some(item: str) -> None:
    assert hosts.net_problem(item) is None


# --- after a run, and before it


def test_a_diff_is_held_against_the_scope() -> None:
    scope = Scope(write=("src/**", "!src/locked/**"))
    found = outside(["src/a", "src/locked/b", "README.md", "src", ".github/x"], scope)
    assert [violation.path for violation in found] == ["src/locked/b", "README.md", ".github/x"]
    assert [v.path for v in outside(["key.pem", "a"], Scope(), "*.pem")] == ["key.pem"]


@pytest.mark.parametrize(
    ("ignore", "hidden", "seen"),
    [
        ("*.pem\n", ["a.pem", "x/y/a.pem"], ["a.pems"]),
        ("/build\n", ["build", "build/x"], ["x/build"]),
        ("logs/\n", ["logs/a", "x/logs/b"], ["logs"]),  # a file of that name is none
        ("a/b\n", ["a/b", "a/b/c"], ["x/a/b"]),
        ("# no\n\n*.log\n!keep.log\n", ["a.log"], ["keep.log", "# no"]),
        ("dir\n!dir/a\n", ["dir/a"], []),  # nothing comes back from an ignored folder
        ("\\#x\n\\!y\n", ["#x", "!y"], ["x", "y"]),
        ("d/**\n", ["d/a", "d/b/c"], ["d"]),
        ("a/**/b\n", ["a/b", "a/x/b", "a/x/y/b"], ["b"]),
        ("trailing   \n", ["trailing"], []),
    ],
)
def test_agentignore_is_read_as_gitignore(ignore: str, hidden: list[str], seen: list[str]) -> None:
    def is_readable(path: str) -> bool:
        place = top(Scope(), ignore=ignore)
        parts = path.split("/")
        for number, name in enumerate(parts, 1):
            place = place.enter(name, folder=number < len(parts))
        return place.readable()

    assert [each for each in hidden if is_readable(each)] == []
    assert [each for each in seen if not is_readable(each)] == []


def test_the_effective_scope_is_explained() -> None:
    found = hold(mine(memory_mb=2048, net=("docs.example.org",)), theirs(write=["src/**"], processes=99))
    told = explain(found, [("readonly", "/data/in")], ["something"]).lines()
    row = {line.split()[0]: line for line in told}
    assert "2048 MB" in row["memory_mb"]
    assert row["memory_mb"].endswith("config.toml:1")
    assert "src/**" in row["write"]
    assert row["write"].endswith("corral.toml:1, built in")
    assert "docs.example.org" in row["net"]
    assert "/data/in" in row["readonly"] or any("/data/in" in line for line in told)
    assert told[-1] == "note: something"
    assert {each.key for each in explain(found).rows} >= set(named_keys(said(memory_mb=1, write=()))) | {"timeout"}


def test_all_that_is_public_opens_nothing_near() -> None:
    near = ("private:mirror.corp", "127.0.0.1:8080", "localhost:80", "10.0.0.7", "a.org")
    assert hosts.narrow_net("on", near) == ("a.org", "mirror.corp")
    assert hosts.narrow_net(("private:mirror.corp",), ("mirror.corp",)) == ("mirror.corp",)
    assert hosts.narrow_net(near, ("127.0.0.1:8080",)) == ("127.0.0.1:8080",)
