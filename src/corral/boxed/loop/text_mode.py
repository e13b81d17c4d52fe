"""Work without tools: the model is shown files and answers with changes, which are applied with strict checks."""

from __future__ import annotations

import re

from msgspec import Struct

from corral.boxed.loop import answer_text, patch
from corral.boxed.loop.answer_text import Edit, PatchEdit, ReplaceEdit, WholeFileEdit
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

A change of a part of a file; the SEARCH part must stand in the file word for word, and only once:
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
        answer = answer_text.parse(text)
        applied = [] if settings.read_only else apply_changes(place, answer.edits)
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


def apply_changes(place: LoopWorkspace, edits: list[Edit]) -> list[EditResult]:
    """Apply changes one by one; one that does not fit changes nothing and says why."""
    return [_apply_edit(place, edit) for edit in edits]


def _apply_edit(place: LoopWorkspace, edit: Edit) -> EditResult:
    path = edit.path or (edit.was if isinstance(edit, PatchEdit) else None) or ""
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
        if patch.apply(_read_file(place, edit.was or ""), edit.hunks) is None:
            raise ToolRefused(f"{edit.was}: the diff that deletes it does not fit")
        target.unlink()
        return
    text = _read_file(place, edit.was) if edit.was is not None else ""
    target = place.strict_path(edit.path)
    if edit.was is None and target.exists():
        raise ToolRefused(f"{edit.path}: the diff makes a new file, but there is one already")
    changed = patch.apply(text, edit.hunks)
    if changed is None:
        raise ToolRefused(
            f"{edit.path}: the diff does not fit; its unchanged lines must stand in the file word for word"
        )
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
