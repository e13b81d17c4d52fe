-- How attempts of each agent went; what was stopped, limited or lost says nothing of the agent.

-- name: track_records
SELECT a.agent, count(*) AS count, count(*) FILTER (WHERE a.status = 'done') AS done, avg(a.usd) AS usd
FROM attempts a LEFT JOIN ledger l ON l.attempt = a.id
WHERE a.phase = 'over' AND a.status IN ('done', 'failed', 'timed_out') AND a.agent NOT IN ('shell', 'scripted', 'replay')
  AND (CAST(:type AS TEXT) IS NULL OR l.type = :type)
GROUP BY a.agent ORDER BY a.agent

-- name: drop_event
DELETE FROM events WHERE seq = :seq

-- How often each flow was run to an end of its own, and how often that was a good one.
-- name: flow_records
SELECT flow, count(*) AS count, count(*) FILTER (WHERE status = 'done') AS done
FROM runs WHERE status IN ('done', 'failed', 'timed_out') AND strategy = 'flow' GROUP BY flow ORDER BY flow

-- Results of checks, by the hash of all they depend on.

-- name: suite
SELECT results FROM suites WHERE key = :key AND at >= :since

-- name: keep_suite
INSERT INTO suites (key, at, results) VALUES (:key, :at, :results)
ON CONFLICT (key) DO UPDATE SET at = excluded.at, results = excluded.results

-- name: forget_suites
DELETE FROM suites WHERE at < :before
