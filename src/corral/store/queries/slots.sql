-- Who is at work, and who would begin more.

-- name: slots
SELECT s.attempt, s.run, s.owner, s.agent, s.repo, coalesce(r.lease_until, 0) AS lease_until
FROM slots s LEFT JOIN runs r ON r.id = s.run ORDER BY s.attempt

-- name: slot_wants
SELECT w.run, w.agent, w.owner, w.repo, w.count, w.priority, w.since, w.limits, coalesce(r.lease_until, 0) AS lease_until
FROM slot_wants w LEFT JOIN runs r ON r.id = w.run ORDER BY w.run, w.agent

-- name: hold_slot
INSERT INTO slots (attempt, run, owner, agent, repo) VALUES (:attempt, :run, :owner, :agent, :repo)
ON CONFLICT (attempt) DO UPDATE SET owner = excluded.owner

-- name: free_slot
DELETE FROM slots WHERE attempt = :attempt

-- name: free_slots_of_run
DELETE FROM slots WHERE run = :run AND owner = :owner

-- name: free_slots_of_owner
DELETE FROM slots WHERE owner = :owner

-- name: free_slots_of_others
DELETE FROM slots WHERE run = :run AND owner <> :owner

-- name: drop_slot_wants_of_others
DELETE FROM slot_wants WHERE run = :run AND owner <> :owner

-- name: want_slot
INSERT INTO slot_wants (run, agent, owner, repo, count, priority, since, limits)
VALUES (:run, :agent, :owner, :repo, :count, :priority, :since, :limits)
ON CONFLICT (run, agent) DO UPDATE SET owner = excluded.owner, count = excluded.count, since = excluded.since

-- name: drop_slot_want
DELETE FROM slot_wants WHERE run = :run AND agent = :agent

-- name: drop_slot_wants_of_run
DELETE FROM slot_wants WHERE run = :run AND owner = :owner

-- name: drop_slot_wants_of_owner
DELETE FROM slot_wants WHERE owner = :owner

-- name: place_slot
UPDATE slots SET machine = :machine WHERE attempt = :attempt

-- name: machine_slots
SELECT machine, count(*) AS count FROM slots WHERE machine IS NOT NULL GROUP BY machine ORDER BY machine
