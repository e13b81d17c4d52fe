"""The network of one attempt: its provider, with the key added outside; all other hosts by its scope."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import socket
from collections.abc import AsyncGenerator, Callable

from msgspec import structs

from corral import agents
from corral.boxed.loop.settings import ollama_url
from corral.machines.request_count import RequestCount
from corral.machines.resolved_agent import ResolvedAgent
from corral.model import Level, Net, Tokens
from corral.model.errors import CorralError
from corral.rules.money.metering import TokenMeter
from corral.rules.scope import hosts
from corral.rules.scope.hosts import ApiPaths, api_paths
from corral.world import package_managers
from corral.world.process import ProcessControl, ProcessStart
from corral.world.proxy.dialing import Dialer, chain
from corral.world.proxy.egress import Egress
from corral.world.proxy.listener import PATH, AnswerCall, Forward, RpcEndpoint
from corral.world.proxy.provider import Key, ProviderProxy, RequestLimiter, Upstream
from corral.world.proxy.secret import SecretValue

EGRESS, PROVIDER, TOOLBOX = 8118, 8119, 8120  #: ports on the box's own loopback
UNPRIVILEGED = 1024
MOST_REFUSED, MOST_SHOWN = 50, 300  #: requests that are reported, and characters of one
OWN: tuple[Level, ...] = ("full", "strict")  #: levels at which a box has a network of its own
REGISTRIES = "@registries"
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
OnReached = Callable[[str, int, bool, str], None]
OnMetered = Callable[[str | None, Tokens, int], None]  #: model, tokens, which answer


def is_open(level: Level, net: Net) -> bool:
    """Tell whether a box shares the machine's network: it was asked for, or the level has no other."""
    return level not in OWN or net == "on"


def is_metered(resolved: ResolvedAgent) -> bool:
    """Return whether an agent's requests to its provider pass by us: a key or an address, no login."""
    facts = resolved.agent.facts
    named = facts.provider and any(resolved.env.get(name) for name in (facts.provider.address, *facts.provider.keys))
    return facts.provider is not None and (facts.local or bool(named))


class Network:
    """What one box is connected to. Made before the box, served while it runs."""

    def __init__(self, level: Level, net: Net, reached: OnReached, *, whole: bool = False) -> None:
        self._reached = reached
        self.whole = whole  #: not an agent's: checks and setup see the workspace as it is
        self.own = not is_open(level, net)
        self.open = not self.own
        self.left: tuple[str, ...] = ()  #: variables whose keys are in the box after all
        self._words: list[str] = [] if net in ("on", "off") else [*net]
        self._registry_settings: dict[str, str] = {}  # settings of package clients for indexes
        self._upstream: Upstream | None = None
        self._key: Key | None = None
        self.placeholder = ""  #: what stands for the key in the box
        self._counter: _Counter | None = None
        self._paths: ApiPaths | None = None
        self._bound: dict[int, socket.socket] = {}  # where the box has no loopback of its own
        self._toolbox: tuple[SecretValue, AnswerCall] | None = None
        self.gate: RequestLimiter | None = None  #: of the account it asks on
        self._provider: ProviderProxy | None = None
        self._refused: set[str] = set()  # requests to it, as they were reported

    async def allow(self) -> None:
        """Look up what `@registries` stands for on this machine."""
        if REGISTRIES in self._words:
            # The user's own clients name them: a mirror in their own network is meant too.
            named = [f"private:{found.host}" for found in await package_managers.registries(os.environ)]
            self._words = [word for word in self._words if word != REGISTRIES] + named
            self._registry_settings = package_managers.settings(os.environ)

    def connect_agent(
        self, resolved: ResolvedAgent, metered: OnMetered, count: RequestCount, placeholder: str = ""
    ) -> ResolvedAgent:
        """Move the agent's provider to us, if it can be moved; else leave it its key, and let it reach its hosts.

        `placeholder` stands for the key in a box that is there already.
        """
        facts, profile = resolved.agent.facts, resolved.profile
        provider = facts.provider
        named = resolved.env.get(provider.address, "") if provider else ""
        present = [name for name in (provider.keys if provider else ()) if resolved.env.get(name)]
        url = provider_url(provider.address, named or provider.standard) if provider else ""
        if provider is None or not url or not is_metered(resolved):
            self.left = tuple(name for name in facts.keys if resolved.env.get(name))
            # Where its settings say it is to go, it may go: they are the user's, or trusted.
            addresses = [value for value in resolved.env.values() if value.startswith(("http://", "https://"))]
            self._words += [hosts.of_url(address, private=True) for address in addresses] or facts.hosts
            self._words += profile.hosts
            return resolved
        self._words += profile.hosts
        count.passed = count.passed or 0
        self._counter = _Counter(metered, count)
        everything = not (present or facts.local)  # without a key of ours, what it logs in with itself is its own
        self._paths = api_paths(resolved.name, provider.address, profile.paths, everything=everything)
        ca_file = resolved.env.get("NODE_EXTRA_CA_CERTS") or os.environ.get("NODE_EXTRA_CA_CERTS")
        self._upstream = Upstream(url, ca_file=ca_file)
        mask = self.placeholder = placeholder or f"sk-corral-{secrets.token_hex(16)}"
        if present:
            real = SecretValue(resolved.env[present[0]])
            self._key = Key(real=real, placeholder=mask, query=("key",), needed=not self.own)
        address = f"http://127.0.0.1:{self._port(PROVIDER)}"
        settings = {**profile.settings, provider.address: address}
        dropped = facts.keys if present else provider.keys  # its other logins work as they are
        env = {name: value for name, value in resolved.env.items() if name not in dropped}
        self.left = tuple(name for name in facts.keys if env.get(name))
        env[provider.address] = address
        if present:
            env[provider.sends or present[0]] = mask
        changed = structs.replace(profile, settings=settings)
        agent = agents.find(resolved.name, {resolved.name: changed})
        return structs.replace(resolved, agent=agent, profile=changed, env=env)

    def offer(self, token: SecretValue, answer: AnswerCall) -> str:
        """Let the box reach a toolbox; return its URL."""
        self._toolbox = token, answer
        return f"http://127.0.0.1:{self._port(TOOLBOX)}{PATH}"

    @property
    def counts_requests(self) -> bool:
        """Tell whether its requests to its provider pass by us."""
        return self._upstream is not None

    @property
    def trouble(self) -> str | None:
        """Return why the provider could not be reached from here: its agent only saw our own answer to that."""
        return self._provider.trouble if self._provider else None

    @property
    def listeners(self) -> tuple[int, ...]:
        """Return the ports on the box's own loopback that we answer."""
        if not self.own:
            return ()
        return (EGRESS, *self._answered_ports(), *self._loopback_ports())

    def _answered_ports(self) -> list[int]:
        """Return the ports of ours besides the proxy's."""
        return [*([PROVIDER] if self._upstream else []), *([TOOLBOX] if self._toolbox else [])]

    def _loopback_ports(self) -> list[int]:
        """Return the ports of this machine's own loopback that were named: programs speak to those without a proxy."""
        found = [re.fullmatch(r"(?:localhost|127\.0\.0\.1|\[::1\]):(\d+)", word) for word in self._words]
        ports = [int(each.group(1)) for each in found if each] if self.own else []
        # Those below 1024 nobody may listen on in the box: they are reached through the proxy.
        return [
            port for port in dict.fromkeys(ports) if port >= UNPRIVILEGED and port not in (EGRESS, PROVIDER, TOOLBOX)
        ]

    @property
    def env(self) -> dict[str, str]:
        if not self.own:
            return {}
        proxy = f"http://127.0.0.1:{EGRESS}"
        loopback = "localhost,127.0.0.1,::1"
        return {**self._registry_settings, **dict.fromkeys(PROXIES, proxy), "NO_PROXY": loopback, "no_proxy": loopback}

    @contextlib.asynccontextmanager
    async def serve(self, start: ProcessStart, talk: ProcessControl) -> AsyncGenerator[None]:
        """Answer for as long as the box runs; if we cannot, end the box and report our own failure."""
        async with contextlib.AsyncExitStack() as stack:
            serving = asyncio.create_task(self._serve(start, stack))
            serving.add_done_callback(lambda done: None if _went_well(done) else talk.end("lingered"))
            try:
                yield
            finally:
                serving.cancel()
                await asyncio.gather(serving, return_exceptions=True)
        if not _went_well(serving):
            serving.result()

    async def _serve(self, start: ProcessStart, stack: contextlib.AsyncExitStack) -> None:
        try:
            sockets = await start.listeners() if start.listeners else []
        except CorralError:
            return  # the box did not come up: what went wrong there says so itself
        dialer = Dialer(through=chain(os.environ))
        if sockets:
            rule = hosts.read(tuple(dict.fromkeys(self._words)))
            await stack.enter_async_context(Egress(sockets[0], rule, self._reached, dialer=dialer))
        ours = dict(zip(self._answered_ports(), sockets[1:], strict=False)) if self.own else self._bound
        if self._upstream and self._counter and PROVIDER in ours:
            self._provider = ProviderProxy(ours[PROVIDER], self._upstream, self._key, self._counter, dialer=dialer)
            self._provider.gate, self._provider.paths = self.gate, self._paths
            self._provider.denied = self._report_denied
            await stack.enter_async_context(self._provider)
        if self._toolbox and TOOLBOX in ours:
            await stack.enter_async_context(RpcEndpoint(ours[TOOLBOX], *self._toolbox))
        for listener, port in zip(
            sockets[len(sockets) - len(self._loopback_ports()) :], self._loopback_ports(), strict=True
        ):
            await stack.enter_async_context(Forward(listener, port))

    def _report_denied(self, asked: str, why: str) -> None:
        """Report a request to the provider that was refused, each once."""
        if self._upstream and asked not in self._refused and len(self._refused) < MOST_REFUSED:
            self._refused.add(asked)
            method, _, path = asked.partition(" ")
            self._reached(f"{method} {self._upstream.place}{path}"[:MOST_SHOWN], self._upstream.port, False, why)  # noqa: FBT003

    def _port(self, wanted: int) -> int:
        """Return the port at which the box finds us: where it has no loopback of its own, any of the machine's.

        There a word that only the box knows is what lets a request through.
        """
        if self.own:
            return wanted
        bound = self._bound[wanted] = socket.create_server(("127.0.0.1", 0))
        bound.setblocking(False)  # noqa: FBT003
        return int(bound.getsockname()[1])


class _Counter:
    """Counts requests to a provider, and meters their answers."""

    def __init__(self, metered: OnMetered, count: RequestCount) -> None:
        self._metered, self._count = metered, count

    async def enter(self) -> _MeteredRequest:
        return _MeteredRequest(await self._count.enter(), self._metered, self._count)


class _MeteredRequest:
    def __init__(self, number: int, metered: OnMetered, count: RequestCount) -> None:
        self._number, self._metered, self._count = number, metered, count

    def meter(self, content_type: str) -> TokenMeter:
        return TokenMeter(content_type, lambda model, tokens: self._metered(model, tokens, self._number))

    def end(self, *, charged: bool, known: bool, answered: bool) -> None:
        self._count.leave(self._number, charged=charged, known=known, answered=answered)


def _went_well(task: asyncio.Task[None]) -> bool:
    return task.cancelled() or task.exception() is None


def provider_url(variable: str, address: str) -> str:
    """Return the URL of a provider, as an agent's variable names it."""
    return ollama_url(address) if variable == "OLLAMA_HOST" else address
