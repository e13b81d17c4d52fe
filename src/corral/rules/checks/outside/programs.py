"""Programs that make calls of the product as any program may: no test runner, another folder, ordinary names."""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Protocol

from corral.rules.checks.outside.checked import CheckedCall

CALL_SECONDS = 2  #: of one call


class PythonCall(Protocol):
    """A call of a function of the product."""

    @property
    def module(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def arguments(self) -> str: ...  #: as source


#: Names of variables by which a program might know its surroundings.
RUNNERS = "CORRAL|PYTEST|NODE|JEST|VITEST|MOCHA|npm|TEST|UNITTEST|TAP|CI"

#: Standard library alone; any Python 3. What is printed by the product goes nowhere.
PYTHON = """
import collections, importlib, json, os, signal, sys
root = sys.argv.pop()
out = os.fdopen(os.dup(1), "w")
null = os.open(os.devnull, os.O_RDWR)
for number in (0, 1, 2):
    os.dup2(null, number)
sys.path[:1] = [os.path.normpath(os.path.join(root, each)) for each in ROOTS]
class Slow(BaseException):
    pass
def slow(*_):
    raise Slow()
def plain(value, depth=0):
    kind = type(value)
    if depth > 20:
        raise ValueError
    if value is None or kind is bool:
        return repr(value)
    if isinstance(value, collections.UserString):
        value = value.data
    if isinstance(value, str):
        return repr(str.__str__(value))
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return repr(float("%.9g" % float.__float__(value)))
    if kind in (list, tuple):
        inner = ", ".join(plain(each, depth + 1) for each in value)
        return "[" + inner + "]" if kind is list else "(" + inner + ("," if len(value) == 1 else "") + ")"
    if kind in (set, frozenset):
        return "{" + ", ".join(sorted(plain(each, depth + 1) for each in value)) + "}" if value else "set()"
    if kind is dict:
        rows = sorted((plain(key, depth + 1), plain(each, depth + 1)) for key, each in value.items())
        return "{" + ", ".join(key + ": " + each for key, each in rows) + "}"
    raise ValueError
def from_outside(error):
    place = error.__traceback__
    while place and place.tb_next:
        place = place.tb_next
    file = place.tb_frame.f_code.co_filename if place else ""
    return isinstance(error, (OSError, ImportError)) or os.path.basename(file) in ("os.py", "<frozen os>")
def answer(module, name, arguments):
    signal.alarm(SECONDS)
    try:
        function = importlib.import_module(module)
        for part in name.split("."):
            function = getattr(function, part)
    except BaseException as error:
        signal.alarm(0)
        return {"raises": type(error).__name__} if ERRORS and not isinstance(error, Slow) else {}
    try:
        value = eval("function(" + arguments + ")", {"function": function})
    except Slow:
        return {}
    except BaseException as error:
        return {} if from_outside(error) and not ERRORS else {"raises": type(error).__name__}
    finally:
        signal.alarm(0)
    try:
        return {"value": plain(value)[:10000], "made": isinstance(function, type)}
    except Exception:
        return {}
signal.signal(signal.SIGALRM, slow)
out.write(MARK + "begins" + chr(10))
out.flush()
for place, call in enumerate(CALLS):
    try:
        found = answer(*call)
    except Slow:
        found = {}
    out.write(MARK + json.dumps(dict(found, call=place)) + chr(10))
    out.flush()
os._exit(0)
"""

NODE = """
const fs = require('node:fs'), path = require('node:path'), url = require('node:url');
const { createRequire } = require('node:module');
const root = process.argv.pop(), write = fs.writeSync, exit = process.reallyExit.bind(process);
const text = JSON.stringify, read = JSON.parse, own = Object.getPrototypeOf;
process.stdout.write = process.stderr.write = () => true;
function plain(value, depth) {
  if (depth > 20) throw new Error();
  if (value === undefined) return 'undefined';
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return text(value);
  if (typeof value === 'number' && Number.isFinite(value)) return text(Number(value.toPrecision(9)));
  if (Array.isArray(value)) return '[' + value.map((each) => plain(each, depth + 1)).join(', ') + ']';
  if (typeof value === 'object' && (own(value) === Object.prototype || own(value) === null)) {
    const rows = Object.keys(value).sort().map((key) => text(key) + ': ' + plain(value[key], depth + 1));
    return '{' + rows.join(', ') + '}';
  }
  throw new Error();
}
async function loaded(where, module, imported) {
  const file = path.join(root, where);
  if (imported) return import(url.pathToFileURL(path.resolve(path.dirname(file), module)).href);
  return createRequire(file)(module);
}
async function answer(where, module, imported, name, given) {
  let holder, value;
  try {
    value = await loaded(where, module, imported);
    for (const part of name ? name.split('.') : []) { holder = value; value = value[part]; }
    if (typeof value !== 'function') return {};
  } catch { return {}; }
  try {
    value = value.apply(holder, read(given));
  } catch (error) {
    const name = (error && error.name) || 'Error';
    return error && error.code && error.syscall ? {} : { raises: String(name).slice(0, 60) };
  }
  try { return { value: plain(value, 0).slice(0, 10000) }; } catch { return {}; }
}
(async () => {
  for (let place = 0; place < CALLS.length; place += 1) {
    const found = await answer(...CALLS[place]);
    write(1, MARK + text({ ...found, call: place }) + '\\n');
  }
  exit(0);
})();
"""


def python(calls: Sequence[PythonCall], roots: Sequence[str], mark: str, *, errors: bool = False) -> str:
    """Return the Python program that makes these calls; `errors`: those of files and imports are answers as well."""
    rows = [(each.module, each.name, each.arguments) for each in calls]
    given = {"CALLS": rows, "ROOTS": list(roots), "SECONDS": CALL_SECONDS, "MARK": mark, "ERRORS": errors}
    return "".join(f"{name} = {value!r}\n" for name, value in given.items()) + PYTHON


def node(calls: Sequence[CheckedCall], mark: str) -> str:
    """Return the Node program that makes these calls."""
    rows = [(each.where, each.module, each.imported, each.name, each.arguments) for each in calls]
    return f"const CALLS = {json.dumps(rows)};\nconst MARK = {json.dumps(mark)};\n{NODE}"


def command(program: str, interpreter: str, file: str, env: Mapping[str, str]) -> str:
    """Return the command line that runs a program in a folder of its own, which knows of no test."""
    text = base64.b64encode(program.encode()).decode()
    given = " ".join(f"{name}={shlex.quote(value)}" for name, value in {"TERM": "xterm", **env}.items())
    return (
        f"root=$PWD; run={shlex.quote(interpreter)}; "
        'case "$run" in /*) ;; */*) run="$root/$run";; esac; '
        f"for name in $(env | sed -nE 's/^(({RUNNERS})[A-Za-z0-9_]*)=.*/\\1/p'); do unset \"$name\"; done; "
        f'place=$(mktemp -d) && cd "$place" && echo {text} | base64 -d > {file} && {given} "$run" {file} "$root" '
        '< /dev/null; code=$?; cd /; rm -rf "$place"; exit $code'
    )


def python_of(checks: Sequence[str]) -> str:
    """Return the Python that checks name, or that lies beside the pytest that they name."""
    for check in checks:
        if found := re.search(r"(?:^|[\s;&|(])([\w./-]*python[\d.]*)(?=\s|$)", check):
            return found[1]
        if found := re.search(r"(?:^|[\s;&|(])([\w./-]+/)(?:pytest|py\.test)(?=\s|$)", check):
            return f"{found[1]}python"
    return "python3"
