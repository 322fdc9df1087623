#!/usr/bin/env bash
# Builds the libcuda of this folder: build.sh FOLDER [12|13] puts libcuda.so.1 (and
# libcuda.so, to link with) there. cuda.h is that of kernels/ready.sh, of CUDA 12 if
# nothing is said. Every other function that gorgonia.org/cu calls becomes a stub that
# is not supported.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
out=$1
headers=$("$here/../../kernels/ready.sh" "${2:-12}")
read -ra headers <<<"$headers"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The names as cuda.h has them for the linker (cuMemAlloc is cuMemAlloc_v2).
linked() { (echo '#include <cuda.h>' && sed 's/^/LINKED /') | gcc -E -P "${headers[@]}" -xc - | sed -n 's/^LINKED //p' | sort -u; }

# A machine that has not built it yet has no folder of it.
cu=$(cd "$here/../.." && go mod download gorgonia.org/cu && go list -m -f '{{.Dir}}' gorgonia.org/cu)
cat "$cu"/*.go "$cu"/*.c | grep -oE '\bcu[A-Z][A-Za-z0-9]*_?[a-z0-9]*\(' | tr -d '(' | sort -u | linked >"$work/called"
grep -oE '^API cu\w+' "$here/driver/driver.cpp" | cut -d' ' -f2 | linked >"$work/here"
comm -23 "$work/called" "$work/here" | sed 's/.*/extern "C" __attribute__((visibility("default"))) int &() { return 801; }/' >"$work/stubs.cpp"

flags=(-O2 -std=c++17 -fPIC -fvisibility=hidden -fno-strict-aliasing -ffp-contract=off -Wall -Wno-unused-function -Wno-unknown-pragmas)
flags+=(-DKVW_ON_CPU -I"$here/driver" "${headers[@]}")
mkdir -p "$out"
g++ "${flags[@]}" -O3 -xc++ -c "$here/../../kernels/kernels.cu" -o "$work/kernels.o"
for part in driver fibres inject; do g++ "${flags[@]}" -c "$here/driver/$part.cpp" -o "$work/$part.o"; done
g++ -O1 -fPIC -c "$work/stubs.cpp" -o "$work/stubs.o"
g++ -shared -Wl,-soname,libcuda.so.1 -Wl,-z,defs -o "$work/libcuda.so.1" "$work"/*.o
mv "$work/libcuda.so.1" "$out/"
ln -sf libcuda.so.1 "$out/libcuda.so"
