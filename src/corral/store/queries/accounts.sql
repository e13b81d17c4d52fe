-- Accounts of agents: how their windows stand, and when they were asked.

-- name: ledger_totals
SELECT agent, coalesce(model, '') AS model, status, count(*) AS attempts, sum(spent) AS spent,
  sum(max(0.0, reserved - spent)) AS reserved, CAST(total(input) AS INTEGER) AS input,
  CAST(total(output) AS INTEGER) AS output, CAST(total(cache_read) AS INTEGER) AS cache_read,
  CAST(total(cache_write) AS INTEGER) AS cache_write
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
