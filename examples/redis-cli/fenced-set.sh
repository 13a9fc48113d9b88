#!/bin/sh
# Copyright The Leasehold Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Sets a key in Redis as the holder of a lease, with redis-cli alone: raises the
# mark of the resource, reads, and writes on condition of the claim. A stale
# holder is refused, and the exit status is not 0.
#
# Usage: fenced-set.sh RESOURCE NAME VALUE [redis-cli options...]
#
# The claim is in FENCING_ISSUER, FENCING_TOKEN and FENCING_HOLDER. With
# FENCING_RAISED=1 the mark is not raised: for the second and later writes of a
# term. An operator arms the resource once:
#
#   redis-cli EVAL "$(cat fencing/redis/lua/arm.lua)" 1 '{RESOURCE}leasehold' ISSUER

set -eu
if [ $# -lt 3 ]; then
	echo "usage: $0 RESOURCE NAME VALUE [redis-cli options...]" >&2
	exit 2
fi
resource=$1 name=$2 value=$3
shift 3

# Kubernetes sets a variable that refers to a missing annotation to nothing.
: "${FENCING_ISSUER:?is empty}" "${FENCING_TOKEN:?is empty}" "${FENCING_HOLDER:?is empty}"

lua="$(dirname "$0")/../../fencing/redis/lua"
mark="{$resource}leasehold" key="{$resource}:$name"
options="$*"

# cli runs one command; an error reply is a failure (-e).
# shellcheck disable=SC2086 # The options are words.
cli() { redis-cli -e $options "$@"; }

if [ "${FENCING_RAISED:-}" != 1 ]; then
	cli EVAL "$(cat "$lua/raise.lua")" 1 "$mark" "$FENCING_ISSUER" "$FENCING_TOKEN" "$FENCING_HOLDER" >/dev/null
fi
echo "was: $(cli GET "$key")" # read after the raise, never before

# check.lua in front of what writes: here exec.lua, which runs commands, each with
# the number of its words before it.
cli EVAL "$(cat "$lua/check.lua" "$lua/exec.lua")" 2 "$mark" "$key" \
	"$FENCING_ISSUER" "$FENCING_TOKEN" "$FENCING_HOLDER" 3 SET "$key" "$value" >/dev/null
echo "is: $value"
