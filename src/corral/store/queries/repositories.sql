-- Which machine has which repository.

-- name: note_repository
INSERT INTO repositories (git_dir, place, at) VALUES (:git_dir, :place, :at)
ON CONFLICT (git_dir, place) DO UPDATE SET at = excluded.at

-- name: repository_places
SELECT place FROM repositories WHERE git_dir = :git_dir ORDER BY place

-- name: forget_repository
DELETE FROM repositories WHERE git_dir = :git_dir AND place = :place
