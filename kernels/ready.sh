#!/usr/bin/env bash
# Sees to what the CUDA part needs besides Go, and may not be kept here: a C++
# compiler and NVIDIA's files, which it fetches once. Nothing of it is needed to
# build the rest.
#
#   ready.sh [12|13]     prints the flags (CGO_CFLAGS) that find cuda.h of CUDA 12 (if
#                        nothing is said) or 13; another folder of it, of CUDA 11 to
#                        13, may be named by CUDA_INCLUDE
#   ready.sh ptxas 12|13 prints the path of NVIDIA's assembler
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)

# wheel NAME VERSION fetches a Python package and says where it was unpacked.
wheel() {
	local folder=$root/.cache/cuda/$1-$2 work
	if [[ ! -d $folder ]]; then
		if ! command -v python3 >/dev/null; then
			echo "$1 $2 is fetched by pip: install python3 with its venv module and run again; for cuda.h alone name its folder by CUDA_INCLUDE" >&2
			return 1
		fi
		mkdir -p "$root/.cache/cuda"
		work=$(mktemp -d "$root/.cache/cuda/XXXXXX")
		python3 -m venv "$work/venv" >&2 &&
			"$work/venv/bin/pip" download -q --disable-pip-version-check --no-deps "$1==$2" -d "$work" >&2 &&
			python3 -m zipfile -e "$work"/*.whl "$work/wheel" &&
			{ mv -T "$work/wheel" "$folder" 2>/dev/null || [[ -d $folder ]]; } || { # or another was sooner
			rm -rf "$work"
			echo "$1 $2 cannot be fetched: see above" >&2
			return 1
		}
		rm -rf "$work"
	fi
	echo "$folder"
}

# A folder of headers, and one of programs.
of_12() {
	case $1 in
	include) at=$(wheel nvidia-cuda-runtime-cu12 12.8.90) && echo "$at/nvidia/cuda_runtime/include" ;;
	bin) at=$(wheel nvidia-cuda-nvcc-cu12 12.8.93) && echo "$at/nvidia/cuda_nvcc/bin" ;;
	esac
}
of_13() {
	case $1 in
	include) at=$(wheel nvidia-cuda-runtime 13.0.96) && echo "$at/nvidia/cu13/include" ;;
	bin) at=$(wheel nvidia-cuda-nvcc 13.0.88) && echo "$at/nvidia/cu13/bin" ;;
	esac
}

compiler() {
	if command -v g++ >/dev/null; then return; fi
	if ! command -v apt-get >/dev/null; then
		echo "the tests in test/fakecuda need g++; install it and run again" >&2
		return 1
	fi
	local as_root=()
	if ((EUID != 0)); then as_root=(sudo -n); fi
	"${as_root[@]}" apt-get update -qq >&2
	DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends g++ >&2
}

case ${1:-12} in
12 | 13)
	compiler
	include=${CUDA_INCLUDE:-}
	if [[ -z $include ]]; then include=$("of_${1:-12}" include); fi
	if [[ ! -s $include/cuda.h ]]; then
		echo "no cuda.h in $include: name its folder by CUDA_INCLUDE" >&2
		exit 1
	fi
	echo "-I$root/kernels/compat -I$include"
	;;
ptxas)
	bin=$("of_${2:-12}" bin)
	chmod +x "$bin/ptxas"
	echo "$bin/ptxas"
	;;
*)
	sed -n '2,11s/^# \?//p' "$0" >&2
	exit 2
	;;
esac
