-- Copyright The Leasehold Authors.
-- SPDX-License-Identifier: Apache-2.0
--
-- Fencing marks for MariaDB and MySQL, in the database of the data. Running this
-- again is harmless.

CREATE TABLE IF NOT EXISTS leasehold_mark (
  resource  varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
  issuer    varchar(512) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  token     bigint NOT NULL,
  holder    varchar(512) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- '' until a holder has raised
  raised_at datetime(6) NULL,                                            -- for people
  CHECK (issuer <> ''),
  CHECK (token BETWEEN 0 AND 4611686018427387904)
) ENGINE=InnoDB;

-- The last token of issuers that had the resource before.
CREATE TABLE IF NOT EXISTS leasehold_former (
  resource varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  issuer   varchar(512) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  token    bigint NOT NULL,
  PRIMARY KEY (resource, issuer)
) ENGINE=InnoDB;

-- No resource has the empty name: a row on which clients try whether their
-- connections count the rows that were found.
INSERT INTO leasehold_mark (resource, issuer, token, holder) VALUES ('', 'probe', 0, '')
  ON DUPLICATE KEY UPDATE resource = leasehold_mark.resource;
