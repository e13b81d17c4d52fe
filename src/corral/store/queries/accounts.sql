-- Accounts of agents: the state of their windows, and when they were asked.

-- name: ledger_totals
SELECT agent, model, status, CAST(sum(attempts) AS BIGINT) AS attempts, CAST(sum(spent) AS BIGINT) AS spent,
  CAST(sum(unspent) AS BIGINT) AS reserved, CAST(sum(input) AS BIGINT) AS input, CAST(sum(output) AS BIGINT) AS output,
  CAST(sum(cache_read) AS BIGINT) AS cache_read, CAST(sum(cache_write) AS BIGINT) AS cache_write
FROM ledger_days GROUP BY agent, model, status ORDER BY 1, 2, 3

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
