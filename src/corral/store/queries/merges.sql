-- Merges and queues of them; merges.py calls these by name.

-- name: add_merge
INSERT INTO merges (run, git_dir, state, at, after, record) VALUES (:run, :git_dir, :state, :at, :after, :record) RETURNING id

-- name: save_merge
UPDATE merges SET state = :state, after = :after, record = :record WHERE id = :id

-- name: drop_merge
DELETE FROM merges WHERE id = :id

-- name: merges_of_run
SELECT id, record FROM merges WHERE run = :run ORDER BY id

-- name: merges_of_repository
SELECT id, record FROM merges WHERE git_dir = :git_dir ORDER BY id

-- name: all_merges
SELECT id, record FROM merges ORDER BY id

-- name: unfinished_merges
SELECT id, record FROM merges WHERE git_dir = :git_dir AND state IN ('begun', 'undoing') ORDER BY id

-- name: conflicting_merges
SELECT id, record FROM merges WHERE state = 'conflict' AND (CAST(:run AS TEXT) IS NULL OR run = :run) ORDER BY id

-- name: add_queue
INSERT INTO queues (git_dir, over, record) VALUES (:git_dir, 0, :record) RETURNING id

-- name: save_queue
UPDATE queues SET over = :over, record = :record WHERE id = :id

-- name: open_queues
SELECT id, record FROM queues WHERE git_dir = :git_dir AND over = 0 ORDER BY id
