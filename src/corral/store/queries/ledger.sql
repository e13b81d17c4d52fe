-- name: reserve
INSERT INTO ledger (attempt, run, node, agent, account, model, role, type, repo, owner, reserved, at, guessed,
  notional, uncounted)
VALUES (:attempt, :run, :node, :agent, :account, :model, :role, :type, :repo, :owner, :reserved, :at, :guessed,
  :notional, 0.0)
ON CONFLICT (attempt) DO UPDATE SET owner = excluded.owner, reserved = excluded.reserved, settled = NULL,
  status = 'running', guessed = excluded.guessed, notional = excluded.notional, uncounted = 0.0

-- name: hold_more
UPDATE ledger SET reserved = :reserved WHERE attempt = :attempt AND settled IS NULL

-- name: spend
UPDATE ledger SET spent = CASE WHEN spent > :spent THEN spent ELSE :spent END, source = CASE WHEN :source = 'unknown' THEN source ELSE :source END,
  input = :input, output = :output, cache_read = :cache_read, cache_write = :cache_write
WHERE attempt = :attempt AND settled IS NULL

-- name: risk
UPDATE ledger SET uncounted = :uncounted WHERE attempt = :attempt AND settled IS NULL

-- What is not known stays reserved: `reserved` is more than `spent` then.
-- name: settle
UPDATE ledger SET reserved = :reserved, spent = :spent, source = :source, settled = :at, status = :status,
  seconds = :seconds, model = :model, input = :input, output = :output, cache_read = :cache_read,
  cache_write = :cache_write
WHERE attempt = :attempt

-- name: line
SELECT * FROM ledger WHERE attempt = :attempt

-- name: open_lines
SELECT * FROM ledger WHERE run = :run AND settled IS NULL

-- name: owners_of_reservations
SELECT DISTINCT owner FROM ledger WHERE settled IS NULL

-- What was counted as it was spent is given back; the rest may be spent, and stays reserved.
-- name: release_reservations
UPDATE ledger SET reserved = CASE WHEN uncounted IS NULL THEN reserved WHEN uncounted <= 0.0 THEN 0.0
  WHEN spent + uncounted < reserved THEN spent + uncounted ELSE reserved END, settled = :at, status = 'lost'
WHERE owner = :owner AND settled IS NULL

-- Days that lie wholly in a window, the quarters of an hour before them, and entries before those.
-- name: held_since
SELECT CAST(coalesce(sum(spent), 0) AS BIGINT) AS spent, CAST(coalesce(sum(unspent), 0) AS BIGINT) AS reserved
FROM (
  SELECT spent, unspent FROM ledger_days
  WHERE day >= :day AND (:agent = '' OR agent = :agent) AND (:repo = '' OR repo = :repo)
  UNION ALL SELECT spent, unspent FROM ledger_quarters
  WHERE quarter >= :quarter AND quarter < :day * 96 AND (:agent = '' OR agent = :agent) AND (:repo = '' OR repo = :repo)
  UNION ALL SELECT spent, unspent FROM ledger_parts
  WHERE at >= :since AND at < :quarter * 900 AND (:agent = '' OR agent = :agent) AND (:repo = '' OR repo = :repo)
  UNION ALL SELECT -spent, -unspent FROM ledger_parts
  WHERE attempt = :besides AND at >= :since AND (:agent = '' OR agent = :agent) AND (:repo = '' OR repo = :repo)
) sums

-- name: cost_sums
SELECT agent, account, model, type, repo, source, is_notional, CAST(sum(attempts) AS BIGINT) AS attempts,
  CAST(sum(CASE WHEN status = 'done' THEN attempts ELSE 0 END) AS BIGINT) AS done,
  CAST(sum(spent) AS BIGINT) AS spent, CAST(sum(unspent) AS BIGINT) AS unspent,
  sum(input + output + cache_read + cache_write) AS tokens, sum(seconds) AS seconds
FROM (
  SELECT agent, account, model, type, repo, source, status, is_notional, attempts, spent, unspent, input, output,
    cache_read, cache_write, seconds
  FROM ledger_days WHERE day >= :day AND (:repo = '' OR repo = :repo)
  UNION ALL SELECT agent, account, model, type, repo, source, status, is_notional, attempts, spent, unspent, input, output,
    cache_read, cache_write, seconds
  FROM ledger_parts WHERE at >= :since AND at < :day * 86400 AND (:repo = '' OR repo = :repo)
) sums GROUP BY agent, account, model, type, repo, source, is_notional

-- name: cost_quarters
SELECT quarter, agent, CAST(sum(attempts) AS BIGINT) AS attempts, CAST(sum(done) AS BIGINT) AS done,
  CAST(sum(unknown) AS BIGINT) AS unknown, CAST(sum(spent) AS BIGINT) AS spent,
  CAST(sum(unspent) AS BIGINT) AS unspent, CAST(sum(notional) AS BIGINT) AS notional, sum(tokens) AS tokens,
  sum(seconds) AS seconds
FROM (
  SELECT quarter, agent, attempts, done, unknown, spent, unspent, notional, tokens, seconds
  FROM ledger_quarters WHERE quarter >= :quarter AND (:repo = '' OR repo = :repo)
  UNION ALL SELECT quarter, agent, attempts, done, unknown, spent, unspent, notional, tokens, seconds
  FROM ledger_parts WHERE at >= :since AND at < :quarter * 900 AND (:repo = '' OR repo = :repo)
) sums GROUP BY quarter, agent

-- How many running sums are not what the entries add up to.
-- name: wrong_sums
SELECT count(*) AS count FROM (
  SELECT 1 AS wrong FROM (
    SELECT day, agent, account, model, type, repo, source, status, is_notional, attempts, spent, unspent FROM ledger_days
    UNION ALL SELECT day, agent, account, model, type, repo, source, status, is_notional, -attempts, -spent, -unspent
    FROM ledger_parts
  ) days GROUP BY day, agent, account, model, type, repo, source, status, is_notional
  HAVING sum(attempts) <> 0 OR sum(spent) <> 0 OR sum(unspent) <> 0
  UNION ALL SELECT 1 AS wrong FROM (
    SELECT quarter, agent, repo, attempts, done, unknown, spent, unspent, notional FROM ledger_quarters
    UNION ALL SELECT quarter, agent, repo, -attempts, -done, -unknown, -spent, -unspent, -notional FROM ledger_parts
  ) quarters GROUP BY quarter, agent, repo
  HAVING sum(attempts) <> 0 OR sum(done) <> 0 OR sum(unknown) <> 0 OR sum(spent) <> 0 OR sum(unspent) <> 0
    OR sum(notional) <> 0
) wrong_ones

-- name: held_of_run
SELECT coalesce(sum(spent), 0.0) AS spent, coalesce(sum(CASE WHEN reserved > spent THEN reserved - spent ELSE 0.0 END), 0.0) AS reserved
FROM ledger WHERE (run = :run OR run IN (SELECT run FROM ancestors WHERE ancestor = :run))
  AND (:node = '' OR (run = :run AND node = :node)) AND (:agent = '' OR agent = :agent) AND attempt != :besides

-- What a run has spent and what is reserved in it, or in one node of it, with all runs below; attempts in `items` wait for
-- the one that asks, and only what they have spent counts.
-- name: held_of_family
WITH RECURSIVE below (run) AS (
  SELECT run FROM children WHERE parent = :run AND (:node = '' OR node = :node)
  UNION SELECT c.run FROM children c JOIN below b ON c.parent = b.run
)
SELECT coalesce(sum(spent), 0.0) AS spent, coalesce(sum(CASE
    WHEN settled IS NULL AND attempt IN (:items) THEN 0.0
    WHEN reserved > spent THEN reserved - spent ELSE 0.0 END), 0.0) AS reserved
FROM ledger WHERE ((run = :run AND (:node = '' OR node = :node)) OR run IN (SELECT run FROM below))
  AND attempt != :besides

-- What attempts at work may give back when they end: of the same run, or of a family of runs that `root` names. An
-- attempt's own ancestors wait for it.
-- name: reserved_at_work
SELECT coalesce(sum(CASE WHEN reserved > spent THEN reserved - spent ELSE 0.0 END), 0.0) AS usd, count(*) AS count
FROM ledger WHERE settled IS NULL AND reserved > 0 AND attempt != :besides AND (:agent = '' OR agent = :agent)
  AND (:node = '' OR node = :node)
  AND (run = :own OR run = :root OR run IN (SELECT run FROM ancestors WHERE ancestor = :root))
  AND run NOT IN (SELECT ancestor FROM ancestors WHERE run = :own)

-- Attempts at work whose price is assumed and which no meter counts. A run that an attempt started (`is_child`) does not
-- wait for attempts that themselves wait for such runs: two of them would wait for each other.
-- name: guessed_at_work
SELECT attempt, agent, model, CASE WHEN reserved > spent THEN reserved ELSE spent END AS usd,
  CASE WHEN reserved > spent THEN reserved - spent ELSE 0.0 END AS unspent
FROM ledger
WHERE settled IS NULL AND guessed = 1 AND reserved > 0 AND at >= :since AND attempt != :besides
  AND (:agent = '' OR agent = :agent) AND (:repo = '' OR repo = :repo)
  AND NOT (:is_child = 1 AND EXISTS (
    SELECT 1 FROM children c JOIN runs r ON r.id = c.run
    WHERE c.attempt = ledger.attempt AND r.status IN ('queued', 'running', 'paused', 'waiting')))
ORDER BY at, attempt

-- name: dearest_paid
SELECT coalesce(max(spent), 0.0) AS usd, count(*) AS count FROM ledger
WHERE agent = :agent AND (CAST(:model AS TEXT) IS NULL OR model = :model) AND source != 'unknown' AND spent > 0

-- name: add_ancestor
INSERT INTO ancestors (run, ancestor) VALUES (:run, :ancestor) ON CONFLICT DO NOTHING

-- name: ancestors
SELECT ancestor FROM ancestors WHERE run = :run

-- name: limits
SELECT * FROM limits ORDER BY "window", agent, repo

-- name: set_limit
INSERT INTO limits ("window", agent, repo, usd, by, at) VALUES (:window, :agent, :repo, :usd, :by, :at)
ON CONFLICT ("window", agent, repo) DO UPDATE SET usd = excluded.usd, by = excluded.by, at = excluded.at

-- name: drop_limit
DELETE FROM limits WHERE (:window = '' OR "window" = :window) AND (:every = 1 OR (agent = :agent AND repo = :repo))

-- name: allow
INSERT INTO allowances (run, "window", usd, by, at) VALUES (:run, :window, :usd, :by, :at)

-- name: allowed
SELECT coalesce(sum(usd), 0.0) AS usd FROM allowances WHERE run = :run AND "window" = :window

-- name: history
SELECT * FROM ledger WHERE at >= :since AND at < :until AND (:repo = '' OR repo = :repo) ORDER BY at, attempt

-- name: prices_paid
SELECT spent FROM ledger WHERE agent = :agent AND (CAST(:model AS TEXT) IS NULL OR model = :model) AND (CAST(:type AS TEXT) IS NULL OR type = :type)
  AND settled IS NOT NULL AND source != 'unknown' AND status IN ('done', 'failed', 'timed_out')
  AND spent > 0 AND NOT EXISTS (  -- a cost that is disputed says little of the next one
    SELECT 1 FROM attempts WHERE id = ledger.attempt AND disputed = 1)
ORDER BY at DESC LIMIT :most

-- name: least_paid
SELECT coalesce(min(spent), 0.0) AS usd FROM ledger WHERE agent = :agent AND (CAST(:model AS TEXT) IS NULL OR model = :model)
  AND (CAST(:type AS TEXT) IS NULL OR type = :type) AND settled IS NOT NULL AND source != 'unknown' AND spent > 0

-- name: add_quota
INSERT INTO quotas (agent, model, at, until, message) VALUES (:agent, :model, :at, :until, :message)

-- name: newest_quotas
SELECT q.agent, q.model, q.at, q.until, q.message, c.until AS cooling,
  (SELECT count(*) FROM quotas o WHERE o.agent = q.agent) AS times
FROM quotas q LEFT JOIN cooldowns c ON c.agent = q.agent AND c.until > :now
WHERE q.seq IN (SELECT max(seq) FROM quotas GROUP BY agent) ORDER BY q.agent
