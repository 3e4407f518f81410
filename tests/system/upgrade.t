#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The packages of the next version are installed while volumes are in use: these go on with the old modules, packages
# and doctor say so, and services run the new programs. DKMS builds nothing here: an emulated processor takes half an
# hour for it. packages.t has what it builds, and the words of an upgrade with new modules.
# lab-own: --systemd
# lab-not: lab
# lab-kernel: none
# lab-needs: packages:RELEASE
. "${0%/*}/lib.sh"

export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
debs=$(software "packages-$release")/lab/packages
kernel=$(uname -r)
this=$(dpkg-deb -f "$debs"/this/weft-dkms_*.deb Version)
next=$(dpkg-deb -f "$debs"/next/weft-dkms_*.deb Version)
mapfile -t packages < <(for deb in "$debs"/this/*.deb; do dpkg-deb -f "$deb" Package; done)
is "the packages are there" "${#packages[@]}" 10
ok "and those of a later version" dpkg --compare-versions "$next" gt "$this"
services=(weft-exporter.service weft-csi.service weft-metrics.timer)

install_debs() { dpkg -i "$@" >/tmp/installed 2>&1 || { cat /tmp/installed; false; }; }
# built_by_dkms VERSION: how many of the kernel that runs are installed.
built_by_dkms() { dkms status "weft/$1" -k "$kernel" | grep -c ': installed'; }
# of_modules FIELD: what the installed modules say, each value once.
of_modules() { for module in weft weft_rdma weft_p2p; do modinfo -F "$1" "$module"; done | sort -u; }
loaded_version() { cat /sys/module/weft/version; }
doctor_says() {
	weftctl doctor --json | json '.findings[] | select(.check == "weft") | .severity + ": " + .text'
}
exporter_version() {
	python3 -c 'import urllib.request as u; print(u.urlopen("http://127.0.0.1:9919/metrics").read().decode())' |
		sed -n 's/^weft_build_info{version="\(.*\)"} 1$/\1/p'
}
exporter_is() { [ "$(exporter_version)" = "$1" ]; }
main_pids() { for service in weft-exporter weft-csi; do systemctl show -P MainPID $service; done; }
sum() { sha256sum </mnt/file; }
# says LINE: how often weft-dkms has printed it.
says() { grep -cFx "weft-dkms: $1" /tmp/said; }

# --- The old version, whose modules the lab has built
for build in /lib/modules/*/build; do
	[ "$build" -ef "/lib/modules/$kernel/build" ] || rm "$build"
done
touch /etc/dkms/no-autoinstall
ok "this version is installed" install_debs "$debs"/this/*.deb
is "no word of other modules" "$(grep -c '^weft-dkms:' /tmp/installed)" 0
ok "DKMS has its modules" dkms_knows_weft
depmod
is "they are of that version" "$(built_by_dkms "$this") $(of_modules version)" "1 $this"
load_weft
for name in d1 d2 s1 s2; do make_null $name 256; done
ok "a volume" weftctl create data /dev/d1 /dev/d2
ok "XFS on it" mkfs.xfs -q /dev/weft/data
ok "mounted" mount /dev/weft/data /mnt
ok "and another one" weftctl create scratch /dev/s1 /dev/s2
head -c 8M /dev/urandom >/mnt/file
sync
written=$(sum)
is "the doctor finds the module good" "$(doctor_says)" "good: weft.ko $this is loaded"
mkdir -p /var/lib/prometheus/node-exporter
echo 'ARGS="--kubelet /tmp/kubelet --node-id node17"' >/etc/default/weft-csi
ok "services that the user starts" systemctl enable --now "${services[@]}"
ok "the exporter is of this version" until_true 60 exporter_is "$this"
mapfile -t before < <(main_pids)

# --- Upgraded with both volumes in use: the modules, then the rest
size=$(mib 32)
verify_while "a volume is written and verified while the next version's modules are installed" \
	/dev/weft/scratch "${size%m}" 400 install_debs "$debs"/next/weft-dkms_*.deb
grep '^weft-dkms:' /tmp/installed >/tmp/said
indented </tmp/said
is "DKMS has built none" "$(built_by_dkms "$next")" 0
is "of the old ones it has none" "$(dkms status "weft/$this")" ""
is "the old module is loaded" "$(loaded_version)" "$this"
is "the packages say so" \
	"$(says "The modules that are loaded, of version $this, stay loaded until they are removed.")" 1
is "they name the volumes" "$(says "These volumes go on with them: data scratch")" 1
boot="after a boot of it there are no volumes"
is "and say that there are no new modules" \
	"$(says "None are built for $kernel, the kernel that runs: $boot. To build them:")" 1
rest=()
for deb in "$debs"/next/*.deb; do [[ $deb = */weft-dkms_* ]] || rest+=("$deb"); done
ok "the other packages are installed" install_debs "${rest[@]}"
is "weftctl is of the next version" "$(weftctl --version)" "weftctl $next"
is "the doctor names both versions" "$(doctor_says)" \
	"warning: weft.ko is of version $this, weftctl of version $next"
is "the volumes are live" "$(status_of data .state) $(status_of scratch .state)" "live live"
echo 3 >/proc/sys/vm/drop_caches
is "the mounted one reads what was written" "$(sum)" "$written"
ok "and takes writes" dd if=/dev/zero of=/mnt/more bs=1M count=4 conv=fsync
is "services that the user has started run" "$(systemctl is-active "${services[@]}" | sort -u)" active
ok "the exporter is of the next version" until_true 60 exporter_is "$next"
mapfile -t after < <(main_pids)
is "none runs an old program" "$(printf '%s\n' "${before[@]}" "${after[@]}" | sort -u | grep -vcx 0)" 4
is "the service that stops volumes at a shutdown has not been stopped" "$(systemctl is-active weft-shutdown)" active
is "what starts at boot still does" \
	"$(systemctl is-enabled weft-exports weft-shutdown "${services[@]}" | sort -u)" enabled

# --- Removed, and purged
ok "unmounted" umount /mnt
ok "the old module stops what it has" weftctl stop --all
ok "the packages are removed" dpkg --remove "${packages[@]}"
is "no service runs" "$(systemctl is-active "${services[@]}" | sort -u)" inactive
ok "and purged" dpkg --purge "${packages[@]}"
is "no unit is enabled" "$(find /etc/systemd/system -name 'weft*')" ""
is "nothing of them is left" \
	"$(find /etc/weft /etc/default/weft-* /var/lib/dkms/weft "/usr/src/weft-$next" 2>/dev/null)" ""
is "DKMS has no module" "$(dkms status weft)$(modinfo -n weft 2>/dev/null)" ""
rmmod weft_rdma 2>/dev/null
ok "the module that is loaded can go" rmmod weft
done_testing
