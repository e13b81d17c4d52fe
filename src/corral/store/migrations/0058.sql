-- Indexes for questions that are asked again and again of tables that grow.
CREATE INDEX merges_conflicting ON merges (id) WHERE state = 'conflict';
CREATE INDEX merges_of_git_dir ON merges (git_dir, id);
CREATE INDEX inbox_unanswered ON inbox (id) WHERE answered_at IS NULL;
CREATE INDEX deliveries_old ON deliveries (at) WHERE state = 'delivered';
CREATE INDEX suites_old ON suites (at);
CREATE INDEX requests_old ON requests (at);
CREATE INDEX attempts_paid ON attempts (agent, started) WHERE usd IS NOT NULL;
CREATE INDEX ledger_of_agent ON ledger (agent, at);
CREATE INDEX mail_held ON mail (holder) WHERE holder IS NOT NULL;
CREATE INDEX mail_to_run ON mail (run);
CREATE INDEX mail_from_run ON mail (sender_run);
