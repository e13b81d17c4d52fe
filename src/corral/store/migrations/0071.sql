-- Indexes for counts and for gates: each scrape of the metrics and each look of a server asks for them.
CREATE INDEX runs_of_status ON runs (status);
CREATE INDEX runs_of_flow ON runs (flow, status) WHERE strategy = 'flow';
CREATE INDEX attempts_of_agent ON attempts (agent, status, usd);
CREATE INDEX deliveries_of_state ON deliveries (state);
