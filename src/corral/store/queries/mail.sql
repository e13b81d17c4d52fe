-- Mail between agents at work.

-- name: add_mail
INSERT INTO mail (run, box, sender, sender_run, sender_attempt, thread, priority, text, at)
VALUES (:run, :box, :sender, :sender_run, :sender_attempt, :thread, :priority, :text, :at) RETURNING id

-- name: mail_sent
SELECT count(*) AS count FROM mail WHERE sender_attempt = :attempt

-- name: mail_waiting
SELECT count(*) AS count FROM mail WHERE run = :run AND box = :box AND read_at IS NULL AND deliveries < :most_deliveries

-- name: free_mail
UPDATE mail SET holder = NULL, lease_until = 0
WHERE run = :run AND read_at IS NULL AND holder IN (SELECT id FROM attempts WHERE run = :run AND phase = 'over')

-- name: mail_to_take
SELECT * FROM mail
WHERE run = :run AND box IN (:node, :attempt) AND read_at IS NULL AND lease_until <= :now
  AND deliveries < :most_deliveries
ORDER BY priority DESC, id LIMIT :most

-- name: take_mail
UPDATE mail SET holder = :holder, lease_until = :until, deliveries = deliveries + 1 WHERE id = :id

-- name: release_mail
UPDATE mail SET holder = NULL, lease_until = 0 WHERE holder = :holder AND read_at IS NULL

-- name: mail_to_close
SELECT 1 AS found FROM mail WHERE (holder = :holder AND read_at IS NULL) OR read_at < :before LIMIT 1

-- name: read_mail
UPDATE mail SET read_at = :now, holder = NULL
WHERE id = :id AND run = :run AND box IN (:node, :attempt) AND deliveries > 0 AND read_at IS NULL

-- name: mail_of_thread
SELECT * FROM mail
WHERE thread = :thread AND ((run = :run AND box IN (:node, :attempt)) OR sender_attempt = :attempt)
ORDER BY id DESC LIMIT :most

-- name: mail_of_run
SELECT * FROM mail WHERE run = :run OR sender_run = :run ORDER BY id

-- name: forget_mail
DELETE FROM mail WHERE read_at < :before

-- name: attempts_at_work
SELECT id, node FROM attempts WHERE run = :run AND phase != 'over' ORDER BY place
