"""Files of which only a part steers tests: settings merged by key, and build files watched by line."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from pathlib import PurePosixPath
from posixpath import normpath, relpath
from typing import Any, cast

from msgspec import structs

from corral.model.evidence import SteeringFile
from corral.rules.checks.steering import config_text, inline, roles, table, warning_filters
from corral.rules.checks.steering.work import CheckedWork, PathChange

PYTEST_FILES = ("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml")
#: Where the base may have settings of pytest that a new pytest.ini would hide, and how they begin there.
PYTEST_SETTINGS = {"pyproject.toml": "[tool.pytest", "tox.ini": "[pytest]", "setup.cfg": "[tool:pytest]"}
PYTHONPATH = re.compile(r"(?m)^\s*pythonpath\s*=\s*((?:\[[^\]]*\])|.*(?:\n[ \t]+.*)*)")
Decision = tuple[SteeringFile | None, bytes | None]  #: None: product; the second: the content of a merged file
Table = dict[str, Any]
#: What a work may set in pytest's tables: where its modules are, and how loud it is. All else says which tests run.
OWN_PYTEST = frozenset({
    "pythonpath", "markers", "filterwarnings", "asyncio_mode", "asyncio_default_fixture_loop_scope", "minversion",
    "asyncio_default_test_loop_scope", "log_cli", "log_cli_level", "log_level", "log_format", "log_date_format",
    "log_file",
    "django_settings_module", "junit_family", "junit_suite_name", "cache_dir", "tmp_path_retention_policy",
    "tmp_path_retention_count", "qt_api", "timeout", "timeout_method",
})  # fmt: skip
#: What a work may set in tox's and nox's tables.
OWN_TOX = frozenset({
    "deps", "extras", "requires", "minversion", "min_version", "description", "usedevelop", "package",
    "isolated_build", "skipsdist", "basepython", "base_python", "dependency_groups", "recreate", "labels",
    "no_package",
})  # fmt: skip
#: Tables of `[tool]` that belong to a program, which counts where a check starts it.
TOOL_TABLES = {
    "ruff": ("ruff",), "mypy": ("mypy", "dmypy"), "pyright": ("pyright", "basedpyright"),
    "basedpyright": ("basedpyright",),
    "black": ("black",), "isort": ("isort",), "pylint": ("pylint",), "flake8": ("flake8",),
    "coverage": ("coverage", "pytest", "py.test"),
    "importlinter": ("lint-imports",), "bandit": ("bandit",), "vulture": ("vulture",), "deptry": ("deptry",),
    "taskipy": ("task", "taskipy"), "poe": ("poe",), "pdm": ("pdm",), "hatch": ("hatch",), "poetry": (),
    "doit": ("doit",),
}  # fmt: skip
NODE_TABLES = (
    "jest", "vitest", "mocha", "ava", "tap", "nyc", "c8", "babel", "karma", "jasmine", "eslintConfig",
    "prettier", "wireit", "config", "husky", "lint-staged", "volta", "tsd", "xo", "standard", "uvu",
    "mocha-opts",
)  # fmt: skip
DEPENDENCIES = (
    "dependencies",
    "devDependencies",
    "peerDependencies",
    "optionalDependencies",
    "overrides",
    "resolutions",
)


def decide_mixed(work: CheckedWork, change: PathChange, why: str, *, own_filters: bool = False) -> Decision:
    """Decide about a file that is merged key by key; `own_filters`: the task may well ask for filters of warnings."""
    path, added = change.path, change.kind == "added"
    out = SteeringFile(path=path, how="removed" if added else "put back", why=why)
    if change.kind == "deleted" or (added and _is_makefile(path)):
        return out, None
    delivered = work.content("delivered", path)
    base = None if added else work.content("base", path)
    own_path = not _brings_fakes(work, delivered or b"")
    if _is_makefile(path) and base is not None and delivered is not None:
        return _makefile(work, out, base, delivered)
    result = merge_file(path, base, delivered, work.programs.tools, own_path=own_path)
    if result is None:
        return SteeringFile(path=path, how=out.how, why=f"{why}, not readable"), None
    if added and PurePosixPath(path).name.lower() in PYTEST_FILES and (not result.strip() or _hides_pytest(work, path)):
        return out, None
    if is_same(result, delivered, path):
        return (None, None) if own_filters else _filters(path, base, delivered)
    if not added and is_same(result, base, path):
        return out, None
    return SteeringFile(path=path, how="merged", why=why), result


def _filters(path: str, base: bytes | None, delivered: bytes | None) -> Decision:
    """Decide about settings that steer nothing but which warnings are errors: the base's come first."""
    if not warning_filters.lets_more_pass(path, base or b"", delivered or b""):
        return None, None
    result = merge_file(path, base, delivered, {warning_filters.OF_BASE})
    steered = SteeringFile(path=path, how="allowed", why=table.FILTERS)
    return steered, result if result is None or result.strip() else None


def _makefile(work: CheckedWork, out: SteeringFile, base: bytes, delivered: bytes) -> Decision:
    """Decide about a changed makefile: new sources in its lines are product, new steps and options are shared."""
    path, before, now = out.path, base.decode(errors="replace"), delivered.decode(errors="replace")
    now = config_text.without_new_lists(before, now)
    result = config_text.merge_makefile(before, now).encode()
    if is_same(result, now.encode(), path):
        return None, None
    if config_text.only_grew(before, now, _new_files(work, path)):
        return SteeringFile(path=path, how="allowed", why=table.SHARED_BUILD), result
    return (out, None) if is_same(result, base, path) else (structs.replace(out, how="merged"), result)


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
    return sorted(config_text.without_new_sources(line, base or text) for line in lines)


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


def merge_file(
    path: str, base: bytes | None, delivered: bytes | None, tools: Collection[str], *, own_path: bool = True
) -> bytes | None:
    """Return the content of a mixed file in the harness tree; None: it cannot be read, so the base's file counts.

    `base` is None where the file was added. Without `own_path` pytest's `pythonpath` is the base's.
    """
    if delivered is None or base == delivered:
        return base if delivered is None else delivered
    try:
        marked = tools if own_path else {*tools, FAKES}
        return _of(path)((base or b"").decode(), delivered.decode(), marked).encode()
    except (ValueError, KeyError, TypeError, RecursionError, AttributeError):
        return None


FAKES = "pythonpath of the base"  #: among the tools: the work's search path is not believed


def _own_pytest(tools: Collection[str]) -> Collection[str]:
    if warning_filters.OF_BASE in tools:
        return OWN_PYTEST - {"filterwarnings"}
    return OWN_PYTEST - {"pythonpath"} if FAKES in tools else OWN_PYTEST


Merge = Callable[[str, str, Collection[str]], str]


def _of(path: str) -> Merge:
    name = path.rpartition("/")[2].lower()
    if name in ("pyproject.toml", "pytest.toml", ".pytest.toml", "tox.toml", "cargo.toml"):
        return {"cargo.toml": _cargo, "pyproject.toml": _pyproject}.get(name, _pytest_toml)
    if name == "package.json":
        return _package_json
    if name == "go.mod":
        return lambda base, delivered, _: config_text.merge_module(base, delivered)
    if name.endswith((".mk", ".mak")) or "makefile" in name:
        return lambda base, delivered, _: config_text.merge_makefile(base, delivered)
    if name in (".npmrc", ".yarnrc"):
        return lambda base, delivered, _: config_text.merge_lines(base, delivered, table.STEERING_NPM_KEYS)
    if name == ".env" or name.startswith(".env.") or name.endswith(".env"):
        return lambda base, delivered, _: config_text.merge_lines(base, delivered, table.STEERING_VARIABLES)
    return _ini


def is_same(first: bytes | None, second: bytes | None, path: str) -> bool:
    """Tell whether two contents of a mixed file mean the same; comments and order do not count."""
    if first == second:
        return True
    if first is None or second is None:
        return False
    try:
        return _meaning(path, first.decode()) == _meaning(path, second.decode())
    except (ValueError, RecursionError):
        return False


def _meaning(path: str, text: str) -> object:
    name = path.rpartition("/")[2].lower()
    if name.endswith(".toml"):
        return _without_empty(tomllib.loads(text))
    if name.endswith(".json"):
        return json.loads(text)
    if name == "go.mod":
        return sorted(config_text.module_directives(text))
    if name.endswith((".cfg", ".ini")):
        return {section: keys for section, keys in config_text.parse_sections(text).items() if keys}
    return sorted(line.rstrip() for line in text.replace("\\\n", " ").splitlines() if line.strip())


def _without_empty(document: Table) -> Table:
    """Drop tables without content: they say nothing."""
    kept = {
        key: _without_empty(cast("Table", value)) if isinstance(value, dict) else value
        for key, value in document.items()
    }
    return {key: value for key, value in kept.items() if value != {}}


# --- by key


def _put_back(ours: Table, base: Mapping[str, Any], key: str) -> None:
    if key in base:
        ours[key] = deepcopy(base[key])
    else:
        ours.pop(key, None)


def _table_at(document: Mapping[str, Any], *path: str) -> Table:
    at: Any = document
    for part in path:
        at = cast("Table", at).get(part, {}) if isinstance(at, dict) else {}
    return cast("Table", at) if isinstance(at, dict) else {}


def _with_own(base: Mapping[str, Any], delivered: Mapping[str, Any], own: Collection[str]) -> Table:
    """Return the base's table with those keys of the work that are its own."""
    kept = {key: value for key, value in base.items() if key.lower() not in own}
    return {**kept, **{key: value for key, value in delivered.items() if key.lower() in own}}


def _pyproject(base_text: str, text: str, tools: Collection[str]) -> str:
    base, ours = tomllib.loads(base_text), tomllib.loads(text)
    before, tool = _table_at(base, "tool"), _table_at(ours, "tool")
    for name in {*before, *tool}:
        if name in (
            "pytest",
            "tox",
            "nox",
            "nose",
            "nose2",
            "stestr",
            "behave",
            "ward",
            "green",
            "pytest-watch",
            "pytest_env",
        ):
            own = OWN_TOX if name in ("tox", "nox") else _own_pytest(tools)
            inner, was = _table_at(tool, name), _table_at(before, name)
            options = _with_own(_table_at(was, "ini_options"), _table_at(inner, "ini_options"), _own_pytest(tools))
            plain = _with_own(was, inner, own)
            tool[name] = (
                {**plain, "ini_options": options} if options else {k: v for k, v in plain.items() if k != "ini_options"}
            )
            if not tool[name] and name not in before:
                del tool[name]
        elif name in TOOL_TABLES and not set(TOOL_TABLES[name]).isdisjoint(tools):
            _put_back(tool, before, name)
    if tool or "tool" in ours:
        ours["tool"] = tool
    project = _table_at(ours, "project", "entry-points")
    for group in ("pytest11", "nose.plugins.0.10", "tox", "distutils.commands", "console_scripts"):
        _put_back(project, _table_at(base, "project", "entry-points"), group)
    scripts = _table_at(ours, "project", "scripts")
    for name in table.RUNNER_MODULES & {*scripts}:
        _put_back(scripts, _table_at(base, "project", "scripts"), name)
    return config_text.format_toml(ours)


def _pytest_toml(base_text: str, text: str, tools: Collection[str]) -> str:
    base, ours = tomllib.loads(base_text), tomllib.loads(text)
    result = _with_own(base, ours, OWN_TOX)
    options = _with_own(_table_at(base, "pytest"), _table_at(ours, "pytest"), _own_pytest(tools))
    return config_text.format_toml({**result, "pytest": options} if options else result)


def _cargo(base_text: str, text: str, _: Collection[str]) -> str:
    base, ours = tomllib.loads(base_text), tomllib.loads(text)
    for key in ("test", "bench", "patch", "replace", "profile", "lints", "example"):
        _put_back(ours, base, key)
    package = _table_at(ours, "package")
    for key in ("autotests", "autobenches", "autobins", "autoexamples", "build", "links", "default-run", "metadata"):
        _put_back(package, _table_at(base, "package"), key)
    library = _table_at(ours, "lib")
    for key in ("test", "harness", "doctest", "bench"):
        _put_back(library, _table_at(base, "lib"), key)
    for each in cast("list[Table]", ours.get("bin", [])):
        bins = {str(one.get("name")): one for one in cast("list[Table]", base.get("bin", []))}
        was = bins.get(str(each.get("name")), Table())
        for key in ("test", "harness", "bench"):
            _put_back(each, was, key)
    workspace = _table_at(ours, "workspace")
    for key in ("exclude", "default-members", "lints"):
        _put_back(workspace, _table_at(base, "workspace"), key)
    return config_text.format_toml(ours)


def _package_json(base_text: str, text: str, _: Collection[str]) -> str:
    base: Table = json.loads(base_text or "{}")
    ours: Table = json.loads(text)
    before, scripts = _table_at(base, "scripts"), _table_at(ours, "scripts")
    new = {
        name: value
        for name, value in scripts.items()
        if name not in before
        and re.sub(r"^(pre|post)", "", name) not in {*before, "install", "pack", "publish", "prepare"}
    }
    ours["scripts"] = {**before, **new}
    if not ours["scripts"] and "scripts" not in base:
        del ours["scripts"]
    for key in NODE_TABLES:
        _put_back(ours, base, key)
    for key in DEPENDENCIES:
        packages = _table_at(ours, key)
        for name, version in list(packages.items()):
            if _is_runner(name) and not re.fullmatch(r"[\^~<>=v\d][\w.^~<>=|\s*-]*|latest|\*", str(version)):
                _put_back(packages, _table_at(base, key), name)
    ours["imports"] = {**_table_at(ours, "imports"), **_table_at(base, "imports")}
    if not ours["imports"]:
        del ours["imports"]
    for key in ("imports", "browser"):
        aliases = _table_at(ours, key)
        for name in [each for each in aliases if _is_runner(each.lstrip("#"))]:
            _put_back(aliases, _table_at(base, key), name)
    return json.dumps(ours, indent=2, ensure_ascii=False) + "\n"


def _is_runner(name: str) -> bool:
    return name in table.RUNNER_PACKAGES or name.startswith(table.RUNNER_SCOPES)


def _ini(base: str, text: str, tools: Collection[str]) -> str:
    def own(section: str) -> Collection[str] | None:
        """Return which keys of a section are the work's; None: all of them."""
        name = section.lower()
        if name in ("pytest", "tool:pytest"):
            return _own_pytest(tools)
        if name == "tox" or name.startswith(("testenv", "tox:", "gh-actions")):
            return OWN_TOX
        if name in ("aliases", "nosetests", "unittest", "tool:nosetests", "test", "behave", "trial"):
            return ()
        if name.startswith("options.entry_points"):
            return frozenset({"console_scripts", "gui_scripts"})
        owner = re.split(r"[:.\-]", name.removeprefix("tool:"))[0]
        return () if owner in TOOL_TABLES and not set(TOOL_TABLES[owner]).isdisjoint(tools) else None

    return config_text.merge_sections(base, text, own)
