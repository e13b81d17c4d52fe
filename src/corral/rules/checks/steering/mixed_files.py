"""Files of which only a part steers tests: settings merged by key, and build files watched by line."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from posixpath import normpath, relpath

from msgspec import structs

from corral.model.evidence import SteeringFile
from corral.rules.checks.steering import inline, make_text, merge, roles, table
from corral.rules.checks.steering.change import PathChange
from corral.rules.checks.steering.work import CheckedWork

PYTEST_FILES = ("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml")
#: Where the base may have settings of pytest that a new pytest.ini would hide, and how they begin there.
PYTEST_SETTINGS = {"pyproject.toml": "[tool.pytest", "tox.ini": "[pytest]", "setup.cfg": "[tool:pytest]"}
PYTHONPATH = re.compile(r"(?m)^\s*pythonpath\s*=\s*((?:\[[^\]]*\])|.*(?:\n[ \t]+.*)*)")

Decision = tuple[SteeringFile | None, bytes | None]  #: None: product; the second: the content of a merged file


def decide_mixed(work: CheckedWork, change: PathChange, why: str) -> Decision:
    """Decide about a file that is merged key by key."""
    path, added = change.path, change.kind == "added"
    out = SteeringFile(path=path, how="removed" if added else "put back", why=why)
    if change.kind == "deleted" or (added and _is_makefile(path)):
        return out, None
    delivered = work.content("delivered", path)
    base = None if added else work.content("base", path)
    own_path = not _brings_fakes(work, delivered or b"")
    if _is_makefile(path) and base is not None and delivered is not None:
        return _makefile(work, out, base, delivered)
    result = merge.merge_file(path, base, delivered, work.programs.tools, own_path=own_path)
    if result is None:
        return SteeringFile(path=path, how=out.how, why=f"{why}, not readable"), None
    if added and PurePosixPath(path).name.lower() in PYTEST_FILES and (not result.strip() or _hides_pytest(work, path)):
        return out, None
    if merge.is_same(result, delivered, path):
        return None, None
    if not added and merge.is_same(result, base, path):
        return out, None
    return SteeringFile(path=path, how="merged", why=why), result


def _makefile(work: CheckedWork, out: SteeringFile, base: bytes, delivered: bytes) -> Decision:
    """Decide about a changed makefile: new sources in its lines are product, new steps and options are shared."""
    path, before, now = out.path, base.decode(errors="replace"), delivered.decode(errors="replace")
    result = make_text.merge_makefile(before, now).encode()
    if merge.is_same(result, delivered, path):
        return None, None
    if make_text.only_grew(before, now, _new_files(work, path)):
        return SteeringFile(path=path, how="allowed", why=table.SHARED_BUILD), result
    return (out, None) if merge.is_same(result, base, path) else (structs.replace(out, how="merged"), result)


def _new_files(work: CheckedWork, path: str) -> set[str]:
    """Return product files of the work as a build file may name them: from its folder, or by their last parts."""
    own = [PurePosixPath(each) for each in work.added if roles.role_of(each) == "product"]
    names = {"/".join(each.parts[at:]) for each in own for at in range(len(each.parts))}
    return names | {relpath(str(each), str(PurePosixPath(path).parent)) for each in own}


def _is_makefile(path: str) -> bool:
    name = PurePosixPath(path).name.lower()
    return "makefile" in name or name.endswith((".mk", ".mak"))


def _hides_pytest(work: CheckedWork, path: str) -> bool:
    """Tell whether a new pytest.ini hides settings of the base, or gives tests another root."""
    if "/" in path:
        return True
    places = {**PYTEST_SETTINGS, **dict.fromkeys(PYTEST_FILES, "")}
    return any(name in work.base and word in (work.text("base", name) or "") for name, word in places.items())


def _brings_fakes(work: CheckedWork, content: bytes) -> bool:
    """Tell whether pytest's `pythonpath` names a folder with new modules that the base has elsewhere, too."""
    found = PYTHONPATH.search(content.decode(errors="replace"))
    for folder in (normpath(word) for word in re.findall(r"[\w./-]+", found[1] if found else "")):
        inside = {path[len(folder) + 1 :].split("/")[0] for path in work.added if path.startswith(f"{folder}/")}
        kept = [path for path in work.base & work.delivered if not path.startswith(f"{folder}/")]
        if any(path.removeprefix("src/").split("/")[0] in inside for path in kept if path.endswith(".py")):
            return True
    return False


def decide_watched(work: CheckedWork, change: PathChange, why: str) -> SteeringFile | None:
    """Decide about a build file: it is put back where lines that concern tests changed."""
    path = change.path
    if change.kind == "deleted":
        return SteeringFile(path=path, how="put back", why=why)
    now = work.text("delivered", path) or ""
    if change.kind == "added":
        hidden = "vite.config" in path.lower() and re.search(r"\btest\b", now)
        return SteeringFile(path=path, how="removed", why=why) if hidden else None
    before = work.text("base", path)
    if before is None or _watched_lines(before, "") != _watched_lines(now, before):
        return SteeringFile(path=path, how="put back", why=why)
    if _watched_lines(before, "", table.WATCHED_OPTIONS) != _watched_lines(now, before, table.WATCHED_OPTIONS):
        return SteeringFile(path=path, how="allowed", why=table.SHARED_BUILD)
    return None


def _watched_lines(text: str, base: str, pattern: str = table.WATCHED) -> list[str]:
    """Return the lines that concern tests, without source files that the base does not know."""
    lines = [line for line in text.splitlines() if re.search(pattern, line)]
    return sorted(make_text.without_new_sources(line, base or text) for line in lines)


def with_inline_tests(work: CheckedWork, change: PathChange) -> Decision:
    """Decide about a product file that may hold tests: the base's come back into it."""
    path = change.path
    if change.kind != "changed" or not path.endswith((".rs", ".py")):
        return None, None
    doctests = path.endswith(".py") and _runs_doctests(work)
    if path.endswith(".py") and not doctests:
        return None, None
    base, delivered = work.content("base", path), work.content("delivered", path)
    result = inline.with_tests_of(path, base, delivered, doctests=doctests)
    if result is None:
        return None, None
    return SteeringFile(path=path, how="merged", why="existing tests inside a product file"), result


def has_doctests(work: CheckedWork, path: str) -> bool:
    """Tell a document of the base whose examples the checks run."""
    return _runs_doctests(work) and ">>>" in (work.text("base", path) or "")


def _runs_doctests(work: CheckedWork) -> bool:
    if any("doctest" in check for check in work.checks) or "doctest" in work.programs.tools:
        return True
    names = [name for name in ("pyproject.toml", "setup.cfg", "tox.ini", "pytest.ini") if name in work.base]
    return any("--doctest" in (work.text("base", name) or "") for name in names)
