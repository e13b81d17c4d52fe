"""A value that is shown nowhere, and what keeps it from coming back."""

from __future__ import annotations

import hmac

PLACEHOLDER = "***"
SHORTEST_MASKED = 8  #: what is shorter is in any text by chance


class SecretValue:
    """A key or a token; only `reveal` gives it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def matches(self, other: str) -> bool:
        """Compare in a time that does not tell how much was right."""
        return hmac.compare_digest(self._value.encode(), other.encode())

    def __repr__(self) -> str:
        return PLACEHOLDER

    def __reduce__(self) -> str:
        raise TypeError("a secret is not written down")


class KeyMask:
    """Puts the placeholder wherever the real key is in a stream, however the stream is cut into pieces."""

    def __init__(self, real: SecretValue, placeholder: str) -> None:
        self._real, self._placeholder = real, placeholder.encode()
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """Return what can be said now: all but an ending that may become the key."""
        real = self._real.reveal().encode()
        if len(real) < SHORTEST_MASKED:
            return piece
        data = (self._held + piece).replace(real, self._placeholder)
        held = next((size for size in range(min(len(real) - 1, len(data)), 0, -1) if real.startswith(data[-size:])), 0)
        self._held = data[len(data) - held :]
        return data[: len(data) - held]

    def end(self) -> bytes:
        held, self._held = self._held, b""
        return held

    def text(self, value: str) -> str:
        return (self.feed(value.encode("latin-1")) + self.end()).decode("latin-1")

    def __repr__(self) -> str:
        return PLACEHOLDER
