# pyright: basic
"""Pytest: the outcome of each test by id, which tests never ran, how the session ended."""

import os
import sys

_ORDER = {"passed": 0, "skipped": 1, "xfailed": 1, "failed": 2}
_NO_TESTS = 5
_active = []


def hook(config_module, core):
    """Have every plug-in manager of pytest start with ours."""
    manager = config_module.PytestPluginManager
    original = manager.__init__

    def __init__(self, *args, **kwargs):
        original(self, *args, **kwargs)
        try:
            self.register(_plugin(config_module, core), "corral-report")
        except Exception:  # noqa: BLE001 -- a reporter never breaks what it reports on
            pass

    manager.__init__ = __init__


def _plugin(config_module, core):
    hookimpl = config_module.hookimpl

    class ReportPlugin(PytestSession):
        pytest_load_initial_conftests = hookimpl(tryfirst=True)(PytestSession.before_conftests)
        pytest_sessionstart = hookimpl(tryfirst=True)(PytestSession.start)
        pytest_collection_modifyitems = hookimpl(trylast=True)(PytestSession.choose)
        pytest_runtest_protocol = hookimpl(tryfirst=True)(PytestSession.skip)
        pytest_collection_finish = hookimpl(trylast=True)(PytestSession.on_collected)
        pytest_xdist_node_collection_finished = hookimpl(optionalhook=True)(PytestSession.on_worker_collected)
        pytest_collectreport = hookimpl(tryfirst=True)(PytestSession.collect_report)
        pytest_runtest_logreport = hookimpl(tryfirst=True)(PytestSession.test_report)
        pytest_sessionfinish = hookimpl(trylast=True)(PytestSession.finish)

    return ReportPlugin(core)


class PytestSession:
    """One session; a session within another (pytest's own test tools) reports nothing."""

    def __init__(self, core):
        self.core, self.id, self.pid = core, None, os.getpid()
        self.mode = "none"  # none, worker, whole
        self.prefix = ""
        self.waiting = {}  # id -> the worst outcome so far
        self.expected, self.done = set(), set()
        self.plugins = None
        self.tests = core.Tests()
        self.files = {}
        self.order = None
        self.chosen = True  # there are tests left to run
        self.repeating = False

    def before_conftests(self, early_config):
        if not _active:
            self.core.GUARD.look()

    def start(self, session):
        worker = hasattr(session.config, "workerinput")
        if _active or (not worker and os.environ.get("CORRAL_REPORT_IN")):
            return
        _active.append(self)
        self.core.GUARD.look()
        root = getattr(session.config, "rootdir", None) or os.getcwd()
        self.prefix = self.core.prefix(root)
        if self.prefix is None and self.core.prefix(os.getcwd()) is None:
            return
        self.prefix = self.prefix or ""
        self.mode = "worker" if worker else "whole"
        self.order = self.core.order()
        if self.mode == "whole":
            os.environ["CORRAL_REPORT_IN"] = "pytest"
            self.files = self.core.test_files()
            self.id = self.core.nonce()
            words = " ".join(str(each) for each in session.config.invocation_params.args)
            self.core.send(e="begin", k="pytest", s=self.id, a=("pytest " + words).strip())

    def choose(self, items):
        """Leave out tests, or change their order, where this run is made for that."""
        if self.order is not None:
            places = self.order.places([self.prefix + item.nodeid for item in items])
            self.chosen = bool(places) or not items
            items[:] = [items[place] for place in places]

    def skip(self, item):
        """Leave out a test when the time is over; run one that is to run more than once, from its fixtures on."""
        if self.order is None or self.repeating:
            return None
        if self.order.is_over():
            self.expected.discard(item.nodeid)
            return True
        if self.order.times < 2:
            return None
        self.repeating = True
        try:
            for _ in self.order.rounds():
                item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
        finally:
            self.repeating = False
        return True

    def on_collected(self, session):
        if self.mode != "none":
            self.expected.update(item.nodeid for item in session.items)
            for item in session.items:
                self.tests.add(item.nodeid, getattr(item, "function", None))
            self.plugins = set(map(id, session.config.pluginmanager.get_plugins()))

    def on_worker_collected(self, node, ids):
        self.expected.update(ids)

    def collect_report(self, report):
        if self.mode == "whole" and report.failed:
            self._send(report.nodeid, "failed")

    def test_report(self, report):
        if self.mode != "whole" or self.pid != os.getpid():
            return
        name, outcome = report.nodeid, str(report.outcome)
        part = type(report).__name__.lower().startswith("subtest")
        if report.when == "setup" and not part:
            self.waiting[name] = "passed"
        if outcome == "skipped" and hasattr(report, "wasxfail"):
            outcome = "xfailed"
        if outcome in _ORDER and not (part and outcome != "failed"):
            worst = self.waiting.get(name, "passed")
            self.waiting[name] = outcome if _ORDER[outcome] > _ORDER[worst] else worst
        elif outcome not in _ORDER:
            self.waiting[name] = "again"
        if report.when == "teardown" and self.waiting.get(name) != "again":
            self._send(name, self.waiting.pop(name, "passed"))
        elif report.when == "setup" and outcome == "failed" and not part:
            self._send(name, "failed")

    def _send(self, name, outcome):
        self.done.add(name)
        self.core.send(e="test", s=self.id, i=self.prefix + name, o=outcome)

    def finish(self, session, exitstatus):
        if self.mode == "none" or self.pid != os.getpid():
            if self in _active:
                _active.remove(self)
            return
        if not self.chosen and int(exitstatus) == _NO_TESTS:
            session.exitstatus = exitstatus = 0  # those to run may be another session's
        self.core.GUARD.send()
        self.tests.send()
        self._report_rewritten()
        self._late_plugins(session.config.pluginmanager)
        self.core.send_modules()
        if self.mode == "whole":
            os.environ.pop("CORRAL_REPORT_IN", None)
            missing = sorted(self.expected - self.done) if not session.config.option.collectonly else []
            self.core.send(
                e="end",
                s=self.id,
                c=int(exitstatus),
                n=len(self.done),
                m=len(missing),
                w=[n[:200] for n in missing[:5]],
            )
        _active.remove(self)

    def _report_rewritten(self):
        """Report tests that were changed on disk while they ran."""
        now = self.core.test_files() if self.files else {}
        for path, about in self.files.items():
            if now.get(path) != about:
                self.core.send(e="doubt", w="`%s` was changed while tests ran" % self.core.short(path))

    def _late_plugins(self, manager):
        """Report plug-ins of the checked tree that were registered while tests ran."""
        known = self.plugins or set()
        for name, value in list(vars(manager).items()) + list(vars(manager.hook).items()):
            if self.core.in_tree(getattr(getattr(value, "__code__", None), "co_filename", "")):
                self.core.send(e="doubt", w="code of the work replaced `%s` of pytest's plug-in manager" % name)
        for plugin in manager.get_plugins() if known else ():
            place = getattr(plugin, "__file__", None)
            if place is None:
                module = sys.modules.get(getattr(type(plugin), "__module__", ""), None)
                place = getattr(module, "__file__", None)
            if id(plugin) not in known and isinstance(place, str) and self.core.in_tree(place):
                self.core.send(e="doubt", w="`%s` registered a pytest plug-in while tests ran" % self.core.short(place))
