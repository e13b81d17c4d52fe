-- Results of checks, by the hash of all they depend on.

-- name: suite
SELECT results FROM suites WHERE key = :key AND at >= :since

-- name: keep_suite
INSERT INTO suites (key, at, results) VALUES (:key, :at, :results)
ON CONFLICT (key) DO UPDATE SET at = excluded.at, results = excluded.results

-- name: forget_suites
DELETE FROM suites WHERE at < :before
