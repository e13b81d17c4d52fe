"""The tools that do something: execute, flow, interrupt, resume, steer, answer, select, merge."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from corral.frontends import evidence_text
from corral.frontends.mcp import arguments, responses
from corral.frontends.mcp.calls import LEFT_TO_USER, ToolCall
from corral.frontends.mcp.elicitation import Pending, ways
from corral.frontends.mcp.requests import of_execute, of_flow
from corral.model import OPEN, Attempt, Request, Run
from corral.model.errors import BadFlow, BadRequest
from corral.model.merge import MergeRequest
from corral.model.money import notional_words
from corral.model.review import NewComment

GOOD = ("done", *OPEN)
MOST_GRADES = 5  #: winners whose evidence is said in words


class ToolReply(Struct, frozen=True):
    """What a tool gives: data, whether it is a failure, and words that stand before it."""

    data: Struct
    failed: bool = False
    words: str = ""


def run_reply(call: ToolCall, run: Run) -> ToolReply:
    """Give a run document; what waits for a person, and what failed, is said in words besides."""
    waiting = [entry for entry in call.engine.inbox.entries() if entry.run == run.run]
    words = [f"waits for an answer: {entry.text} (engine_answer id {entry.id}: {ways(entry)})" for entry in waiting]
    failed = run.status not in GOOD
    words += [f"{won.id} {said}" for won in _winners(run) if (said := evidence_text.line(won))][:MOST_GRADES]
    if failed:
        words.insert(0, f"run {run.run} {run.status}: {run.reason or _why(run)}")
    if run.cost.notional is True:
        usd = f"${run.cost.usd:.2f}" if run.cost.usd is not None else "the cost"
        words.append(f"{usd} is notional: {notional_words(call.engine.money.windows_of(run))}")
    return ToolReply(run, failed, "\n".join([*call.warnings, *words]))


def _winners(run: Run) -> list[Attempt]:
    return [each for node in run.nodes for each in node.attempts if each.id == node.winner]


def _why(run: Run) -> str:
    errors = [attempt.error for node in run.nodes for attempt in node.attempts if attempt.error]
    return f"{errors[-1].message} {errors[-1].hint}".strip() if errors else "see its attempts"


async def execute(call: ToolCall, asked: arguments.ExecuteArguments) -> ToolReply:
    return await _run_request(call, lambda: of_execute(asked, call), apart=asked.background)


async def flow(call: ToolCall, asked: arguments.FlowArguments) -> ToolReply:
    if asked.action == "run":
        return await _run_request(call, lambda: of_flow(asked, call), apart=asked.background)
    try:
        found = (await call.engine.requests.prepare(of_flow(asked, call))).plan.flow
    except BadFlow as bad:
        mistakes = tuple(str(bad).splitlines())
        return ToolReply(
            responses.FlowCheckReply(ok=False, name="", nodes=(), mistakes=mistakes), words="\n".join(mistakes)
        )
    return ToolReply(
        responses.FlowCheckReply(ok=True, name=found.name, nodes=tuple(node.id for node in found.nodes), mistakes=())
    )


async def _run_request(call: ToolCall, request: Callable[[], Request], *, apart: bool) -> ToolReply:
    """Carry a request out and wait for its end; a call that comes again with an answer goes on where it was."""
    if pending := call.comes_again():
        return run_reply(call, await _resume_pending(call, pending))
    if apart:
        run = await call.runs.submit_apart(request(), call.visitor)
        return run_reply(call, call.engine.show(run))
    run = await call.runs.submit(request(), call.visitor)
    return run_reply(call, await call.until_over(run))


async def _resume_pending(call: ToolCall, pending: Pending) -> Run:
    if not await call.answer_pending(pending):
        return call.engine.show(pending.run)
    if call.engine.show(pending.run).status in LEFT_TO_USER:
        await call.runs.resume(pending.run)
    return await call.until_over(pending.run)


async def interrupt(call: ToolCall, asked: arguments.InterruptArguments) -> ToolReply:
    run = await call.engine.stop(asked.run, call.by)
    return ToolReply(run, words=f"run {run.run} {run.status}: {run.reason}" if run.reason else "")


async def resume(call: ToolCall, asked: arguments.ResumeArguments) -> ToolReply:
    if pending := call.comes_again():
        return run_reply(call, await _resume_pending(call, pending))
    name = call.engine.show(asked.run).run
    if asked.background:
        await call.runs.resume_apart(name)
        return run_reply(call, call.engine.show(name))
    await call.runs.resume(name)
    return run_reply(call, await call.until_over(name))


async def comment(call: ToolCall, asked: arguments.CommentArguments) -> ToolReply:
    name, review = call.engine.find(asked.run), call.engine.review
    if asked.resolve:
        review.move(name, asked.resolve, "resolved")
    if asked.text or not asked.resolve:
        made = NewComment(
            text=asked.text,
            file=asked.file,
            line=asked.line,
            last_line=asked.last_line,
            side=asked.side,
            attempt=asked.attempt or None,
            reply_to=asked.reply_to or None,
        )
        await review.comment(name, [made], call.by)
    found = tuple(review.comments(name))
    left = sum(each.state == "open" for each in found)
    words = f"{left} open comment{'' if left == 1 else 's'}; engine_revise sends them to the agent"
    return ToolReply(responses.CommentsReply(run=name, comments=found), words=words)


async def revise(call: ToolCall, asked: arguments.ReviseArguments) -> ToolReply:
    if pending := call.comes_again():
        return run_reply(call, await _resume_pending(call, pending))
    name = await call.engine.open_revision(asked.run, asked.text, asked.attempt or None, call.by)
    if asked.background:
        await call.runs.resume_apart(name)
        return run_reply(call, call.engine.show(name))
    await call.runs.resume(name)
    return run_reply(call, await call.until_over(name))


async def rename(call: ToolCall, asked: arguments.RenameArguments) -> ToolReply:
    return ToolReply(call.engine.show(call.engine.control.rename(asked.run, asked.name, call.by)))


async def steer(call: ToolCall, asked: arguments.SteerArguments) -> ToolReply:
    name = call.engine.show(asked.run).run
    return ToolReply(
        responses.OutcomeReply(run=name, outcome=await call.engine.control.steer(name, asked.text, call.by))
    )


async def answer(call: ToolCall, asked: arguments.AnswerArguments) -> ToolReply:
    """Answer; a run that nobody drives any more goes on at once."""
    call.visitor.needs(call.engine.inbox.needs(asked.id, asked.answer))
    entry = await call.engine.inbox.answer(asked.id, asked.answer, call.by)
    run = call.engine.show(entry.run)
    may = run.status == "waiting" or (run.status == "over_budget" and entry.outcome.startswith("go on"))
    if may and call.runs.task(run.run) is None and not call.engine.is_active(run.run):
        await call.runs.resume_apart(run.run)
        return ToolReply(responses.OutcomeReply(run=run.run, outcome="the run goes on"))
    return ToolReply(responses.OutcomeReply(run=run.run, outcome=entry.outcome or "answered"))


async def select(call: ToolCall, asked: arguments.SelectArguments) -> ToolReply:
    if asked.attempt:
        call.visitor.needs(call.engine.inbox.choosing_needs(call.engine.find(asked.run)))
        return ToolReply(await call.engine.work.choose(asked.run, asked.attempt, call.by))
    return ToolReply(call.engine.work.compare(asked.run))


async def merge(call: ToolCall, asked: arguments.MergeArguments) -> ToolReply:
    engine, said = call.engine, list[str]()
    name = engine.show(asked.run).run
    into = call.visitor.branch(asked.into) if asked.into else None
    request = MergeRequest(run=name, strategy=asked.strategy, into=into, pick=asked.pick or None)
    if asked.strategy == "patch":
        raise BadRequest("a patch is given by engine_diff", hint="strategy branch makes a branch")
    match asked.action:
        case "preview":
            return ToolReply(responses.MergePreviewReply(preview=await engine.merges.preview(request)))
        case "undo":
            await engine.merges.undo(name, Path(engine.show(name).repo), said.append)
        case "abort":
            engine.merges.abort(name)
        case _:
            record = await engine.merges.merge(request, said.append)
            if record.state == "conflict":
                nodes = f" between {' and '.join(record.between)}" if record.between else ""
                said += [
                    f"conflict{nodes} in {each.path} ({each.kind}): nothing was moved" for each in record.conflicts
                ]
                return ToolReply(engine.show(name), failed=True, words="\n".join(said))
    return ToolReply(engine.show(name), words="\n".join(said))
