-- Accounts of agents: how their windows stand, and when they were asked.

-- name: ledger_totals
SELECT agent, coalesce(model, '') AS model, status, count(*) AS attempts, sum(spent) AS spent,
  sum(CASE WHEN settled IS NULL THEN max(0.0, reserved - spent) ELSE 0.0 END) AS reserved, sum(input) AS input,
  sum(output) AS output, sum(cache_read) AS cache_read, sum(cache_write) AS cache_write
FROM ledger GROUP BY agent, model, status ORDER BY agent, model, status

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
