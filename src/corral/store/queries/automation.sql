-- What starts runs by itself, and whom we tell.

-- name: put_schedule
INSERT INTO schedules (name, record, next_at) VALUES (:name, :record, :next_at)
ON CONFLICT (name) DO UPDATE SET record = excluded.record, next_at = excluded.next_at

-- name: schedules
SELECT record, next_at FROM schedules ORDER BY name

-- name: due_schedules
SELECT record, next_at FROM schedules WHERE next_at <= :now ORDER BY next_at

-- name: begin_schedule
UPDATE schedules SET next_at = :until WHERE name = :name AND next_at <= :now

-- name: drop_schedule
DELETE FROM schedules WHERE name = :name

-- name: put_trigger
INSERT INTO triggers (name, record) VALUES (:name, :record) ON CONFLICT (name) DO UPDATE SET record = excluded.record

-- name: triggers
SELECT record FROM triggers ORDER BY name

-- name: trigger
SELECT record FROM triggers WHERE name = :name

-- name: drop_trigger
DELETE FROM triggers WHERE name = :name

-- name: add_start
INSERT INTO starts (run, what, at) VALUES (:run, :what, :at)

-- name: starts_since
SELECT count(*) AS count FROM starts WHERE what = :what AND at > :since

-- name: open_starts
SELECT count(*) AS count FROM starts s JOIN runs r ON r.id = s.run
WHERE s.what = :what AND r.status IN ('queued', 'running', 'paused', 'waiting')

-- name: run_that_merged
SELECT m.run FROM starts s JOIN merges m ON m.run = s.run
WHERE s.what = :what AND m.after = :commit LIMIT 1

-- name: put_webhook
INSERT INTO webhooks (id, record, seen) VALUES (:id, :record, 0) ON CONFLICT (id) DO UPDATE SET record = excluded.record

-- name: webhooks
SELECT record FROM webhooks ORDER BY id

-- name: drop_webhook
DELETE FROM webhooks WHERE id = :id

-- name: add_delivery
INSERT INTO deliveries (id, webhook, type, body, state, next_at, at)
VALUES (:id, :webhook, :type, :body, 'waiting', :at, :at)

-- name: due_deliveries
SELECT * FROM deliveries WHERE state = 'waiting' AND next_at <= :now ORDER BY next_at LIMIT :most

-- name: begin_delivery
UPDATE deliveries SET next_at = :until WHERE id = :id AND state = 'waiting' AND next_at <= :now

-- name: deliveries
SELECT * FROM deliveries WHERE webhook = :webhook AND (CAST(:state AS TEXT) IS NULL OR state = :state) ORDER BY at DESC LIMIT :most

-- name: delivery
SELECT * FROM deliveries WHERE id = :id

-- name: move_delivery
UPDATE deliveries SET state = :state, tries = :tries, next_at = :next_at, answer = :answer WHERE id = :id

-- name: count_deliveries
SELECT state, count(*) AS count FROM deliveries GROUP BY state

-- name: forget_deliveries
DELETE FROM deliveries WHERE state = 'delivered' AND at < :before

-- name: put_callback
INSERT INTO callbacks (run, id, url, state, body, tries, next_at, answer)
VALUES (:run, :id, :url, :state, :body, :tries, :next_at, :answer)
ON CONFLICT (run) DO UPDATE SET id = excluded.id, url = excluded.url, state = excluded.state, body = excluded.body,
  tries = excluded.tries, next_at = excluded.next_at, answer = excluded.answer

-- name: open_callbacks
SELECT * FROM callbacks WHERE state IN ('asked', 'waiting')

-- name: callback
SELECT * FROM callbacks WHERE run = :run

-- name: begin_callback
UPDATE callbacks SET tries = tries + 1, next_at = :until WHERE run = :run AND state = 'waiting' AND next_at <= :now
