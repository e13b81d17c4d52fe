-- Queries that PostgreSQL has of its own. Events are written by COPY.

-- name: matching_facts
SELECT facts.* FROM fact_words JOIN facts ON facts.number = fact_words.number
WHERE fact_words.words @@ websearch_to_tsquery('english', :words) AND facts.repo = :repo
  AND (:every = 1 OR facts.state = 'approved')
ORDER BY ts_rank(fact_words.words, websearch_to_tsquery('english', :words)) DESC, facts.number LIMIT :most

-- name: index_fact
INSERT INTO fact_words (number, words) VALUES (:number, to_tsvector('english', :text))

-- name: unindex_fact
DELETE FROM fact_words WHERE number = :number
