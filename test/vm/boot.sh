#!/usr/bin/env bash
# Boots Debian's kernel in QEMU, runs a command there on this machine's files, and
# ends with its status:
#   boot.sh [-t SECONDS] COMMAND
# The guest sees the host's whole file system read-only under a layer of memory,
# and has /run/out, which is the folder $OUT of the host (made if not set). It has
# no network but an RDMA device in software, rxe0, over a pair of virtual links.
# Emulation in software throughout: time there says nothing about speed.
set -euo pipefail

limit=150
while getopts t: option; do
	case $option in t) limit=$OPTARG ;; *) exit 2 ;; esac
done
shift $((OPTIND - 1))
here=$(cd "$(dirname "$0")" && pwd)
kernel=$("$here/ready.sh")
version=$(basename "$kernel")
version=${version#linux-image-}
root=$kernel/root
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
out=${OUT:-$work/out}
mkdir -p "$out"

# Only the modules that are needed, in the order in which they load.
tree=$work/initramfs
mkdir -p "$tree/bin" "$tree/modules"
cp "$(command -v busybox)" "$tree/bin/busybox"
cp "$here/init" "$tree/init"
: >"$tree/modules.list"
for module in virtio_pci 9pnet_virtio 9p overlay veth crc32_generic rdma_rxe ib_uverbs rdma_ucm; do
	modprobe -d "$root" -S "$version" --show-depends "$module"
done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r file; do
	cp "$file" "$tree/modules/"
	echo "/modules/$(basename "$file")" >>"$tree/modules.list"
done
(cd "$tree" && find . | cpio -o -H newc --quiet) >"$work/initramfs.cpio"

cat >"$out/command" <<COMMAND
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp
ip link set lo up
ip link add left type veth peer name right
ip addr add 10.77.0.1/24 dev left && ip link set left up && ip link set right up
rdma link add rxe0 type rxe netdev left
cd "$PWD"
$*
COMMAND
rm -f "$out/status" "$out/console"
# Beyond what boots it, the kernel is told what costs emulation time for nothing.
timeout "$limit" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 3G \
	-kernel "$root/boot/vmlinuz-$version" -initrd "$work/initramfs.cpio" \
	-append "console=ttyS0 quiet panic=-1 no_timer_check mitigations=off nokaslr nowatchdog rcupdate.rcu_expedited=1 random.trust_cpu=on init=/init" -no-reboot -nographic -nodefaults -serial file:"$out/kernel" \
	-fsdev local,id=host,path=/,security_model=none,readonly=on,multidevs=remap -device virtio-9p-pci,fsdev=host,mount_tag=host \
	-fsdev local,id=out,path="$out",security_model=none -device virtio-9p-pci,fsdev=out,mount_tag=out \
	</dev/null >&2 || true
if [[ ! -e $out/status ]]; then
	echo "the guest did not come to its end (it has $limit s); its kernel said:" >&2
	tail -20 "$out/kernel" >&2
	exit 124
fi
cat "$out/console"
exit "$(cat "$out/status")"
