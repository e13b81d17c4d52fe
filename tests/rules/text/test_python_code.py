"""Syntax trees made by several threads at once."""

import ast
import contextlib
import gc
import sys
import threading
from collections.abc import Iterator

import pytest

from corral.rules.text.python_code import parse_expression, parse_module

TEXT = "\n".join(f"x{each} = [[[({each}, {each} + {each} * (1 + 2))]]]" for each in range(30))


@pytest.fixture
def many_switches() -> Iterator[None]:
    """Let threads take turns while trees are made: the collector runs Python code then."""
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()

    def work(*_: object) -> None:
        sum(each for each in range(50))

    sys.setswitchinterval(1e-6)
    gc.set_threshold(10)
    gc.callbacks.append(work)
    yield
    gc.callbacks.remove(work)
    gc.set_threshold(*threshold)
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("many_switches")
def test_threads_do_not_disturb_each_other() -> None:
    wanted = ast.dump(ast.parse(TEXT))
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.extend(ast.dump(parse_module(TEXT)) for _ in range(10))) for _ in range(4)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [wanted] * 40


def test_an_expression() -> None:
    assert ast.unparse(parse_expression("a + 1")) == "a + 1"
    with pytest.raises(SyntaxError):
        parse_expression("a = 1")


@pytest.mark.usefixtures("many_switches")
def test_a_library_that_makes_trees_disturbs_nobody() -> None:
    wanted, stop = ast.dump(ast.parse(TEXT)), threading.Event()

    def make() -> None:
        while not stop.is_set():
            with contextlib.suppress(SystemError):
                ast.parse(TEXT)

    library = threading.Thread(target=make)
    library.start()
    try:
        assert [ast.dump(parse_module(TEXT)) for _ in range(40)] == [wanted] * 40
    finally:
        stop.set()
        library.join()
