# pyright: basic
"""Unittest: the outcome of each test by id, under any runner that is a TextTestRunner."""

import functools
import os
import sys

_ENDS = {
    "addSuccess": "passed",
    "addFailure": "failed",
    "addError": "failed",
    "addSkip": "skipped",
    "addExpectedFailure": "xfailed",
    "addUnexpectedSuccess": "passed",
}
_sessions = []


class UnittestSession:
    """One call of a runner."""

    def __init__(self, core):
        self.core, self.pid, self.id = core, os.getpid(), core.nonce()
        self.prefix = core.prefix(os.getcwd()) or ""
        self.ends = {}
        self.classes = {}  # name of a test -> its class and method

    def present(self, name, function):
        owner, method = self.classes[name]
        return vars(owner).get(method, function)

    def note(self, test, outcome):
        name = getattr(getattr(test, "test_case", test), "id", None)
        if self.pid != os.getpid() or name is None:
            return
        name = str(name())
        if self.ends.get(name) == "failed":
            return
        self.ends[name] = outcome
        self.core.send(e="test", s=self.id, i=self.prefix + name, o=outcome)


def hook(module, core):
    core.GUARD.look()  # before ours, so that those of the checked code can be distinguished
    result, runner = module.result.TestResult, module.runner.TextTestRunner
    for name, outcome in _ENDS.items():
        setattr(result, name, _noting(getattr(result, name), outcome))
    result.addSubTest = _noting_part(result.addSubTest)
    runner.run = _running(runner.run, core)
    core.GUARD.known = {name: each for name, each in core.GUARD.known.items() if not name.startswith("unittest")}
    core.GUARD.look()


def _current():
    # Under pytest the session is pytest's, and it reports these tests itself.
    pytest = sys.modules.get("_corral_pytest")
    return None if pytest is not None and pytest._active else _sessions[-1] if _sessions else None


def _noting(original, outcome):
    @functools.wraps(original)
    def note(self, test, *args, **kwargs):
        session = _current()
        if session is not None:
            session.note(test, outcome)
        return original(self, test, *args, **kwargs)

    return note


def _noting_part(original):
    @functools.wraps(original)
    def note(self, test, subtest, error):
        session = _current()
        if session is not None and error is not None:
            session.note(test, "failed")
        return original(self, test, subtest, error)

    return note


def _flat(test):
    if isinstance(test, sys.modules["unittest"].TestCase):
        yield test
    elif hasattr(test, "__iter__"):
        for each in test:
            yield from _flat(each)


def _is_plain(test):
    """Tell whether tests are grouped by unittest itself, and by nothing that does more."""
    unittest = sys.modules["unittest"]
    return isinstance(test, unittest.TestCase) or (type(test) is unittest.TestSuite and all(map(_is_plain, test)))


def _ordered_tests(test, session, order):
    """Return the tests that are to run, in their order."""
    tests = sorted(_flat(test), key=lambda each: each.id()) if _is_plain(test) else []
    if not tests:
        return test

    class Ordered(sys.modules["unittest"].TestSuite):
        _cleanup = order.times < 2  # else each is needed more than once

        def __iter__(self):
            for each in super().__iter__():
                if order.is_over():
                    return
                for _ in order.rounds():
                    session.ends.pop(str(each.id()), None)
                    yield each

    return Ordered([tests[place] for place in order.places([session.prefix + each.id() for each in tests])])


def _running(original, core):
    @functools.wraps(original)
    def run(self, test):
        if _sessions or core.prefix(os.getcwd()) is None or os.environ.get("CORRAL_REPORT_IN"):
            return original(self, test)
        session = UnittestSession(core)
        order = core.order()
        test = _ordered_tests(test, session, order) if order else test
        core.send(e="begin", k="unittest", s=session.id, a=" ".join(["unittest", *sys.argv[1:]])[:300])
        tests = core.Tests()
        for each in _flat(test):
            name = getattr(each, "_testMethodName", "")
            tests.add("%s.%s" % (type(each).__qualname__, name), vars(type(each)).get(name))
            session.classes["%s.%s" % (type(each).__qualname__, name)] = (type(each), name)
        _sessions.append(session)
        os.environ["CORRAL_REPORT_IN"] = "unittest"
        try:
            result = original(self, test)
        finally:
            _sessions.pop()
            os.environ.pop("CORRAL_REPORT_IN", None)
        if session.pid == os.getpid():
            core.GUARD.send()
            tests.send(session.present)
            core.send_modules()
            good = bool(result.wasSuccessful())
            stopped = good and bool(getattr(result, "shouldStop", False))
            core.send(e="end", s=session.id, c=0 if good else 1, n=len(session.ends), m=int(stopped), w=[])
        return result

    return run
