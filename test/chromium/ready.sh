#!/usr/bin/env bash
# Sees to what the users of this package need of a machine: a Chromium without a
# window, as Debian packages it, and axe-core, which looks for what people with
# disabilities stumble over. What is missing is installed or fetched where that is
# possible, and named where it is not. It prints the path of the browser and that of
# axe-core. Nothing of it is needed to build or run kvwitness.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
axe_version=4.14.1
axe=$root/.cache/web/axe-$axe_version.js
as_root=()
if ((EUID != 0)); then as_root=(sudo -n); fi

browser() {
	local name
	for name in "${KVWITNESS_TEST_BROWSER:-}" chromium-headless-shell chromium chromium-browser google-chrome; do
		if [[ -n $name ]] && command -v "$name"; then return; fi
	done
	return 1
}

if ! browser >/dev/null; then
	if ! command -v apt-get >/dev/null; then
		echo "what looks at pages in a browser needs chromium-headless-shell or chromium (names of Debian packages); install one and run again" >&2
		exit 1
	fi
	"${as_root[@]}" apt-get update -qq >&2
	DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends chromium-headless-shell fonts-dejavu-core >&2
fi
if [[ ! -s $axe ]]; then
	if ! command -v npm >/dev/null; then
		echo "what looks at pages in a browser needs axe-core $axe_version: put its axe.min.js at $axe, or install npm and run again" >&2
		exit 1
	fi
	mkdir -p "$root/.cache/web"
	work=$(mktemp -d "$root/.cache/web/XXXXXX")
	trap 'rm -rf "$work"' EXIT
	(cd "$work" && npm pack --silent "axe-core@$axe_version" >/dev/null && tar -xzf axe-core-*.tgz package/axe.min.js)
	mv "$work/package/axe.min.js" "$axe"
fi
browser
echo "$axe"
