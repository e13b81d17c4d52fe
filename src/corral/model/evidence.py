"""How well the work of an attempt is proven, what was seen that says so, and the receipt."""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import UNSET, Struct, UnsetType, field

from corral.model.values import Cost, Level, Status, Tokens

Grade = Literal["held-out", "proven", "unharmed", "unchecked", "doubtful"]
GRADES: tuple[Grade, ...] = get_args(Grade)  #: the best first
Outcome = Literal["passed", "failed", "skipped", "xfailed"]  #: failed: also a test that ended with an error
Tree = Literal[
    "delivered", "base", "harness", "allowed", "control", "altered", "reordered", "again", "base again",
    "held-out", "held-out base",
]  # fmt: skip
How = Literal["put back", "removed", "merged", "new test", "allowed"]
MOST_TESTS = 20_000  #: kept of one check
MOST_NAMES = 50  #: listed of one kind of change


class Tally(Struct, frozen=True):
    """How the tests of a check ended, as its program tells it."""

    format: str  #: whose words these are: pytest, junit, go ...
    passed: int | None = None  #: None: it does not say
    failed: int = 0
    skipped: int = 0
    failing: tuple[str, ...] = ()


class Sighting(Struct, frozen=True, kw_only=True):
    """How a check ended another time: at the base, or once more on the same tree."""

    exit_code: int
    note: str = ""
    tests: Tally | None = None
    flaky: bool = False

    @property
    def passed(self) -> bool:
        return self.exit_code == 0 and not self.note


class CheckResult(Struct, frozen=True, kw_only=True):
    command: str
    exit_code: int
    seconds: float
    note: str = ""  #: set where the exit code does not tell it all
    output: str = ""  #: the end of what it printed; the whole is in the file named by `log`
    log: str = ""
    tests: Tally | None = None  #: None: it reported none
    before: Sighting | None = None  #: at the base; None: it was not run there
    again: Sighting | None = None  #: of a check that failed: the same once more
    new_failures: tuple[str, ...] = ()  #: tests that fail now and did not at the base, or the command itself
    old_failures: tuple[str, ...] = ()  #: that failed at the base too
    flaky: bool = False  #: it failed and passed on the very same tree
    cached: bool = False  #: found out before, for the same tree, command and surroundings

    @property
    def passed(self) -> bool:
        return self.exit_code == 0 and not self.note


class Violation(Struct, frozen=True):
    kind: str
    path: str


class SandboxReport(Struct, frozen=True):
    level: Level = "none"
    net: Literal["held", "open"] = "held"  #: to its provider and the named hosts, or not at all
    violations: tuple[Violation, ...] = ()


class Report(Struct, frozen=True, kw_only=True):
    """What our own reporters saw of the tests of one check, apart from what the check printed."""

    runners: tuple[str, ...] = ()  #: pytest, unittest, python, node, mocha, jest, vitest, go, cargo
    tests: dict[str, Outcome] = field(default_factory=dict[str, Outcome])  #: by id
    sessions: int = 0  #: how many test programs began
    unfinished: tuple[str, ...] = ()  #: those that never reached their own end, in words for a user
    doubts: tuple[str, ...] = ()  #: what was done to a runner from inside, in words for a user
    weak: tuple[str, ...] = ()  #: what was done to parts of the language that tests use, in words for a user
    inside: tuple[str, ...] = ()  #: top-level modules that were imported from the checked tree
    outside: tuple[str, ...] = ()  #: top-level modules that were imported from elsewhere
    unstable: tuple[str, ...] = ()  #: ids that another run of the same tree does not have
    repeated: dict[str, tuple[Outcome, ...]] = field(
        default_factory=dict[str, tuple[Outcome, ...]]
    )  #: how tests ended that ran more than once, in that order
    cut: bool = False  #: there were more tests than are kept
    programs: tuple[str, ...] = ()  #: what ran, with versions: Python 3.11.7, pytest 9.2.0, Node 20.1.0


class CheckObservation(Struct, frozen=True, kw_only=True):
    """One check on one tree: how it ended, and what our reporters saw of it."""

    result: CheckResult
    report: Report | None = None  #: None: no reporter knows its runner
    touched: tuple[str, ...] = ()  #: files of the checked commit that were changed while it ran
    rewritten: tuple[str, ...] = ()  #: those of them that have the content of the commit all the same
    generated: tuple[str, ...] = ()  #: those of them that the commit marks as generated
    added: tuple[str, ...] = ()  #: new files in its tree that a later run would read
    left: tuple[str, ...] = ()  #: programs that it left running


class TestOrder(Struct, frozen=True, kw_only=True):
    """Which tests of a check are to run, and in which order; a test program that cannot choose runs all."""

    __test__ = False

    only: tuple[str, ...] = ()  #: ids; empty: all
    most: int = 0  #: of one test function with different parameters; 0: any number
    first: tuple[str, ...] = ()  #: tests whose files come first
    turned: bool = False  #: in the opposite order
    seconds: float = 0.0  #: after which no further test begins; 0: no limit
    times: int = 1  #: how often each of them runs at most, in an equal part of these seconds


class SteeringFile(Struct, frozen=True, kw_only=True):
    """A changed file that steers tests, and what was done with it in the harness tree."""

    path: str
    how: How  #: allowed: the task names it, or is about tests
    why: str  #: one phrase: "runner configuration", "an existing test", "shadows `pluggy`"


class Doubt(Struct, frozen=True, kw_only=True):
    """Something in the work itself that speaks against it, or that a second reader should look at."""

    path: str
    line: int
    words: str
    strong: bool  #: True: the work is doubtful; False: it is at most unharmed
    caps: bool = True  #: False: a weak one that is only listed


class EvidenceRun(Struct, frozen=True, kw_only=True):
    """One check on one tree."""

    tree: Tree
    command: str
    exit_code: int
    note: str = ""
    seconds: float = 0.0
    cached: bool = False
    reporter: tuple[str, ...] = ()  #: the runners that reported; empty: only the exit code and printed counts are known
    tests: Tally | None = None
    programs: tuple[str, ...] = ()  #: what ran, with versions, as far as a reporter saw it

    @property
    def passed(self) -> bool:
        return self.exit_code == 0 and not self.note


class TestChange(Struct, frozen=True, kw_only=True):
    """The tests of one check, by id: at the base and on the harness tree."""

    __test__ = False

    command: str
    before: int | None  #: how many ran at the base; None: not known
    after: int | None
    fixed: tuple[str, ...] = ()  #: failed at the base, pass now
    missing: tuple[str, ...] = ()  #: passed at the base, do not run now
    skipped: tuple[str, ...] = ()  #: passed at the base, are skipped or expected to fail now
    added: int = 0  #: tests of the work itself


class AlteredTests(Struct, frozen=True, kw_only=True):
    """Tests of the base that one check ran with other expected values: they must fail."""

    command: str
    names: tuple[str, ...] = ()  #: of tests by id, of scripts by path
    count: int = 0
    unnoticed: tuple[str, ...] = ()  #: those that pass all the same
    unreached: tuple[str, ...] = ()  #: the same of tests that judge in callbacks or loops
    unstable: tuple[str, ...] = ()  #: tests of other files that passed before and fail in this run


class Evidence(Struct, frozen=True, kw_only=True):
    """The grade of a result, in one word and its reasons; part of the run document."""

    grade: Grade
    reasons: tuple[str, ...] = ()


class Variation(Struct, frozen=True, kw_only=True):
    """What the work answers to varied inputs of the base's tests, compared with its rivals in a race."""

    group: int = 0  #: rivals of one group give the same answers, 1 is the largest; 0: it gave none
    agrees: int = 0  #: how many are of its group, itself among them
    rivals: int = 0  #: how many gave answers
    majority: int = 0  #: how many are of the group that more than half belong to; 0: there is none
    calls: int = 0  #: how many calls were compared
    example: str = ""  #: a call on which groups differ
    answer: str = ""  #: what it gave for that call
    others: str = ""  #: what the largest group gave, where it is not of that group
    note: str = ""  #: why there is no answer


class EvidenceDetail(Struct, frozen=True, kw_only=True):
    """How a result was checked: what `corral evidence` shows."""

    trees: dict[Tree, str] = field(default_factory=dict[Tree, str])  #: tree hashes
    runs: tuple[EvidenceRun, ...] = ()
    tests: tuple[TestChange, ...] = ()
    altered: tuple[AlteredTests, ...] = ()
    steered: tuple[SteeringFile, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    notes: tuple[str, ...] = ()  #: what was not done, and why

    @property
    def programs(self) -> tuple[str, ...]:
        """What ran in the checks of the work, with versions."""
        own = (each for run in self.runs if run.tree == "delivered" for each in run.programs)
        return tuple(dict.fromkeys(own))


def unchecked_evidence(words: str) -> Evidence:
    """Return the evidence of work that no check was run on, and why."""
    return Evidence(grade="unchecked", reasons=(words,))


class Proof(Struct, frozen=True, kw_only=True):
    """What the checks of an attempt came to."""

    results: tuple[CheckResult, ...] = ()
    evidence: Evidence | None = None
    detail: EvidenceDetail = EvidenceDetail()


class Receipt(Struct, frozen=True, kw_only=True):
    """The engine's proof of what an attempt did; kept in the store and as a git note on the commit."""

    attempt: str
    agent: str
    base: str | None
    commit: str
    tree: str
    diff_sha256: str
    checks: tuple[CheckResult, ...]
    cost: Cost
    tokens: Tokens
    sandbox: SandboxReport
    status: Status
    task_sha256: str
    corral: str
    at: str
    evidence: Evidence | UnsetType = UNSET  #: how well it is proven; unset in receipts of older versions
    programs: tuple[str, ...] | UnsetType = UNSET  #: what ran in its checks, with versions; unset: not known
    seal: str = ""  #: made with this machine's key over all of the above
