"""The methods of the protocol: each reads its parameters and answers at once, or by work that takes a while."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from corral.agents.formats.acp import client_requests as asked
from corral.agents.formats.printed_json import UNREADABLE, decode
from corral.engine.chats import Chats
from corral.frontends.acp import commands, reports
from corral.frontends.acp.client import EditorClient
from corral.frontends.acp.failures import BAD_PARAMETERS, LOGIN_NEEDED, NO_SUCH_METHOD, Refused
from corral.frontends.acp.initialize import AGENT_LOGIN, TERMINAL_LOGIN
from corral.frontends.acp.prompts import read_prompt
from corral.frontends.acp.session import EditorSession

Result = dict[str, object] | Coroutine[Any, Any, dict[str, object]]
Answer = tuple[Result, Callable[[], None] | None]  #: and what is sent once it is answered


class Sessions:
    """The sessions that one client has open."""

    def __init__(self, client: EditorClient) -> None:
        self.client = client
        self.open: dict[str, EditorSession] = {}
        self.prompts: dict[bytes, str] = {}  #: the id of a request session/prompt, and its session

    def find(self, name: str) -> EditorSession:
        """Return an open session; one that is known but not open is opened."""
        if name not in self.open:
            self.open[name] = EditorSession(self.client, self.client.engine.chats.find(name))
        return self.open[name]

    async def close(self) -> None:
        await asyncio.gather(*(session.leave() for session in self.open.values()), return_exceptions=True)


def call(sessions: Sessions, number: Raw, method: str, parameters: Raw) -> Answer:
    """Answer a request."""
    if method == "session/prompt":
        return _prompt(sessions, number, _read(method, parameters, asked.Prompt)), None
    found = METHODS.get(method)
    if found is None:
        raise Refused(NO_SUCH_METHOD, f"there is no method `{method[:80]}`")
    kind, work = found
    return work(sessions, _read(method, parameters, kind))


def take_notification(sessions: Sessions, method: str, parameters: Raw) -> None:
    """Take a notification; one that is not known is ignored, as the protocol says."""
    if method == "session/cancel":
        session = sessions.open.get(_read(method, parameters, asked.SessionName).session_id)
        if session is not None:
            session.cancel()
    elif method == "$/cancel_request":
        named = _read(method, parameters, asked.CancelRequest).request_id
        name = sessions.prompts.get(msgspec.json.encode(named))
        if name is not None:
            sessions.open[name].cancel()


def _read(method: str, parameters: Raw, kind: Any) -> Any:  # noqa: ANN401 -- a struct of the kind that is asked for
    try:
        return decode(msgspec.json.Decoder(kind), parameters)
    except msgspec.ValidationError as error:
        raise Refused(BAD_PARAMETERS, f"{method}: {error}") from error
    except UNREADABLE as error:
        raise Refused(BAD_PARAMETERS, f"{method}: its parameters cannot be read") from error


# --- logins


def _authenticate(sessions: Sessions, wanted: asked.Authenticate) -> Answer:
    if wanted.method_id not in (AGENT_LOGIN, TERMINAL_LOGIN):
        raise Refused(BAD_PARAMETERS, f"there is no login method `{wanted.method_id[:80]}`", f"it is {AGENT_LOGIN}")

    async def look() -> dict[str, object]:
        found = await sessions.client.engine.examine()
        missing = [part for part in found.parts if not part.ok]
        if found.ok:
            sessions.client.logged_out = False
            return {}
        why = f"{missing[0].found}: {missing[0].remedy}" if missing else "no agent can run here"
        raise Refused(LOGIN_NEEDED, why, "corral doctor")

    return look(), None


def _logout(sessions: Sessions, _: object) -> Answer:
    """Ask this client to log in again before it opens a session; what is open and what runs is left alone."""
    sessions.client.logged_out = True
    return {}, None


def _check_login(sessions: Sessions) -> None:
    if sessions.client.logged_out:
        raise Refused(LOGIN_NEEDED, "this editor has logged out", f"authenticate with the method {AGENT_LOGIN}")


# --- sessions


def _new(sessions: Sessions, wanted: asked.NewSession) -> Answer:
    _check_login(sessions)
    engine = sessions.client.engine
    session = EditorSession(sessions.client, engine.chats.open(str(_folder(wanted.cwd)), {}))
    session.offer(wanted.mcp_servers)
    sessions.open[session.id] = session
    return {"sessionId": session.id, **session.state()}, lambda: _tell_commands(session)


def _load(sessions: Sessions, wanted: asked.OldSession) -> Answer:
    session = _reopen(sessions, wanted)
    last = reports.replay(session.engine, session.updates, session.record)

    def after() -> None:
        _tell_commands(session)
        session.follow_last(last)

    return session.state(), after


def _resume(sessions: Sessions, wanted: asked.OldSession) -> Answer:
    session = _reopen(sessions, wanted)
    last = session.last_event()

    def after() -> None:
        _tell_commands(session)
        session.follow_last(last)

    return session.state(), after


def _tell_commands(session: EditorSession) -> None:
    session.updates.send("available_commands_update", availableCommands=commands.list_commands())


def _reopen(sessions: Sessions, wanted: asked.OldSession) -> EditorSession:
    _check_login(sessions)
    session = sessions.find(wanted.session_id)
    folder = _folder(wanted.cwd)
    if str(folder) != session.folder:
        raise Refused(BAD_PARAMETERS, f"this session is about {session.folder}, not {folder}")
    session.offer(wanted.mcp_servers)
    return session


def _list(sessions: Sessions, wanted: asked.ListSessions) -> Answer:
    return _page(sessions.client.engine.chats, wanted), None


def _page(chats: Chats, wanted: asked.ListSessions) -> dict[str, object]:
    folder = str(Path(wanted.cwd).resolve()) if wanted.cwd else None
    found, following = chats.page(folder, wanted.cursor)
    rows = [
        {"sessionId": each.id, "cwd": each.folder, "title": each.title, "updatedAt": each.updated_at} for each in found
    ]
    return {"sessions": rows, **({"nextCursor": following} if following else {})}


def _close(sessions: Sessions, wanted: asked.SessionName) -> Answer:
    session = sessions.find(wanted.session_id)

    async def leave() -> dict[str, object]:
        session.detach()
        await session.leave()
        sessions.open.pop(session.id, None)
        return {}

    return leave(), None


def _delete(sessions: Sessions, wanted: asked.SessionName) -> Answer:
    sessions.client.engine.chats.find(wanted.session_id)
    session = sessions.find(wanted.session_id)

    async def forget() -> dict[str, object]:
        session.detach()
        await session.leave()
        sessions.open.pop(session.id, None)
        sessions.client.engine.chats.drop(session.id)
        return {}

    return forget(), None


def _folder(path: str) -> Path:
    """Return the folder that a client names: an absolute one that is there."""
    if not path.startswith("/") or "\0" in path:
        raise Refused(BAD_PARAMETERS, f"cwd {path[:200]!r}: not an absolute path")
    folder = Path(path).resolve()
    if not folder.is_dir():
        raise Refused(BAD_PARAMETERS, f"cwd {path[:200]}: there is no such folder")
    return folder


# --- a session's choices


def _set_mode(sessions: Sessions, wanted: asked.SetMode) -> Answer:
    session = sessions.find(wanted.session_id)
    changed = session.choose("strategy", wanted.mode_id)
    return {}, lambda: session.updates.send("config_option_update", configOptions=changed)


def _set_model(sessions: Sessions, wanted: asked.SetModel) -> Answer:
    session = sessions.find(wanted.session_id)
    changed = session.choose("agent", wanted.model_id)
    return {}, lambda: session.updates.send("config_option_update", configOptions=changed)


def _set_option(sessions: Sessions, wanted: asked.SetOption) -> Answer:
    session = sessions.find(wanted.session_id)
    if not isinstance(wanted.value, str):
        raise Refused(BAD_PARAMETERS, f"{wanted.config_id[:80]}: its value is one of a list, not yes or no")
    value = wanted.value
    changed = session.choose(wanted.config_id, value)
    if wanted.config_id != "strategy":
        return {"configOptions": changed}, None
    return {"configOptions": changed}, lambda: session.updates.send("current_mode_update", currentModeId=value)


# --- prompts


async def _prompt(sessions: Sessions, number: Raw, wanted: asked.Prompt) -> dict[str, object]:
    session = sessions.find(wanted.session_id)
    sessions.prompts[bytes(number)] = session.id
    try:
        return await session.prompt(wanted.prompt)
    finally:
        sessions.prompts.pop(bytes(number), None)


def _steer(sessions: Sessions, wanted: asked.Prompt) -> Answer:
    session = sessions.find(wanted.session_id)

    async def steer() -> dict[str, object]:
        if await session.steer(read_prompt(wanted.prompt, Path(session.folder)).task):
            return {"outcome": "injected"}
        return {"outcome": "promptRequired", "reason": "noRunningTurn"}

    return steer(), None


METHODS: dict[str, tuple[Any, Callable[[Sessions, Any], Answer]]] = {
    "authenticate": (asked.Authenticate, _authenticate),
    "logout": (dict, _logout),
    "session/new": (asked.NewSession, _new),
    "session/load": (asked.OldSession, _load),
    "session/resume": (asked.OldSession, _resume),
    "session/list": (asked.ListSessions, _list),
    "session/close": (asked.SessionName, _close),
    "session/delete": (asked.SessionName, _delete),
    "session/set_mode": (asked.SetMode, _set_mode),
    "session/set_config_option": (asked.SetOption, _set_option),
    "session/set_model": (asked.SetModel, _set_model),
    "_session/steering": (asked.Prompt, _steer),
}
