-- Attempts of an assumed price that no meter counts start one after another under limits of days and months.
ALTER TABLE ledger ADD COLUMN guessed INTEGER NOT NULL DEFAULT 0;
-- Whether the attempt's agent was logged in with a subscription: its dollars say what the API would have cost.
ALTER TABLE ledger ADD COLUMN notional INTEGER NOT NULL DEFAULT 0;
