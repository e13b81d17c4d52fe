"""A conversation in ACP: lines of the agent become events, its questions and tool calls are answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import UNSET, Raw, Struct, field, structs

from corral.agents.formats import error_words
from corral.agents.formats.acp import wire
from corral.agents.formats.acp.presets import Preset
from corral.agents.formats.printed_json import UNREADABLE, decode
from corral.agents.formats.tool_arguments import call_arguments, main_argument
from corral.agents.formats.usage import reported_tokens
from corral.model import ErrorClass, Failure, Tokens
from corral.model.agent_api import AgentTask, Answer, End, HangUp, Line, Steer, Telling
from corral.model.events import (
    AgentEvent,
    Asked,
    CalledTool,
    Changed,
    ContextUsed,
    Ended,
    Planned,
    Said,
    Spent,
    Started,
    SteerTaken,
    Step,
    ToolReturned,
    Unparsed,
)
from corral.model.flow import TaskImage
from corral.model.values import token_count, usd_or_none

Heard = AgentEvent | Line | HangUp
STOPPED: dict[str, Failure] = {
    "max_tokens": Failure("context_too_long", "it used up the tokens of its answer before it was done"),
    "max_turn_requests": Failure("bad_output", "it used up its turns before it was done"),
    "refusal": Failure("refused", "the model refused to continue"),
}
WRITING = ("edit", "delete", "move")
#: Kinds of tools that a read-only task does without; one that does not say its kind is taken for one of them.
CHANGING = (*WRITING, "execute", None)
REFUSED = "no"  #: to what offers no refusal of its own
OVER = ("completed", "failed")


class AcpConversation:
    """Takes the lead: each answer leads to the next request, until the last turn has ended."""

    def __init__(self, task: AgentTask, preset: Preset, hints: Mapping[ErrorClass, str]) -> None:
        self._task, self._preset, self._hints = task, preset, hints
        self._waiting: dict[bytes, str] = {b"1": "initialize"}  # number of a request -> its method
        self._number = 1
        self._agent = wire.InitializeReply(protocol_version=wire.VERSION)
        self._session = ""
        self._before: list[tuple[str, dict[str, object]]] = []  # what comes before the first prompt
        self._tools = AcpTools(read_only=task.read_only)
        self._saying, self._said, self._message = "", "", None
        self._tokens, self._turn_tokens, self._usd = Tokens(), Tokens(), None
        self._steers: list[str] = []
        self._open_permissions: dict[
            str, tuple[Raw, list[wire.PermissionChoice]]
        ] = {}  # what it waits for a user to allow
        #: it must ask, for the user's rules for tools to be heard
        self._ruled = task.ruled and task.hook is None and preset.rules == "permissions"
        self._tried_login = self._at_work = self._over = False

    def read(self, line: str) -> list[Heard]:
        if self._over or not line.strip():
            return []
        try:
            message = decode(wire.MESSAGE, line)
        except UNREADABLE:
            return [Unparsed(line)]
        if isinstance(message.method, str):
            try:
                return self._on_message(message.method, message)
            except UNREADABLE:
                wrong = [] if message.id is UNSET else [wire.refusal(message.id, wire.BAD_PARAMETERS, "not understood")]
                return [Unparsed(line), *wrong]
        method = self._waiting.pop(bytes(message.id), None) if message.id is not UNSET else None
        if method is None:
            return [Unparsed(line)]
        if message.error:
            return self._on_refused(method, message.error)
        try:
            return self._on_answer(method, message.result)
        except UNREADABLE:
            return self._end(Ended(ok=False, error=Failure("bad_output", f"its answer to {method} is not ACP")))

    def tell(self, order: Telling) -> list[Line]:
        if isinstance(order, Steer):
            self._steers.append(order.text)  # sent when its turn ends
            return []
        held = [wire.answer(number, _outcome(None)) for number, _ in self._open_permissions.values()]
        self._open_permissions.clear()
        return [*held, *self._cancel()]

    def answer(self, order: Answer) -> list[Line]:
        held = self._open_permissions.pop(order.ask, None)
        if held is None:
            return []
        number, choices = held
        return [wire.answer(number, _outcome(self._tools.choose(choices, order.text)))]

    def _cancel(self) -> list[Line]:
        return [wire.notification("session/cancel", {"sessionId": self._session})] if self._at_work else []

    def exited(self, end: End) -> list[AgentEvent]:
        said = self._pause()
        if self._over:
            return said
        program = self._preset.called or self._preset.program
        return [
            *said,
            *error_words.no_result(program, end.code, end.stderr, text=self._said, hints=self._hints),
        ]

    # --- our requests and their answers

    def _ask(self, method: str, parameters: dict[str, object]) -> Line:
        self._number += 1
        self._waiting[str(self._number).encode()] = method
        return wire.request(self._number, method, parameters)

    def _on_answer(self, method: str, result: Raw) -> list[Heard]:
        match method:
            case "initialize":
                return self._on_initialized(msgspec.json.decode(result, type=wire.InitializeReply))
            case "authenticate":
                return [self._open()]
            case "session/new" | "session/load":
                return self._on_session_opened(
                    msgspec.json.decode(result, type=wire.SessionReply | None) or wire.SessionReply()
                )
            case "session/prompt":
                return self._on_turn_ended(decode(wire.TURNED, result))
            case _:
                return [self._next()]

    def _on_initialized(self, agent: wire.InitializeReply) -> list[Heard]:
        if agent.protocol_version != wire.VERSION:
            words = f"it speaks version {agent.protocol_version} of ACP, corral version {wire.VERSION}"
            return self._end(Ended(ok=False, error=Failure("bad_output", words)))
        self._agent = agent
        takes = agent.agent_capabilities.prompt_capabilities
        if self._task.images and not (takes and takes.image):
            return self._end(Ended(ok=False, error=Failure("refused", "it takes no images", "leave --image out")))
        if self._preset.login_first and (login := self._login()):
            return [login]
        return [self._open()]

    def _login(self) -> Line | None:
        offered = any(method.id == self._preset.login_method for method in self._agent.auth_methods)
        if self._tried_login or not offered:
            return None
        self._tried_login = True
        return self._ask("authenticate", {"methodId": self._preset.login_method})

    def _open(self, *, fresh: bool = False) -> Line:
        given = wire.servers(self._task.mcp, self._agent.agent_capabilities.mcp_capabilities)
        parameters: dict[str, object] = {"cwd": self._task.workspace, "mcpServers": given}
        if self._preset.meta:
            parameters["_meta"] = self._preset.meta
        if self._task.session and self._agent.agent_capabilities.load_session and not fresh:
            return self._ask("session/load", {**parameters, "sessionId": self._task.session})
        return self._ask("session/new", parameters)

    def _on_session_opened(self, opened: wire.SessionReply) -> list[Heard]:
        self._session = opened.session_id or self._task.session or ""
        if not self._session:
            return self._end(Ended(ok=False, error=Failure("bad_output", "it opened a session without a name")))
        version = self._agent.agent_info.version if self._agent.agent_info else None
        current = opened.models.current_model_id if opened.models else None
        choice = next((each for each in opened.config_options or () if each.category == "model"), None)
        if choice and isinstance(choice.current_value, str):
            current = choice.current_value
        started = Started(self._session, self._task.model or current, version)
        mode = self._preset.modes[2 if self._task.read_only else 1 if self._ruled or not self._task.boxed else 0]
        if mode and opened.modes and mode in [each.id for each in opened.modes.available_modes]:
            self._before.append(("session/set_mode", {"sessionId": self._session, "modeId": mode}))
        if self._task.model:
            offered = (
                wire.values(choice)
                if choice
                else [m.model_id for m in opened.models.available_models]
                if opened.models
                else []
            )
            if self._task.model not in offered:
                words = f"it does not offer the model `{self._task.model}`"
                hint = f"it offers: {', '.join(offered[:20])}" if offered else "it offers no choice of models"
                return [started, *self._end(Ended(ok=False, error=Failure("not_found", words, hint)))]
            self._before.append(self._choose(choice))
        return [started, self._next()]

    def _choose(self, choice: wire.Option | None) -> tuple[str, dict[str, object]]:
        if choice:
            named: dict[str, object] = {"sessionId": self._session, "configId": choice.id, "value": self._task.model}
            return "session/set_config_option", named
        return "session/set_model", {"sessionId": self._session, "modelId": self._task.model}

    def _next(self) -> Line:
        if self._before:
            return self._ask(*self._before.pop(0))
        return self._prompt(self._task.prompt, () if self._task.session else self._task.images)

    def _prompt(self, text: str, images: Sequence[TaskImage] = ()) -> Line:
        self._at_work = True
        blocks: list[dict[str, object]] = [{"type": "text", "text": text}]
        blocks.extend({"type": "image", "mimeType": image.media_type, "data": image.data} for image in images)
        return self._ask("session/prompt", {"sessionId": self._session, "prompt": blocks})

    def _on_refused(self, method: str, problem: wire.RpcProblem) -> list[Heard]:
        if method == "session/load":  # it has forgotten: what was done lies in the workspace all the same
            return [self._open(fresh=True)]
        login_needed = problem.code == wire.LOGIN_NEEDED
        if login_needed and method == "session/new" and (login := self._login()):
            return [login]
        code = token_count(problem.code)
        known = code if 400 <= code <= 599 else None
        status = 401 if login_needed or method == "authenticate" else known
        said = self._pause()
        words = wire.problem_words(problem) or f"it refused {method}"
        if login_needed and (methods := [each.id for each in self._agent.auth_methods]):
            words += f" (it offers to authenticate by: {', '.join(methods[:10])})"
        return [
            *said,
            *self._spent_events(),
            *self._end(*error_words.failed(status, words, text=self._said, hints=self._hints)),
        ]

    # --- the end of a turn

    def _on_turn_ended(self, turned: wire.PromptReply) -> list[Heard]:
        events: list[Heard] = [*self._pause()]
        self._count(turned)
        events += self._spent_events()
        if turned.stop_reason != "end_turn":
            return [*events, *self._end(self._stopped_event(turned.stop_reason))]
        bad = self._preset.bad_words
        if bad and self._said.startswith(bad):
            return [*events, *self._end(*error_words.failed(None, self._said.removeprefix(bad), hints=self._hints))]
        if self._steers:
            steers, self._steers = self._steers, []
            return [*events, *(SteerTaken(text) for text in steers), self._prompt("\n\n".join(steers))]
        tools = self._tools
        return [
            *events,
            *self._end(error_words.ended_well(self._said, used_tools=tools.were_used, denied=tools.denied)),
        ]

    def _stopped_event(self, reason: str) -> Ended:
        if reason == "cancelled":
            return Ended(ok=False, text=self._said, status="stopped")
        failure = STOPPED.get(reason, Failure("bad_output", f"it stopped: {reason}"))
        return Ended(ok=False, text=self._said, error=failure)

    def _end(self, *last: AgentEvent) -> list[Heard]:
        self._over, self._at_work = True, False
        return [*last, HangUp()]

    def _count(self, turned: wire.PromptReply) -> None:
        usage, counted = turned.usage, wire.quota(turned.meta)
        turn, self._turn_tokens = self._turn_tokens, Tokens()
        if usage and turn == Tokens():
            turn = self._tokens_of(usage)
        elif counted and turn == Tokens():
            turn = reported_tokens(counted.input_tokens, counted.output_tokens)
        if self._preset.tokens != "no":
            self._tokens = turn if self._preset.tokens == "whole" else self._tokens + turn

    def _spent_events(self) -> list[AgentEvent]:
        known = self._tokens != Tokens() or self._usd is not None
        return [Spent(self._tokens, self._usd)] if known else []

    # --- what it tells and asks of its own accord

    def _on_message(self, method: str, message: wire.Message) -> list[Heard]:
        if message.id is UNSET:
            # What it tells while it opens a session is the past: that of a session it has loaded.
            return [*self._on_update(decode(wire.UPDATED, message.params).update)] if self._listens_to(method) else []
        if method != "session/request_permission":
            return [wire.refusal(message.id, wire.NO_SUCH_METHOD, f"corral does not offer {method}")]
        permission = decode(wire.PERMISSION, message.params)
        events, question, choice = self._tools.ask(permission)
        judged = self._task.asks or self._ruled
        if judged and choice and choice.kind.startswith("allow"):
            ask = bytes(message.id).decode(errors="replace")
            self._open_permissions[ask] = (message.id, permission.options)
            words, default = self._tools.answers_and_default(permission.options)
            asked = Asked(question, ask=ask, choices=words, default=default)
            if self._ruled:
                tool, arguments = self._tools.call_of(permission)
                asked = structs.replace(asked, tool=tool, arguments=arguments, grant=_option_name(choice))
            return [*self._pause(), *events, asked]
        asked = Asked(question, answer=choice.name or choice.kind if choice else "none of its answers fits")
        return [*self._pause(), *events, asked, wire.answer(message.id, _outcome(choice))]

    def _listens_to(self, method: str) -> bool:
        return method == "session/update" and self._at_work

    def _on_update(self, update: wire.Update) -> list[AgentEvent]:
        match update.session_update:
            case "agent_message_chunk":
                return self._piece(update)
            case "tool_call" | "tool_call_update":
                return [*self._pause(), *self._tools.update(update)]
            case "plan":
                return [*self._pause(), Planned(tuple(Step(each.content, each.status) for each in update.entries))]
            case "usage_update":
                paused = [] if self._message else self._pause()  # without names of messages, this parts them
                paused += _filled_events(update)
                if not update.cost or update.cost.currency != "USD":
                    return paused
                self._usd = usd_or_none(update.cost.amount)
                return [*paused, *self._spent_events()]
            case _:
                return []

    def _piece(self, update: wire.Update) -> list[AgentEvent]:
        usage = wire.meta(update.meta).usage
        self._turn_tokens += self._tokens_of(usage) if usage else Tokens()
        text = wire.text(update.content)
        if not text:
            return []
        before = self._pause() if update.message_id != self._message else []
        self._message = update.message_id
        self._saying += text
        return before

    def _pause(self) -> list[AgentEvent]:
        """Tell what it said in pieces as one."""
        text, self._saying = self._saying.strip(), ""
        self._said = text or self._said
        return [Said(text)] if text else []

    def _tokens_of(self, usage: wire.TokenUsage) -> Tokens:
        return reported_tokens(
            usage.input_tokens,
            usage.output_tokens,
            usage.cached_read_tokens,
            usage.cached_write_tokens,
            counts_cached=self._preset.counts_cached,
        )


def _filled_events(update: wire.Update) -> list[AgentEvent]:
    used, size = token_count(update.used), token_count(update.size)
    return [ContextUsed(used, size or None)] if used else []


def _outcome(choice: wire.PermissionChoice | None) -> dict[str, object]:
    chosen: dict[str, object] = {"outcome": "cancelled"}
    if choice:
        chosen = {"outcome": "selected", "optionId": choice.option_id}
    return {"outcome": chosen}


class _AcpCall(Struct):
    """One use of a tool, as far as it is known."""

    name: str = "tool"
    title: str = ""
    kind: str | None = None
    words: str = ""
    paths: dict[str, None] = field(default_factory=dict[str, None])
    output: str = ""
    arguments: dict[str, str] = field(default_factory=dict[str, str])
    announced: bool = False
    over: bool = False


class AcpTools:
    def __init__(self, *, read_only: bool) -> None:
        self._read_only = read_only
        self._calls: dict[str, _AcpCall] = {}
        self.denied: dict[str, None] = {}

    @property
    def were_used(self) -> bool:
        return bool(self._calls)

    def update(self, update: wire.Update) -> list[AgentEvent]:
        """Take in an update of a call; report the call once its arguments are known, and once it is over."""
        call = self._learn(update)
        if call.over:
            return []
        ready = bool(call.words) if update.session_update == "tool_call" else update.status in ("in_progress", *OVER)
        events = self._announce_call(call, update.tool_call_id) if ready else []
        if update.status not in OVER:
            return events
        call.over, ok = True, update.status == "completed"
        changed: list[AgentEvent] = [Changed(path) for path in call.paths] if ok and call.kind in WRITING else []
        return [*events, ToolReturned(update.tool_call_id, ok, call.output[: wire.MOST_TEXT]), *changed]

    def ask(self, asked: wire.Permission) -> tuple[list[AgentEvent], str, wire.PermissionChoice | None]:
        """Decide whether it may: return the events, the question, and the choice; None where none fits."""
        call = self._learn(asked.tool_call)
        events = self._announce_call(call, asked.tool_call.tool_call_id)
        refused = self._read_only and call.kind in CHANGING
        refusals, grants = ("reject_once", "reject_always"), ("allow_once", "allow_always")
        # One who offers refusals alone gets one: `cancelled` is for a turn that was cancelled.
        wanted = refusals if refused else (*grants, *refusals)
        question = f"may it use {call.name}: {call.title or call.words}"[: wire.MOST_TEXT]
        choice = _first(asked.options, wanted)
        if refused or (choice is not None and choice.kind in refusals):
            self.denied[call.name if call.name != "tool" else call.kind or "tool"] = None
        return events, question, choice

    def call_of(self, asked: wire.Permission) -> tuple[str, dict[str, str]]:
        """Return the call that it asks leave for, as rules for tools see it."""
        call = self._calls[asked.tool_call.tool_call_id]
        if call.arguments or call.kind != "execute":
            return call.name, call.arguments or {"path": next(iter(call.paths), call.title)}
        return call.name, {"command": call.title.strip("`")}

    def answers_and_default(self, options: Sequence[wire.PermissionChoice]) -> tuple[tuple[str, ...], str]:
        """Return a permission's answers as words, and the one that holds if nobody answers: no."""
        refusal = _first(options, ("reject_once", "reject_always"))
        words = tuple(dict.fromkeys(_option_name(option) for option in options))
        return (words, _option_name(refusal)) if refusal else ((*words, REFUSED), REFUSED)

    def choose(self, options: Sequence[wire.PermissionChoice], words: str) -> wire.PermissionChoice | None:
        """Return the answer that a user's words name; None refuses without one."""
        found = next((option for option in options if _option_name(option) == words), None)
        if found is None or not found.kind.startswith("allow"):
            self.denied["tool"] = None
        return found

    def _announce_call(self, call: _AcpCall, number: str) -> list[AgentEvent]:
        if call.announced:
            return []
        call.announced = True
        return [CalledTool(call.name, call.words or call.title, number)]

    def _learn(self, update: wire.Update) -> _AcpCall:
        call = self._calls.setdefault(update.tool_call_id, _AcpCall())
        call.kind = update.kind or call.kind
        call.name = (
            update.name or wire.meta(update.meta).tool_name or (call.kind if call.name == "tool" else "") or call.name
        )
        call.title = update.title or call.title
        if bytes(update.raw_input) not in (b"", b"{}", b"null"):
            call.arguments = call_arguments(update.raw_input) or call.arguments
            words, path = main_argument(update.raw_input)
            call.words = words or call.words
            call.paths |= {path: None} if path and call.kind in WRITING else {}
        call.paths |= {place.path: None for place in update.locations or () if place.path}
        found = wire.pieces(update.content)
        call.paths |= {piece.path: None for piece in found if piece.type == "diff" and piece.path}
        texts = [piece.content.text for piece in found if piece.content and piece.content.text]
        call.output = "\n".join(texts) or _output(update.raw_output) or call.output
        return call


def _option_name(option: wire.PermissionChoice) -> str:
    return option.name or option.kind or option.option_id


def _first(options: Sequence[wire.PermissionChoice], kinds: Sequence[str]) -> wire.PermissionChoice | None:
    return next((option for kind in kinds for option in options if option.kind == kind), None)


class _Output(Struct):
    output: str = ""
    content: str = ""
    message: str = ""


_OUTPUT = msgspec.json.Decoder(str | _Output)


def _output(raw: Raw) -> str:
    try:
        output = _OUTPUT.decode(raw)
    except UNREADABLE:
        return ""
    return output if isinstance(output, str) else output.output or output.content or output.message
