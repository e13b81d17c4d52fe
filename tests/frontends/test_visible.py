"""Control characters are shown on a terminal and never sent to it; JSON and patches in pipes stay as they are."""

import io
import json
import os
import pty
import sys

import pytest

from corral.frontends import text as terminal_text
from corral.frontends.text import printable

HOSTILE = {
    "\x1b]52;c;ZXZpbA==\x07": "^[]52;c;ZXZpbA==^G",
    "\x1b[2J\x1b[1;1H": "^[[2J^[[1;1H",
    "\x1b]8;;http://x\x1b\\text": "^[]8;;http://x^[\\text",
    "over\rwritten": "over^Mwritten",
    "\x9b31m\x90q": r"\u009b31m\u0090q",
    "\u202egpj.exe\u2066": r"\u202egpj.exe\u2066",
    "\x7f\x00": r"\u007f^@",
    "\udc9b": r"\x9b",
    "plain é 漢 👩\u200d💻\ttab\n": "plain é 漢 👩\u200d💻\ttab\n",
}


@pytest.mark.parametrize("text", HOSTILE)
def test_what_drives_a_terminal_is_written_out(text: str) -> None:
    assert terminal_text.visible(text) == HOSTILE[text]


def test_a_name_takes_one_line() -> None:
    assert printable("a\nb\x1b[31m") == "a^Jb^[[31m"


def test_json_is_the_same_document_on_a_terminal() -> None:
    document = json.dumps({"text": "\x1b[2J\x9b\u202e\x7f é"}, ensure_ascii=False)
    assert json.loads(terminal_text.visible(document)) == json.loads(document)


def test_only_our_own_colours_reach_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    master, slave = pty.openpty()
    try:
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(os.fdopen(slave, "wb", buffering=0), encoding="ascii"))
        monkeypatch.setattr(sys, "stderr", io.StringIO())
        terminal_text.protect()
        sys.stdout.write(terminal_text.colour_text("done", "green") + " \x1b[31mred\x1b[0m é\n")
        sink = terminal_text.patch_sink()
        for part in (b"+caf\xc3", b"\xa9 \x1b", b"[8m \x9b\n"):
            sink(part)
        sys.stdout.flush()
        data = b""
        while data.count(b"\n") < 2:
            data += os.read(master, 4096)
        shown = data.decode().replace("\r\n", "\n")
        sys.stdout.close()
    finally:
        os.close(master)
    assert shown == "\x1b[32mdone\x1b[0m ^[[31mred^[[0m é\n+café ^[[8m \\x9b\n"


def test_a_pipe_gets_the_patch_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw))
    terminal_text.protect()
    terminal_text.patch_sink()(b"+\x1b[2J\xff\n")
    assert raw.getvalue() == b"+\x1b[2J\xff\n"
