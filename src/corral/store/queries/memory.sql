-- What is remembered of repositories.

-- name: facts
SELECT * FROM facts WHERE repo = :repo ORDER BY number

-- name: fact
SELECT * FROM facts WHERE repo = :repo AND number = :number

-- name: count_facts
SELECT count(*) AS count FROM facts WHERE repo = :repo

-- name: best_facts
SELECT * FROM facts WHERE repo = :repo AND state = 'approved' ORDER BY confirmed DESC, number DESC LIMIT :most

-- name: add_fact
INSERT INTO facts (repo, text, source, files, state, confirmed, created)
VALUES (:repo, :text, :source, :files, :state, :confirmed, :created)
ON CONFLICT (repo, text) DO NOTHING

-- name: fact_by_text
SELECT * FROM facts WHERE repo = :repo AND text = :text

-- name: drop_fact
DELETE FROM facts WHERE repo = :repo AND number = :number

-- name: edit_fact
UPDATE facts SET text = :text, files = :files WHERE repo = :repo AND number = :number

-- name: approve_fact
UPDATE facts SET state = 'approved', confirmed = confirmed + 1 WHERE repo = :repo AND number = :number

-- name: confirm_fact
UPDATE facts SET confirmed = confirmed + 1 WHERE number = :number AND state = 'approved'

-- name: pass_over_facts
UPDATE facts SET unused = unused + 1 WHERE repo = :repo AND state = 'approved'

-- name: use_fact
UPDATE facts SET used = used + 1, unused = 0, last_used = :at WHERE repo = :repo AND number = :number
