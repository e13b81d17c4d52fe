"""Money, times and counts in words."""

import io
import os
import pty
import re
import sys
import time

import pytest

from corral import amounts
from corral.frontends import text
from corral.model import Cost

USD = {
    None: "unknown", 0.0: "$0.00", 1234.5: "$1,234.50", 0.1: "$0.10", 0.07: "$0.07", 0.0042: "$0.0042", 0.02500001: "$0.025",
    0.00002: "$0.00002", -0.5: "-$0.50", 0.09999: "$0.10",
}  # fmt: skip
SECONDS = {
    None: "-", 1.23: "1.2 s", 59.6: "1 min", 45.0: "45 s", 185.0: "3 min 5 s", 7200.0: "2 h", 9000.0: "2 h 30 min", 180_000.0: "2 d 2 h",
}  # fmt: skip


@pytest.mark.parametrize("amount", USD)
def test_small_amounts_keep_what_tells_them_from_nothing(amount: float | None) -> None:
    assert amounts.usd(amount) == USD[amount]


@pytest.mark.parametrize("span", SECONDS)
def test_a_span_has_its_two_largest_units(span: float | None) -> None:
    assert amounts.seconds(span) == SECONDS[span]


def test_counts_and_tokens() -> None:
    assert [amounts.count(1, "try", "tries"), amounts.count(2, "try", "tries"), amounts.count(1200, "file")] == [
        "1 try", "2 tries", "1,200 files",
    ]  # fmt: skip
    assert [amounts.tokens(each) for each in (None, 12, 1200, 3_400_000)] == ["unknown", "12", "1.2k", "3.4M"]


def test_a_time_in_the_past_or_ahead() -> None:
    now = time.time()
    assert text.ago(now - 7200.2) == "2 h ago"
    assert text.ago(now - 635.2) == "10 min ago"
    assert text.ago(now - 5.3) == "5 s ago"
    assert text.ago(now + 7200.4) == "in 2 h"
    assert text.age(now - 7200) == "2h"
    assert amounts.utc_time(0) == "1970-01-01T00:00:00+00:00"


def test_cost_says_by_whose_word_and_what_is_reserved() -> None:
    assert text.money(Cost(0.004, "reported")) == "$0.004"
    assert text.money(Cost(0.5, "computed", 1.25)) == "$0.50 computed, up to $1.25 reserved"
    assert text.money(Cost(None, "unknown", 2.0)) == "cost unknown, up to $2.00 reserved"


def test_states_in_a_table_are_coloured_on_a_terminal_and_nothing_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    head, rows = ("RUN", "STATUS", "AGENT", "TASK"), [("r1", "done, proven, merged", "done", "done with it")]
    plain = text.table(head, rows)
    monkeypatch.delenv("NO_COLOR", raising=False)
    drawn = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", text.VisibleStream(io.TextIOWrapper(drawn, encoding="utf-8")))
    sys.stdout.write("\n".join(text.table(head, rows)))
    sys.stdout.flush()
    lines = drawn.getvalue().decode().splitlines()
    assert lines[0].startswith("\x1b[1mRUN\x1b[0m")
    assert "\x1b[32mdone\x1b[0m, \x1b[32mproven\x1b[0m, \x1b[35mmerged\x1b[0m  done" in lines[1]
    assert lines[1].endswith("done   done with it"), "an agent's name and a user's words have no colour of a state"
    assert [re.sub("\x1b\\[[0-9]+m", "", line) for line in lines] == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert text.table(head, rows) == plain


def test_progress_has_a_rate_and_an_end() -> None:
    assert amounts.progress(48, 120, 4.0, "runs") == "48 of 120 runs, 12/s, 6.0 s left"
    assert amounts.progress(0, 120, 4.0, "runs") == "0 of 120 runs"
    assert amounts.progress(3, 1000, 2.0, "MB") == "3 of 1,000 MB, 1.5/s, 11 min 5 s left"
    assert amounts.progress(50, 40, 5.0, "MB") == "50 MB so far, 10/s"


def test_a_bar_is_drawn_on_a_terminal_and_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = pty.openpty()
    monkeypatch.setattr(text, "REDRAW_SECONDS", 0.0)
    with os.fdopen(slave, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with text.ProgressBar("cleaning", "runs") as bar:
            bar.report(5, 10)
        monkeypatch.setattr(sys, "stdout", terminal)
        with text.ProgressBar("exporting", "runs", prints=True) as bar:
            bar.report(5, 10)  # would tear what it prints there
        drawn = os.read(master, 4096).decode()
    os.close(master)
    assert re.fullmatch(r"\rcleaning \[#{10}\.{10}\] 5 of 10 runs, [\d,.]+/s, .+ left\r +\r", drawn), drawn
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    with text.ProgressBar("cleaning", "runs") as bar:
        bar.report(5, 10)
    assert not shown.getvalue(), "a file or a pipe gets no bar"
