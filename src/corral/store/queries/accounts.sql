-- Accounts of agents: the state of their windows, and when they were asked.

-- name: ledger_totals
SELECT agent, coalesce(model, '') AS model, status, count(*) AS attempts, sum(spent) AS spent,
  sum(CASE WHEN reserved > spent THEN reserved - spent ELSE 0.0 END) AS reserved,
  CAST(sum(CAST(input AS DOUBLE PRECISION)) AS BIGINT) AS input,
  CAST(sum(CAST(output AS DOUBLE PRECISION)) AS BIGINT) AS output,
  CAST(sum(CAST(cache_read AS DOUBLE PRECISION)) AS BIGINT) AS cache_read,
  CAST(sum(CAST(cache_write AS DOUBLE PRECISION)) AS BIGINT) AS cache_write
FROM ledger GROUP BY agent, coalesce(model, ''), status ORDER BY 1, 2, 3

-- name: see_window
INSERT INTO quota_windows (agent, name, used, resets, at) VALUES (:agent, :name, :used, :resets, :at)
ON CONFLICT (agent, name) DO UPDATE SET used = excluded.used, resets = excluded.resets, at = excluded.at

-- name: quota_windows
SELECT agent, name, used, resets, at FROM quota_windows ORDER BY agent, name

-- name: forget_requests
DELETE FROM requests WHERE at <= :before OR at > :now

-- name: requests_since
SELECT count(*) AS count, min(at) AS first FROM requests WHERE agent = :agent AND at > :since

-- name: add_request
INSERT INTO requests (agent, at) VALUES (:agent, :at)
