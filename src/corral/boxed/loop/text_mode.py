"""Work without tools: the model is shown files and answers with changes, which are applied with strict checks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct, field

from corral.boxed.call_hook import refusal
from corral.boxed.loop.conversation import ModelConversation
from corral.boxed.loop.event_lines import MOST_SHOWN, clean, tell
from corral.boxed.loop.programs import shorten
from corral.boxed.loop.settings import LoopSettings
from corral.boxed.loop.tool_mode import unfinished_event
from corral.boxed.loop.workspace import LoopWorkspace, ToolRefused
from corral.model import Failure
from corral.model.events import CalledTool, Changed, Ended, ToolReturned

MOST_ROUNDS = 8
MOST_NAMES = 500
INSTRUCTIONS = """\
You are a software engineer. You are shown the files of a project and a task. You cannot run anything: answer with the
changes themselves, in these forms, and with a short explanation.

A new file, or a whole file anew:
FILE: path/of/file.py
```
the whole content
```

A change of a part of a file; the SEARCH part must be in the file word for word, and only once:
FILE: path/of/file.py
<<<<<<< SEARCH
old lines
=======
new lines
>>>>>>> REPLACE

A unified diff (--- a/path, +++ b/path, @@) is understood too. To see a file first, answer only with a line
READ: path/of/file.py
Paths are relative to the project."""
MOST_BYTES = 20 << 20
HEADER = re.compile(r"^\W{0,8}(?:FILE|File|FILENAME|Filename)\s*:\s*(?P<path>.+?)\s*(?:\*/|-->|\*\*)?\s*$")
WANTED = re.compile(r"^\W{0,4}READ\s*:\s*(?P<path>\S+?)[`*]*\s*$")
FENCE = re.compile(r"^ {0,3}(?P<marks>`{3,}|~{3,})(?P<about>[^`]*)$")
PATH = re.compile(r"[\w.@+-]+(?:/[\w.@+-]+)*")
SEARCH, MIDDLE, REPLACE = (
    re.compile(r"^<{5,9} ?SEARCH\b"),
    re.compile(r"^={5,9}\s*$"),
    re.compile(r"^>{5,9} ?REPLACE\b"),
)
HUNK = re.compile(r"^@@(?: -(?P<line>\d{1,9})(?:,\d+)? \+\d+(?:,\d+)?)?.*@@")


class ModelHunk(Struct, frozen=True):
    line: int  #: where its author thinks it begins, counted from 1
    old: tuple[str, ...]
    new: tuple[str, ...]


def hunks(lines: list[str], at: int) -> tuple[list[ModelHunk], int]:
    """Read the hunks that begin at a line; return them and where they end."""
    found: list[ModelHunk] = []
    while at < len(lines):
        head = HUNK.match(lines[at])
        if not head:
            break
        at += 1
        start = at
        while at < len(lines) and _belongs(lines, at):
            at += 1
        body = lines[start:at]
        while body and not body[-1]:
            body.pop()  # an empty line behind the last one is talk, not context
        found.append(
            ModelHunk(
                int(head["line"] or 1),
                tuple(line[1:] for line in body if line[:1] in ("", " ", "-")),
                tuple(line[1:] for line in body if line[:1] in ("", " ", "+")),
            )
        )
    return [hunk for hunk in found if hunk.old or hunk.new], at


def apply(text: str, changes: tuple[ModelHunk, ...]) -> str | None:
    """Return the text with all hunks applied, or None where one fits nowhere."""
    lines = text.split("\n")
    is_whole = lines[-1] == ""  # it ends with a newline, as texts do
    if is_whole:
        lines.pop()
    shift = 0
    for hunk in changes:
        place = _find(lines, hunk.old, hunk.line - 1 + shift)
        if place is None:
            return None
        lines[place : place + len(hunk.old)] = hunk.new
        shift += len(hunk.new) - len(hunk.old)
    return "\n".join(lines) + ("\n" if lines and (is_whole or not text) else "")


def _belongs(lines: list[str], at: int) -> bool:
    line = lines[at]
    if line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ "):
        return False
    return line[:1] in ("", " ", "+", "-", "\\") and not line.startswith("```")


def _find(lines: list[str], old: tuple[str, ...], hint: int) -> int | None:
    """Find where lines are, the nearest to the hint; spaces at their ends do not count if nothing else fits."""
    if not old:
        return min(max(hint, 0), len(lines))
    for same in (_exact, _bare):
        wanted = same(old)
        have = same(lines)
        size = len(wanted)
        places = [place for place in range(len(have) - size + 1) if have[place : place + size] == wanted]
        if places:
            return min(places, key=lambda place: abs(place - hint))
    return None


def _exact(lines: Sequence[str]) -> list[str]:
    return list(lines)


def _bare(lines: Sequence[str]) -> list[str]:
    return [line.rstrip() for line in lines]


def opening(place: LoopWorkspace, task: str, most: int) -> str:
    """Return the task together with the list of files and those files that it names."""
    names = place.files()
    listed = "\n".join(names[:MOST_NAMES]) + (
        f"\n... and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    )
    named = [name for name in names if re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w/-])", task)]
    if len(names) <= 3:
        named = names  # so few that all can be shown
    shown = _file_texts(place, named, most)
    return f"{task}\n\nThe project's files:\n{listed or '(none)'}" + (f"\n\n{shown}" if shown else "")


async def work(talk: ModelConversation, place: LoopWorkspace, settings: LoopSettings) -> Ended:
    """Ask, apply, and ask again only for what did not fit."""
    changed = False
    problems: list[str] = []
    for number in range(1, min(MOST_ROUNDS, settings.turns) + 1):
        response = await talk.ask([])
        if response.finish_reason in ("length", "content_filter", "error"):
            return unfinished_event(response)
        text = (response.text or "").strip()
        if not text:
            return Ended(ok=False, error=Failure("bad_output", "the model ended without a word"))
        answer = parse(text)
        applied = [] if settings.read_only else apply_changes(place, answer.edits, settings.hook)
        _report_edits(applied, number)
        changed = changed or any(not each.problem for each in applied)
        problems = answer.problems + [each.problem for each in applied if each.problem]
        if not problems and (answer.edits or not answer.wanted):
            return Ended(ok=True, text=clean(text))
        talk.memory.begin(_reply(place, problems, answer.wanted, settings.most_output), INSTRUCTIONS)
    words = "; ".join(problems) or "it asked for files until its turns were used up"
    return Ended(ok=False, error=Failure("bad_output", f"its changes could not all be applied: {words}"[:MOST_SHOWN]))


def _report_edits(applied: list[EditResult], number: int) -> None:
    for place, each in enumerate(applied, 1):
        call = f"apply-{number}-{place}"
        path = clean(each.path)
        tell(CalledTool("apply", path[:500], call))
        tell(ToolReturned(call, ok=not each.problem, output=clean(each.problem)[:MOST_SHOWN]))
        if not each.problem:
            tell(Changed(path))


def _reply(place: LoopWorkspace, problems: list[str], wanted: list[str], most: int) -> str:
    parts: list[str] = []
    if problems:
        listed = "\n".join(f"- {problem}" for problem in problems)
        parts.append(f"Not everything could be applied:\n{listed}\nWhat fitted is done. Give only these changes again.")
    if wanted:
        parts.append(_file_texts(place, wanted, most) or "None of these files can be shown.")
    return "\n\n".join(parts)


def _file_texts(place: LoopWorkspace, names: list[str], most: int) -> str:
    """Return files as they are, as many as fit."""
    shown: list[str] = []
    for name in dict.fromkeys(names):
        try:
            path = place.inside(name)
            data = path.read_bytes() if path.stat().st_size <= most else None
        except (ToolRefused, OSError, ValueError) as error:
            shown.append(f"{name}: cannot be read: {error}")
            continue
        if data is None or b"\0" in data or sum(map(len, shown)) + len(data) > most:
            shown.append(f"{name}: too large to be shown, or not text")
        else:
            shown.append(f"FILE: {name}\n```\n{data.decode(errors='replace')}\n```")
    return shorten("\n\n".join(shown), 2 * most)[0]


class EditResult(Struct, frozen=True):
    """What became of one change."""

    path: str
    problem: str = ""


def apply_changes(place: LoopWorkspace, edits: list[Edit], hook: str = "") -> list[EditResult]:
    """Apply changes one by one; one that does not fit, or that a rule refuses, changes nothing and says why."""
    return [_apply_edit(place, edit, hook) for edit in edits]


def _apply_edit(place: LoopWorkspace, edit: Edit, hook: str) -> EditResult:
    path = edit.path or (edit.was if isinstance(edit, PatchEdit) else None) or ""
    if hook and (refused := refusal(hook, "write", {"path": path})):
        return EditResult(path, refused)
    try:
        match edit:
            case WholeFileEdit():
                place.write(place.strict_path(path), edit.text)
            case ReplaceEdit():
                _replace(place, edit)
            case PatchEdit():
                _apply_patch(place, edit)
    except ToolRefused as error:
        return EditResult(path, str(error))
    except (OSError, ValueError) as error:
        return EditResult(path, f"{path!r}: {error}")
    return EditResult(path)


def _replace(place: LoopWorkspace, edit: ReplaceEdit) -> None:
    target = place.strict_path(edit.path)
    if not edit.old.strip() and not target.exists():
        place.write(target, edit.new)  # nothing to search for: a new file
        return
    text = _read_file(place, edit.path)
    old, new = edit.old, edit.new
    if old not in text and old.removesuffix("\n") in text:
        old, new = old.removesuffix("\n"), new.removesuffix("\n")  # the last line of a file without a newline
    count = text.count(old) if old.strip() else 0
    if count != 1:
        words = "is not in the file" if count == 0 else f"is in the file {count} times"
        raise ToolRefused(f"{edit.path}: the SEARCH part {words}; it must occur exactly once, word for word")
    place.write(target, text.replace(old, new))


def _apply_patch(place: LoopWorkspace, edit: PatchEdit) -> None:
    if edit.path is None:
        target = place.strict_path(edit.was or "")
        if apply(_read_file(place, edit.was or ""), edit.hunks) is None:
            raise ToolRefused(f"{edit.was}: the diff that deletes it does not fit")
        target.unlink()
        return
    text = _read_file(place, edit.was) if edit.was is not None else ""
    target = place.strict_path(edit.path)
    if edit.was is None and target.exists():
        raise ToolRefused(f"{edit.path}: the diff makes a new file, but there is one already")
    changed = apply(text, edit.hunks)
    if changed is None:
        raise ToolRefused(f"{edit.path}: the diff does not fit; its unchanged lines must be in the file word for word")
    place.write(target, changed)
    if edit.was is not None and edit.was != edit.path:
        place.strict_path(edit.was).unlink()


def _read_file(place: LoopWorkspace, name: str) -> str:
    path = place.strict_path(name)
    if not path.is_file():
        raise ToolRefused(f"{name}: there is no such file")
    if path.stat().st_size > MOST_BYTES:
        raise ToolRefused(f"{name}: it is too large")
    return path.read_bytes().decode()


class WholeFileEdit(Struct, frozen=True):
    """A file as it shall be."""

    path: str
    text: str


class ReplaceEdit(Struct, frozen=True):
    """A piece of a file and what shall be in its place."""

    path: str
    old: str
    new: str


class PatchEdit(Struct, frozen=True):
    """A unified diff of one file; `path` is None where it is deleted."""

    path: str | None
    was: str | None
    hunks: tuple[ModelHunk, ...]


Edit = WholeFileEdit | ReplaceEdit | PatchEdit


class ParsedAnswer(Struct):
    edits: list[Edit] = field(default_factory=list[Edit])
    wanted: list[str] = field(default_factory=list[str])  #: files it asks to see
    problems: list[str] = field(default_factory=list[str])


def parse(text: str) -> ParsedAnswer:
    """Read an answer; whatever is no change is talk."""
    answer = ParsedAnswer()
    _AnswerReader(text.replace("\r\n", "\n").split("\n"), answer).read()
    return answer


class _AnswerReader:
    def __init__(self, lines: list[str], answer: ParsedAnswer, path: str | None = None) -> None:
        self.lines, self.answer, self.at = lines, answer, 0
        self.path = path  # of the file spoken of
        self.is_fresh = False  # it was named just now: the next block is its content

    def read(self) -> None:
        while self.at < len(self.lines):
            line = self.lines[self.at]
            wanted = WANTED.match(line)
            if SEARCH.match(line):
                self._replacement()
            elif self._is_diff(self.at):
                self._diff()
            elif FENCE.match(line):
                self._block()
            elif wanted:
                self.answer.wanted.append(_plain(wanted["path"]))
                self.at += 1
            else:
                self._talk(line)
                self.at += 1

    def _talk(self, line: str) -> None:
        named = _header(line)
        if named is None and line.strip():
            alone = _plain(line.strip().strip("#").strip().rstrip(":"))
            # A path alone on its line, right above a block, as some models write it.
            follows = self.at + 1 < len(self.lines) and _opens(self.lines[self.at + 1])
            named = alone if follows and PATH.fullmatch(alone) and re.search(r"[./]", alone) else None
        if named is not None:
            self.path, self.is_fresh = named, True

    def _block(self) -> None:
        content, self.at, is_closed = _fenced_block(self.lines, self.at)
        first = next((place for place, line in enumerate(content) if line.strip()), None)
        inner = _header(content[first]) if first is not None else None
        if inner is not None and first is not None:
            self.path, self.is_fresh, content = inner, True, content[first + 1 :]
        if any(SEARCH.match(line) for line in content) or _starts_diff(content):
            _AnswerReader(content, self.answer, self.path).read()
        elif self.is_fresh and self.path is not None:
            if is_closed:
                self.answer.edits.append(WholeFileEdit(self.path, "".join(f"{line}\n" for line in content)))
            else:
                self.answer.problems.append(f"{self.path}: the block is cut off; give the whole file again")
        self.is_fresh = False

    def _replacement(self) -> None:
        start = self.at + 1
        middle = _next(self.lines, start, MIDDLE)
        end = _next(self.lines, middle + 1, REPLACE) if middle is not None else None
        if middle is None or end is None:
            self.answer.problems.append("a SEARCH block has no ======= or no >>>>>>> REPLACE")
            self.at = len(self.lines)
            return
        if self.path is None:
            self.answer.problems.append("a SEARCH block belongs to no file: put `FILE: path` above it")
        else:
            old, new = self.lines[start:middle], self.lines[middle + 1 : end]
            self.answer.edits.append(
                ReplaceEdit(self.path, "".join(f"{line}\n" for line in old), "".join(f"{line}\n" for line in new))
            )
        self.at, self.is_fresh = end + 1, False

    def _is_diff(self, at: int) -> bool:
        return self.lines[at].startswith("--- ") and self.lines[at + 1 : at + 2] != [] and (
            self.lines[at + 1].startswith("+++ ")
        )  # fmt: skip

    def _diff(self) -> None:
        was, path = _side(self.lines[self.at][4:]), _side(self.lines[self.at + 1][4:])
        found, self.at = hunks(self.lines, self.at + 2)
        if not found:
            self.answer.problems.append(f"{path or was}: a diff without a readable hunk")
        elif path or was:
            self.answer.edits.append(PatchEdit(path, was, tuple(found)))
        self.is_fresh = False


def _header(line: str) -> str | None:
    found = HEADER.match(line)
    return _plain(found["path"]) if found else None


def _plain(text: str) -> str:
    return text.strip().strip("`*\"'").strip()


def _side(text: str) -> str | None:
    """Read one side of a diff's head: `a/src/x.py`, perhaps with a date, or /dev/null."""
    name = text.split("\t", maxsplit=1)[0].strip().strip('"')
    return None if name == "/dev/null" else re.sub(r"^[ab]/", "", name)


def _opens(line: str) -> bool:
    return bool(FENCE.match(line) or SEARCH.match(line))


def _starts_diff(content: list[str]) -> bool:
    heads = [
        line for line in content if line.strip() and not line.startswith(("diff ", "index ", "new file", "deleted "))
    ]
    return len(heads) > 1 and heads[0].startswith("--- ") and heads[1].startswith("+++ ")


def _next(lines: list[str], start: int, pattern: re.Pattern[str]) -> int | None:
    return next((place for place in range(start, len(lines)) if pattern.match(lines[place])), None)


def _fenced_block(lines: list[str], at: int) -> tuple[list[str], int, bool]:
    """Return a block's content, where reading continues, and whether the block was closed.

    A file may hold blocks of its own: a fence that names a language opens one, a bare one closes the innermost.
    """
    opening = FENCE.match(lines[at])
    marks = opening["marks"] if opening else "```"
    depth = 1
    for place in range(at + 1, len(lines)):
        fence = FENCE.match(lines[place])
        if not fence or not fence["marks"].startswith(marks):
            continue
        depth += 1 if fence["about"].strip() else -1
        if depth == 0:
            return lines[at + 1 : place], place + 1, True
    return lines[at + 1 :], len(lines), False
