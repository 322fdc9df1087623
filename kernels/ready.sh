#!/usr/bin/env bash
# Sees to what the CUDA part needs besides Go: a C++ compiler, and NVIDIA's cuda.h,
# which may not be kept here. It prints the folder of cuda.h. Another one (of CUDA 11
# or 12) may be named by CUDA_INCLUDE. Nothing of it is needed to build the rest.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
version=12.8.90
wheel=$root/.cache/cuda/nvidia-cuda-runtime-cu12-$version
include=${CUDA_INCLUDE:-$wheel/nvidia/cuda_runtime/include}

if ! command -v g++ >/dev/null; then
	if ! command -v apt-get >/dev/null; then
		echo "the tests in test/fakecuda need g++; install it and run again" >&2
		exit 1
	fi
	as_root=()
	if ((EUID != 0)); then as_root=(sudo -n); fi
	"${as_root[@]}" apt-get update -qq >&2
	DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends g++ >&2
fi
if [[ ! -s $include/cuda.h ]]; then
	if [[ -n ${CUDA_INCLUDE:-} ]] || ! command -v python3 >/dev/null; then
		echo "no cuda.h in $include: name its folder by CUDA_INCLUDE, or install python3 with venv and run again" >&2
		exit 1
	fi
	mkdir -p "$root/.cache/cuda"
	work=$(mktemp -d "$root/.cache/cuda/XXXXXX")
	trap 'rm -rf "$work"' EXIT
	python3 -m venv "$work/venv" >&2
	"$work/venv/bin/pip" download -q --disable-pip-version-check --no-deps "nvidia-cuda-runtime-cu12==$version" -d "$work" >&2
	mkdir "$work/wheel"
	python3 -m zipfile -e "$work"/nvidia_cuda_runtime_cu12-*.whl "$work/wheel"
	rm -rf "$wheel"
	mv "$work/wheel" "$wheel"
fi
echo "$include"
