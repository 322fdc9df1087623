#!/usr/bin/env bash
# The kernels on this machine's first GPU: kernels.sh FOLDER. Each on fresh random
# inputs against float64, a writer racing a reader, what the tag check costs at pages
# of 16 and 64 tokens, digest and scrub beside a copy; and the kernels under NVIDIA's
# compute-sanitizer, where it is installed. With STAND_IN=1 on test/fakecuda.
set -euo pipefail

out=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

headers=$(kernels/ready.sh)
flags=(-test.timeout=4m)
if [[ -n ${STAND_IN:-} ]]; then
	test/fakecuda/build.sh "$work"
	flags+=(-bench-tokens=128)
	export LD_LIBRARY_PATH=$work
else
	driver=$(ldconfig -p | sed -n 's/.*libcuda\.so\.1.* => //p' | head -1)
	if [[ -z $driver ]]; then
		echo "no libcuda.so.1: the kernels need NVIDIA's driver" >&2
		exit 1
	fi
	ln -s "$driver" "$work/libcuda.so"
	flags+=(-page-reads=10000000)
fi
CGO_CFLAGS=$headers CGO_LDFLAGS=-L$work go test -c -tags cuda -o "$work/cuda.test" ./engine/backend/cuda

failed=0
"$work/cuda.test" "${flags[@]}" -test.v >"$out/kernels.txt" 2>&1 || failed=1
"$work/cuda.test" "${flags[@]}" -test.run '^$' -test.bench . >"$out/kernels-bench.txt" 2>&1 || failed=1
if command -v compute-sanitizer >/dev/null; then
	for tool in memcheck racecheck; do
		compute-sanitizer --tool "$tool" --error-exitcode 9 "$work/cuda.test" -test.run 'AgreeWithFloat64|Skipped|Digest|Scrub|WrongTag' \
			>"$out/kernels-$tool.txt" 2>&1 || failed=1
	done
else
	echo "compute-sanitizer is not installed: memcheck and racecheck did not run" | tee "$out/kernels-sanitizer.txt"
fi
grep -hE '^(---|FAIL|Benchmark)' "$out"/kernels*.txt || true
exit $failed
