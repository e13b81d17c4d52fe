"""Sums of what was spent, by any dimension, and as Prometheus reads them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, tzinfo

from msgspec import UNSET

from corral.model import CostSource
from corral.model.flow import known_as
from corral.model.money import By, CostRow, CostTable, LimitStatus, PaidAttempt, Totals
from corral.model.numbers import token_count
from corral.rules.money.limits import quantile

SOURCES: Sequence[CostSource] = ("reported", "fixed", "metered", "computed", "estimated", "unknown")
PLAYED = ("scripted", "replay")  #: what they play is no model
LIKELY = 1000  #: tokens; fewer say nothing about a model's price
ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def table(lines: Iterable[PaidAttempt], by: By, zone: tzinfo) -> CostTable:
    """Add up what attempts cost; days in order, the rest by cost."""
    name: dict[By, Callable[[PaidAttempt], str]] = {
        "agent": lambda line: line.agent,
        "account": lambda line: known_as(line.agent, line.account),
        "model": lambda line: line.model or "-",
        "day": lambda line: datetime.fromtimestamp(line.at, zone).date().isoformat(),
        "repo": lambda line: line.repo,
        "task-kind": lambda line: line.type or "-",
    }
    groups: defaultdict[str, list[PaidAttempt]] = defaultdict(list)
    for line in lines:
        groups[name[by](line)].append(line)
    rows = [_row(key, found) for key, found in groups.items()]
    rows.sort(key=lambda row: row.key if by == "day" else (-row.usd, row.key))
    everything = [line for found in groups.values() for line in found]
    known = [SOURCES.index(line.source) for line in everything if line.source != "unknown"]
    worst = max(known, default=len(SOURCES) - 1)
    saved, against = _saving(everything)
    return CostTable(
        by=by,
        usd=round(sum(row.usd for row in rows), 6),
        source=SOURCES[worst],
        reserved_usd=round(sum(row.reserved_usd for row in rows), 6),
        rows=tuple(rows),
        notional_usd=round(sum(row.notional_usd or 0.0 for row in rows), 6),
        accounts=tuple(sorted({known_as(line.agent, line.account) for line in everything if line.notional})),
        saved_usd=saved,
        saved_against=against,
    )


def _row(key: str, lines: Sequence[PaidAttempt]) -> CostRow:
    return CostRow(
        key=key,
        usd=round(sum(line.spent for line in lines), 6),
        reserved_usd=round(sum(max(0.0, line.reserved - line.spent) for line in lines), 6),
        tokens=token_count(sum(line.tokens for line in lines)),
        attempts=len(lines),
        done=sum(line.status == "done" for line in lines),
        seconds=round(sum(line.seconds for line in lines), 1),
        unknown=sum(line.source == "unknown" for line in lines),
        notional_usd=round(sum(line.spent for line in lines if line.notional), 6) or UNSET,
    )


def _saving(lines: Sequence[PaidAttempt]) -> tuple[float | None, str | None]:
    """Tell what the same tokens would have cost more with the dearest model that was used."""
    models = [line for line in lines if line.model and line.agent not in PLAYED]
    known = [line for line in models if line.source in ("reported", "metered", "computed") and line.tokens]
    tokens: defaultdict[str, int] = defaultdict(int)
    usd: defaultdict[str, float] = defaultdict(float)
    for line in known:
        tokens[line.model or ""] += line.tokens
        usd[line.model or ""] += line.spent
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
    """Write totals of all attempts, and what stands now, in the text format of Prometheus."""
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
