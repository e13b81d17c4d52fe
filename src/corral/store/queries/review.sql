-- Comments of reviewers; review.py calls these by name.

-- name: next_comment
SELECT COALESCE(MAX(number), 0) + 1 AS number FROM comments WHERE run = :run

-- name: put_comment
INSERT INTO comments (run, number, record) VALUES (:run, :number, :record)
ON CONFLICT (run, number) DO UPDATE SET record = excluded.record

-- name: comments
SELECT record FROM comments WHERE run = :run ORDER BY number
