#!/usr/bin/env bash
# Sees to what the virtual machine of these tests needs: QEMU and a few tools, as
# Debian packages, and a Debian kernel with rdma_rxe, which is unpacked into a
# cache and not installed. Prints the folder of the unpacked kernel.
set -euo pipefail

# KERNEL is the newest Linux 6.1 of Debian 12; KVWITNESS_VM_KERNEL pins another.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/kvwitness/vm

missing=()
for pair in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static ib_write_bw:perftest \
	rdma:iproute2 cpio:cpio depmod:kmod; do
	command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
done
[[ -e /usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so ]] || missing+=(ibverbs-providers)

as_root=()
if ((EUID != 0)); then as_root=(sudo); fi
if ((${#missing[@]})); then
	if ! command -v apt-get >/dev/null; then
		echo "the tests in a virtual machine need: ${missing[*]} (names of Debian packages)" >&2
		exit 1
	fi
	echo "installing what the virtual machine needs: ${missing[*]}" >&2
	"${as_root[@]}" apt-get update -qq >&2
	DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
fi

package=${KVWITNESS_VM_KERNEL:-$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9.-]*-amd64\)$/\1/p' | head -1)}
if [[ -z $package ]]; then
	"${as_root[@]}" apt-get update -qq >&2
	package=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9.-]*-amd64\)$/\1/p' | head -1)
fi
kernel=$cache/$package
if [[ ! -e $kernel/ready ]]; then
	echo "fetching $package, which is unpacked into $kernel" >&2
	rm -rf "$kernel" && mkdir -p "$kernel/deb"
	(cd "$kernel/deb" && apt-get download -qq "$package" 2>/dev/null >&2)
	dpkg-deb -x "$kernel"/deb/*.deb "$kernel/root"
	rm -rf "$kernel/deb"
	depmod -b "$kernel/root" "${package#linux-image-}"
	touch "$kernel/ready"
fi
echo "$kernel"
