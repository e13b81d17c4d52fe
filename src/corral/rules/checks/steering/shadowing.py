"""Added files that are in the way of something: a runner's module, a program, a target, a file of the base."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import PurePosixPath
from posixpath import normpath

from corral.model.evidence import SteeringFile
from corral.rules.checks.steering import config_text, roles, table
from corral.rules.checks.steering.programs import COMMON_PROGRAMS
from corral.rules.checks.steering.work import CheckedWork


def shadowed_name(work: CheckedWork, path: str, outside: Collection[str]) -> str | None:
    """Return what an added file shadows; `outside`: modules that the base's run found outside of the repository."""
    name = PurePosixPath(path).name
    if runner := roles.shadows_runner(path, work.packages):
        return runner
    if name in COMMON_PROGRAMS and not any(each.path == path for each in work.programs.files):
        return name
    return (
        _module_of_outside(work, path, outside)
        or _hidden_test(work, path)
        or _earlier_on_path(work, path)
        or _helper_of_tests(work, path)
        or _optional_module(work, path)
    )


def _helper_of_tests(work: CheckedWork, path: str) -> str | None:
    """Return a module beside the base's tests whose name an added file has, where Python now looks first."""
    folder, module = path.rpartition("/")[0], roles.module_of(path)
    if module is None or folder in work.packages or roles.is_test(path):
        return None
    names = (f"{module}.py", f"{module}/__init__.py")
    helpers = [
        each for each in sorted(work.base) if each.endswith(names) and roles.is_test(each) and each in work.delivered
    ]
    helper = next((each for each in helpers if PurePosixPath(each).name in (f"{module}.py", "__init__.py")), None)
    imports = re.compile(rf"(?m)^\s*(?:from\s+{re.escape(module)}\s+import\b|import\s+{re.escape(module)}\b)")
    if helper is None or not (folder == "" or _is_new_on_path(work, folder)):
        return None
    return helper if any(imports.search(text) for text in work.test_texts) else None


def _is_new_on_path(work: CheckedWork, folder: str) -> bool:
    """Tell whether changed settings name a folder that the base's do not."""
    named = re.compile(rf"(?<![\w/.-])(?:\./)?{re.escape(folder)}/?(?![\w/.-])")
    for each in work.changes:
        if each.kind != "deleted" and roles.role_of(each.path) == "mixed":
            before = (work.text("base", each.path) or "") if each.kind == "changed" else ""
            if named.search(work.text("delivered", each.path) or "") and not named.search(before):
                return True
    return False


def _optional_module(work: CheckedWork, path: str) -> str | None:
    """Return a module that tests of the base use where it can be imported, and that the base does not have."""
    parts = [each for each in PurePosixPath(path).with_suffix("").parts if each != "__init__"]
    parts = parts[1:] if parts[:1] in (["src"], ["lib"]) else parts
    if not path.endswith(".py") or not parts or not parts[0].isidentifier():
        return None
    top = parts[0]
    if any(each.startswith((f"{top}/", f"src/{top}/")) or each in (f"{top}.py", f"src/{top}.py") for each in work.base):
        return None
    name = re.escape(top)
    loads = rf"(?:from\s+{name}(?:\.[\w.]+)?\s+import\b|import\s+{name}\b)"
    optional = re.compile(
        rf"(?m)^([ \t]*)try:[ \t]*(?:#.*)?\n(?:\1[ \t]+.*\n)*?\1[ \t]+{loads}.*\n"
        r"(?:\1[ \t]+.*\n)*?\1except\s*\(?[^\n]*\b(?:ImportError|ModuleNotFoundError)\b"
        rf"|\b(?:importorskip|find_spec)\(\s*[\"']{name}[\"'.]"
    )
    return top if any(optional.search(text) for text in work.test_texts if top in text) else None


def _module_of_outside(work: CheckedWork, path: str, outside: Collection[str]) -> str | None:
    folder = path.rpartition("/")[0]
    module = roles.module_of(path)
    if module in outside and folder not in work.packages:
        return module
    inside = [part for part in folder.split("/") if part in outside]
    if inside and folder.partition(inside[0])[0].rstrip("/") not in work.packages:
        return inside[0]
    return None


def _hidden_test(work: CheckedWork, path: str) -> str | None:
    """Return a file of the base that is still there and that Python no longer finds, or a test of it.

    Packages and libraries come before .py files.
    """
    folder, _, file = path.rpartition("/")
    module = roles.module_of(path)
    if module is None or (file.endswith(".py") and file != "__init__.py"):
        return None
    hidden = f"{folder}.py" if file == "__init__.py" else f"{folder}/{module}.py".lstrip("/")
    known = hidden in work.delivered or roles.role_of(hidden) in ("test", "runner", "data")
    return hidden if hidden in work.base and known else None


def _earlier_on_path(work: CheckedWork, path: str) -> str | None:
    """Return a test of the base whose name an added file has, where a makefile looks for files in several folders."""
    orders = [each.path for each in work.programs.files if each.sourced and each.path in work.base]
    if not any("vpath" in (work.text("base", each) or "").lower() for each in orders):
        return None
    name = PurePosixPath(path).name
    return next((each for each in sorted(work.base) if PurePosixPath(each).name == name and roles.is_test(each)), None)


def hidden_target(work: CheckedWork, path: str) -> str | None:
    """Return a target of make that an added file of that name makes up to date."""
    targets = [each for each in work.programs.targets if each.tool == "make" and path in work.added]
    return next((each.name for each in targets if normpath(f"{each.folder}/{each.name}") == path), None)


def files_in_the_way(work: CheckedWork, steered: Sequence[SteeringFile]) -> list[SteeringFile]:
    """Return added files that lie where a file that is put back must be, as a link in place of a folder does."""
    back = {each.path for each in steered if each.how == "put back"}
    above = {str(parent): path for path in back for parent in PurePosixPath(path).parents}
    found: list[SteeringFile] = []
    for path in work.added - {each.path for each in steered}:
        below = next((str(parent) for parent in PurePosixPath(path).parents if str(parent) in back), None)
        if where := above.get(path) or below:
            found.append(SteeringFile(path=path, how="removed", why=f"lies where `{where}` was"))
    return found


def shadowed_package(work: CheckedWork, path: str) -> str | None:
    """Return the package that an added file below node_modules shadows; a package that nobody knew is product."""
    words = path[path.lower().rindex("node_modules/") + len("node_modules/") :].split("/")
    package = "/".join(words[:2]) if words[0].startswith("@") else words[0]
    if package in table.RUNNER_PACKAGES or package.startswith((".", *table.RUNNER_SCOPES)):
        return package
    declared = work.text("base", "package.json") or "" if "package.json" in work.base else ""
    known = f'"{package}"' in declared or any(f"node_modules/{package}/" in each for each in work.base)
    return package if known else None


def has_vendored_module(work: CheckedWork) -> bool:
    """Tell whether the work brings a copy of a Go module that the base finds elsewhere."""
    if "go.mod" not in work.base or any(path.startswith("vendor/") for path in work.base):
        return False
    modules = {
        line.split()[0]
        for word, line in config_text.module_directives(work.text("base", "go.mod") or "")
        if word in ("require", "replace")
    }
    return any(path.startswith(f"vendor/{module}/") for path in work.added for module in modules)
