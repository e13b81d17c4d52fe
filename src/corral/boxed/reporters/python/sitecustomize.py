# pyright: basic
"""Start of the reporter in each Python program of a check; hands over to the next `sitecustomize`.

Kept small: where its byte code cannot be stored, every program compiles it anew. The rest is in `_corral_report`.
"""

import sys

_AFTER = {"_pytest.config": "hook_pytest", "unittest": "hook_unittest"}


def _core():
    """Load the rest of the reporter, which most programs never need."""
    known = sys.modules.get("_corral_report")
    if known is None:
        folder = __file__.rpartition("/")[0]
        sys.path.insert(0, folder)
        try:
            import _corral_report as known
        finally:
            if folder in sys.path:
                sys.path.remove(folder)
    return known


class _Watcher:
    """Sees test runners being imported and hooks them once they are."""

    def __init__(self):
        self.left = dict(_AFTER)
        self.script = None

    def find_spec(self, name, path=None, target=None):
        if self.script is not None and self.script.catch(sys._getframe()):
            self.script = None
        hook = self.left.get(name)
        if hook is None:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = None if finder is self or find is None else find(name, path, target)
            if spec is not None:
                break
        else:
            return None
        loader = spec.loader
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return spec

        def exec_module(module):
            execute(module)
            del loader.exec_module
            if self.left.pop(name, None):
                try:
                    getattr(_core(), hook)(module)
                except Exception:  # noqa: BLE001 -- another module by that name: a reporter breaks nothing
                    pass

        try:
            loader.exec_module = exec_module
        except AttributeError:
            pass  # a loader that takes no attribute: its module is not watched
        return spec


def _main(os, tree):
    """Return what this program runs, if that is part of the checked tree or is on the command line."""
    words = getattr(sys, "argv", None) or [""]
    first = words[0]
    if first in ("-c", "-", ""):
        return first or "-"
    if first == "-m":
        words = getattr(sys, "orig_argv", ())
        name = words[words.index("-m") + 1] if "-m" in words[:-1] else ""
        place = os.path.join(os.getcwd(), name.partition(".")[0])
        inside = place.startswith(tree) and (os.path.isdir(place) or os.path.isfile(place + ".py"))
        return "-m " + name if name and inside else None
    place = os.path.realpath(first)
    if not place.startswith(tree) or os.path.exists(os.path.join(place, "../../pyvenv.cfg")):
        return None
    within = place[len(tree) :]
    return None if "/site-packages/" in "/" + within or "/node_modules/" in "/" + within else within


def _start():
    import os

    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [each for each in sys.path if each != folder]
    channel, tree = os.environ.get("CORRAL_REPORT"), os.environ.get("CORRAL_REPORT_TREE")
    if channel and tree:
        watcher = _Watcher()
        sys.meta_path.insert(0, watcher)
        main = _main(os, tree.rstrip("/") + "/")
        if main is not None:
            inner = "CORRAL_REPORT_DEPTH" in os.environ or "CORRAL_REPORT_IN" in os.environ
            os.environ["CORRAL_REPORT_DEPTH"] = "1"
            watcher.script = _core().begin_script(main, inner)


def _next():
    """Run the `sitecustomize` that Python would have run without ours."""
    own = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize as found
    except ImportError as error:
        if getattr(error, "name", None) != "sitecustomize":
            raise
        found = None
    if found is None and own is not None:
        sys.modules["sitecustomize"] = own


try:
    _start()
except Exception:  # noqa: BLE001 -- a reporter never breaks what it reports on
    pass
_next()
