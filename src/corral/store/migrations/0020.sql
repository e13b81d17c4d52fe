-- Comments of reviewers on the change of a run; the record is JSON.
CREATE TABLE comments (
    run TEXT NOT NULL,
    number INTEGER NOT NULL,
    record BLOB NOT NULL,
    PRIMARY KEY (run, number)
) STRICT, WITHOUT ROWID;
