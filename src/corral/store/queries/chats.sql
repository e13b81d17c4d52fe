-- Conversations in editors.

-- name: put_chat
INSERT INTO chats (id, folder, updated, empty, record) VALUES (:id, :folder, :updated, :empty, :record)
ON CONFLICT (id) DO UPDATE SET updated = excluded.updated, empty = excluded.empty, record = excluded.record

-- name: chat
SELECT record FROM chats WHERE id = :id

-- name: chats
SELECT record FROM chats
WHERE empty = 0 AND (:folder = '' OR folder = :folder) AND (updated < :before OR (updated = :before AND id < :before_id))
ORDER BY updated DESC, id DESC LIMIT :most

-- name: drop_chat
DELETE FROM chats WHERE id = :id

-- name: drop_empty_chats
DELETE FROM chats WHERE empty = 1 AND updated < :before
