"""The methods and paths of a model provider's API that an agent needs: only they pass with the key."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

MOST_SHOWN = 200
#: A version, and what gateways put before it: `/v1`, `/v1beta`, `/openai/v1`, `/api/v1`.
VERSION = r"(?:/(?:openai|anthropic|api|inference))?(?:/v\d\w{0,8})?(?:/openai)?"
NAME = r"[\w.:@+~-]+(?:/[\w.:@+~-]+){0,3}"  #: of a model; some have slashes
OPENAI = {
    "costs": rf"POST {VERSION}/(?:chat/completions|responses|responses/compact|completions|embeddings)",
    "free": rf"POST {VERSION}/responses/input_tokens|GET {VERSION}/models(?:/{NAME})?",
}
ANTHROPIC = {
    "costs": rf"POST {VERSION}/messages",
    "free": rf"POST {VERSION}/messages/count_tokens|GET {VERSION}/models(?:/{NAME})?",
}
#: Vertex AI puts the project before the model.
MODEL = rf"{VERSION}(?:/projects/[\w.:-]+/locations/[\w-]+)?(?:/publishers/\w+)?/(?:tunedModels|models)/[\w.@-]+"
GEMINI = {
    "costs": rf"POST {MODEL}:(?:generateContent|streamGenerateContent|embedContent|batchEmbedContents)",
    "free": rf"POST {MODEL}:countTokens|GET {VERSION}/models|GET {MODEL}",
}
OLLAMA = {
    "costs": rf"POST /api/(?:chat|generate|embed|embeddings)|{OPENAI['costs']}",
    "free": rf"POST /api/show|GET /api/(?:tags|ps|version)|{OPENAI['free']}",
}
#: By the variable that says where an agent's provider is.
APIS = {
    "ANTHROPIC_BASE_URL": (ANTHROPIC,),
    "OPENAI_BASE_URL": (OPENAI,),
    "GOOGLE_GEMINI_BASE_URL": (GEMINI, OPENAI),
    "OLLAMA_HOST": (OLLAMA,),
}
ASIDE = re.compile(r"POST /api/(?!v\d|chat|generate|embed).*")  #: what agents that log in report there besides
ALWAYS = r"(?:GET|HEAD) /"  #: agents look so whether anybody is there


class ApiPaths(Struct, frozen=True):
    """What passes for one agent."""

    agent: str
    costing: re.Pattern[str]
    free: re.Pattern[str]
    everything: bool = False  #: nothing is refused: the agent logs in by itself

    def refusal(self, method: str, path: str) -> str | None:
        """Return why a request may not pass, None when it may; `path` is below the provider's base URL."""
        asked = f"{method} {path}"
        if self.everything or self.costing.fullmatch(asked) or self.free.fullmatch(asked):
            return None
        shown = asked[:MOST_SHOWN]
        return f'{shown} does not pass with the key; to allow it: [agents.{self.agent}] paths = ["{shown}"]'

    def costs(self, method: str, path: str) -> bool:
        """Return whether a request may cost money."""
        asked = f"{method} {path}"
        return method == "POST" and not self.free.fullmatch(asked) and not (self.everything and ASIDE.fullmatch(asked))


def api_paths(agent: str, address: str, more: Sequence[str], *, everything: bool = False) -> ApiPaths:
    """Return what passes for an agent whose provider is named by a variable; `more` is what settings allow besides."""
    apis = APIS.get(address, (ANTHROPIC, OPENAI, GEMINI))
    own = [_pattern(word) for word in more]
    costing = "|".join([*(api["costs"] for api in apis), *own])
    free = "|".join([ALWAYS, *(api["free"] for api in apis)])
    return ApiPaths(agent, re.compile(costing), re.compile(free), everything)


def _pattern(word: str) -> str:
    """Return the pattern of one entry of `paths`; `*` stands for one step of a path."""
    return re.escape(word).replace(r"\*", r"[^/]+").replace(r"\ ", " ")
