-- How attempts of each agent went; what was stopped, limited or lost says nothing of the agent.

-- name: track_records
SELECT a.agent, count(*) AS count, sum(a.status = 'done') AS done, avg(a.usd) AS usd
FROM attempts a LEFT JOIN ledger l ON l.attempt = a.id
WHERE a.phase = 'over' AND a.status IN ('done', 'failed', 'timed_out') AND a.agent NOT IN ('shell', 'scripted', 'replay')
  AND (:type IS NULL OR l.type = :type)
GROUP BY a.agent ORDER BY a.agent

-- What an agent said and did in detail; what the engine decided stays.
-- name: forget_words
DELETE FROM events WHERE run = :run AND json_extract(CAST(body AS TEXT), '$.type')
  IN ('said', 'called_tool', 'tool_returned', 'changed', 'spent', 'filled', 'unparsed', 'reached')

-- How often each flow was run to an end of its own, and how often that was a good one.
-- name: flow_records
SELECT json_extract(CAST(plan AS TEXT), '$.flow.name') AS flow, count(*) AS count, sum(status = 'done') AS done
FROM runs WHERE status IN ('done', 'failed', 'timed_out') AND json_extract(CAST(plan AS TEXT), '$.flow.strategy') = 'flow'
GROUP BY 1 ORDER BY 1
