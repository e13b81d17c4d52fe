"""What tokens cost: by the person's own prices, the price library, or the shipped table; unknown is not 0."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import cache

from corral.model import Cost, Tokens
from corral.model.money import Price, PriceList

MILLION = 1_000_000
UNKNOWN = Cost()


class Prices:
    """All prices there are, at one time."""

    def __init__(self, known: PriceList, now: float) -> None:
        self._known, self._moment = known, datetime.fromtimestamp(now, UTC)

    def cost(self, model: str | None, tokens: Tokens, *, local: bool = False) -> Cost:
        """Return what one answer, or several as one, costs. Local models cost nothing."""
        if local:
            return Cost(0.0, "computed")
        usd = self._usd(model, tokens) if model else None
        return UNKNOWN if usd is None else Cost(usd, "computed")

    def knows(self, model: str | None) -> bool:
        return model is not None and self._usd(model, Tokens(1, 1)) is not None

    def usual(self, agent: str) -> Cost:
        """Return what an attempt of an agent costs about, the upper end; unknown where nobody says."""
        for file in (self._known.own, self._known.shipped):
            if agent in file.attempts:
                return Cost(file.attempts[agent].high, "estimated")
        return UNKNOWN

    def _usd(self, model: str, tokens: Tokens) -> float | None:
        tokens = Tokens(*(max(0, count) for count in _counts(tokens)))
        if own := _price_of(self._known.own.models, model):
            return _of_table(own, tokens)
        found = self._of_library(model, tokens)
        if found is None and (shipped := _price_of(self._known.shipped.models, model)):
            return _of_table(shipped, tokens)
        return found

    def _of_library(self, model: str, tokens: Tokens) -> float | None:
        from genai_prices import Usage, calc_price  # noqa: PLC0415 -- takes as long to load as all of corral

        usage = Usage(
            input_tokens=tokens.input + tokens.cache_read + tokens.cache_write,  # it counts what is cached in
            output_tokens=tokens.output,
            cache_read_tokens=tokens.cache_read,
            cache_write_tokens=tokens.cache_write,
        )
        for name in dict.fromkeys((model, model.rpartition("/")[2])):  # openrouter/anthropic/claude-...
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    return float(calc_price(usage, name, genai_request_timestamp=self._moment).total_price)
                except (LookupError, ValueError):
                    continue  # a name it lacks, or a unit that this model is not sold in
        return None


@cache
def window(model: str) -> int | None:
    """Return how many tokens a model holds, as the price library knows it; None for a name it lacks."""
    from genai_prices import data_snapshot  # noqa: PLC0415

    for name in dict.fromkeys((model, model.rpartition("/")[2])):
        try:
            _, found = data_snapshot.get_snapshot().find_provider_model(name, None, None, None)
        except LookupError:
            continue
        if found.context_window:
            return found.context_window
    return None


def load() -> None:
    """Load the library now: where time matters later, a thread can do it before."""
    Prices(PriceList(), 0.0).knows("claude-sonnet-4-5")


def _counts(tokens: Tokens) -> tuple[int, int, int, int]:
    return tokens.input, tokens.output, tokens.cache_read, tokens.cache_write


def _price_of(models: Mapping[str, Price], model: str) -> Price | None:
    if model in models:
        return models[model]
    fitting = [name for name in models if fnmatchcase(model, name)]
    return models[max(fitting, key=len)] if fitting else None


def _of_table(price: Price, tokens: Tokens) -> float:
    asked = tokens.input + tokens.cache_read + tokens.cache_write
    tiers = sorted((tier for tier in price.tiers if asked > tier.above), key=lambda tier: tier.above)
    rate = tiers[-1] if tiers else price
    read = rate.input if rate.cache_read is None else rate.cache_read
    write = rate.input if rate.cache_write is None else rate.cache_write
    whole = (
        tokens.input * rate.input + tokens.output * rate.output + tokens.cache_read * read + tokens.cache_write * write
    )
    return whole / MILLION
