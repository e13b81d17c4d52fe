-- name: add_entry
INSERT INTO inbox (key, run, node, attempt, kind, about, text, context, choices, standard, deadline, created)
VALUES (:key, :run, :node, :attempt, :kind, :about, :text, :context, :choices, :standard, :deadline, :created)
ON CONFLICT (key) DO NOTHING

-- name: entry
SELECT * FROM inbox WHERE id = :id

-- name: entry_of_key
SELECT * FROM inbox WHERE key = :key

-- name: waiting_entries
SELECT * FROM inbox WHERE answered_at IS NULL ORDER BY id

-- name: entries_of_run
SELECT * FROM inbox WHERE run = :run ORDER BY id

-- name: newest_entries
SELECT * FROM inbox ORDER BY id DESC LIMIT :most

-- name: due_entries
SELECT * FROM inbox WHERE answered_at IS NULL AND deadline <= :now ORDER BY id

-- name: answered_gates
SELECT inbox.run, inbox.node, coalesce(answer, standard) AS answer, coalesce(answered_by, 'deadline') AS by
FROM runs CROSS JOIN inbox JOIN nodes ON nodes.run = inbox.run AND nodes.id = inbox.node  -- few runs wait: they come first
WHERE inbox.run = runs.id AND runs.status = 'waiting' AND nodes.status = 'waiting' AND about IN ('gate', 'choice')
  AND (answered_at IS NOT NULL OR deadline <= :now) AND (CAST(:run AS TEXT) IS NULL OR runs.id = :run)
  AND inbox.id = (SELECT max(o.id) FROM inbox o WHERE o.run = inbox.run AND o.node = inbox.node
    AND o.about IN ('gate', 'choice') AND (o.answered_at IS NOT NULL OR o.deadline <= :now))
ORDER BY inbox.run, inbox.node

-- name: answer_entry
UPDATE inbox SET answer = :answer, answered_by = :by, answered_at = :at WHERE id = :id AND answered_at IS NULL

-- name: replace_entry
UPDATE inbox SET text = :text, context = :context, choices = :choices WHERE id = :id AND answered_at IS NULL

-- name: outcome_of_entry
UPDATE inbox SET outcome = :outcome WHERE id = :id

-- name: free_key
UPDATE inbox SET key = key || '/' || id WHERE key = :key

-- name: withdraw_entries
UPDATE inbox SET answered_at = :at, answered_by = 'corral', answer = '', outcome = :why
WHERE answered_at IS NULL AND run = :run AND (CAST(:attempt AS TEXT) IS NULL OR (attempt = :attempt AND about <> 'budget'))
