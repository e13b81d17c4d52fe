-- What an attempt may have spent beyond what was counted, if its process dies now; NULL: all that is reserved.
ALTER TABLE ledger ADD COLUMN uncounted REAL;
