-- Runs, nodes, attempts, orders. Each query has a name by which it is called; all databases understand it.

-- name: add_run
INSERT INTO runs (id, status, reason, plan, created, owner, lease_until, clock, name, labels, repo, git_dir, strategy, flow,
  task, prompt)
VALUES (:id, :status, :reason, :plan, :created, :owner, :lease_until, :clock, :name, :labels, :repo, :git_dir, :strategy,
  :flow, :task, :prompt)

-- name: run
SELECT id, status, reason, plan, created, ended, owner, lease_until, epoch, clock, seconds FROM runs WHERE id = :id

-- name: epoch
SELECT epoch FROM runs WHERE id = :id

-- name: clock
SELECT clock, created FROM runs WHERE id = :id

-- name: runs_with_prefix
SELECT id FROM runs WHERE id >= :prefix AND id < :prefix || '{' ORDER BY id LIMIT 3

-- name: newest_run
SELECT id FROM runs r WHERE NOT EXISTS (SELECT 1 FROM children c WHERE c.run = r.id) ORDER BY id DESC LIMIT 1

-- name: grades_of_runs
SELECT n.run, a.grade FROM nodes n JOIN attempts a ON a.id = n.winner
WHERE n.run IN (:items) AND (SELECT count(*) FROM nodes m WHERE m.run = n.run) <= :nodes

-- name: move_run
UPDATE runs SET status = :status, reason = :reason, ended = :ended, seconds = :seconds,
  owner = CASE WHEN CAST(:ended AS DOUBLE PRECISION) IS NULL THEN owner END
WHERE id = :id

-- name: take_lease
UPDATE runs SET owner = :owner, lease_until = :until, epoch = CASE WHEN owner = :owner THEN epoch ELSE epoch + 1 END
WHERE id = :id AND (owner IS NULL OR owner = :owner OR owner = :loser OR lease_until < :now
  OR lease_until > :far)

-- name: renew_lease
UPDATE runs SET lease_until = :until WHERE id = :id AND owner = :owner

-- name: release_lease
UPDATE runs SET owner = NULL, lease_until = 0 WHERE id = :id AND owner = :owner

-- name: add_node
INSERT INTO nodes (run, id, place, status) VALUES (:run, :id, :place, :status)

-- name: nodes
SELECT id, status, reason, winner, why FROM nodes WHERE run = :run ORDER BY place

-- name: move_node
UPDATE nodes SET status = :status, reason = :reason, winner = :winner, why = :why WHERE run = :run AND id = :id

-- name: next_place
SELECT coalesce(max(place), 0) + 1 AS place FROM attempts WHERE run = :run

-- name: save_attempt
INSERT INTO attempts (id, run, node, place, agent, status, phase, usd, started, ended, record, until, grade,
  disputed, changes, epoch)
VALUES (:id, :run, :node, :place, :agent, :status, :phase, :usd, :started, :ended, :record, :until, :grade, :disputed,
  :changes, coalesce((SELECT r.epoch FROM runs r WHERE r.id = :run), 1))
ON CONFLICT (id) DO UPDATE SET status = excluded.status, phase = excluded.phase, usd = excluded.usd,
  started = excluded.started, ended = excluded.ended, record = excluded.record, until = excluded.until,
  grade = excluded.grade, disputed = excluded.disputed, changes = excluded.changes, epoch = excluded.epoch

-- name: attempts
SELECT record FROM attempts WHERE run = :run ORDER BY place

-- name: events
SELECT seq, at, node, attempt, body FROM events WHERE run = :run AND seq > :after ORDER BY seq LIMIT :most

-- name: add_order
INSERT INTO orders (run, verb, by, at, text) VALUES (:run, :verb, :by, :at, :text) RETURNING id

-- name: orders
SELECT id, verb, by, text FROM orders WHERE run = :run AND taken IS NULL ORDER BY id

-- name: take_order
UPDATE orders SET taken = :at, answer = :answer WHERE id = :id

-- name: order_answer
SELECT answer FROM orders WHERE id = :id AND taken IS NOT NULL

-- name: cool_down
INSERT INTO cooldowns (agent, until, reason) VALUES (:agent, :until, :reason)
ON CONFLICT (agent) DO UPDATE SET 
  until = CASE WHEN cooldowns.until > excluded.until THEN cooldowns.until ELSE excluded.until END, reason = excluded.reason

-- name: warm_up
DELETE FROM cooldowns WHERE agent = :agent

-- name: cooldown
SELECT until, reason FROM cooldowns WHERE agent = :agent AND until > :now


-- name: add_late_node
INSERT INTO nodes (run, id, place, status) VALUES (:run, :id, :place, :status) ON CONFLICT DO NOTHING


-- name: costs_of
SELECT usd FROM attempts WHERE agent = :agent AND usd IS NOT NULL
  AND (usd > 0 OR status = 'done')  -- what cost nothing and is not done was refused, or never started
ORDER BY started DESC LIMIT 50


-- name: drop_node
DELETE FROM nodes WHERE run = :run AND id = :id

-- name: save_plan
UPDATE runs SET plan = :plan, name = :name, labels = :labels, repo = :repo, git_dir = :git_dir, strategy = :strategy,
  flow = :flow, task = :task, prompt = :prompt
WHERE id = :id

-- name: stored_runs
SELECT count(*) AS count FROM runs

-- name: stored_attempts
SELECT count(*) AS count FROM attempts

-- name: stored_events
SELECT count(*) AS count FROM events
