-- What is remembered of a repository: facts, and an index of their words.
CREATE TABLE facts (
    number INTEGER PRIMARY KEY,
    repo TEXT NOT NULL,
    text TEXT NOT NULL,
    source TEXT NOT NULL,
    files TEXT NOT NULL,
    state TEXT NOT NULL,
    confirmed INTEGER NOT NULL DEFAULT 0,
    used INTEGER NOT NULL DEFAULT 0,
    unused INTEGER NOT NULL DEFAULT 0, -- prompts since then that had no room for it
    created REAL NOT NULL,
    last_used REAL
) STRICT;
CREATE UNIQUE INDEX facts_by_text ON facts (repo, text);
-- sqlite only
CREATE VIRTUAL TABLE fact_words USING fts5 (text, content = 'facts', content_rowid = 'number', tokenize = 'porter unicode61');
-- postgres: CREATE TABLE fact_words (number BIGINT PRIMARY KEY, words TSVECTOR NOT NULL);
-- postgres: CREATE INDEX fact_words_found ON fact_words USING gin (words);
