-- Where an attempt is at work: the name of a machine; null: here.
ALTER TABLE slots ADD COLUMN machine TEXT;
