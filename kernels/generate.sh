#!/usr/bin/env bash
# Makes the PTX of kernels.cu with clang-16, as go generate calls it. NVIDIA's headers
# and libraries are not used.
set -euo pipefail
cd "$(dirname "$0")"

# Each GPU with the oldest PTX version that knows it.
for target in 80:70 90:78; do
	clang++-16 -x cuda --cuda-device-only --cuda-gpu-arch="sm_${target%:*}" -Xclang -target-feature -Xclang "+ptx${target#*:}" \
		-nocudainc -nocudalib -std=c++17 -O3 -Wall -Werror -Wno-unused-function \
		-fno-ident -S kernels.cu -o "ptx/sm_${target%:*}.ptx"
done
