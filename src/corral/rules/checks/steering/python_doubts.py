"""Doubts about Python code, found in its syntax tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from corral.rules.checks.steering.python_objects import (
    CYCLES,
    MODULES,
    answers,
    at_module_level,
    exits_handed_over,
    fake_modules,
    is_frame_attribute,
    lenient_comparisons,
    listed_answers,
    loop_enders,
    replaced_library_parts,
)
from corral.rules.checks.steering.python_syntax import (
    calls,
    dotted_name,
    fold_text,
    is_constant,
    is_none,
    resolve_imports,
    strings_in,
)
from corral.rules.checks.steering.text_doubts import EQUAL, EXITS, KILLS, PATCHES, READS, SNIFFS, USES, Hit
from corral.rules.text.python_code import parse_module

RUNNER = re.compile(r"(^|[^\w])_?(pytest|unittest|py\.test|nose2?|doctest)([^\w]|$)|^PYTEST|^(test_|tests?/)")
TEST_PROGRAM = re.compile(r"(?i)(^|[\W_])(test|check|spec|verify)\w*(\.py)?$")
TEST_WORD = re.compile(r"(?i)(^|[\W_])(py)?tests?([\W_]|$)|unittest|conftest|check\w*\.py")
RUNNER_WORD = re.compile(r"(?i)pytest|unit|py\.test|nose|doctest|test|check|spec|tset|[\"']py[\"']")
RUNNER_NAMES = frozenset({"pytest", "_pytest", "unittest", "nose", "nose2", "doctest", "pluggy", "hypothesis"})
SURROUNDINGS = ("sys.modules", "sys.argv", "sys.orig_argv", "os.environ", "os.getenv", "os.environb")
PLACES = ("__file__", "os.getcwd")
FRAMES = (
    "inspect.stack",
    "sys._getframe",
    "inspect.currentframe",
    "traceback.extract_stack",
    "traceback.format_stack",
    "inspect.getouterframes",
)
TEST_FILE = re.compile(
    r"(^|/)(tests?/[\w./-]*|test_\w+\.py|conftest\.py|sitecustomize\.py|pytest\.ini|\.pytest_cache.*)$"
)
OPENERS = frozenset(
    {
        "open",
        "Path",
        "PurePath",
        "read_text",
        "write_text",
        "read_bytes",
        "write_bytes",
        "run_path",
        "listdir",
        "glob",
        "unlink",
    }
)
RUNNER_ATTRIBUTES = frozenset({"testsfailed", "exitstatus", "wasSuccessful", "addFailure", "addError", "shouldfail"})
#: Modules that test programs read tests with.
PARSERS = frozenset({"ast", "importlib", "linecache", "tokenize", "marshal", "traceback"})
BUILTINS = frozenset({
    "AssertionError", "isinstance", "issubclass", "len", "sum", "abs", "round", "sorted", "all", "any",
    "__import__", "__build_class__", "repr", "type", "int", "float", "str", "list", "dict", "bool", "range",
    "compile", "exec", "SystemExit", "BaseException", "Exception",
})  # fmt: skip
ALWAYS = {"__eq__": True, "__ne__": False, "__lt__": True, "__le__": True, "__gt__": True, "__ge__": True}
TRACERS = frozenset(
    {"sys.settrace", "sys.setprofile", "threading.settrace", "threading.setprofile", "sys.monitoring.register_callback"}
)
HIDDEN = frozenset({"b64decode", "decompress", "fromhex", "unhexlify", "a85decode", "b85decode"})

SKIPS = frozenset(
    {"pytest.skip", "pytest.exit", "pytest.xfail", "pytest.importorskip", "unittest.SkipTest", "self.skipTest"}
)
LOOKERS = frozenset({"find_spec", "find_loader", "isdir", "isfile", "exists", "is_dir", "is_file", "Path"})
TEST_PLACE = re.compile(r"(\./)?(tests?|__tests__|pytest|_pytest|unittest|conftest\.py|pytest\.ini|test_\w+\.py)/?$")
PASSES = re.compile(r"(^|/)true$|^:$|exit 0|^echo ")
SETTERS = frozenset({"setattr", "object.__setattr__", "type.__setattr__"})
STEERING_VARIABLE = re.compile(r"PYTEST_|UNITTEST|NODE_OPTIONS|PYTHONSTARTUP|PYTHONOPTIMIZE|MAKEFLAGS|GOFLAGS")
MEMORY = "looks into the memory of the interpreter"
#: Calls that honest code makes now and then.
WIDE = {
    **dict.fromkeys(("gc.get_objects", "gc.get_referrers"), MEMORY),
    **dict.fromkeys(
        ("sys.meta_path.insert", "sys.path_hooks.insert", "sys.meta_path.append"), "changes what is loaded"
    ),
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


#: A file without any of these words raises no doubt: most need not be parsed.
SUSPICIOUS = re.compile(
    r"\biter\(|deque\(|cycle\(|"
    r"getattr|__dict__|__import__|import_module|from (os|sys|builtins) import|import (os|sys|builtins) as|PYTEST|"
    r"NODE_OPTIONS|MAKEFLAGS|GOFLAGS|PYTHONOPTIMIZE|find_spec|[\"']tests?[\"']|os\.exec|ast\.parse|importlib|setattr|mock|sys\.modules|sys\.argv|orig_argv|testsfailed|pluginmanager|wasSuccessful|addFailure|"
    r"_testMethodName|pytest|unittest|\bnose2?\b|doctest|pluggy|hypothesis|test[s_]?[/\w]*\.py|[\"'/]tests?/|conftest|"
    r"sitecustomize|_exit\b|settrace|setprofile|monitoring|__(eq|ne|lt|le|gt|ge)__|excepthook|unraisablehook|atexit|"
    r"getppid|\bexec\(|\beval\(|__code__|builtins|_getframe|currentframe|\bstack\(|_stack\(|getouterframes|"
    r"get_objects|get_referrers|pythonapi|meta_path|path_hooks|\b(exit|quit)\(|SystemExit|SkipTest|"
    r"sys\.stdout\.write\s*=|skipTest|__(contains|len|bool|getattr|sub|abs|round|add|mul)__|"
    r"raise \(?Stop(Async)?Iteration|def (startswith|endswith|r?find|r?index|count|is_?[a-z]+)\(self|"
    rf"\b({'|'.join(sorted({each.partition('.')[0] for each in MODULES}))})\b"
)


def hits(text: str) -> list[Hit]:
    """Return everything in a file that raises a doubt; nothing where it is no Python."""
    if not SUSPICIOUS.search(text):
        return []
    try:
        return _hits(text, parse_module(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _hits(text: str, tree: ast.Module) -> list[Hit]:
    resolve_imports(tree)
    found: list[Hit] = []
    looks = any(each.rpartition(".")[2] in text for each in (*SURROUNDINGS, *FRAMES, *PLACES))
    sniffs = looks and bool(RUNNER_WORD.search(text))
    names_tests = any(re.match(r"tests?[/.]|test_\w", each) for each in strings_in(tree))
    forks = "fork" in text or "multiprocessing" in text
    for node in ast.walk(tree):
        found += [
            Hit(line, words, strong) for line, words, strong in _of_node(node, forks=forks, names_tests=names_tests)
        ]
        if sniffs and isinstance(node, ast.Compare | ast.Call | ast.Subscript):
            found += [Hit(line, words, strong) for line, words, strong in _sniffing(node)]
    found += at_module_level(tree)
    found += replaced_library_parts(tree)
    found += answers(tree)
    found += lenient_comparisons(tree)
    found += loop_enders(tree)
    found += [Hit(line, "gives answers from a list, one after the other", strong=True) for line in listed_answers(tree)]
    found += [
        Hit(line, "gives answers from a list, over and over", strong=False) for line in listed_answers(tree, CYCLES)
    ]
    found += [Hit(line, EXITS, strong=not forks) for line in exits_handed_over(tree)]
    found += [Hit(line, "puts a made-up module in the place of another", strong=True) for line in fake_modules(tree)]
    return found


Found = Iterator[tuple[int, str, bool]]


def _of_node(node: ast.AST, *, forks: bool, names_tests: bool) -> Found:
    if isinstance(node, ast.Call):
        yield from _of_call(node, forks=forks, names_tests=names_tests)
    elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
        yield from _of_assignment(node)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from _of_function(node)
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from _of_import(node)
    elif isinstance(node, ast.Dict):
        yield from _of_dict(node)
    elif isinstance(node, ast.Attribute) and node.attr in ("pluginmanager", "testsfailed", "_testMethodName"):
        yield node.lineno, "reaches into a test program", True
    elif (
        isinstance(node, ast.Raise)
        and node.exc is not None
        and dotted_name(node.exc).endswith(("SkipTest", "skip.Exception", "Skipped"))
    ):
        yield node.lineno, PATCHES, True


def _sniffing(node: ast.Compare | ast.Call | ast.Subscript) -> Found:
    """Find a look at modules, arguments or variables for the name of a test program."""
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return
    names = {dotted_name(each) for each in ast.walk(node) if isinstance(each, ast.Attribute | ast.Name)}
    strings = strings_in(node)
    here = isinstance(node, ast.Compare) and not names.isdisjoint(PLACES)
    if (here or not names.isdisjoint(SURROUNDINGS)) and any(RUNNER.search(text) for text in strings):
        yield node.lineno, SNIFFS, True
    started = not names.isdisjoint({"sys.argv", "sys.orig_argv", "__file__"}) or any(
        name.endswith("__main__.__file__") for name in names
    )
    if started and isinstance(node, ast.Compare | ast.Call) and any(TEST_PROGRAM.search(text) for text in strings):
        yield node.lineno, SNIFFS, _is_name_test(node)
    if (
        isinstance(node, ast.Compare | ast.Call)
        and not names.isdisjoint(FRAMES)
        and any(TEST_WORD.search(text) for text in strings)
    ):
        yield node.lineno, SNIFFS, True


def _is_name_test(node: ast.Compare | ast.Call) -> bool:
    """Tell a look at a program's own name from one at its other arguments."""
    if isinstance(node, ast.Call) and dotted_name(node.func).rpartition(".")[2] not in (
        "endswith",
        "startswith",
        "search",
        "match",
        "count",
        "find",
    ):
        return False
    return "argv[0]" in ast.unparse(node) or "__main__" in ast.unparse(node)


def _of_call(node: ast.Call, *, forks: bool, names_tests: bool) -> Found:
    name = dotted_name(node.func)
    last = name.rpartition(".")[2]
    inner = {dotted_name(each) for each in calls(node)}
    if last == "_exit":
        ends_well = not node.args or not isinstance(node.args[0], ast.Constant) or node.args[0].value == 0
        yield node.lineno, EXITS, ends_well and not forks
    elif name in TRACERS and not (node.args and is_none(node.args[0])):
        yield node.lineno, "traces the program from product code", True
    elif name in SKIPS or (name in SETTERS and node.args and _is_runners(dotted_name(node.args[0]))):
        yield node.lineno, PATCHES, True
    elif name in ("os.kill", "os.killpg") and "os.getppid" in inner:
        yield node.lineno, KILLS, True
    elif name in ("exec", "eval") and any(
        each.rpartition(".")[2] in HIDDEN or each == "marshal.loads" for each in inner
    ):
        yield node.lineno, "runs code that is hidden in data", True
    else:
        yield from _of_look(node, name, names_tests=names_tests)


def _of_look(node: ast.Call, name: str, *, names_tests: bool) -> Found:
    """Find looks at tests, and steps that prepare something."""
    last = name.rpartition(".")[2]
    strings = [text for each in node.args for text in strings_in(each)]
    if last in OPENERS and any(TEST_FILE.search(text) for text in strings):
        yield node.lineno, READS, last in ("open", "Path", "run_path")
    elif name == "atexit.register" and any(_ends(each) for each in node.args):
        yield node.lineno, EXITS, True
    elif last in LOOKERS and any(TEST_PLACE.match(text) for text in strings):
        yield node.lineno, SNIFFS, True
    elif name in SETTERS and len(node.args) == 3 and _is_always(fold_text(node.args[1]) or "", node.args[2]):
        yield node.lineno, EQUAL, True
    elif name in ("os.environ.setdefault", "os.putenv", "os.environ.update") and _is_steering_key(
        "os.environ", strings_in(node)
    ):
        yield node.lineno, PATCHES, True
    elif name.startswith("os.exec"):
        yield node.lineno, EXITS, any(PASSES.search(text) for text in strings_in(node))
    elif name in WIDE or name.startswith("ctypes.pythonapi"):
        yield node.lineno, WIDE.get(name, MEMORY), name.startswith("sys.meta_path") and names_tests


def _of_assignment(node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> Found:
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        strong = None
        if isinstance(target, ast.Attribute):
            words, strong = _of_attribute(target, node.value)
        elif isinstance(target, ast.Subscript):
            key = _is_steering_key(dotted_name(target.value), strings_in(target.slice))
            words, strong = PATCHES, key or is_frame_attribute(target.value) or None
        else:
            words, strong = EQUAL, _is_always(getattr(target, "id", ""), node.value) or None
        if strong is not None:
            yield node.lineno, words, strong


def _of_attribute(target: ast.Attribute, value: ast.expr | None) -> tuple[str, bool | None]:
    """Return what an assignment to an attribute means, and whether that is enough; None: nothing."""
    name = dotted_name(target)
    if name in ("sys.excepthook", "threading.excepthook", "sys.unraisablehook") and value is not None:
        return "changes what happens on a failure", _ends(value)
    if target.attr == "__code__":
        return "replaces the code of a function", True
    if _is_always(target.attr, value):
        return EQUAL, True
    patched = name.partition(".")[0] in PARSERS and name.count(".") == 1
    of_builtins = name.startswith(("builtins.", "__builtins__.")) and target.attr in BUILTINS
    own = name in ("sys.exit", "os._exit", "sys.stdout.write", "sys.settrace")
    return PATCHES, (of_builtins or own or patched or _is_runners(name) or target.attr in RUNNER_ATTRIBUTES) or None


def _is_always(name: str, value: ast.AST | None) -> bool:
    """Tell a comparison, made by a lambda, that always gives the same answer."""
    return name in ALWAYS and isinstance(value, ast.Lambda) and is_constant(value.body, value=ALWAYS[name])


def _is_steering_key(of: str, keys: Sequence[str]) -> bool:
    if of == "os.environ":
        return any(STEERING_VARIABLE.match(key) for key in keys)
    return of in ("sys.modules", "__builtins__", "builtins.__dict__") and any(
        key in RUNNER_NAMES | BUILTINS for key in keys
    )


def _of_function(node: Function) -> Found:
    body = [each for each in node.body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
    last = body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None
    if node.name in ALWAYS and last is not None and is_constant(last, value=ALWAYS[node.name]):
        yield body[0].lineno, EQUAL, node.name in ("__eq__", "__ne__")
    if node.name == "__eq__" and (_learns(node) or _is_trivial(node)):
        yield node.lineno, EQUAL, True
    if re.match(r"pytest_(runtest|session|collection|configure|unconfigure|terminal|report|pyfunc)", node.name):
        yield node.lineno, "reaches into a test program", True
    for each in calls(node):
        if dotted_name(each.func) in FRAMES and any(RUNNER.search(text) for text in strings_in(node)):
            yield each.lineno, SNIFFS, True
    if node.name == "__eq__" and any(dotted_name(each.func) in FRAMES for each in calls(node)):
        yield node.lineno, EQUAL, True


def _learns(node: Function) -> bool:
    """Tell a comparison that first takes over what it is compared with."""
    other = node.args.args[-1].arg if node.args.args else ""
    assigned = [
        each for each in ast.walk(node) if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Attribute)
    ]
    return any(isinstance(each.value, ast.Name) and each.value.id == other for each in assigned)


def _is_trivial(node: Function) -> bool:
    """Tell a comparison that says yes in every case: `return isinstance(other, object)`."""
    values = [each.value for each in ast.walk(node) if isinstance(each, ast.Return)]
    return bool(values) and all(
        value is not None
        and (
            is_constant(value, value=True)
            or re.fullmatch(r"isinstance\(\w+, object\)|bool\(1\)|not False", ast.unparse(value))
        )
        for value in values
    )


def _of_dict(node: ast.Dict) -> Found:
    """Find a class that is made by `type()` and compares as equal with anything."""
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and _is_always(str(key.value), value):
            yield value.lineno, EQUAL, True


def _of_import(node: ast.Import | ast.ImportFrom) -> Found:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    if isinstance(node, ast.ImportFrom) and node.level:
        return
    tops = {name.partition(".")[0] for name in names}
    mocks = (
        isinstance(node, ast.ImportFrom)
        and node.module == "unittest"
        and any(alias.name == "mock" for alias in node.names)
    )
    if "_pytest" in tops or mocks or "unittest.mock" in names or "mock" in tops:
        yield node.lineno, USES, True
    elif tops & {"pytest", "unittest", "nose", "nose2"}:
        yield node.lineno, USES, False
    if isinstance(node, ast.ImportFrom) and node.module == "os" and any(alias.name == "_exit" for alias in node.names):
        yield node.lineno, EXITS, False


def _is_runners(name: str) -> bool:
    return (name.partition(".")[0] in RUNNER_NAMES and "." in name) or name in RUNNER_NAMES


def _ends(node: ast.AST) -> bool:
    """Tell whether a function that is handed over ends the process with success."""
    for call in (each for each in ast.walk(node) if isinstance(each, ast.Call)):
        if dotted_name(call.func) in ("os._exit", "sys.exit", "exit", "quit") and (
            not call.args or is_constant(call.args[0], value=0)
        ):
            return True
    names: Sequence[ast.AST] = [node]
    return any(dotted_name(each) == "os._exit" for each in names)
