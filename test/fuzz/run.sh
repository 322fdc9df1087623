#!/usr/bin/env bash
# Runs every FuzzXxx of the given packages for a while and prints a table:
#   run.sh FUZZTIME PACKAGE...
# A failing input is written by go test to testdata/fuzz of its package.
set -euo pipefail

fuzztime=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT

failed=0
table=$(printf '%-28s %-34s %-8s %12s %10s' target package result execs interesting)
for package in $(go list "$@"); do
	for target in $(go test -run '^$' -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
		echo "fuzzing $target in $package for $fuzztime" >&2
		result=pass
		if ! go test -run '^$' -fuzz "^$target\$" -fuzztime "$fuzztime" "$package" >"$log" 2>&1; then
			result=FAIL
			failed=1
			cat "$log" >&2
		fi
		execs=$(grep -o 'execs: [0-9]*' "$log" | tail -1 | cut -d' ' -f2 || true)
		found=$(grep -o 'new interesting: [0-9]*' "$log" | tail -1 | cut -d' ' -f3 || true)
		table+=$(printf '\n%-28s %-34s %-8s %12s %10s' "$target" "${package#*/*/*/}" "$result" "${execs:-0}" "${found:-0}")
	done
done
echo "$table"
exit "$failed"
