"""What passes between the engine and an agent's file: what is known of it, what it is asked, what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from corral.model.flow import Grade, TaskImage

Method = Literal["cli", "acp", "api"]

OutputFormat = Literal["text", "json", "jsonl", "regex", "claude", "acp"]  #: how what a command agent prints is read
PolicyWay = Literal["hook", "permissions", "no"]  #: how an agent program is held to the rules for tools


class AgentProfile(Struct, frozen=True, kw_only=True):
    """What configuration says about one agent; `[agents.NAME]` of config.toml and corral.toml."""

    #: an agent of your own that is this known one, with what is said here besides; its table applies too
    like: str | None = None  #: the known agent that this one is, but for what is said here
    #: how a known agent is driven: by its own command line, by the Agent Client Protocol (as `acp:NAME`), or only
    #: its models, by our own loop (`claude` as `anthropic`, `codex` as `openai`, `gemini` as `google`)
    method: Method | None = None  #: how it is driven, where there are several ways
    #: where the program of a built-in agent lies; else it is looked for on `PATH`
    program: str | None = None
    #: the model to ask for; for `scripted` the script to play
    model: str | None = None
    #: where `auto` chose it: a model by grade, `models = {complex = "opus", simple = "haiku"}`
    models: Mapping[Grade, str] = field(default_factory=dict[Grade, str])  #: where `auto` chose the agent: by grade
    #: names of variables that are passed on from your environment; nothing else is
    env: tuple[str, ...] = ()
    #: variables set here, name = value
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    #: hosts it talks to besides those known of it: reachable from its box
    hosts: tuple[str, ...] = ()
    #: methods and paths of its provider's API that pass with its key besides those an agent needs, as `GET
    #: /v1/files`; `*` is one step of a path
    paths: tuple[str, ...] = ()  #: of its provider's API, as `METHOD /path`: they pass with its key too
    #: any program as an agent; `{prompt}`, `{file}`, `{model}`, `{workspace}` are filled in
    command: tuple[str, ...] = ()
    #: for a `command`: what `corral attach` starts on your terminal, with the same placeholders but `{prompt}` and
    #: `{file}`
    interactive: tuple[str, ...] = ()  #: what a user works with by hand, on a terminal
    #: how it gets the task: as an argument, on stdin, or in a file
    prompt: Literal["argument", "stdin", "file"] = "argument"
    #: how what it prints is read
    output: OutputFormat = "text"
    #: the field (json, jsonl) or pattern (regex) that holds its answer
    result: str | None = None
    #: a field that must be true or `field=value` (json, jsonl); a pattern that must occur (text, regex)
    success: str | None = None
    #: the field or pattern that holds its cost
    cost: str | None = None
    #: the field or pattern that holds its tokens
    tokens: str | None = None
    #: what that is counted in
    cost_unit: Literal["usd", "cents"] = "usd"  #: of what `cost` finds
    #: a fixed price for each attempt; a repository's file may only raise yours, else it needs trust
    cost_usd: float | None = None
    #: for a `command`: what its words say of a failure, `errors = {rate_limit = "429|rate limit"}`; retries and
    #: fallbacks go by it
    errors: Mapping[str, str] = field(default_factory=dict[str, str])  #: class of a failure -> pattern of its words
    #: for an ACP `command`: the id of the method to authenticate by, where it asks for that
    authenticate: str | None = None  #: the method by which an ACP agent is logged in to, by its id
    #: who tries next when it cannot, in this order; of its family
    fallback: tuple[str, ...] = ()
    #: agents of one family may stand in for each other
    family: str | None = None
    #: its role when none is asked for
    role: str | None = None
    #: skills that it is given for every task, besides those that are asked for
    skills: tuple[str, ...] = ()
    #: instructions before every task
    instructions: str | None = None
    #: requests to its provider on each account, of all runs together; the lowest applies
    requests_per_minute: int | None = None  #: to its provider, on each account, of all runs together
    #: try its key before anything starts, where its provider has a call that costs nothing; never a login
    try_key: bool = True
    #: which of `[accounts]` it uses unless asked otherwise; else whatever it is logged in with
    account: str | None = None  #: which of its accounts it uses unless asked otherwise
    #: when its account is limited, the next of its accounts continues
    rotate: bool = False  #: when the account is limited, the next of its accounts is used
    #: who allows what it asks leave for (ACP): the `box` alone, or `ask` a user besides
    permissions: Literal["box", "ask"] = "box"  #: who says what its tools may do: the box alone, or a user besides
    folder: str = ""  #: of the file that defines it; relative programs start there


class AccountProfile(Struct, frozen=True, kw_only=True):
    """One of several accounts of an agent; `[accounts.NAME]` of config.toml."""

    #: whose account it is; `--agent AGENT@NAME` asks for it
    agent: str
    #: where its login lies: the agent's config folder of that account
    folder: str | None = None  #: where its login lies: the agent's own config folder of that account, or a home
    #: the variable of yours that holds its key
    key_env: str | None = None  #: the variable that holds its key
    #: the variable in which the agent looks for that key; else the first of its own
    key_as: str | None = None  #: the variable in which the agent looks for it; else the first of its own
    #: variables set for it, name = value
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    base: str = ""  #: of the file that defines it; a relative folder lies there


class Hook(Struct, frozen=True, kw_only=True):
    """Something of the user's that runs at a moment of an attempt; outside the box, as the user."""

    #: the moment
    on: Literal["before_start", "before_prompt", "after_done", "after_failure"]
    #: a shell command of yours
    run: str | None = None  #: a shell command
    #: a function of yours, `module:function`
    python: str | None = None  #: `module:function`
    #: only for agents of this name (`*` fits all)
    agent: str = "*"
    #: only for this model
    model: str = "*"
    #: only for tasks of this type
    type: str = "*"
    file: str = ""  #: the repository's file that defines it; it starts in that file's folder
    fingerprint: str = ""  #: by which that file, and what it starts, was trusted


class Provider(Struct, frozen=True, kw_only=True):
    """Where an agent asks its model: it can be moved by a variable, so its key need not be in the box."""

    address: str  #: the variable
    standard: str = ""  #: what holds without it; empty: then it cannot be moved
    keys: tuple[str, ...]  #: variables whose value it sends there
    sends: str = ""  #: the variable that it reads the key from once it is moved; empty: the same


class McpProfile(Struct, frozen=True, kw_only=True):
    """What configuration says about one MCP server; `[mcp.NAME]` of config.toml and corral.toml."""

    #: the server's program and its arguments; a relative one is looked for beside the file
    command: tuple[str, ...] = ()
    #: names of variables that are passed on from your environment
    env: tuple[str, ...] = ()
    #: variables set here, name = value
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    folder: str = ""  #: of the file that defines it; relative programs start there


class ClientServer(McpProfile, frozen=True, kw_only=True):
    """An MCP server that an editor offers for a run: a program, or one that is reached by a URL."""

    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class McpServer(Struct, frozen=True, kw_only=True):
    """A program that offers an agent more tools, started by the agent itself inside its box; `[mcp.NAME]`.

    With a `url` it is there already, and speaks streamable HTTP; who cannot take that starts the command, which hands
    on to it.
    """

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class CallHook(Struct, frozen=True):
    """What an agent's program starts before each call of a tool, and where that asks the user's rules."""

    command: tuple[str, ...]
    url: str
    token: str


class ProgramVariant(Struct, frozen=True, kw_only=True):
    """Two programs go by one name: what to ask the one that is installed, and what holds if the sign is missing."""

    ask: tuple[str, ...]
    sign: str
    otherwise: tuple[str, str]  #: a setting of the agent and its value


class AgentFacts(Struct, frozen=True, kw_only=True):
    """What is known about an agent's program before it is asked."""

    name: str
    family: str
    programs: tuple[str, ...] = ()  #: names to look for on PATH
    version: tuple[str, ...] = ("--version",)
    place: str = ""  #: environment variable that names the folder it is installed in, where PATH cannot
    keys: tuple[str, ...] = ()  #: environment variables any of which lets it in
    address: tuple[str, ...] = ()  #: environment variables that say where its provider is
    hosts: tuple[str, ...] = ()  #: of its provider, unless an address says otherwise
    needless_hosts: tuple[str, ...] = ()  #: for updates and telemetry: it asks for them and works without them
    provider: Provider | None = None
    form: ProgramVariant | None = None
    login: tuple[str, ...] = ()  #: files below HOME that a login leaves; a private copy goes into the box
    resumes: bool = False
    conversation: tuple[str, ...] | None = None  #: folders below HOME that hold its sessions; None: not known
    reports_cost: bool = False
    reports_tokens: bool = True
    local: bool = False  #: its models run on a machine of one's own: they cost nothing
    oldest: str = ""  #: the first version that is known to work; an older one may not know our flags
    models: str = ""  #: what may be after the colon of --agent NAME:MODEL, by example
    mcp: bool = False  #: can be given MCP servers
    mcp_url: bool = False  #: takes those that are to be reached by a URL, always
    acp: str = ""  #: the command by which it speaks the Agent Client Protocol
    reads: tuple[str, ...] = ()  #: files of a repository that it takes for instructions by itself
    install: str = ""
    #: takes a JSON Schema itself: one of a table, only one that names all its fields; else the prompt asks for it
    schema: Literal["table", "strict", "no"] = "no"
    steers: Literal["live", "turn", "no"] = "no"  #: takes messages at its next step, when its turn ends, or not
    images: bool = False  #: takes images with its task
    #: by what the user's rules for tools hold: our hook before each call, what it asks leave for (ACP), or nothing
    rules: PolicyWay = "no"


class AgentTask(Struct, frozen=True, kw_only=True):
    """The attempt that an agent's file starts."""

    prompt: str
    workspace: str
    home: str
    model: str | None = None
    session: str | None = None  #: continue this one
    budget_usd: float | None = None
    read_only: bool = False
    interrupted: bool = False  #: that one was cut off and is to be finished; else it gets a new prompt
    boxed: bool = True  #: our sandbox holds it, so its own questions can be left out
    number: int = 1  #: which try this is
    mcp: tuple[McpServer, ...] = ()  #: programs with more tools for it
    images: tuple[TaskImage, ...] = ()  #: of a new session; each also lies in HOME, by `image_path`
    asks: bool = False  #: a user is asked what it may do, not the box alone
    ruled: bool = False  #: the user has rules for single tools
    hook: CallHook | None = None  #: asks those rules before each call, where its program has hooks
    placeholder: str = ""  #: what it gets in the place of its key
    schema: Mapping[str, Any] | None = None  #: what its output must fit, for agents that take one themselves


def image_path(task: AgentTask, image: TaskImage) -> str:
    """Return where an image lies in the box."""
    return f"{task.home}/images/{image.name}"


class Command(Struct, frozen=True, kw_only=True):
    """What to start: the only thing an agent's file hands to the machine."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    stdin: bytes = b""
    cwd: str | None = None  #: where it starts, if not in the workspace
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])  #: written below HOME first
    programs: tuple[str, ...] = ()  #: paths besides argv[0] that it must be able to read
    talks: bool = False  #: its stdin stays open after `stdin`, until its conversation hangs up
    read_back: tuple[str, ...] = ()  #: files below the workspace that its last word depends on


class Line(Struct, frozen=True):
    """Something to write to the agent's stdin; the newline is added."""

    text: str


class HangUp(Struct, frozen=True):
    """Close the agent's stdin: there is nothing more to tell it."""


class Leave(Struct, frozen=True):
    """A file to put where the agent looks for it, below its workspace."""

    path: str
    content: bytes


class Steer(Struct, frozen=True):
    """A message of a user while the agent works."""

    text: str


class Cancel(Struct, frozen=True):
    """Ask the agent to stop what it is doing, in its own protocol, before it gets a signal."""


class Pause(Struct, frozen=True):
    """Ask the agent to end its turn as it is, and to say what that came to; it continues in another session."""


Telling = Steer | Cancel | Pause


class Answer(Struct, frozen=True):
    """What a user answers a question that the agent waits for; `ask` names the question."""

    ask: str
    text: str


class End(Struct, frozen=True):
    """How the agent's program ended, and what was asked to be read back."""

    code: int
    stderr: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
