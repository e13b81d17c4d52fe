"""Costs: what tokens cost, by the user's prices or the price library, and sums of what was spent."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from fnmatch import fnmatchcase
from functools import cache

from msgspec import UNSET

from corral.model import Cost, Tokens
from corral.model.flow import known_as
from corral.model.money import By, CostRow, CostSum, CostTable, LimitStatus, Price, PriceList, Totals
from corral.model.values import SOURCES, token_count
from corral.rules.money.limits import quantile

PLAYED = ("scripted", "replay")  #: what they play is no model
LIKELY = 1000  #: tokens; fewer say nothing about a model's price
ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
MILLION = 1_000_000
UNKNOWN_PRICE = Cost()


def table(sums: Sequence[CostSum], by: By) -> CostTable:
    """Group what attempts cost; the dearest group first."""
    name: dict[By, Callable[[CostSum], str]] = {
        "agent": lambda each: each.agent,
        "account": lambda each: known_as(each.agent, each.account),
        "model": lambda each: each.model or "-",
        "repo": lambda each: each.repo,
        "task-kind": lambda each: each.type or "-",
    }
    return _table(by, sorted(_rows(sums, name[by]), key=lambda row: (-row.usd, row.key)), sums)


def day_table(quarters: Sequence[CostSum], sums: Sequence[CostSum], zone: tzinfo) -> CostTable:
    """Group what attempts cost by the days of a time zone; `sums` are of the same attempts."""
    rows = _rows(quarters, lambda each: datetime.fromtimestamp(each.at, zone).date().isoformat())
    return _table("day", sorted(rows, key=lambda row: row.key), sums)


def _table(by: By, rows: Sequence[CostRow], sums: Sequence[CostSum]) -> CostTable:
    paid = any(each.usd for each in sums)  # then what cost nothing does not say where the amount comes from
    known = [SOURCES.index(each.source) for each in sums if each.source != "unknown" and (each.usd or not paid)]
    worst = max(known, default=len(SOURCES) - 1)
    saved, against = _saving(sums)
    return CostTable(
        by=by,
        usd=round(sum(row.usd for row in rows), 6),
        source=SOURCES[worst],
        reserved_usd=round(sum(row.reserved_usd for row in rows), 6),
        rows=tuple(rows),
        notional_usd=round(sum(row.notional_usd or 0.0 for row in rows), 6),
        accounts=tuple(sorted({known_as(each.agent, each.account) for each in sums if each.notional})),
        saved_usd=saved,
        saved_against=against,
    )


def _rows(sums: Sequence[CostSum], key: Callable[[CostSum], str]) -> list[CostRow]:
    groups: defaultdict[str, list[CostSum]] = defaultdict(list)
    for each in sums:
        groups[key(each)].append(each)
    return [_row(name, found) for name, found in groups.items()]


def _row(key: str, sums: Sequence[CostSum]) -> CostRow:
    return CostRow(
        key=key,
        usd=round(sum(each.usd for each in sums), 6),
        reserved_usd=round(sum(each.reserved_usd for each in sums), 6),
        tokens=token_count(sum(each.tokens for each in sums)),
        attempts=sum(each.attempts for each in sums),
        done=sum(each.done for each in sums),
        seconds=round(sum(each.seconds for each in sums), 1),
        unknown=sum(each.unknown for each in sums),
        notional_usd=round(sum(each.notional_usd for each in sums), 6) or UNSET,
    )


def _saving(sums: Sequence[CostSum]) -> tuple[float | None, str | None]:
    """Tell what the same tokens would have cost more with the dearest model that was used."""
    models = [each for each in sums if each.model and each.agent not in PLAYED]
    known = [each for each in models if each.source in ("reported", "metered", "computed") and each.tokens]
    tokens: defaultdict[str, int] = defaultdict(int)
    usd: defaultdict[str, float] = defaultdict(float)
    for each in known:
        tokens[each.model or ""] += each.tokens
        usd[each.model or ""] += each.usd
    rates = {model: usd[model] / count for model, count in tokens.items() if count >= LIKELY}
    if len(rates) < 2:
        return None, None
    dearest = max(rates, key=lambda model: rates[model])
    saved = rates[dearest] * sum(tokens.values()) - sum(usd.values())
    return (round(saved, 6), dearest) if saved > 0 else (None, None)


def usual(paid: Sequence[float]) -> tuple[float, float, float] | None:
    """Return the range in which most attempts like this one cost, and what every other does not exceed."""
    return (quantile(paid, 0.1), quantile(paid, 0.5), quantile(paid, 0.9)) if len(paid) >= 3 else None


def prometheus(totals: Iterable[Totals], standings: Iterable[LimitStatus], gauges: Mapping[str, float]) -> str:
    """Write totals of all attempts, and the present state, in the text format of Prometheus."""
    spent: defaultdict[tuple[str, ...], float] = defaultdict(float)
    counts: defaultdict[tuple[str, ...], float] = defaultdict(float)
    tokens: defaultdict[tuple[str, ...], float] = defaultdict(float)
    held: defaultdict[tuple[str, ...], float] = defaultdict(float)
    for line in totals:
        spent[line.agent, line.model] += line.spent
        counts[line.agent, line.status] += line.attempts
        held[line.agent,] += line.reserved
        for kind in ("input", "output", "cache_read", "cache_write"):
            tokens[line.agent, kind] += getattr(line, kind)
    parts = [
        *_family("corral_spent_usd_total", "counter", "US dollars known to be spent", ("agent", "model"), spent),
        *_family("corral_attempts_total", "counter", "Attempts by how they ended", ("agent", "status"), counts),
        *_family("corral_tokens_total", "counter", "Tokens by kind", ("agent", "kind"), tokens),
        *_family(
            "corral_reserved_usd",
            "gauge",
            "US dollars reserved for attempts at work and for unknown cost",
            ("agent",),
            held,
        ),
        *_limits(standings),
    ]
    for name, value in gauges.items():
        parts += [f"# TYPE {name} gauge", f"{name} {value:g}"]
    return "\n".join(parts) + "\n"


def _limits(standings: Iterable[LimitStatus]) -> list[str]:
    """Tell every limit of money, and how far it is used up where it has a sum."""
    whole: dict[tuple[str, ...], float] = {}
    used: dict[tuple[str, ...], float] = {}
    for each in standings:
        key = (each.limit.window, each.limit.agent, each.limit.repo)
        whole[key] = min(each.limit.usd, whole.get(key, each.limit.usd))  # of two that say the same the lower holds
        if each.spent is not None:
            used[key] = each.spent
    labels = ("window", "agent", "repo")
    return [
        *_family("corral_limit_usd", "gauge", "Limits of money", labels, whole),
        *_family("corral_limit_spent_usd", "gauge", "US dollars spent of a limit in its present window", labels, used),
    ]


def _family(
    name: str, kind: str, words: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], float]
) -> list[str]:
    lines = [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]
    for key, value in sorted(values.items()):
        said = ",".join(f'{label}="{part.translate(ESCAPES)}"' for label, part in zip(labels, key, strict=True))
        lines.append(f"{name}{{{said}}} {value:.10g}")
    return lines


class Prices:
    """All prices there are, at one time."""

    def __init__(self, known: PriceList, now: float) -> None:
        self._known, self._moment = known, datetime.fromtimestamp(now, UTC)

    def cost(self, model: str | None, tokens: Tokens, *, local: bool = False) -> Cost:
        """Return what one answer, or several as one, costs. Local models cost nothing."""
        if local:
            return Cost(0.0, "computed")
        usd = self._usd(model, tokens) if model else None
        return UNKNOWN_PRICE if usd is None else Cost(usd, "computed")

    def knows(self, model: str | None) -> bool:
        return model is not None and self._usd(model, Tokens(1, 1)) is not None

    def usual(self, agent: str) -> Cost:
        """Return what an attempt of an agent costs about, the upper end; unknown where nobody says."""
        for file in (self._known.own, self._known.shipped):
            if agent in file.attempts:
                return Cost(file.attempts[agent].high, "estimated")
        return UNKNOWN_PRICE

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
def context_window(model: str) -> int | None:
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


def load_prices() -> None:
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
