#!/usr/bin/env bash
# Sees to what the users of this package need of a machine: Prometheus and
# Alertmanager with promtool and amtool, as Debian 12 packages them, and prints the
# folder of the four. They are unpacked into .cache and not installed, so that no
# service is started. Alertmanager alone looks for its templates under /usr/share,
# and they are put there, for which root or sudo is needed once. Nothing of it is
# needed to build or run kvwitness.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
to=$root/.cache/monitoring
packages=(prometheus prometheus-alertmanager)
templates=/usr/share/prometheus/alertmanager
as_root=()
if ((EUID != 0)); then as_root=(sudo -n); fi

if [[ ! -e $to/ready ]]; then
	if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
		echo "the tests of dashboards and alerts need promtool, prometheus, amtool and prometheus-alertmanager in $to/usr/bin, and a file $to/ready beside" >&2
		exit 1
	fi
	mkdir -p "$root/.cache"
	work=$(mktemp -d "$root/.cache/monitoring.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	cd "$work"
	if ! apt-get download -qq "${packages[@]}" >&2; then
		"${as_root[@]}" apt-get update -qq >&2
		apt-get download -qq "${packages[@]}" >&2
	fi
	for package in ./*.deb; do dpkg-deb -x "$package" out; done
	touch out/ready
	rm -rf "$to"
	mv -T out "$to" 2>/dev/null || [[ -e $to/ready ]] # another was quicker
fi
if [[ ! -e $templates/default.tmpl ]]; then
	if ! "${as_root[@]}" mkdir -p "$templates" || ! "${as_root[@]}" cp "$to$templates/default.tmpl" "$to$templates/email.tmpl" "$templates"; then
		echo "the tests of dashboards and alerts need the files of $to$templates in $templates; copy them and run again" >&2
		exit 1
	fi
fi
echo "$to/usr/bin"
