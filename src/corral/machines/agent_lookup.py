"""An agent looked up on this machine: its settings, its program, and the account that it works on."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import structs

from corral import agents
from corral.agents import Agent
from corral.config.paths import is_file
from corral.config.settings import Config
from corral.machines.resolved_agent import ResolvedAgent, login_file
from corral.model.agent_api import AccountProfile, AgentProfile
from corral.model.errors import BadRequest

PYTHONS = (".venv", "venv", "apps/backend/.venv", "apps/backend/venv")


def resolve_agent(name: str, config: Config, account: str | None = None) -> ResolvedAgent:
    """Dress an agent: who it is, which variables it is given, and on which account it works."""
    if f"agents.{name}" in config.untrusted:
        raise config.refusal(f"agents.{name}", f"the agent `{name}` comes from a file you have not trusted")
    agent, profile = locate_agent(name, config)
    facts = agent.facts
    passed = {key: os.environ[key] for key in (*facts.keys, *facts.address, *profile.env) if key in os.environ}
    env = {**passed, **profile.settings}
    resolved = ResolvedAgent(name, agent, profile, env, config.hooks, config.mcp, config.budget)
    named = account or _usual(resolved, config.accounts)
    return _signed_in(resolved, config.accounts, named) if named else resolved


def locate_agent(name: str, config: Config) -> tuple[Agent, AgentProfile]:
    """Return an agent and its settings; of one that lies in a folder of its own, the interpreter is looked up there."""
    agent = agents.find(name, config.agents)
    profile = config.agents.get(name, AgentProfile())
    variable = agent.facts.place
    named = profile.program or os.environ.get(variable, "") if variable else ""
    if not named:
        return agent, profile
    folder = Path(profile.folder or ".").joinpath(Path(named).expanduser()).absolute()
    if is_file(folder):
        return agent, profile
    for python in (folder / part / "bin" / "python" for part in PYTHONS):
        if os.access(python, os.X_OK):
            profile = structs.replace(profile, program=str(python))
            return agents.find(name, {name: profile}), profile
    missing = structs.replace(profile, program=str(folder / ".venv" / "bin" / "python"))
    return agents.find(name, {name: missing}), missing


def _usual(resolved: ResolvedAgent, accounts: Mapping[str, AccountProfile]) -> str | None:
    """Return the account that is used where none is asked for; None: whatever the agent is logged in with."""
    if resolved.profile.account or not resolved.profile.rotate:
        return resolved.profile.account
    return next((name for name, account in accounts.items() if _fits(account, resolved)), None)


def _signed_in(resolved: ResolvedAgent, accounts: Mapping[str, AccountProfile], name: str) -> ResolvedAgent:
    """Give an agent one of its accounts: that key or that login, and no other."""
    account = accounts.get(name)
    if account is None or not _fits(account, resolved):
        known = [each for each, found in accounts.items() if _fits(found, resolved)]
        hint = f"it has: {', '.join(known)}" if known else f'[accounts.{name}] with agent = "{resolved.name}" makes one'
        raise BadRequest(f"`{resolved.name}` has no account `{name}`", hint=hint)
    facts = resolved.agent.facts
    env = {key: value for key, value in resolved.env.items() if key not in facts.keys} | {**account.settings}
    if account.key_env:
        env[_variable(account, name, facts.keys)] = _key(account.key_env, name)
    settings = {key: value for key, value in resolved.profile.settings.items() if key not in facts.keys}
    profile = structs.replace(resolved.profile, settings={**settings, **account.settings})
    names = [each for each, found in accounts.items() if _fits(found, resolved)]
    place = names.index(name)
    return structs.replace(
        resolved,
        agent=agents.find(resolved.name, {resolved.name: profile}),
        profile=profile,
        env=env,
        account=name,
        login=_folder(account, name, facts.login),
        others=(*names[place + 1 :], *names[:place]) if profile.rotate else (),
    )


def _fits(account: AccountProfile, resolved: ResolvedAgent) -> bool:
    return account.agent in (resolved.name, resolved.profile.like, resolved.agent.facts.name)


def _variable(account: AccountProfile, name: str, keys: Sequence[str]) -> str:
    if not (account.key_as or keys):
        raise BadRequest(
            f"[accounts.{name}] key_env: `{account.agent}` is known to take no key", hint="say where it looks: key_as"
        )
    return account.key_as or keys[0]


def _key(variable: str, name: str) -> str:
    if not os.environ.get(variable):
        raise BadRequest(f"the account `{name}` has no key: {variable} is not set", hint=f"export {variable}=...")
    return os.environ[variable]


def _folder(account: AccountProfile, name: str, files: Sequence[str]) -> Path | None:
    if not account.folder:
        return None
    folder = (Path(account.base) / Path(account.folder).expanduser()).absolute()
    if not any(login_file(folder, file) for file in files):
        wanted = " or ".join(Path(file).name for file in files) or "login"
        hint = f"log in once with `{account.agent}` using that folder as its own, or say key_env"
        raise BadRequest(f"the account `{name}` is not logged in: {folder} holds no {wanted}", hint=hint)
    return folder
