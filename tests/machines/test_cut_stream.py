"""Output of a check: whole up to a size, then its beginning and its end, without secrets at every seam."""

import pytest

from corral.machines import logs
from corral.machines.logs import CutStream
from corral.rules.text.redact import Redactor

SECRET = "hunter2-hunter2-hunter2"


def read(chunks: list[bytes], kept_at_end: int = 1000) -> bytes:
    found: list[bytes] = []
    stream = CutStream(Redactor({"API_KEY": SECRET}), found.append, kept_at_end)
    for chunk in chunks:
        stream.feed(chunk)
    stream.close()
    return b"".join(found)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MOST_WHOLE", 200)
    monkeypatch.setattr(logs, "MOST_CUT", 50)


def test_what_is_short_enough_stays_whole_also_across_the_limit() -> None:
    lines = [f"line {number} {SECRET if number == 12 else ''}\n".encode() for number in range(60)]
    assert read(lines) == b"".join(lines).replace(SECRET.encode(), read([SECRET.encode()]))


def test_the_middle_of_what_is_long_is_left_out_and_counted() -> None:
    lines = [b"%05d\n" % number for number in range(1000)]
    found = read(lines)
    head, _, rest = found.partition(b"\n[corral: ")
    count, _, end = rest.partition(b" bytes left out]\n")
    assert head.startswith(b"00000\n00001\n")
    assert end.endswith(b"00998\n00999\n")
    assert end[:6] in lines
    assert len(head) + int(count) + len(end) == 6000


def test_half_a_secret_at_the_seam_is_not_shown() -> None:
    for shift in range(40):
        found = read([b"x" * 300, b"y" * 500, SECRET.encode(), b"z" * (985 + shift), b"\nthe end\n"])
        assert b"hunter" not in found
        assert found.endswith(b"the end\n")
