"""Makefiles: source files may be added, and nothing else."""

from corral.rules.checks.steering import config_text

BASE = "test: t\n\t./t\n\nt: test.c sums.c\n\t$(CC) -o t test.c sums.c\n"


def test_new_source_files_may_be_added_to_a_rule() -> None:
    text = BASE.replace("sums.c", "sums.c plus.c")
    assert config_text.merge_makefile(BASE, text) == text


def test_nothing_else_of_a_rule_may_change() -> None:
    for text in (
        BASE.replace("./t", "true"),
        BASE.replace("./t", "./t || true plus.c"),
        BASE.replace("-o t", "-o plus.c t"),
        BASE.replace("test.c sums.c\n\t", "sums.c\n\t"),
        BASE.replace("sums.c", "sums.c my_test.c"),
    ):
        assert config_text.merge_makefile(BASE, text) == BASE, text
