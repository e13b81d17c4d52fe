"""How SQLite answers each named query: none reads a whole table that grows, but for those listed here with a reason."""

import re
from pathlib import Path

from corral.store.sql import named_queries, with_items
from corral.store.sqlite.store import Store

#: Tables that grow with each run.
GROWING = {
    "ancestors", "attempts", "children", "comments", "deliveries", "events", "inbox", "ledger", "mail", "merges", "nodes",
    "orders", "program_runs", "quotas", "requests", "runs", "starts", "submissions", "suites", "tool_uses",
}  # fmt: skip
#: Queries that read a whole table, and why they may.
WHOLE = {
    "all_merges": "the export, which is all of it",
    "stored_attempts": "a count that a user asked for",
    "stored_events": "a count that a user asked for",
    "stored_runs": "a count that a user asked for",
    "count_attempts": "a count, from an index alone",
    "count_deliveries": "a count, from an index alone",
    "count_runs": "a count, from an index alone",
    "newest_quotas": "one line for each limit that was met, from an index alone",
    "wrong_sums": "a check of the whole store",
    "track_records": "a comparison of agents over everything, when a user asks for it",
}
PARTIAL = re.compile(r"USING (?:COVERING )?INDEX (\w+)$")


def whole_reads(store: Store, query: str) -> list[str]:
    """Return the tables of which a query reads everything."""
    asked = with_items(query, 1)
    values = [None] * asked.count("?") if "?" in asked else dict.fromkeys(re.findall(r":(\w+)", asked))
    plan = [row[3] for row in store._db.execute(f"EXPLAIN QUERY PLAN {asked}", values)]
    names = {
        alias or table: table
        for table, alias in re.findall(r"(?:FROM|JOIN|UPDATE|INTO) (\w+)(?: (?:AS )?([a-z]\w*))?", asked)
    }
    names |= {table: table for table in GROWING}
    partial = {
        row[0]
        for row in store._db.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND sql LIKE '% WHERE %'")
    }
    found: list[str] = []
    for step in plan:
        if not step.startswith("SCAN ") or names.get(table := step.split()[1], table) not in GROWING:
            continue
        index = PARTIAL.search(step)
        if index and index[1] in partial:
            continue  # it holds only what is open
        if re.search(r"\bLIMIT\b", asked) and not any("TEMP B-TREE FOR ORDER BY" in each for each in plan):
            continue  # it ends after so many
        found.append(names.get(table, table))
    return found


def test_no_query_reads_a_whole_table_that_grows_but_these(tmp_path: Path) -> None:
    store = Store(tmp_path / "state")
    found = {name: tables for name, query in named_queries("sqlite").items() if (tables := whole_reads(store, query))}
    store.close()
    assert found.keys() == WHOLE.keys()


def test_a_query_without_an_index_is_seen(tmp_path: Path) -> None:
    store = Store(tmp_path / "state")
    assert whole_reads(store, "SELECT r.id FROM runs r WHERE r.reason = :reason") == ["runs"]
    assert whole_reads(store, "SELECT id FROM runs WHERE reason = :reason ORDER BY created LIMIT :most") == ["runs"]
    assert whole_reads(store, "SELECT id FROM runs WHERE id = :id") == []
    store.close()
