-- Orders carry words, and are answered.
ALTER TABLE orders ADD COLUMN text TEXT NOT NULL DEFAULT '';
ALTER TABLE orders ADD COLUMN answer TEXT;
