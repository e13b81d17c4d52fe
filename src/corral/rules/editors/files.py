"""One file of an editor's configuration, and its text once Corral's entries are in it."""

from __future__ import annotations

import json
import re
from typing import Literal
from xml.etree import ElementTree as ET

from msgspec import Struct

from corral.rules.editors import commented_json
from corral.rules.editors.commented_json import Unmergeable

Form = Literal["json", "tools", "own"]
TOOL = re.compile(r'[ \t]*<tool\s[^>]*?name="Corral: [^"]*".*?</tool>\n?', re.DOTALL)


class EditorFile(Struct, frozen=True, kw_only=True):
    """A file, and what belongs into it."""

    path: str  #: below `~`, `{config}` (of XDG), `{code}`, `{emacs}`, `{jetbrains}` (each IDE); else of the repository
    form: Form  #: entries of a JSON file, tools of JetBrains, or a file that is Corral's alone
    entries: object = None  #: of a JSON file
    text: str = ""  #: of every other one

    @property
    def new_text(self) -> str:
        """The file as it is where there was none."""
        return json.dumps(self.entries, indent=2, ensure_ascii=False) + "\n" if self.form == "json" else self.text

    def join(self, before: str | None) -> str:
        """Return the text with our entries; raise Unmergeable where that would lose something."""
        if before is None or self.form == "own":
            return self.new_text
        if self.form == "json":
            return commented_json.merge(before, self.entries)
        return _with_tools(before, self.text)


def _with_tools(before: str, ours: str) -> str:
    """Put our tools into a tool set of JetBrains, in the place of those that are there."""
    _read_tools(before)
    tools = ours[ours.index("\n") + 1 : ours.rindex("</toolSet>")]
    kept = TOOL.sub("", before)
    close = kept.rfind("</toolSet>")
    if close < 0:
        raise Unmergeable("it has no </toolSet>")
    joined = kept[:close].rstrip() + "\n" + tools + kept[close:]
    _read_tools(joined)
    return joined


def _read_tools(text: str) -> None:
    try:
        root = ET.fromstring(text)  # noqa: S314 -- the user's own file
    except ET.ParseError as error:
        raise Unmergeable(f"not XML: {error}") from error
    if root.tag != "toolSet":
        raise Unmergeable(f"<{root.tag}> where <toolSet> is expected")
