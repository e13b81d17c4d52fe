-- What the server keeps: tokens, logins, the queue of runs, and single values.

-- name: add_token
INSERT INTO tokens (id, name, hash, scopes, created) VALUES (:id, :name, :hash, :scopes, :created)

-- name: tokens
SELECT id, name, scopes, created, used, revoked FROM tokens ORDER BY created, id

-- name: token_of_hash
SELECT id, name, scopes, created, used, revoked FROM tokens WHERE hash = :hash AND revoked IS NULL

-- name: token_used
UPDATE tokens SET used = :at WHERE id = :id

-- name: revoke_token
UPDATE tokens SET revoked = :at WHERE id = :id AND revoked IS NULL

-- name: add_login
INSERT INTO logins (hash, token, created, until) VALUES (:hash, :token, :at, :until)

-- name: token_of_login
SELECT t.id, t.name, t.scopes, t.created, t.used, t.revoked FROM logins l JOIN tokens t ON t.id = l.token
WHERE l.hash = :hash AND l.until > :now AND t.revoked IS NULL

-- name: end_login
DELETE FROM logins WHERE hash = :hash

-- name: end_old_logins
DELETE FROM logins WHERE until <= :now

-- name: enqueue
INSERT INTO waiting_runs (run, priority, place, by, at) VALUES (:run, :priority, :place, :by, :at)

-- name: leave_queue
DELETE FROM waiting_runs WHERE run = :run

-- name: in_queue
SELECT w.run, w.priority, w.place, w.by, w.at, r.git_dir FROM waiting_runs w JOIN runs r ON r.id = w.run WHERE w.run = :run

-- name: waiting_runs
SELECT w.run, w.priority, w.place, w.by, w.at, r.git_dir FROM waiting_runs w JOIN runs r ON r.id = w.run
WHERE r.status = 'queued' ORDER BY w.priority DESC, w.place, w.run LIMIT :most

-- name: count_waiting
SELECT count(*) AS count FROM waiting_runs

-- name: place_in_queue
UPDATE waiting_runs SET priority = :priority, place = :place WHERE run = :run

-- name: queue_edge
SELECT min(place) AS first, max(place) AS last FROM waiting_runs WHERE priority = :priority

-- name: submission
SELECT digest, run FROM submissions WHERE key = :key

-- name: add_submission
INSERT INTO submissions (key, digest, run, at) VALUES (:key, :digest, :run, :at)

-- name: forget_submissions
DELETE FROM submissions WHERE at < :before

-- name: value
SELECT value FROM server WHERE name = :name

-- name: set_value
INSERT INTO server (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: drop_value
DELETE FROM server WHERE name = :name

-- name: engines
SELECT owner, place, address, resumes, started, until FROM engines ORDER BY started, owner

-- name: put_engine
INSERT INTO engines (owner, place, address, resumes, started, until)
VALUES (:owner, :place, :address, :resumes, :started, :until)
ON CONFLICT (owner) DO UPDATE SET address = excluded.address, until = excluded.until

-- name: renew_engine
UPDATE engines SET until = :until WHERE owner = :owner

-- name: drop_engine
DELETE FROM engines WHERE owner = :owner

-- name: leases_of_owner
SELECT id FROM runs
WHERE owner = :owner AND lease_until >= :now AND status IN ('queued', 'running', 'paused', 'waiting')
UNION ALL SELECT owner FROM engines WHERE owner = :owner AND until >= :now

-- name: owned_runs
SELECT id, status, owner FROM runs WHERE status IN ('queued', 'running', 'paused', 'waiting') ORDER BY id

-- name: count_runs
SELECT status, count(*) AS count FROM runs GROUP BY status

-- name: count_attempts
SELECT agent, status, count(*) AS count, sum(usd) AS usd FROM attempts GROUP BY agent, status

-- name: page_of_runs
SELECT r.id, r.status, r.reason, r.created, r.ended, r.seconds, r.owner, r.lease_until, r.name, r.labels, r.repo, r.strategy,
       r.task, (SELECT sum(a.usd) FROM attempts a WHERE a.run = r.id) AS usd
FROM runs r
WHERE (CAST(:before AS TEXT) IS NULL OR r.id < :before)
  AND (CAST(:statuses AS TEXT) IS NULL OR :statuses LIKE '%,' || r.status || ',%')
  AND (CAST(:repo AS TEXT) IS NULL OR substr(:repo || '/', 1, length(r.repo) + 1) = r.repo || '/')
  AND (CAST(:git_dir AS TEXT) IS NULL OR r.git_dir = :git_dir)
  AND (CAST(:words AS TEXT) IS NULL OR lower(coalesce(r.prompt, r.task)) LIKE :words ESCAPE '!'
       OR lower(coalesce(r.name, '')) LIKE :words ESCAPE '!')
  AND (CAST(:agent AS TEXT) IS NULL OR EXISTS (SELECT 1 FROM attempts a WHERE a.run = r.id AND a.agent = :agent))
  AND (:top_level = 0 OR NOT EXISTS (SELECT 1 FROM children c WHERE c.run = r.id))
  AND (CAST(:since AS DOUBLE PRECISION) IS NULL OR r.created >= :since)
  AND (CAST(:labels AS TEXT) IS NULL OR r.labels LIKE :labels ESCAPE '!')
  AND (:unmerged = 0 OR (
    EXISTS (SELECT 1 FROM nodes n JOIN attempts a ON a.id = n.winner WHERE n.run = r.id AND a.changes = 1)
    AND NOT EXISTS (SELECT 1 FROM merges m WHERE m.run = r.id AND m.state IN ('merged', 'undoing'))))
ORDER BY r.id DESC LIMIT :most

-- name: agents_of_runs
SELECT run, agent FROM attempts WHERE run IN (:items) GROUP BY run, agent ORDER BY run, min(place)

-- name: merges_of_runs
SELECT run, state FROM merges WHERE run IN (:items) AND state IN ('merged', 'undoing', 'conflict', 'undone')

-- name: runs_with_work
SELECT DISTINCT n.run FROM nodes n JOIN attempts a ON a.id = n.winner WHERE n.run IN (:items) AND a.changes = 1

-- What was merged and then undone may be there or not: the records of its merges say so.
-- name: runs_with_work_of
SELECT r.id FROM runs r
WHERE r.git_dir = :git_dir AND (
  r.status IN ('queued', 'running', 'paused', 'waiting', 'limited')
  OR (EXISTS (SELECT 1 FROM nodes n JOIN attempts a ON a.id = n.winner WHERE n.run = r.id AND a.changes = 1)
    AND (NOT EXISTS (SELECT 1 FROM merges m WHERE m.run = r.id AND m.state IN ('merged', 'undoing'))
      OR EXISTS (SELECT 1 FROM merges m WHERE m.run = r.id AND m.state = 'undone'))))
ORDER BY r.id

-- name: events_of_all
SELECT seq, run, at, node, attempt, body FROM events WHERE seq > :after ORDER BY seq LIMIT :most

-- name: events_of_node
SELECT seq, run, at, node, attempt, body FROM events WHERE run = :run AND seq > :after AND node = :node
ORDER BY seq LIMIT :most

-- name: last_event
SELECT coalesce(max(seq), 0) AS seq FROM events

-- name: events_before
SELECT seq, run, at, node, attempt, body FROM events WHERE run = :run AND seq < :before ORDER BY seq DESC LIMIT :most

-- name: limited_runs
SELECT r.id, max(a.until) AS until FROM runs r JOIN attempts a ON a.run = r.id
WHERE r.status = 'limited' GROUP BY r.id

-- name: status
SELECT status FROM runs WHERE id = :id
