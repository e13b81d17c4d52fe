-- Programs that ran, and uses of stored tools.

-- name: add_program_run
INSERT INTO program_runs (id, created, repo, run, tool, hash, status, record)
VALUES (:id, :created, :repo, :run, :tool, :hash, :status, :record)

-- name: program_run
SELECT * FROM program_runs WHERE id = :id

-- name: forget_program_runs
DELETE FROM program_runs WHERE repo = :repo AND id NOT IN (
    SELECT id FROM program_runs WHERE repo = :repo ORDER BY created DESC LIMIT :most
)

-- name: use_tool
INSERT INTO tool_uses (place, name, hash, uses, succeeded, last_used) VALUES (:place, :name, :hash, 1, :succeeded, :at)
ON CONFLICT (place, name, hash)
DO UPDATE SET uses = tool_uses.uses + 1, succeeded = tool_uses.succeeded + excluded.succeeded,
  last_used = excluded.last_used

-- name: tool_uses
SELECT CAST(sum(uses) AS BIGINT) AS uses, CAST(sum(succeeded) AS BIGINT) AS succeeded, max(last_used) AS last_used FROM tool_uses
WHERE place = :place AND name = :name

-- name: forget_tool
DELETE FROM tool_uses WHERE place = :place AND name = :name
