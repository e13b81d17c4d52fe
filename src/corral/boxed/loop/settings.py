"""The settings of the loop: the task from its arguments, the model from its environment."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from corral.model import Failure
from corral.version import __version__

Provider = Literal["ollama", "openai", "anthropic", "google"]
Mode = Literal["auto", "tools", "text"]

#: For each provider: where its address and its key are in the environment.
ADDRESS: dict[str, str] = {
    "ollama": "OLLAMA_HOST",
    "openai": "OPENAI_BASE_URL",
    "anthropic": "ANTHROPIC_BASE_URL",
    "google": "GOOGLE_GEMINI_BASE_URL",
}
KEY: dict[str, tuple[str, ...]] = {
    "ollama": ("OLLAMA_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
}
KEYS = frozenset(name for names in KEY.values() for name in names)
OLLAMA_PORT = 11434
NO_KEY = "none"  #: for endpoints that ask for none; the clients insist on one


class Unready(Exception):
    """Nothing can be asked of a model with these settings."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class LoopSettings(Struct, frozen=True, kw_only=True):
    provider: Provider
    model: str
    session: str = ""  #: continue this one
    read_only: bool = False
    hook: str = ""  #: the file that says where to ask before a tool is used; empty: nobody is asked
    images: tuple[str, ...] = ()  #: files that go with the prompt
    mode: Mode = "auto"
    responses: bool = False  #: OpenAI's newer API; only OpenAI itself is sure to have it
    turns: int = 50
    most_output: int = 30_000  #: characters that a tool may give back
    most_tokens: int | None = None
    base_url: str | None = None
    key: str = NO_KEY


def read(arguments: Sequence[str], environment: Mapping[str, str]) -> LoopSettings:
    """Read the command line and the environment; `Unready` says what is missing."""
    parser = argparse.ArgumentParser(prog="python -m corral.boxed.loop", description=__doc__)
    parser.add_argument("provider", choices=sorted(ADDRESS))
    parser.add_argument("model")
    parser.add_argument("--session", default="")
    parser.add_argument("--read-only", action="store_true")
    parser.add_argument("--hook", default="")
    parser.add_argument("--image", action="append", default=[])
    parser.add_argument("--version", action="version", version=__version__)
    given = parser.parse_args(arguments)
    provider: Provider = given.provider
    address = environment.get(ADDRESS[provider]) or None
    key = next((environment[name] for name in KEY[provider] if environment.get(name)), None)
    if key is None and address is None and provider != "ollama":
        raise Unready(Failure("auth", f"there is no key for {provider}", f"set {KEY[provider][0]}"))
    mode = environment.get("CORRAL_LOOP_MODE", "auto")
    if mode not in ("auto", "tools", "text"):
        raise Unready(Failure("crash", f"CORRAL_LOOP_MODE is {mode!r}", "it is auto, tools or text"))
    api = environment.get("CORRAL_LOOP_API") or ("chat" if address else "responses")
    most_tokens = _number(environment, "CORRAL_LOOP_MAX_TOKENS", 0)
    return LoopSettings(
        provider=provider,
        model=given.model,
        session=given.session,
        read_only=given.read_only,
        hook=given.hook,
        images=tuple(given.image),
        mode=mode,
        responses=provider == "openai" and api == "responses",
        turns=_number(environment, "CORRAL_LOOP_TURNS", 50),
        most_output=_number(environment, "CORRAL_LOOP_OUTPUT", 30_000),
        most_tokens=most_tokens or None,
        base_url=f"{ollama_url(address or '')}/v1" if provider == "ollama" else address,
        key=key or NO_KEY,
    )


def ollama_url(host: str) -> str:
    """Read OLLAMA_HOST as ollama itself does: scheme and port may be left out, and 0.0.0.0 means here."""
    scheme, _, rest = host.rpartition("://")
    name, _, path = rest.strip("/").partition("/")
    if not name.rpartition("]")[2].count(":"):
        ports = {"https": 443, "http": 80} if scheme else {}
        name = f"{name or 'localhost'}:{ports.get(scheme, OLLAMA_PORT)}"
    name = name.replace("0.0.0.0", "127.0.0.1")  # noqa: S104 -- it is where a server listens, not where one connects
    if name.startswith(":"):
        name = f"localhost{name}"
    return f"{scheme or 'http'}://{name}" + (f"/{path}" if path else "")


def _number(environment: Mapping[str, str], name: str, standard: int) -> int:
    text = environment.get(name, "")
    if not text:
        return standard
    if not text.isdecimal() or not int(text):
        raise Unready(Failure("crash", f"{name} is {text!r}", "give a whole number above 0"))
    return int(text)
