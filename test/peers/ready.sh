#!/usr/bin/env bash
# Sees to what the interop tests in this folder and beside it need of a machine: a
# Python that makes virtual environments, UCX, the libraries that Mooncake's wheel loads,
# the tools that make two hosts of one, and systemd's journald. What is missing is
# installed where that is possible (Debian, as root or by sudo), and named where it is
# not. Nothing of it is needed to build or run kvwitness.
set -euo pipefail

missing=()
need() {
	local package=$1
	shift
	"$@" >/dev/null 2>&1 || missing+=("$package")
}
library() { ldconfig -p | grep "$1" >/dev/null; } # the whole list is read: a reader that stops early fails the pipe

need python3 python3 --version
need python3-venv python3 -c 'import ensurepip, venv'
need libibverbs1 library libibverbs.so.1
need libibverbs-dev test -e /usr/include/infiniband/verbs.h
need libucx0 library libucp.so.0
need libucx-dev test -e /usr/include/ucp/api/ucp.h
need librdmacm1 library librdmacm.so.1
need libnuma1 library libnuma.so.1
need libcurl4 library libcurl.so.4
# test/twohosts
need iproute2 ip -V
need util-linux unshare --version
need openssl openssl version
# sidecar/source/logs: a real journal
need systemd test -x /lib/systemd/systemd-journald
need bsdutils logger --version

((${#missing[@]})) || exit 0

as_root=()
if ((EUID != 0)); then as_root=(sudo); fi
if ! command -v apt-get >/dev/null || { ((EUID != 0)) && ! sudo -n true 2>/dev/null; }; then
	echo "the interop tests (test/peers) need: ${missing[*]} (names of Debian packages); install them and run again" >&2
	exit 1
fi
echo "installing what the interop tests need: ${missing[*]}" >&2
"${as_root[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
