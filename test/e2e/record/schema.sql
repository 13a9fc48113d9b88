-- A start of work: one process that was started with a token.
CREATE TABLE IF NOT EXISTS starts (
  id         bigserial PRIMARY KEY,
  job        text NOT NULL,
  kind       text NOT NULL,
  token      bigint NOT NULL,
  holder     text NOT NULL,
  boot       text NOT NULL UNIQUE,
  pid        int NOT NULL,
  started_at timestamptz NOT NULL,
  raised_at  timestamptz
);

-- A sign of life.
CREATE TABLE IF NOT EXISTS beats (
  start bigint NOT NULL REFERENCES starts,
  at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX IF NOT EXISTS beats_start ON beats (start);

-- A guarded write that was accepted.
CREATE TABLE IF NOT EXISTS writes (
  start bigint NOT NULL REFERENCES starts,
  at    timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- A guarded write that was refused.
CREATE TABLE IF NOT EXISTS refusals (
  start bigint NOT NULL REFERENCES starts,
  at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  why   text NOT NULL
);
