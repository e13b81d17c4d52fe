# pyright: basic
"""What a Python program of a check did: its tests, how it ended, what it imported, what it did to its runner."""

import builtins
import os
import sys

_open, _write, _close, _getpid = os.open, os.write, os.close, os.getpid
_LONGEST = 900  # of a name, so that a line fits into one write that nobody else's can split
_ENOUGH = 3500
_RUNNERS = ("_pytest", "pluggy", "unittest", "xdist")

_ADDED = {"__getattribute__", "__getattr__", "__setattr__", "__call__", "__new__", "__init__", "__init_subclass__"}

CHANNEL = os.environ.get("CORRAL_REPORT", "")
TREE = os.environ.get("CORRAL_REPORT_TREE", "").rstrip("/") + "/"
_HERE = os.path.dirname(os.path.abspath(__file__)) + "/"
_ELSEWHERE = ("site-packages", "dist-packages", "node_modules", ".venv", ".tox", ".nox")


# --- the channel


def quote(text):
    text = str(text)
    if len(text) > _LONGEST:
        import zlib

        text = "%s...%08x" % (text[:_LONGEST], zlib.crc32(text.encode("utf-8", "replace")))
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return '"' + text + '"'
    return '"' + "".join(map(_escape, text)) + '"'


def _escape(char):
    code = ord(char)
    if 32 <= code < 127 and char not in '"\\':
        return char
    if code > 0xFFFF:
        code -= 0x10000
        return "\\u%04x\\u%04x" % (0xD800 + (code >> 10), 0xDC00 + (code & 0x3FF))
    if 0xD800 <= code < 0xE000:
        return "?"
    return "\\u%04x" % code


def encode(value):
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(encode, value)) + "]"
    return quote(value)


def send(**event):
    if event["e"] == "begin":
        event["v"] = _programs()
    line = "{" + ",".join(quote(name) + ":" + encode(value) for name, value in event.items()) + "}\n"
    try:
        channel = _open(CHANNEL, os.O_WRONLY | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return  # nobody listens
    try:
        for _ in range(1000):
            try:
                _write(channel, line.encode("ascii"))
            except BlockingIOError:
                import select

                select.select([], [channel], [], 0.01)
            else:
                return
    except OSError:
        pass  # nobody reads reports any more
    finally:
        _close(channel)


def _programs():
    """Return what runs here, with versions."""
    found = ["%s %d.%d.%d" % (("Python" if sys.implementation.name == "cpython" else "PyPy",) + sys.version_info[:3])]
    version = getattr(sys.modules.get("pytest"), "__version__", None)
    return [*found, "pytest %s" % version] if isinstance(version, str) else found


def send_names(inside, outside):
    for kind, names in (("in", inside), ("out", outside)):
        part, size = [], 0
        for name in names:
            part.append(name)
            size += len(name) * 6 + 3
            if size > _ENOUGH:
                send(e="mod", **{kind: part})
                part, size = [], 0
        if part:
            send(e="mod", **{kind: part})


def nonce():
    return "%d.%s" % (_getpid(), os.urandom(6).hex())


# --- places


def in_tree(path):
    if not path or path.startswith(("<", _HERE)):
        return False
    path = os.path.abspath(path)
    return path.startswith(TREE) and not any(part in _ELSEWHERE for part in path[len(TREE) :].split("/"))


def short(path):
    path = os.path.abspath(path)
    return path[len(TREE) :] if path.startswith(TREE) else path  # noqa: FURB188 -- Python 3.9


def looks_like_test(path):
    """Tell whether a file may be what a check runs, by its name."""
    words = short(path).lower()
    for mark in "._-":
        words = words.replace(mark, "/")
    return any(word in ("test", "tests", "spec", "specs", "check", "checks", "verify") for word in words.split("/"))


def is_test(path):
    """Tell whether a file is a test by its place or name: what steers tests is the base's where work is judged."""
    *folders, name = short(path).lower().split("/")
    named = name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"
    return named or "tests" in folders or "test" in folders


def prefix(folder):
    folder = os.path.abspath(str(folder)) + "/"
    return folder[len(TREE) :] if folder.startswith(TREE) else None


def send_modules():
    inside, outside = set(), set()
    for name, module in list(sys.modules.items()):
        if "." in name or name == "__main__" or name.startswith("_corral_") or not isinstance(module, type(sys)):
            continue
        place = getattr(module, "__file__", None)
        if not isinstance(place, str):
            folders = getattr(module, "__path__", None)
            try:
                place = next(iter(folders)) if folders is not None else ""
            except (StopIteration, TypeError):
                place = ""
        if not isinstance(place, str) or place.startswith(_HERE):
            continue
        (inside if in_tree(place) else outside).add(name)
    send_names(sorted(inside), sorted(outside))


# --- what was done to a runner from inside


def _functions(module):
    """Yield the functions of a module and of its classes, by name."""
    for name, value in list(vars(module).items()):
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if isinstance(value, type):
            yield module, name, value, name
            for inner, member in list(vars(value).items()):
                if _code(member) is not None:
                    yield value, inner, member, name + "." + inner
        elif _code(value) is not None:
            yield module, name, value, name


def _code(value):
    value = getattr(value, "fget", None) or getattr(value, "__func__", None) or value
    seen = 0
    while hasattr(value, "__wrapped__") and seen < 5 and not hasattr(value, "__code__"):
        value, seen = value.__wrapped__, seen + 1
    return getattr(value, "__code__", None)


class RunnerGuard:
    """Remembers the code of runners as it was before the checked code ran, and finds what was replaced since."""

    def __init__(self):
        self.known = {}
        self.builtins = dict(vars(builtins))
        self.exit = sys.exit
        self.said = set()
        self.special = set()  # (class, name): what a class had of its own among names that change how it works

    def look(self):
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in _RUNNERS and name not in self.known and isinstance(module, type(sys)):
                self.known[name] = found = [(*each, _code(each[2])) for each in _functions(module)]
                for _, _, value, _, _ in found:
                    if isinstance(value, type):
                        self.special.update((value, each) for each in _ADDED.intersection(vars(value)))

    def _foreign(self, value):
        """Tell whether something stands in for a function or a class and is not a library's."""
        if isinstance(value, type):
            return self._replaces_builtin(value)
        code = _code(value)
        if code is not None:
            name = code.co_filename
            return (in_tree(name) and not is_test(name)) or name.startswith("<")
        return value is not None and not isinstance(value, (type, property, staticmethod, classmethod))

    def replacements(self):
        for module, functions in self.known.items():
            for owner, name, value, shown, code in functions:
                now = vars(owner).get(name)
                if (now is not value or _code(now) is not code) and self._foreign(now):
                    yield "%s.%s" % (module, shown)
                if isinstance(value, type) and now is value:
                    for added in _ADDED.intersection(vars(value)):
                        if (value, added) not in self.special and self._foreign(vars(value)[added]):
                            yield "%s.%s.%s" % (module, shown, added)
        for name, value in self.builtins.items():
            now = vars(builtins).get(name)
            if now is not value and name != "_" and self._replaces_builtin(now):
                yield "builtins." + name
        case = getattr(sys.modules.get("unittest.case"), "TestCase", None)
        if case is not None and getattr(case, "failureException", AssertionError) is not AssertionError:
            yield "unittest.case.TestCase.failureException"
        if sys.exit is not self.exit and self._foreign(sys.exit):
            yield "sys.exit"

    @staticmethod
    def _replaces_builtin(value):
        if isinstance(value, type):
            place = getattr(sys.modules.get(value.__module__), "__file__", None) or ""
        else:
            place = getattr(_code(value), "co_filename", "")
        return in_tree(place) and not is_test(place)

    def send(self):
        for name in self.replacements():
            if name not in self.said and len(self.said) < 20:
                self.said.add(name)
                send(e="doubt", w="code of the work replaced `%s`" % name)
        for traces in (sys.gettrace(), sys.getprofile()):
            if in_tree(getattr(_code(getattr(traces, "__func__", traces)), "co_filename", "")):
                send(e="doubt", w="code of the work traces the test program")
        try:
            _load("_corral_library").send(sys.modules[__name__])
        except Exception:  # noqa: BLE001 -- a reporter never breaks what it reports on
            pass


GUARD = RunnerGuard()


class Tests:
    """The code of tests before they ran, to find those that were replaced meanwhile."""

    def __init__(self):
        self.known = []

    def add(self, name, function):
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        if code is not None and len(self.known) < 20000:
            self.known.append((name, getattr(function, "__func__", function), code))

    def send(self, now=None):
        """Report what was replaced; `now` finds the present function of one that may have been set anew."""
        for name, function, code in self.known:
            present = now(name, function) if now else function
            if getattr(present, "__code__", code) is not code:
                send(e="doubt", w="the test `%s` was replaced while tests ran" % name)
                return


def test_files():
    """Return size and time of the Python files of the tree that are tests by place or name."""
    found, looked = {}, 0
    for folder, below, names in os.walk(TREE):
        below[:] = [each for each in below if each not in _ELSEWHERE and not each.startswith((".", "__"))]
        looked += len(names)
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith(".py") and is_test(path) and len(found) < 5000:
                about = os.lstat(path)
                found[path] = (about.st_size, about.st_mtime_ns)
        if looked > 50000:
            break
    return found


# --- runners


def _load(name):
    sys.path.insert(0, _HERE[:-1])
    try:
        return __import__(name)
    finally:
        if _HERE[:-1] in sys.path:
            sys.path.remove(_HERE[:-1])


def hook_pytest(module):
    _load("_corral_pytest").hook(module, sys.modules[__name__])


def hook_unittest(module):
    _load("_corral_unittest").hook(module, sys.modules[__name__])


def order():
    """Return which tests are to run, and in which order; None: all, as they come."""
    return _load("_corral_order").wanted_order() if os.environ.get("CORRAL_REPORT_ORDER") else None


def begin_script(main, inner):
    return _load("_corral_script").begin(main, inner, sys.modules[__name__])
