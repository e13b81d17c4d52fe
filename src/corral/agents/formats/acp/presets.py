"""Programs that speak ACP, as far as they differ: how each is started, whose settings it shares, what it leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from corral.model import ErrorClass
from corral.model.agent_api import PolicyWay


class Preset(Struct, frozen=True, kw_only=True):
    """What is known of one program that speaks ACP."""

    program: str
    called: str = ""  #: what messages call it, if not by its program
    arguments: tuple[str, ...] = ()
    kin: str = ""  #: our own agent for the same program: its settings, its keys and its login hold here too
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    model_flag: str = ""
    model_variable: str = ""
    modes: tuple[str, str, str] = ("", "", "")  #: in our box, outside it, and when nothing may be changed
    login_method: str = ""  #: to authenticate by, where it asks for that although it has its key
    login_first: bool = False  #: it asks for that before anything else
    tokens: Literal["turn", "whole", "no"] = "turn"  #: its usage is that of the turn, of all turns, or not to be used
    counts_cached: bool = False  #: its input tokens count those from a cache too
    reports_cost: bool = False
    tells_version: bool = True
    programs: tuple[str, ...] = ()  #: settings that name a program which it starts itself
    bad_words: str = ""  #: it ends well whatever happened; a last message that begins so tells what went wrong
    #: how the user's rules for tools are heard: by the hook of its kin, by what it asks leave for, or not at all
    rules: PolicyWay = "permissions"
    meta: Mapping[str, object] = field(default_factory=dict[str, object])  #: goes with a new session
    # Only for those without kin:
    family: str = ""
    keys: tuple[str, ...] = ()
    login: tuple[str, ...] = ()
    install: str = ""
    hints: Mapping[ErrorClass, str] = field(default_factory=dict[ErrorClass, str])


_CLAUDE = Preset(
    program="claude-agent-acp",
    kin="claude",
    rules="hook",
    model_variable="ANTHROPIC_MODEL",
    reports_cost=True,
    tells_version=False,
    programs=("CLAUDE_CODE_EXECUTABLE",),
    # A repository may switch the inner sandbox on; inside ours every command would then fail unseen.
    meta={"claudeCode": {"options": {"settings": {"sandbox": {"enabled": False}}, "strictMcpConfig": True}}},
    install="npm install -g @agentclientprotocol/claude-agent-acp",
)
_CODEX = Preset(
    program="codex-acp",
    kin="codex",
    rules="no",  # it leaves out hooks that no user has looked at, and asks for nothing once its sandbox is off
    # Inside our box its own sandbox cannot be made: every command would fail.
    modes=("agent-full-access", "workspace-write", "agent-full-access"),
    login_method="api-key",
    counts_cached=True,
    tells_version=False,
    programs=("CODEX_PATH",),
    install="npm install -g @agentclientprotocol/codex-acp",
)
ALIASES = ("claude-agent-acp", "codex-acp")  #: the same once more, by the name of the program
PRESETS: dict[str, Preset] = {
    "claude": _CLAUDE,
    "claude-agent-acp": _CLAUDE,
    "codex": _CODEX,
    "codex-acp": _CODEX,
    "copilot": Preset(
        program="copilot",
        arguments=("--acp", "--no-auto-update", "--disable-builtin-mcps"),
        kin="copilot",
        model_flag="--model",
        tokens="whole",
        counts_cached=True,
        bad_words="Error: ",
    ),
    "cursor": Preset(
        program="cursor-agent",
        arguments=("acp",),
        login_method="cursor_login",
        login_first=True,
        family="cursor",
        keys=("CURSOR_API_KEY", "CURSOR_AUTH_TOKEN"),
        login=(".config/cursor/auth.json",),
        install="see cursor.com/cli",
        hints={"auth": "log in with `cursor-agent login`, or set CURSOR_API_KEY"},
    ),
    "gemini": Preset(
        program="gemini",
        arguments=("--acp", "--skip-trust"),
        kin="gemini",
        model_flag="-m",
        login_method="gemini-api-key",
    ),
    "goose": Preset(
        program="goose",
        arguments=("acp",),
        env={"GOOSE_DISABLE_KEYRING": "1"},
        model_variable="GOOSE_MODEL",
        family="goose",
        keys=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY", "OPENROUTER_API_KEY"),
        login=(".config/goose/config.yaml", ".config/goose/secrets.yaml"),
        install="see block.github.io/goose",
        hints={"auth": "choose a provider with `goose configure`, or set GOOSE_PROVIDER and its key"},
    ),
    "opencode": Preset(
        program="opencode",
        arguments=("acp",),
        kin="opencode",
        rules="hook",
        tokens="no",  # those of its last step alone
        reports_cost=True,
    ),
    "qwen": Preset(
        program="qwen",
        arguments=("--acp",),
        kin="qwen",
        model_flag="--model",
        counts_cached=True,
        modes=("yolo", "default", "default"),  # by itself it asks the model whether it may
    ),
}  # fmt: skip
