-- Copyright The Leasehold Authors.
-- SPDX-License-Identifier: Apache-2.0
--
-- Fencing marks for PostgreSQL 12 and newer, usable from any language. Run
-- this file as the owner-to-be; running it again is harmless. Then:
--
--   GRANT USAGE ON SCHEMA leasehold TO app;      -- the role of the holders
--   SELECT leasehold.arm_mark('orders', '<clusterUID>/<namespace>/<lease>');
--
-- A holder raises once and alone in its transaction, then reads the state, and
-- then checks in each transaction that writes, best as its first statement:
--
--   SELECT leasehold.raise_mark('orders', issuer, token, holder);
--   BEGIN; SELECT leasehold.check_mark('orders', issuer, token, holder); …; COMMIT;
--
-- Refusals are errors, which abort the transaction: LH001 when the mark is not
-- the claim, with the mark as JSON in DETAIL; LH002 when there is no mark.
--
-- The role of the holders should not own these objects, and should have
-- idle_in_transaction_session_timeout set: a holder that is frozen inside a
-- transaction keeps its successor's raise waiting until its session ends.

-- Two installations at once would trip over each other's IF NOT EXISTS.
SELECT pg_advisory_xact_lock(hashtextextended('leasehold:install', 0));

CREATE SCHEMA IF NOT EXISTS leasehold;

CREATE TABLE IF NOT EXISTS leasehold.mark (
  resource  text PRIMARY KEY CHECK (resource <> ''),
  issuer    text NOT NULL CHECK (issuer <> ''),
  token     bigint NOT NULL CHECK (token BETWEEN 0 AND 4611686018427387904),
  holder    text NOT NULL,           -- '' until a holder has raised
  former    jsonb NOT NULL DEFAULT '{}', -- issuers before this one: their last token
  raised_at timestamptz              -- null until a holder has raised; for people
);

GRANT SELECT ON leasehold.mark TO PUBLIC;

-- refuse raises the error for a claim that the mark did not accept.
CREATE OR REPLACE FUNCTION leasehold.refuse(resource text)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE m leasehold.mark;
BEGIN
  SELECT * INTO m FROM leasehold.mark k WHERE k.resource = refuse.resource;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'LH002',
      MESSAGE = format('leasehold: resource "%s" is not armed', refuse.resource),
      HINT = 'If no mark was lost, arm it: SELECT leasehold.arm_mark(resource, issuer).';
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'LH001',
    MESSAGE = format('leasehold: the mark of resource "%s" refuses the claim', refuse.resource),
    DETAIL = json_build_object('issuer', m.issuer, 'token', m.token, 'holder', m.holder)::text,
    HINT = 'Stop if the mark is newer. If it is older, raise it and read the state before writing.';
END $$;

-- queue is the advisory lock in which raises and checks of a resource wait for
-- each other in order of arrival. The row lock alone is safe but not fair: new
-- sharers join those that hold it, past a raise that waits, so that a stale
-- holder with enough writers could keep its successor out for ever.
CREATE OR REPLACE FUNCTION leasehold.queue(resource text)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT pg_catalog.hashtextextended('leasehold:mark:' OPERATOR(pg_catalog.||) resource, 0)
$$;

-- check_mark returns true if the mark is this claim, and keeps it so until the
-- transaction ends; otherwise it fails. FOR SHARE conflicts with the raise's
-- UPDATE (FOR KEY SHARE would not), and after a wait PostgreSQL looks at the
-- row's newest version: so a check that was overtaken finds nothing. The
-- function is not STRICT on purpose: a null in a claim must refuse, not skip.
CREATE OR REPLACE FUNCTION leasehold.check_mark(resource text, issuer text, token bigint, holder text)
RETURNS boolean LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(leasehold.queue(check_mark.resource));
  PERFORM 1 FROM leasehold.mark m
    WHERE m.resource = check_mark.resource AND m.issuer = check_mark.issuer
      AND m.token = check_mark.token AND m.holder = check_mark.holder AND m.holder <> ''
    FOR SHARE;
  IF NOT FOUND THEN
    PERFORM leasehold.refuse(check_mark.resource);
  END IF;
  RETURN true;
END $$;

-- raise_mark moves the mark up to this claim. It waits for the transactions
-- that have checked, and those that check later wait for it. Only a claim that
-- is above the mark queues at all: a stale one must not hold up the holder, and
-- the holder's own repetition must not hold up its writes.
CREATE OR REPLACE FUNCTION leasehold.raise_mark(resource text, issuer text, token bigint, holder text)
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE m leasehold.mark;
BEGIN
  IF (token BETWEEN 1 AND 4611686018427387904) IS NOT TRUE OR (holder <> '') IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
      MESSAGE = 'leasehold: a claim needs a token between 1 and 2^62 and a holder';
  END IF;
  SELECT * INTO m FROM leasehold.mark k WHERE k.resource = raise_mark.resource;
  IF m.issuer = raise_mark.issuer AND m.token = raise_mark.token AND m.holder = raise_mark.holder THEN
    RETURN;
  END IF;
  IF m.issuer = raise_mark.issuer AND m.token < raise_mark.token THEN
    PERFORM pg_advisory_xact_lock(leasehold.queue(raise_mark.resource));
    UPDATE leasehold.mark k
      SET token = raise_mark.token, holder = raise_mark.holder, raised_at = clock_timestamp()
      WHERE k.resource = raise_mark.resource AND k.issuer = raise_mark.issuer
        AND (k.token < raise_mark.token OR (k.token = raise_mark.token AND k.holder = raise_mark.holder));
    IF FOUND THEN
      RETURN;
    END IF;
  END IF;
  PERFORM leasehold.refuse(raise_mark.resource);
END $$;

-- arm_mark gives the resource a mark that no holder has raised, unless the
-- issuer's mark is there already.
CREATE OR REPLACE FUNCTION leasehold.arm_mark(resource text, issuer text)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO leasehold.mark AS m (resource, issuer, token, holder)
    VALUES (arm_mark.resource, arm_mark.issuer, 0, '') ON CONFLICT DO NOTHING;
  PERFORM 1 FROM leasehold.mark m WHERE m.resource = arm_mark.resource AND m.issuer = arm_mark.issuer;
  IF NOT FOUND THEN
    PERFORM leasehold.refuse(arm_mark.resource);
  END IF;
END $$;

-- adopt_mark hands the resource to another issuer. The tokens of one say
-- nothing about those of the other, so the new one starts at 0, or at the token
-- that it had here before: a resource that goes back to its first cluster must
-- not let that one's old holders in again.
CREATE OR REPLACE FUNCTION leasehold.adopt_mark(resource text, from_issuer text, to_issuer text)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(leasehold.queue(adopt_mark.resource));
  UPDATE leasehold.mark m
    SET issuer = to_issuer, holder = '', raised_at = NULL,
        token = coalesce((m.former ->> to_issuer)::bigint, 0),
        former = (m.former - to_issuer) || jsonb_build_object(m.issuer, m.token)
    WHERE m.resource = adopt_mark.resource AND m.issuer = from_issuer AND from_issuer <> to_issuer;
  IF FOUND THEN
    RETURN;
  END IF;
  PERFORM 1 FROM leasehold.mark m WHERE m.resource = adopt_mark.resource AND m.issuer = to_issuer;
  IF NOT FOUND THEN
    PERFORM leasehold.refuse(adopt_mark.resource);
  END IF;
END $$;

-- Holders raise and check. Arming and adopting are for operators.
REVOKE EXECUTE ON FUNCTION leasehold.refuse(text), leasehold.arm_mark(text, text),
  leasehold.adopt_mark(text, text, text) FROM PUBLIC;
