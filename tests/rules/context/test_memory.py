"""By which words facts are found."""

from corral.rules.context.memory import search_words


def test_words_that_nearly_all_facts_have_find_none() -> None:
    assert search_words("Move it to the new API of billing, as the tests need") == [
        "move",
        "api",
        "billing",
        "as",
        "tests",
        "need",
    ]
