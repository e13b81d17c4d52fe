-- How attempts of each agent went; what was stopped, limited or lost says nothing of the agent.

-- name: track_records
SELECT a.agent, count(*) AS count, sum(a.status = 'done') AS done, avg(a.usd) AS usd
FROM attempts a LEFT JOIN ledger l ON l.attempt = a.id
WHERE a.phase = 'over' AND a.status IN ('done', 'failed', 'timed_out') AND a.agent NOT IN ('shell', 'scripted', 'replay')
  AND (:type IS NULL OR l.type = :type)
GROUP BY a.agent ORDER BY a.agent
