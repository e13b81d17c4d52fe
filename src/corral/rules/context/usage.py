"""How much of its model's window an agent has filled: by its own word, or by what passed to its provider."""

from __future__ import annotations

from collections.abc import Mapping

from corral.model import Tokens

STANDARD = 200_000  #: of a model that nobody knows
MOST_TOKENS = 1 << 40  #: more than that is no count


def window_of(model: str | None, windows: Mapping[str, int]) -> int:
    """Return how many tokens a model takes in: by the longest name in the table that its own begins with."""
    if not model:
        return STANDARD
    if model in windows:
        return windows[model]
    if model.endswith("[1m]"):  # as Claude Code writes the wide variant of a model
        return 1_000_000
    name = model.lower().rpartition("/")[2]
    fitting = [key for key in windows if key and name.startswith(key.lower())]
    return windows[max(fitting, key=len)] if fitting else STANDARD


class Gauge:
    """Follows one start of an agent."""

    def __init__(self, at: float, windows: Mapping[str, int], model: str | None = None) -> None:
        self._at, self._windows = at, windows
        self.model = model
        self.tokens = 0
        self._window: int | None = None
        self._tells = False

    @property
    def window(self) -> int:
        return self._window or window_of(self.model, self._windows)

    def note_reported(self, tokens: int, window: int | None = None) -> None:
        """Take the agent's own word for it: it knows which of its requests are its own, and not those of others."""
        self._tells = True
        self.tokens = _sane(tokens)
        self._window = window if window and window > 0 else self._window

    def note_metered(self, model: str | None, tokens: Tokens) -> None:
        """Add what passed; the tokens of an answer that go in come first, and begin a new request."""
        if self._tells:
            return
        asked = tokens.input + tokens.cache_read + tokens.cache_write
        self.tokens = _sane((0 if asked else self.tokens) + asked + tokens.output)
        self.model = self.model or model

    @property
    def over(self) -> bool:
        """Tell whether it is time to continue from a summary."""
        return self._at > 0 and self.tokens >= self._at * self.window

    def words(self) -> str:
        share = 100 * self.tokens // self.window
        return f"{self.tokens} tokens are {share} % of the window of {self.model or 'its model'} ({self.window})"


def _sane(tokens: int) -> int:
    return tokens if 0 <= tokens < MOST_TOKENS else 0
