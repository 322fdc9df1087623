#!/usr/bin/env bash
# Checks what kvwitness says of GPUs against a real driver and real allocations, on the
# first GPU of this machine, and the kernels (kernels.sh), in a few minutes:
# run.sh [FOLDER FOR THE RESULTS].
# It needs Go, gcc, g++, python3 or CUDA_INCLUDE, the driver, 5 GiB of free memory on the GPU, and to be run where the
# node's processes can be seen. With STAND_IN=1 it asks a stand-in for the driver, which
# shows that the script works, and nothing of a GPU. It resets and changes no GPU.
set -euo pipefail

cd "$(dirname "$0")/../.."
out=${1:-dist/gpu}
mkdir -p "$out"
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT

go build -o "$bin/" ./cmd/kvwitness ./cmd/kvwitness-nvml ./test/gpu
gcc -O1 -Wall -o "$bin/holder" test/gpu/holder/holder.c -ldl

{
	date -u
	uname -r
	nvidia-smi -L || echo "no nvidia-smi"
	cat /proc/driver/nvidia/version || echo "no driver is loaded"
} >"$out/machine.txt" 2>&1
nvidia-smi -q >"$out/nvidia-smi.txt" 2>&1 || true
"$bin/kvwitness-nvml" --once >"$out/sample.json" 2>"$out/sample.err" || true
"$bin/kvwitness" check >"$out/check.txt" 2>&1 || true

args=(--bin "$bin" --out "$out")
if [[ -n ${STAND_IN:-} ]]; then
	args+=(--stand-in)
fi
failed=0
test/gpu/kernels.sh "$out" || failed=1
"$bin/gpu" "${args[@]}" || failed=1
exit $failed
