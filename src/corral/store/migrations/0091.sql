-- Running sums of the ledger: limits of a day and a month and `corral cost` read them, not all entries. The database itself
-- keeps them up to date, in the transaction that changes an entry. Money is in millionths of a dollar: sums are exact.
-- What each entry adds to them. (A cast rounds in one database and cuts off in the other: `at` is rounded down.)
CREATE VIEW ledger_parts AS
SELECT attempt, at, since_1970 / 900 AS quarter, since_1970 / 86400 AS day, agent, repo,
  coalesce(account, '') AS account, coalesce(model, '') AS model, coalesce(type, '') AS type, source, status,
  is_notional, 1 AS attempts,
  CASE WHEN status = 'done' THEN 1 ELSE 0 END AS done,
  CASE WHEN source = 'unknown' THEN 1 ELSE 0 END AS unknown,
  CAST(round(usd * 1000000) AS INTEGER) AS spent,
  CASE WHEN reserved > usd THEN CAST(round((reserved - usd) * 1000000) AS INTEGER) ELSE 0 END AS unspent,
  CASE WHEN is_notional = 1 THEN CAST(round(usd * 1000000) AS INTEGER) ELSE 0 END AS notional,
  CAST(input AS REAL) + output + cache_read + cache_write AS tokens, seconds,
  CAST(input AS REAL) AS input, CAST(output AS REAL) AS output,
  CAST(cache_read AS REAL) AS cache_read, CAST(cache_write AS REAL) AS cache_write
FROM (
  SELECT ledger.*, ledger.spent AS usd, ledger.notional AS is_notional,
    CAST(at AS INTEGER) - CASE WHEN CAST(at AS INTEGER) > at THEN 1 ELSE 0 END AS since_1970
  FROM ledger
) entries;

CREATE TABLE ledger_quarters (     -- of quarters of an hour since 1970: days of every time zone begin with one
  quarter  INTEGER NOT NULL,
  agent    TEXT NOT NULL,
  repo     TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  done     INTEGER NOT NULL,
  unknown  INTEGER NOT NULL,       -- of unknown cost
  spent    INTEGER NOT NULL,
  unspent  INTEGER NOT NULL,       -- reserved beyond what is spent
  notional INTEGER NOT NULL,       -- of `spent`: by agents with a subscription login
  tokens   REAL NOT NULL,
  seconds  REAL NOT NULL,
  PRIMARY KEY (quarter, agent, repo)
) STRICT, WITHOUT ROWID;

CREATE TABLE ledger_days (         -- of days of UTC since 1970, by all that costs are grouped by
  day         INTEGER NOT NULL,
  agent       TEXT NOT NULL,
  account     TEXT NOT NULL,
  model       TEXT NOT NULL,
  type        TEXT NOT NULL,
  repo        TEXT NOT NULL,
  source      TEXT NOT NULL,
  status      TEXT NOT NULL,
  is_notional INTEGER NOT NULL,
  attempts    INTEGER NOT NULL,
  spent       INTEGER NOT NULL,
  unspent     INTEGER NOT NULL,
  seconds     REAL NOT NULL,
  input       REAL NOT NULL,
  output      REAL NOT NULL,
  cache_read  REAL NOT NULL,
  cache_write REAL NOT NULL,
  PRIMARY KEY (day, agent, account, model, type, repo, source, status, is_notional)
) STRICT, WITHOUT ROWID;
CREATE INDEX ledger_days_empty ON ledger_days (day) WHERE attempts = 0;

INSERT INTO ledger_quarters (quarter, agent, repo,
  attempts, done, unknown, spent, unspent, notional, tokens, seconds)
SELECT quarter, agent, repo,
  CAST(sum(attempts) AS INTEGER), CAST(sum(done) AS INTEGER), CAST(sum(unknown) AS INTEGER),
  CAST(sum(spent) AS INTEGER), CAST(sum(unspent) AS INTEGER), CAST(sum(notional) AS INTEGER),
  sum(tokens), sum(seconds)
FROM ledger_parts GROUP BY quarter, agent, repo;
INSERT INTO ledger_days (day, agent, account, model, type, repo, source, status, is_notional,
  attempts, spent, unspent, seconds, input, output, cache_read, cache_write)
SELECT day, agent, account, model, type, repo, source, status, is_notional,
  CAST(sum(attempts) AS INTEGER), CAST(sum(spent) AS INTEGER), CAST(sum(unspent) AS INTEGER),
  sum(seconds), sum(input), sum(output),
  sum(cache_read), sum(cache_write)
FROM ledger_parts GROUP BY day, agent, account, model, type, repo, source, status, is_notional;

-- sqlite only
CREATE TRIGGER ledger_adds AFTER INSERT ON ledger BEGIN
  INSERT INTO ledger_quarters (quarter, agent, repo,
    attempts, done, unknown, spent, unspent, notional, tokens, seconds)
  SELECT quarter, agent, repo,
    attempts, done, unknown, spent, unspent, notional, tokens, seconds
  FROM ledger_parts WHERE attempt = NEW.attempt
  ON CONFLICT (quarter, agent, repo) DO UPDATE SET
    attempts = ledger_quarters.attempts + excluded.attempts, done = ledger_quarters.done + excluded.done,
    unknown = ledger_quarters.unknown + excluded.unknown, spent = ledger_quarters.spent + excluded.spent,
    unspent = ledger_quarters.unspent + excluded.unspent, notional = ledger_quarters.notional + excluded.notional,
    tokens = ledger_quarters.tokens + excluded.tokens, seconds = ledger_quarters.seconds + excluded.seconds;
  INSERT INTO ledger_days (day, agent, account, model, type, repo, source, status, is_notional,
    attempts, spent, unspent, seconds, input, output, cache_read, cache_write)
  SELECT day, agent, account, model, type, repo, source, status, is_notional,
    attempts, spent, unspent, seconds, input, output, cache_read, cache_write
  FROM ledger_parts WHERE attempt = NEW.attempt
  ON CONFLICT (day, agent, account, model, type, repo, source, status, is_notional) DO UPDATE SET
    attempts = ledger_days.attempts + excluded.attempts, spent = ledger_days.spent + excluded.spent,
    unspent = ledger_days.unspent + excluded.unspent, seconds = ledger_days.seconds + excluded.seconds,
    input = ledger_days.input + excluded.input, output = ledger_days.output + excluded.output,
    cache_read = ledger_days.cache_read + excluded.cache_read, cache_write = ledger_days.cache_write + excluded.cache_write;
END;
-- sqlite only
CREATE TRIGGER ledger_takes_before BEFORE UPDATE OF at, agent, account, model, type, repo, reserved, spent, source, status, seconds,
  input, output, cache_read, cache_write, notional ON ledger BEGIN
  INSERT INTO ledger_quarters (quarter, agent, repo,
    attempts, done, unknown, spent, unspent, notional, tokens, seconds)
  SELECT quarter, agent, repo,
    -attempts, -done, -unknown, -spent, -unspent, -notional, -tokens, -seconds
  FROM ledger_parts WHERE attempt = OLD.attempt
  ON CONFLICT (quarter, agent, repo) DO UPDATE SET
    attempts = ledger_quarters.attempts + excluded.attempts, done = ledger_quarters.done + excluded.done,
    unknown = ledger_quarters.unknown + excluded.unknown, spent = ledger_quarters.spent + excluded.spent,
    unspent = ledger_quarters.unspent + excluded.unspent, notional = ledger_quarters.notional + excluded.notional,
    tokens = ledger_quarters.tokens + excluded.tokens, seconds = ledger_quarters.seconds + excluded.seconds;
  INSERT INTO ledger_days (day, agent, account, model, type, repo, source, status, is_notional,
    attempts, spent, unspent, seconds, input, output, cache_read, cache_write)
  SELECT day, agent, account, model, type, repo, source, status, is_notional,
    -attempts, -spent, -unspent, -seconds, -input, -output, -cache_read, -cache_write
  FROM ledger_parts WHERE attempt = OLD.attempt
  ON CONFLICT (day, agent, account, model, type, repo, source, status, is_notional) DO UPDATE SET
    attempts = ledger_days.attempts + excluded.attempts, spent = ledger_days.spent + excluded.spent,
    unspent = ledger_days.unspent + excluded.unspent, seconds = ledger_days.seconds + excluded.seconds,
    input = ledger_days.input + excluded.input, output = ledger_days.output + excluded.output,
    cache_read = ledger_days.cache_read + excluded.cache_read, cache_write = ledger_days.cache_write + excluded.cache_write;
END;
-- sqlite only
CREATE TRIGGER ledger_adds_after AFTER UPDATE OF at, agent, account, model, type, repo, reserved, spent, source, status, seconds,
  input, output, cache_read, cache_write, notional ON ledger BEGIN
  INSERT INTO ledger_quarters (quarter, agent, repo,
    attempts, done, unknown, spent, unspent, notional, tokens, seconds)
  SELECT quarter, agent, repo,
    attempts, done, unknown, spent, unspent, notional, tokens, seconds
  FROM ledger_parts WHERE attempt = NEW.attempt
  ON CONFLICT (quarter, agent, repo) DO UPDATE SET
    attempts = ledger_quarters.attempts + excluded.attempts, done = ledger_quarters.done + excluded.done,
    unknown = ledger_quarters.unknown + excluded.unknown, spent = ledger_quarters.spent + excluded.spent,
    unspent = ledger_quarters.unspent + excluded.unspent, notional = ledger_quarters.notional + excluded.notional,
    tokens = ledger_quarters.tokens + excluded.tokens, seconds = ledger_quarters.seconds + excluded.seconds;
  INSERT INTO ledger_days (day, agent, account, model, type, repo, source, status, is_notional,
    attempts, spent, unspent, seconds, input, output, cache_read, cache_write)
  SELECT day, agent, account, model, type, repo, source, status, is_notional,
    attempts, spent, unspent, seconds, input, output, cache_read, cache_write
  FROM ledger_parts WHERE attempt = NEW.attempt
  ON CONFLICT (day, agent, account, model, type, repo, source, status, is_notional) DO UPDATE SET
    attempts = ledger_days.attempts + excluded.attempts, spent = ledger_days.spent + excluded.spent,
    unspent = ledger_days.unspent + excluded.unspent, seconds = ledger_days.seconds + excluded.seconds,
    input = ledger_days.input + excluded.input, output = ledger_days.output + excluded.output,
    cache_read = ledger_days.cache_read + excluded.cache_read, cache_write = ledger_days.cache_write + excluded.cache_write;
  DELETE FROM ledger_days WHERE attempts = 0;
END;
-- sqlite only
CREATE TRIGGER ledger_takes BEFORE DELETE ON ledger BEGIN
  INSERT INTO ledger_quarters (quarter, agent, repo,
    attempts, done, unknown, spent, unspent, notional, tokens, seconds)
  SELECT quarter, agent, repo,
    -attempts, -done, -unknown, -spent, -unspent, -notional, -tokens, -seconds
  FROM ledger_parts WHERE attempt = OLD.attempt
  ON CONFLICT (quarter, agent, repo) DO UPDATE SET
    attempts = ledger_quarters.attempts + excluded.attempts, done = ledger_quarters.done + excluded.done,
    unknown = ledger_quarters.unknown + excluded.unknown, spent = ledger_quarters.spent + excluded.spent,
    unspent = ledger_quarters.unspent + excluded.unspent, notional = ledger_quarters.notional + excluded.notional,
    tokens = ledger_quarters.tokens + excluded.tokens, seconds = ledger_quarters.seconds + excluded.seconds;
  INSERT INTO ledger_days (day, agent, account, model, type, repo, source, status, is_notional,
    attempts, spent, unspent, seconds, input, output, cache_read, cache_write)
  SELECT day, agent, account, model, type, repo, source, status, is_notional,
    -attempts, -spent, -unspent, -seconds, -input, -output, -cache_read, -cache_write
  FROM ledger_parts WHERE attempt = OLD.attempt
  ON CONFLICT (day, agent, account, model, type, repo, source, status, is_notional) DO UPDATE SET
    attempts = ledger_days.attempts + excluded.attempts, spent = ledger_days.spent + excluded.spent,
    unspent = ledger_days.unspent + excluded.unspent, seconds = ledger_days.seconds + excluded.seconds,
    input = ledger_days.input + excluded.input, output = ledger_days.output + excluded.output,
    cache_read = ledger_days.cache_read + excluded.cache_read, cache_write = ledger_days.cache_write + excluded.cache_write;
  DELETE FROM ledger_days WHERE attempts = 0;
END;
-- postgres: CREATE FUNCTION ledger_adds() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
-- postgres:   INSERT INTO ledger_quarters (quarter, agent, repo,
-- postgres:     attempts, done, unknown, spent, unspent, notional, tokens, seconds)
-- postgres:   SELECT quarter, agent, repo,
-- postgres:     attempts, done, unknown, spent, unspent, notional, tokens, seconds
-- postgres:   FROM ledger_parts WHERE attempt = NEW.attempt
-- postgres:   ON CONFLICT (quarter, agent, repo) DO UPDATE SET
-- postgres:     attempts = ledger_quarters.attempts + excluded.attempts, done = ledger_quarters.done + excluded.done,
-- postgres:     unknown = ledger_quarters.unknown + excluded.unknown, spent = ledger_quarters.spent + excluded.spent,
-- postgres:     unspent = ledger_quarters.unspent + excluded.unspent, notional = ledger_quarters.notional + excluded.notional,
-- postgres:     tokens = ledger_quarters.tokens + excluded.tokens, seconds = ledger_quarters.seconds + excluded.seconds;
-- postgres:   INSERT INTO ledger_days (day, agent, account, model, type, repo, source, status, is_notional,
-- postgres:     attempts, spent, unspent, seconds, input, output, cache_read, cache_write)
-- postgres:   SELECT day, agent, account, model, type, repo, source, status, is_notional,
-- postgres:     attempts, spent, unspent, seconds, input, output, cache_read, cache_write
-- postgres:   FROM ledger_parts WHERE attempt = NEW.attempt
-- postgres:   ON CONFLICT (day, agent, account, model, type, repo, source, status, is_notional) DO UPDATE SET
-- postgres:     attempts = ledger_days.attempts + excluded.attempts, spent = ledger_days.spent + excluded.spent,
-- postgres:     unspent = ledger_days.unspent + excluded.unspent, seconds = ledger_days.seconds + excluded.seconds,
-- postgres:     input = ledger_days.input + excluded.input, output = ledger_days.output + excluded.output,
-- postgres:     cache_read = ledger_days.cache_read + excluded.cache_read, cache_write = ledger_days.cache_write + excluded.cache_write;
-- postgres:   DELETE FROM ledger_days WHERE attempts = 0;
-- postgres:   RETURN NULL;
-- postgres: END $$;
-- postgres: CREATE FUNCTION ledger_takes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
-- postgres:   INSERT INTO ledger_quarters (quarter, agent, repo,
-- postgres:     attempts, done, unknown, spent, unspent, notional, tokens, seconds)
-- postgres:   SELECT quarter, agent, repo,
-- postgres:     -attempts, -done, -unknown, -spent, -unspent, -notional, -tokens, -seconds
-- postgres:   FROM ledger_parts WHERE attempt = OLD.attempt
-- postgres:   ON CONFLICT (quarter, agent, repo) DO UPDATE SET
-- postgres:     attempts = ledger_quarters.attempts + excluded.attempts, done = ledger_quarters.done + excluded.done,
-- postgres:     unknown = ledger_quarters.unknown + excluded.unknown, spent = ledger_quarters.spent + excluded.spent,
-- postgres:     unspent = ledger_quarters.unspent + excluded.unspent, notional = ledger_quarters.notional + excluded.notional,
-- postgres:     tokens = ledger_quarters.tokens + excluded.tokens, seconds = ledger_quarters.seconds + excluded.seconds;
-- postgres:   INSERT INTO ledger_days (day, agent, account, model, type, repo, source, status, is_notional,
-- postgres:     attempts, spent, unspent, seconds, input, output, cache_read, cache_write)
-- postgres:   SELECT day, agent, account, model, type, repo, source, status, is_notional,
-- postgres:     -attempts, -spent, -unspent, -seconds, -input, -output, -cache_read, -cache_write
-- postgres:   FROM ledger_parts WHERE attempt = OLD.attempt
-- postgres:   ON CONFLICT (day, agent, account, model, type, repo, source, status, is_notional) DO UPDATE SET
-- postgres:     attempts = ledger_days.attempts + excluded.attempts, spent = ledger_days.spent + excluded.spent,
-- postgres:     unspent = ledger_days.unspent + excluded.unspent, seconds = ledger_days.seconds + excluded.seconds,
-- postgres:     input = ledger_days.input + excluded.input, output = ledger_days.output + excluded.output,
-- postgres:     cache_read = ledger_days.cache_read + excluded.cache_read, cache_write = ledger_days.cache_write + excluded.cache_write;
-- postgres:   RETURN coalesce(NEW, OLD);
-- postgres: END $$;
-- postgres: CREATE TRIGGER ledger_adds AFTER INSERT ON ledger FOR EACH ROW EXECUTE FUNCTION ledger_adds();
-- postgres: CREATE TRIGGER ledger_takes_before BEFORE UPDATE OF at, agent, account, model, type, repo, reserved, spent, source, status, seconds,
-- postgres:   input, output, cache_read, cache_write, notional ON ledger
-- postgres:   FOR EACH ROW EXECUTE FUNCTION ledger_takes();
-- postgres: CREATE TRIGGER ledger_adds_after AFTER UPDATE OF at, agent, account, model, type, repo, reserved, spent, source, status, seconds,
-- postgres:   input, output, cache_read, cache_write, notional ON ledger
-- postgres:   FOR EACH ROW EXECUTE FUNCTION ledger_adds();
-- postgres: CREATE TRIGGER ledger_takes BEFORE DELETE ON ledger FOR EACH ROW EXECUTE FUNCTION ledger_takes();
