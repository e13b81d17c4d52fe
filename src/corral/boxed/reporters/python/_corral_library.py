# pyright: basic
"""Parts of the standard library that code of the checked tree took the place of, and left so at the end."""

import sys

# What tests read, compare, measure and start programs with.
_MODULES = (
    "asyncio", "bisect", "calendar", "collections", "contextlib", "copy", "csv", "dataclasses", "datetime", "decimal",
    "difflib", "enum", "filecmp", "fractions", "functools", "glob", "hashlib", "heapq", "inspect", "io", "itertools",
    "json", "json.decoder", "json.encoder", "math", "numbers", "operator", "os", "os.path", "pathlib", "pickle",
    "posixpath", "pprint", "random", "re", "shutil", "statistics", "string", "struct", "subprocess", "tempfile",
    "textwrap", "threading", "time", "types", "uuid", "zoneinfo",
)  # fmt: skip
_MOST = 10


def _place(value, core):
    """Return the file that something was written in."""
    place = None if isinstance(value, type) else getattr(core._code(value), "co_filename", None)
    if place is not None:
        return place
    made = value if isinstance(value, type) else type(value)
    if made.__module__ == "__main__":
        return ""
    return getattr(sys.modules.get(made.__module__), "__file__", None) or ""


def _is_of_work(value, core):
    place = _place(value, core)
    return bool(place) and core.in_tree(place) and not core.is_test(place)


def _replacements(core):
    for name in _MODULES:
        module = sys.modules.get(name)
        if not isinstance(module, type(sys)) or core.in_tree(getattr(module, "__file__", None) or ""):
            continue
        public = getattr(module, "__all__", None)
        for key, value in list(vars(module).items()):
            if key.startswith("__") or key == "excepthook" or isinstance(value, type(sys)):
                continue
            if (public is None or key in public) and _is_of_work(value, core):
                yield "%s.%s" % (name, key)
            elif isinstance(value, type) and value.__module__ == name:
                for inner, member in list(vars(value).items()):
                    if core._code(member) is not None and _is_of_work(member, core):
                        yield "%s.%s.%s" % (name, key, inner)
    for name in ("stdout", "stderr", "displayhook"):
        if _is_of_work(getattr(sys, name, None), core):
            yield "sys." + name


def send(core):
    """Report them: a weak doubt, since honest programs do such things too."""
    for count, name in enumerate(dict.fromkeys(_replacements(core))):
        if count < _MOST:
            core.send(e="doubt", weak=True, w="code of the work replaced `%s`" % name)
