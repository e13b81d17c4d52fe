-- Runs that were spawned by an attempt of another.

-- name: add_child
INSERT INTO children (run, root, parent, node, attempt, depth, budget_usd, at)
VALUES (:run, :root, :parent, :node, :attempt, :depth, :budget_usd, :at)

-- name: child
SELECT run, root, parent, node, attempt, depth, budget_usd, at FROM children WHERE run = :run

-- name: children_of_attempt
SELECT run, root, parent, node, attempt, depth, budget_usd, at FROM children WHERE attempt = :attempt ORDER BY run

-- name: children_of_node
SELECT run, root, parent, node, attempt, depth, budget_usd, at FROM children
WHERE parent = :run AND node = :node ORDER BY run

-- name: hand_children_over
UPDATE children SET attempt = :attempt WHERE attempt = :before

-- name: hand_letters_over
UPDATE mail SET box = :attempt WHERE run = :run AND box = :before AND read_at IS NULL

-- name: children_of_run
SELECT run, root, parent, node, attempt, depth, budget_usd, at FROM children WHERE parent = :run ORDER BY run

-- name: children_of_root
SELECT count(*) AS count FROM children WHERE root = :root

-- name: all_below
WITH RECURSIVE below (run) AS (
  SELECT run FROM children WHERE parent = :run
  UNION SELECT c.run FROM children c JOIN below b ON c.parent = b.run
)
SELECT run FROM below ORDER BY run
