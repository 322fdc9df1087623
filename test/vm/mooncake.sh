#!/usr/bin/env bash
# Sees to Mooncake's wheel, as test/peers pins it and where test/peers keeps it, and
# prints the Python that has it.
set -euo pipefail

peers=$(cd "$(dirname "$0")/../peers" && pwd)
"$peers/ready.sh" >&2
requirements=$peers/requirements-mooncake.txt
digest=$(sha256sum "$requirements")
dir=${XDG_CACHE_HOME:-$HOME/.cache}/kvwitness/peers/${digest:0:16}
mkdir -p "$dir"
exec 9>>"$dir/lock"
flock 9
if [[ ! -e $dir/complete ]]; then
	python3 -m venv --clear "$dir/venv" >&2
	"$dir/venv/bin/python" -m pip install --quiet -r "$requirements" >&2
	touch "$dir/complete"
fi
echo "$dir/venv/bin/python"
