-- Pull requests, follows and issues; merges.py calls these by name.

-- name: put_pull_request
INSERT INTO pull_requests (run, record) VALUES (:run, :record)
ON CONFLICT (run) DO UPDATE SET record = excluded.record

-- name: pull_request
SELECT record FROM pull_requests WHERE run = :run

-- name: put_follow
INSERT INTO follows (run, record, next_at) VALUES (:run, :record, :next_at)
ON CONFLICT (run) DO UPDATE SET record = excluded.record, next_at = excluded.next_at

-- name: follow
SELECT record, next_at FROM follows WHERE run = :run

-- name: begin_follow
UPDATE follows SET next_at = :until WHERE run = :run AND next_at IS NOT NULL AND next_at <= :now

-- name: due_follows
SELECT run FROM follows WHERE next_at <= :now ORDER BY next_at

-- name: put_issue_work
INSERT INTO issue_work (repository, number, run, record) VALUES (:repository, :number, :run, :record)
ON CONFLICT (repository, number) DO UPDATE SET run = excluded.run, record = excluded.record

-- name: issue_work
SELECT record FROM issue_work WHERE repository = :repository ORDER BY number
