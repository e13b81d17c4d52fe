-- Queries that SQLite has of its own.

-- name: add_event
INSERT INTO events (run, node, attempt, at, body) VALUES (?, ?, ?, ?, ?)

-- name: matching_facts
SELECT facts.* FROM fact_words JOIN facts ON facts.number = fact_words.rowid
WHERE fact_words MATCH :words AND facts.repo = :repo AND (:every = 1 OR facts.state = 'approved')
ORDER BY bm25(fact_words), facts.number LIMIT :most

-- name: index_fact
INSERT INTO fact_words (rowid, text) VALUES (:number, :text)

-- name: unindex_fact
INSERT INTO fact_words (fact_words, rowid, text) VALUES ('delete', :number, :text)
