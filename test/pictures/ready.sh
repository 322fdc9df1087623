#!/usr/bin/env bash
# Sees to Grafana's packages, of the versions that page/package-lock.json names, in the
# user's cache folder, and prints the folder that they lie in. Nothing of them is run
# on this machine but esbuild; the rest runs in the browser.
set -euo pipefail

page=$(cd "$(dirname "$0")/page" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/kvwitness/pictures
if ! command -v npm >/dev/null; then
	echo "the pictures need npm; install it (nodejs, npm) and run again" >&2
	exit 1
fi
if ! cmp -s "$page/package-lock.json" "$cache/ready"; then
	mkdir -p "$cache"
	cp "$page/package.json" "$page/package-lock.json" "$cache"
	# Some of the packages name an older React than Grafana runs them with.
	(cd "$cache" && npm ci --legacy-peer-deps --prefer-offline --ignore-scripts --no-audit --no-fund >&2)
	cp "$page/package-lock.json" "$cache/ready"
fi
echo "$cache/node_modules"
