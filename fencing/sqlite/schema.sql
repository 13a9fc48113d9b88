-- Copyright The Leasehold Authors.
-- SPDX-License-Identifier: Apache-2.0
--
-- Fencing marks for SQLite 3.37 and newer, in the database file of the data.
-- Running this again is harmless.

CREATE TABLE IF NOT EXISTS leasehold_mark (
  resource  TEXT NOT NULL PRIMARY KEY CHECK (resource <> ''),
  issuer    TEXT NOT NULL CHECK (issuer <> ''),
  token     INTEGER NOT NULL CHECK (token BETWEEN 0 AND 4611686018427387904),
  holder    TEXT NOT NULL, -- '' until a holder has raised
  raised_at TEXT           -- for people
) STRICT;

-- The last token of issuers that had the resource before.
CREATE TABLE IF NOT EXISTS leasehold_former (
  resource TEXT NOT NULL,
  issuer   TEXT NOT NULL,
  token    INTEGER NOT NULL,
  PRIMARY KEY (resource, issuer)
) STRICT;

-- SQLite knows no rights: these triggers stop accidents, not intent.
CREATE TRIGGER IF NOT EXISTS leasehold_mark_falls BEFORE UPDATE ON leasehold_mark
WHEN new.issuer = old.issuer AND new.token < old.token OR new.resource <> old.resource
BEGIN SELECT RAISE(ABORT, 'leasehold: a mark never goes back'); END;

CREATE TRIGGER IF NOT EXISTS leasehold_mark_goes BEFORE DELETE ON leasehold_mark
BEGIN SELECT RAISE(ABORT, 'leasehold: a mark is never deleted'); END;

CREATE TRIGGER IF NOT EXISTS leasehold_mark_replaced BEFORE INSERT ON leasehold_mark
WHEN EXISTS (SELECT 1 FROM leasehold_mark WHERE resource = new.resource)
BEGIN SELECT RAISE(ABORT, 'leasehold: a mark is never replaced'); END;
