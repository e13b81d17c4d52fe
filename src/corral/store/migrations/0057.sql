-- Columns for what listings ask of plans and records, so that no query looks into JSON.
ALTER TABLE runs ADD COLUMN name TEXT;
ALTER TABLE runs ADD COLUMN labels TEXT NOT NULL DEFAULT '{}';     -- JSON with sorted keys
ALTER TABLE runs ADD COLUMN repo TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN git_dir TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN strategy TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN flow TEXT;                             -- the name of its flow
ALTER TABLE runs ADD COLUMN task TEXT NOT NULL DEFAULT '';         -- what listings show
ALTER TABLE runs ADD COLUMN prompt TEXT;                           -- of its first node, if that is not its task
ALTER TABLE attempts ADD COLUMN until REAL;                        -- when the quota that stopped it comes back
ALTER TABLE attempts ADD COLUMN grade TEXT;                        -- of its evidence
ALTER TABLE attempts ADD COLUMN disputed INTEGER NOT NULL DEFAULT 0;  -- its cost is
ALTER TABLE attempts ADD COLUMN changes INTEGER NOT NULL DEFAULT 0;   -- its commit changes files
ALTER TABLE merges ADD COLUMN after TEXT;                          -- the commit that its branch was moved to

-- sqlite only
UPDATE runs SET name = json_extract(CAST(plan AS TEXT), '$.name'),
  labels = coalesce((SELECT json_group_object(key, value) FROM
    (SELECT key, value FROM json_each(CAST(plan AS TEXT), '$.labels') ORDER BY key)), '{}'),
  repo = coalesce(json_extract(CAST(plan AS TEXT), '$.repo'), ''),
  git_dir = coalesce(json_extract(CAST(plan AS TEXT), '$.git_dir'), ''),
  strategy = coalesce(json_extract(CAST(plan AS TEXT), '$.flow.strategy'), ''),
  flow = json_extract(CAST(plan AS TEXT), '$.flow.name'),
  prompt = json_extract(CAST(plan AS TEXT), '$.flow.nodes[0].task.prompt'),
  task = coalesce(CASE json_extract(CAST(plan AS TEXT), '$.flow.strategy')
    WHEN 'flow' THEN json_extract(CAST(plan AS TEXT), '$.flow.name')
    WHEN 'multi' THEN json_extract(CAST(plan AS TEXT), '$.flow.nodes[1].task.prompt')
    ELSE json_extract(CAST(plan AS TEXT), '$.flow.nodes[0].task.prompt') END, '');
-- sqlite only
UPDATE runs SET prompt = NULL WHERE prompt = task;
-- sqlite only
UPDATE attempts SET until = json_extract(CAST(record AS TEXT), '$.until'),
  grade = json_extract(CAST(record AS TEXT), '$.attempt.evidence.grade'),
  disputed = coalesce(json_extract(CAST(record AS TEXT), '$.attempt.cost.disputed'), 0),
  changes = json_extract(CAST(record AS TEXT), '$.attempt.commit') IS NOT NULL
    AND coalesce(json_array_length(CAST(record AS TEXT), '$.attempt.files_changed'), 0) > 0;
-- sqlite only
UPDATE merges SET after = json_extract(CAST(record AS TEXT), '$.after');

CREATE INDEX ancestors_of ON ancestors (run);
