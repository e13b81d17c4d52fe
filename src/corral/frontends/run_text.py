"""Runs, attempts, checks and events in words: plain text, readable without colour."""

from __future__ import annotations

import re
from collections.abc import Sequence

from corral.amounts import count, seconds, usd
from corral.engine.views.next_steps import next_steps
from corral.engine.views.run_document import total_cost
from corral.frontends import evidence_text
from corral.frontends.text import colour_text, cut, local_time, money, one_line, printable, status, width
from corral.model import Attempt, CheckResult, Run, Tally, nodes_with_items
from corral.model.events import (
    Asked,
    CalledTool,
    Changed,
    Checked,
    Condensed,
    ContextUsed,
    Ended,
    Event,
    Limited,
    Mailed,
    Noted,
    Planned,
    QuotaReported,
    Reached,
    Rejected,
    Reported,
    Said,
    Spent,
    Started,
    StatusChanged,
    SteerTaken,
    ToolReturned,
    Unparsed,
    UserAsked,
)
from corral.model.flow import short
from corral.model.review import Comment

LAST_LINES = 10  #: of a check that failed
IN_WORKSPACE = re.compile(r"[^\s\"']*/workspaces/[^/\s\"']+/work/")
MOST_COMMAND = 60  #: characters of a check's command
MARKS = {"completed": "x", "in_progress": ">"}  #: how far a step of a plan is


def summary(run: Run, asked: Sequence[str] = ()) -> list[str]:
    """Say in a few plain lines what became of a run, and what to type next; `asked` answers what it waits for."""
    attempts = _work(run)
    winner = next((attempt for node in run.nodes for attempt in node.attempts if attempt.id == node.winner), None)
    shown = winner or (attempts[-1] if attempts else None)
    lines = [f"{status(run.status, 8)} {run.run}  {one_line(run.name or run.task, width() - 24)}"]
    if run.reason:
        lines.append(f"why      {one_line(run.reason, 1000)}")
    following = f"next     {next_steps(run, asked).commands}"
    if shown is None:
        return [*lines, following]
    if len(run.nodes) > 1:
        return [*lines, *_nodes(run), *_split_lines(run), *_merge_lines(run), following]
    places = _group_attempts(attempts)
    if run.strategy == "race" and len(places) > 1:
        own = next(lane for lane in places if shown in lane)
        others = [lane for lane in places if lane is not own]
        lines.append(f"agent    {agent_label(shown)}, {_attempt_facts(own)}, {_sandbox(shown)}")
        if winner and run.nodes[0].why:
            lines.append(f"won      {run.nodes[0].why}")
        lines += [
            f"beside   {agent_label(lane[-1])}: {_status_words(lane[-1])}, {_attempt_facts(lane)}" for lane in others
        ]
        lines.append(f"all      {_tries(len(attempts))}, {seconds(run.seconds)}, {money(run.cost)}")
    else:
        facts = (agent_label(shown), _tries(len(attempts)), seconds(run.seconds), money(run.cost), _sandbox(shown))
        lines.append("agent    " + ", ".join(facts))
    lines += _split_lines(run)
    lines.append(f"changed  {changes(shown)}")
    lines += [f"missing  {line}" for line in uncollected_lines(shown.not_collected or (), shown.workspace or None)]
    lines += _merge_lines(run)
    lines += _proof(shown)
    if shown.branch:
        lines.append(f"branch   {shown.branch}")
    if shown.error and shown.error.hint and not _is_said(shown.error.hint, following, shown):
        lines.append(f"hint     {printable(shown.error.hint)}")
    if run.merge.why:
        lines.append(f"merge    {run.merge.why}")
    if run.pull_request:
        trouble = f"; not pushed: {run.pull_request.trouble}" if run.pull_request.trouble else ""
        lines.append(
            f"pull     {one_line(run.pull_request.url, 200)} ({run.pull_request.state}{one_line(trouble, 300)})"
        )
    lines.append(following)
    return lines


def _is_said(hint: str, following: str, shown: Attempt) -> bool:
    """Tell whether a hint is above or below already: a command that is offered next, or what a check printed."""
    return hint in following or (hint.startswith("corral logs") and any(each.output for each in shown.checks))


def _work(run: Run) -> list[Attempt]:
    """Return the attempts at the task; those of a judge or a second reader are none."""
    attempts = [attempt for node in run.nodes for attempt in node.attempts]
    return [attempt for attempt in attempts if attempt.role != "judge"] or attempts


def agent_label(attempt: Attempt) -> str:
    """Name an agent with its model: two in a race may differ in that alone."""
    return f"{attempt.agent} ({short(attempt.model)})" if attempt.model else attempt.agent


def _proof(attempt: Attempt) -> list[str]:
    """Say what the checks of an attempt came to, and how well that proves it."""
    checks = "; ".join(check_words(check, coloured=True) for check in attempt.checks)
    graded = evidence_text.line(attempt)
    failed = next((check for check in attempt.checks if not check.passed), None)
    said = [f"       | {cut(line, width() - 9)}" for line in last_lines(failed)] if failed else []
    return [*([f"checks   {checks}"] if checks else []), *said, *([f"evidence {graded}"] if graded else [])]


def last_lines(check: CheckResult, most: int = LAST_LINES) -> list[str]:
    """Return the end of what a check printed."""
    lines = [line for line in check.output.splitlines() if line.strip()][-most:]
    return [IN_WORKSPACE.sub("", line) for line in lines]  # a path in the repository is what the user looks for


def _status_words(attempt: Attempt) -> str:
    """Say the status of an attempt, and its grade where that says more."""
    graded = attempt.evidence.grade if attempt.evidence and attempt.status == "done" else ""
    return f"{attempt.status}, {graded}" if graded else attempt.status


def _merge_lines(run: Run) -> list[str]:
    """Say what was merged: whose work, or which parts of whose; or what prevents it."""
    merge = run.merge
    if merge.clashes:
        moved = ", nothing was moved" if merge.status == "conflict" else ": the merge will ask whose version counts"
        return [
            f"conflict {each.one} and {each.other} both changed {', '.join(map(printable, each.files))}{moved}"
            for each in merge.clashes
        ]
    if merge.status == "ready" and isinstance(merge.behind, int):
        return [
            f"moved    {merge.into} has {count(merge.behind, 'commit')} since this run started: the merge combines both"
        ]
    if merge.status == "conflict":
        return [f"conflict into {merge.into}, nothing was moved: {', '.join(map(printable, merge.conflicts))}"]
    if merge.status != "merged" or not merge.commit:
        return []
    attempts = {each.id: each for node in run.nodes for each in node.attempts}
    whose = [attempts[name] for name in merge.attempts or () if name in attempts]
    names = ", ".join(f"{each.id} by {agent_label(each)}" for each in whose)
    parts = f"{', '.join(map(printable, merge.taken))} of " if merge.taken else ""
    return [f"merged   into {merge.into} as {merge.commit[:12]}" + (f": {parts}{names}" if names else "")]


def _group_attempts(attempts: Sequence[Attempt]) -> list[list[Attempt]]:
    """Put attempts together that follow one another: a try, its retries and who stood in for it."""
    places: list[list[Attempt]] = []
    for attempt in attempts:
        before = attempt.retry_of or attempt.fallback_of or attempt.revises
        lane = next((lane for lane in places if before and any(each.id == before for each in lane)), None)
        if lane is None:
            places.append([attempt])
        else:
            lane.append(attempt)
    return places


def _attempt_facts(lane: Sequence[Attempt]) -> str:
    spent = sum(attempt.seconds for attempt in lane)
    return f"{_tries(len(lane))}, {seconds(spent)}, {money(total_cost(lane))}"


def _tries(number: int) -> str:
    return count(number, "try", "tries")


def _nodes(run: Run) -> list[str]:
    """Say of each node what became of it: one line each, in the order of the flow."""
    known = max(len(node.id) for node in run.nodes)
    lines: list[str] = []
    named = nodes_with_items(run.nodes)
    for node in [each for top, items in named for each in (top, *items)]:
        shown = next((each for each in node.attempts if each.id == node.winner), None)
        own = [each for each in node.attempts if each.role != "judge"] or node.attempts
        last = shown or (own[-1] if own else None)
        graded = last.evidence.grade if last and last.evidence and last.status == "done" else ""
        about = [agent_label(last), graded, changes(last) if last.files_changed else ""] if last else []
        words = [*filter(None, about), *([node.reason] if node.reason and node.status != "done" else [])]
        line = f"  {node.id:<{known}}  {node.status:<8}  {', '.join(words)}".rstrip()
        lines.append(cut(line, width()))
        if last:
            missing = uncollected_lines(last.not_collected or (), last.workspace or None)
            lines += [f"  {'':<{known}}  {'missing':<8}  {each}" for each in missing]
    attempts = [attempt for node in run.nodes for attempt in node.attempts]
    done = sum(node.status == "done" for node, _ in named)
    made = len(run.nodes) - len(named)
    tries, more = count(len(attempts), "attempt"), f" with {count(made, 'item')}" if made else ""
    facts = f"{done} of {len(named)} nodes done{more}, {tries}, {seconds(run.seconds)}, {money(run.cost)}"
    return [f"nodes    {facts}", *lines]


def _split_lines(run: Run) -> list[str]:
    """Say what each agent has cost where some have spawned others."""
    if not run.split:
        return []
    parts = (f"{one_line(agent, 60)} {usd(paid)}" for agent, paid in run.split.items())
    return [f"split    {', '.join(parts)} ({len(run.children)} spawned)"]


def comment_line(comment: Comment) -> str:
    """Say a comment in one line: which, where, the state of it, who says what."""
    answer = f" (reply to {comment.reply_to})" if comment.reply_to else ""
    old = " old" if comment.side == "old" else ""
    said = one_line(comment.text, 1000)
    return (
        f"{comment.id}  {printable(comment.place)}{old}  {comment.state}  {printable(comment.author)}{answer}: {said}"
    )


def uncollected_lines(left: Sequence[str], workspace: str | None) -> list[str]:
    """Say what of an attempt's work is on no branch, and where it is."""
    lines = [f"not collected: {one_line(line, 300)}" for line in left]
    return [*lines, f"what is not collected is in {workspace}"] if workspace and lines else lines


def changes(attempt: Attempt) -> str:
    if not attempt.files_changed:
        return "nothing"
    more = len(attempt.files_changed) - 4
    names = ", ".join(map(printable, attempt.files_changed[:4])) + (f" and {more} more" if more > 0 else "")
    return f"{names}  +{attempt.insertions} -{attempt.deletions}"


def check_words(check: CheckResult, *, coloured: bool = False) -> str:
    """Say what a check came to; `coloured` for what goes to stdout."""
    if check.note:
        return check.note
    verdict = "passed" if check.passed else f"FAILED ({check.exit_code})"
    verdict = colour_text(verdict, "green" if check.passed else "red") if coloured else verdict
    parts = [verdict, *([tests_words(check.tests)] if check.tests else []), *_comparison_words(check)]
    took = "cached" if check.cached else seconds(check.seconds)
    return f"{one_line(check.command, MOST_COMMAND)}: {', '.join(parts)}, {took}"


def tests_words(tests: Tally) -> str:
    """Say how many tests ended how: `12 tests passed, 1 failed`."""
    counts = ((tests.passed, "passed"), (tests.failed or None, "failed"), (tests.skipped or None, "skipped"))
    known = [(number, word) for number, word in counts if number is not None]
    words = [f"{number} {word}" for number, word in known[1:]]
    first = [f"{count(known[0][0], 'test')} {known[0][1]}"] if known else []
    return ", ".join([*first, *words])


def _comparison_words(check: CheckResult) -> list[str]:
    """Say how it compares with the base."""
    found = [f"{len(check.new_failures)} new"] if check.new_failures else []
    old = "" if check.old_failures == (check.command,) else f"{len(check.old_failures)} "  # its tests have no names
    found += [f"{old}failed before as well"] if check.old_failures else []
    return found + (["flaky"] if check.flaky else [])


def event_words(event: Event) -> str | None:  # noqa: C901, PLR0911, PLR0912 -- one line for each kind of event
    """Return one event as a user reads it; None for what only machines care about."""
    match event:
        case Said(text):  # marked, so that no agent can pass its words off as ours
            return "".join(f"\n· {line}" for line in text.strip().splitlines())[1:] or None
        case CalledTool(tool, shown):
            return f"> {tool} {shown}".rstrip()
        case ToolReturned(ok=False, output=output):
            return f"! {output.strip() or 'the tool failed'}"
        case ToolReturned() | Changed() | ContextUsed() | QuotaReported():
            return None
        case Rejected(misfits):
            return f"output not taken: {'; '.join(misfits)}"
        case Condensed(number, reason):
            return f"continues from summary {number}: {reason}"
        case Started(model=model):
            return f"started{f' ({model})' if model else ''}"
        case Spent(usd=None, computed_usd=None):
            return None
        case Spent(usd=reported, tokens=tokens, computed_usd=computed):
            known = usd(reported) if reported is not None else f"about {usd(computed or 0.0)}"
            return f"spent {known} ({tokens.input} in, {tokens.output} out)"
        case Asked(question, answer=answer):
            return f"asks: {question}" + (f" -> {answer}" if answer else "")
        case Planned(steps):
            return "plans:" + "".join(f"\n  {MARKS.get(step.status, '-')} {one_line(step.text, 200)}" for step in steps)
        case SteerTaken(text):
            return f"took in: {text}"
        case Limited(message, until):
            back = f" (until {local_time(until)})" if until else ""
            return f"limited: {message}{back}"
        case Ended(ok=True):
            return "says it is done"
        case Ended(status="timed_out" | "stopped" as status):
            return f"was ended: {status}"
        case Ended(error=error, text=text):
            return f"failed: {error.kind + ': ' + error.message if error else text}"
        case Unparsed(line):
            return f"? {line}"
        case Noted(text):
            return f"({text})"
        case Reported(text, percent):
            return f"reports{f' ({percent:.0f} %)' if percent else ''}: {text}"
        case Mailed(to, text):
            return f"writes to {to}: {text}"
        case Reached(host, port, allowed, reason):
            place = host if "/" in host else f"{host}:{port}"
            return f"({'reached' if allowed else 'was refused'} {place}{'' if allowed else f': {reason}'})"
        case Checked(check):
            output = "" if check.passed else "".join(f"\n| {line}" for line in check.output.splitlines()[-20:])
            return f"check {check_words(check)}{output}"
        case StatusChanged("node", "main"):
            return None  # of a single task: the run says the same
        case StatusChanged(kind, name, state, reason):
            return f"{kind} {name} {state}" + (f": {reason}" if reason else "")
        case UserAsked():
            return f"(waits for you: {event.words})"


def _sandbox(attempt: Attempt) -> str:
    report = attempt.sandbox
    return f"sandbox {report.level}" + (", open network" if report.net == "open" else "")
