#!/bin/sh
# Copyright The Leasehold Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Sets a value in PostgreSQL as the holder of a lease, with psql alone: raises the
# mark of the resource, reads, and writes in a transaction that begins with the
# check of the claim. A stale holder is refused, and the exit status is not 0.
#
# Usage: fenced-update.sh RESOURCE NAME VALUE [psql options...]
#
# The claim is in FENCING_ISSUER, FENCING_TOKEN and FENCING_HOLDER. With
# FENCING_RAISED=1 the mark is not raised: for the second and later writes of a
# term. With FENCING_CHECK=off nothing is raised or checked: the same script as
# one without a fence, to see what a stale holder does then. An operator
# prepares the database once:
#
#   psql --set=ON_ERROR_STOP=1 --single-transaction --file=fencing/postgres/schema.sql
#   psql --command="SELECT leasehold.arm_mark('RESOURCE', 'ISSUER')"
#   psql --command="CREATE TABLE setting (name text PRIMARY KEY, value text NOT NULL)"

set -eu
if [ $# -lt 3 ]; then
	echo "usage: $0 RESOURCE NAME VALUE [psql options...]" >&2
	exit 2
fi
resource=$1 name=$2 value=$3
shift 3

# Kubernetes sets a variable that refers to a missing annotation to nothing.
: "${FENCING_ISSUER:?is empty}" "${FENCING_TOKEN:?is empty}" "${FENCING_HOLDER:?is empty}"

# What follows :' is quoted by psql: no value can become part of the SQL. A first
# error ends psql, with a status that is not 0, and its transaction.
sql() {
	psql --no-psqlrc --quiet --tuples-only --no-align --set=ON_ERROR_STOP=1 --set=VERBOSITY=verbose \
		--set=resource="$resource" --set=name="$name" --set=value="$value" \
		--set=issuer="$FENCING_ISSUER" --set=token="$FENCING_TOKEN" --set=holder="$FENCING_HOLDER" "$@"
}

raise="SELECT leasehold.raise_mark(:'resource', :'issuer', :'token', :'holder') \\g /dev/null"
check="SELECT leasehold.check_mark(:'resource', :'issuer', :'token', :'holder') \\g /dev/null"
if [ "${FENCING_CHECK:-}" = off ]; then
	raise='' check=''
fi

if [ "${FENCING_RAISED:-}" != 1 ]; then
	printf '%s\n' "$raise" | sql "$@" # alone, and before the state is read
fi

was=$(echo "SELECT value FROM setting WHERE name = :'name'" | sql "$@")
echo "was: $was"

sql "$@" <<SQL
BEGIN;
$check
INSERT INTO setting (name, value) VALUES (:'name', :'value')
  ON CONFLICT (name) DO UPDATE SET value = excluded.value;
COMMIT;
SQL
echo "is: $value"
