"""Mistakes in flow files say what to write instead."""

import pytest

from corral.rules.flows.reader import KnownNames, read_flow

KNOWN = KnownNames(agents=frozenset({"claude", "codex"}), roles=frozenset({"reviewer", "developer"}))


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("nodes:\n  a: {task: fix: the bug}", (2, 16), "quote the text"),
        ("nodes:\n  a:\n    task: fix: the bug", (3, 14), "quote the text"),
        ("nodes:\n  a:\n    task: @claude fix it", (3, 11), "quote the text"),
        ("nodes:\n  a:\n    task: {{thing}} is broken", (3, 12), "quote a text that begins with {{"),
        ('nodes:\n  a:\n    run: "make" && make test', (3, 18), "put the whole text in quotes"),
        ("nodes:\n  - id: a\n    task: x", (2, 3), "is a table of nodes by name, not a list"),
        ("nodes:\n  a: {task: x, agent: cluade}", (2, 23), "did you mean `claude`?"),
        ("nodes:\n  a: {task: x, race: [cluade, codex]}", (2, 22), "did you mean `claude`?"),
        ("nodes:\n  a: {task: x, fallback: [codx]}", (2, 26), "did you mean `codex`?"),
        ("nodes:\n  a: {task: x, agent: zzz}", (2, 23), "known: claude, codex"),
        ("nodes:\n  a: {task: x, role: reviewr}", (2, 22), "did you mean `reviewer`?"),
        ("nodes:\n  a: {task: x, timeout: 20 minutes}", (2, 25), "`timeout`: `20 minutes` is not a length"),
        ("nodes:\n  a: {task: x, timeout: 20 minutes}", (2, 25), "write it as 20m"),
        ("nodes:\n  a: {task: x, idle: 1 day}", (2, 22), "write it as 24h"),
        ("nodes:\n  a: {run: x, repeat: {delay: 5 sec}}", (2, 31), "write it as 5s"),
        ("nodes:\n  a: {run: x, repeat: {until: output = 1}}", (2, 31), "write `==`"),
        ("nodes:\n  a: {task: x, when: b.output.risk = 'low'}", (2, 22), "write `==`"),
        ("budget: 1e400\nnodes:\n  a: {run: x}", (1, 9), "`budget` is a number"),
        ("budget: {usd: " + "9" * 400 + "}\nnodes:\n  a: {run: x}", (1, 15), "`usd` is a number"),
        ("nodes:\n  a: {task: x, retries: 101}", (2, 25), "`retries` is a whole number, 0 to 100"),
        ("defaults: {retries: 9e99}\nnodes:\n  a: {task: x}", (1, 21), "`retries` is a whole number, 0 to 100"),
        ("nodes:\n  a: {run: x, repeat: {most: 99999}}", (2, 30), "`most` is a whole number, 1 to 10000"),
        ('nodes:\n  a: {run: "x\\0y"}', (2, 12), "`run` holds a NUL byte"),
        ('nodes:\n  a: {task: x, checks: [y, "\\0"]}', (2, 24), "`checks` holds a NUL byte"),
        ("nodes:\n  a-b: {run: x}\n  c: {run: '{{a-c.output}}', needs: [a-b]}", (3, 6), "did you mean `a-b`?"),
    ],
)
def test_a_mistake_says_what_to_write(text: str, place: tuple[int, int], words: str) -> None:
    found = read_flow(text, KNOWN).mistakes
    assert len(found) == 1, found
    assert words in f"{found[0].message} | {found[0].hint}"
    assert (found[0].line, found[0].column) == place


def test_a_long_line_is_looked_at_in_no_time() -> None:
    (found,) = read_flow("nodes: {a: " + "x-" * 200_000 + " ]", KNOWN).mistakes
    assert "no YAML" in found.message


def test_a_flow_that_runs_itself_is_refused_with_what_to_use_instead() -> None:
    text = "nodes: {again: {flow: me, when: 1 == 2}}"
    (found,) = read_flow(text, KnownNames(nested=lambda _: text)).mistakes
    assert "flows go in a circle: me -> me" in found.message
    assert "use `repeat`" in found.hint


@pytest.mark.parametrize("text", ["", "name: x", "nodes: {}", "nodes:", "nodes: 5", "nodes: [a]"])
def test_a_file_without_nodes_has_one_mistake(text: str) -> None:
    (found,) = read_flow(text, KNOWN).mistakes
    assert "nodes" in found.message
