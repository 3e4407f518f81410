#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# A node booted by systemd: udev, and the tools that list disks; the doctor; the
# report; what a terminal shows.
# lab-own: --systemd
# lab-not: lab
# lab-kernel: debian13
. "${0%/*}/lib.sh"

# The doctor names a lease that is not held: a short pause must not end it.
load_weft 1000
for n in 1 2 3 4; do make_null e$n 100; ln -s "$(readlink -f /dev/e$n)" /dev/nvme${n}n1; done
make_null e0 64; ln -s "$(readlink -f /dev/e0)" /dev/nvme0n1
property() { udevadm info -q property --property="$1" --value /dev/weft/data; }

# --- udev, and the tools that list disks
ok "a volume" weftctl create data /dev/nvme1n1 /dev/nvme2n1 /dev/nvme3n1 /dev/nvme4n1
# udev watches the device only after it has handled its addition: it would not notice an earlier change.
udevadm settle
ok "XFS on it" mkfs.xfs -q -L feed /dev/weft/data
# udev hears by inotify that the device was closed: there may be nothing to settle yet.
is_xfs() { [ "$(property ID_FS_TYPE)" = xfs ]; }
until_true 60 is_xfs
udevadm settle
is "udev knows the filesystem" "$(property ID_FS_TYPE)" xfs
uuid=$(cat '/sys/block/weft!data/weft/uuid')
links() { cd /dev/disk && readlink -f "by-id/weft-$uuid" by-label/feed "by-uuid/$(property ID_FS_UUID)"; }
is "by-id, by-label and by-uuid lead to it" "$(links | uniq -c | tr -s ' ')" " 3 /dev/weft/data"
is "and what a member is" "$(lsblk -dno FSTYPE,LABEL /dev/e1 | tr -s ' ')" "weft_member data"
is "lsblk draws it over its members" "$(lsblk -no NAME /dev/e1 | tail -n 1)" "└─weft/data"
is "blkid knows it" "$(blkid -s LABEL -o value /dev/weft/data)" feed
printf '/dev/weft/data /mnt xfs noauto 0 0\n' >>/etc/fstab
systemctl daemon-reload
ok "systemd mounts it by its device" systemctl start mnt.mount
is "findmnt shows it" "$(findmnt -no SOURCE,FSTYPE /mnt | tr -s ' ')" "/dev/weft/data xfs"
is "iostat shows it" "$(iostat -d /dev/weft/data | grep -c '^weft/data')" 1
refused "a mounted volume does not stop" 3 "mounted on /mnt" weftctl stop data
ok "systemd unmounts it" systemctl stop mnt.mount
# These units are started as docs/setup.md says.
ok "weft-exporter.service starts" sh -ec "$(commands docs/setup.md "^## Watching$" 'systemctl .*weft-exporter')"
counters() {
	python3 -c 'import urllib.request as u; print(u.urlopen("http://127.0.0.1:9919/metrics").read().decode())'
}
is "it serves the volume's counters" "$(counters | grep -c '^weft_volume_info{volume="data"')" 1
is "as a user of its own" "$(ps -o user= -p "$(systemctl show -P MainPID weft-exporter)" | grep -c root)" 0
ok "it stops" systemctl disable --now weft-exporter
# The folder is of the package prometheus-node-exporter.
mkdir -p /var/lib/prometheus/node-exporter
ok "the metrics' timer starts" sh -ec "$(commands docs/setup.md "^## Watching$" 'systemctl .*weft-metrics')"
ok "it writes a file for the node exporter" until_true 60 \
	grep -q '^weft_volume_info{volume="data"' /var/lib/prometheus/node-exporter/weft.prom
ok "it stops, too" systemctl disable --now weft-metrics.timer
# The plugin for containers, as its service runs it.
if command -v weft-csi >/dev/null; then
	echo 'ARGS="--kubelet /tmp/kubelet --node-id node17"' >/etc/default/weft-csi
	mkdir -p /tmp/staged
	csi() { weft-csi-call /tmp/kubelet/plugins/weft.csi/csi.sock "$@"; }
	csi_process() { systemctl show -P MainPID weft-csi; }
	csi_is_back() { [ "$(csi_process)" != "$killed" ] && csi Identity.Probe; }
	request='"volume_id": "data", "staging_target_path": "/tmp/staged"'
	ok "weft-csi.service starts" sh -ec "$(commands docs/setup.md "^### Kubernetes$" '^systemctl')"
	ok "it answers" until_true 20 csi Identity.Probe
	ok "it stages the volume" csi Node.NodeStageVolume "{$request, \"volume_capability\": {
		\"access_mode\": {\"mode\": \"SINGLE_NODE_WRITER\"}, \"mount\": {\"fs_type\": \"xfs\"}}}"
	is "mounted where the host sees it" "$(findmnt -no SOURCE /tmp/staged)" /dev/weft/data
	of_network() { systemctl show -P After tmp-staged.mount | tr ' ' '\n' | grep -qx network.target; }
	ok "systemd unmounts it before the network goes down" until_true 20 of_network
	killed=$(csi_process)
	systemctl kill --signal KILL weft-csi
	ok "killed, it starts again" until_true 60 csi_is_back
	is "and the mount has stayed" "$(findmnt -no SOURCE /tmp/staged)" /dev/weft/data
	ok "it unstages it" csi Node.NodeUnstageVolume "{$request}"
	is "a volume that it did not assemble stays" "$(findmnt -no SOURCE /tmp/staged; status_of data .state)" live
	ok "it stops" systemctl disable --now weft-csi
else
	skip "weft-csi.service" "the lab builds weft-csi in Debian 13 alone"
fi

# --- What documents say to look at. A unit that does not run is shown with status 3.
while IFS= read -r line; do
	ok "document: $line" sh -c "$line; rc=\$?; [ \$rc = 0 ] || [ \$rc = 3 ]"
done < <(in_text "systemctl status")
while IFS= read -r line; do ok "document: $line" sh -c "$line | grep -q ."; done < <(in_text journalctl)

# --- A saved volume is a service, and its mount needs it
ok "it is saved" weftctl save data
ok "and stopped" weftctl stop data
unit=weft-assemble@data.service
sed -i "s/ noauto / _netdev,nofail,x-systemd.requires=$unit,x-systemd.wanted-by=dev-weft-data.device /" /etc/fstab
systemctl daemon-reload
ok "systemd mounts it, and so assembles it" systemctl start mnt.mount
is "it is mounted, and the service runs" "$(findmnt -no SOURCE /mnt) $(systemctl is-active weft-assemble@data)" \
	"/dev/weft/data active"
ok "the service stops" systemctl stop weft-assemble@data
is "and with it the mount and the volume" "$(findmnt -no SOURCE /mnt; ls '/sys/block/weft!data' 2>/dev/null)" ""
# A member comes late.
cp /etc/weft/volumes/data.toml /tmp
member=$(readlink -f /dev/nvme1n1)
sed -i "s,\"$member\",\"/dev/late\"," /etc/weft/volumes/data.toml
systemctl start --no-block $unit
says_which() { journalctl -u $unit | grep -q "member 0 of 4 is missing; /dev/late is not there"; }
ok "with a member missing, the journal says which" until_true 20 says_which
is "the service starts, and nothing is mounted" "$(systemctl is-active $unit) $(findmnt -no SOURCE /mnt)" "activating "
which="awaited since .*: member 0 of 4 is missing; /dev/late is not there"
ok "so does the status, and since when" sh -c "weftctl status | grep -q '^data: $which'"
ok "also of this volume alone" sh -c "weftctl status data | grep -q '^data: $which'"
ok "and the doctor" sh -c "weftctl doctor | grep -q 'volume data is ${which/since/for}'"
ok "and the metrics" sh -c "weftctl metrics | grep -q '^weft_volume_awaited_since_seconds{volume=\"data\"} [0-9]'"
ln -s "$member" /dev/late
ok "when the member comes, the volume is mounted" until_true 60 mountpoint -q /mnt
is "the metrics have no wait any more" "$(weftctl metrics | grep -c weft_volume_awaited)" 0
is "and awaited no more" "$(weftctl status --json | json .awaited)" "[]"
ok "the service stops" systemctl stop $unit
rm /dev/late
sed -i '/weft/d' /etc/fstab
systemctl daemon-reload
mv /etc/weft/volumes/data.toml /root
ok "without its file nothing is done" systemctl start weft-assemble@data
is "the service does not run then" "$(systemctl is-active weft-assemble@data)" inactive
mv /tmp/data.toml /etc/weft/volumes/data.toml
ok "assembled by hand" weftctl assemble data
failed=0
for n in 1 2 3 4; do
	mkfs.xfs -q -f /dev/weft/data && weftctl stop data && weftctl assemble data /dev/nvme[1-4]n1 >/dev/null ||
		failed=$((failed + 1))
done
is "four times made, stopped at once, assembled: udev is never in the way" $failed 0
# What a shutdown does with volumes that no service has assembled.
ok "weft-shutdown.service starts" systemctl start weft-shutdown
is "and leaves the volume" "$(status_of data .state)" live
ok "it is not stopped by hand" sh -c '! systemctl stop weft-shutdown 2>/dev/null'
mkdir -p /run/systemd/system/weft-shutdown.service.d
printf '[Unit]\nRefuseManualStop=no\n' >/run/systemd/system/weft-shutdown.service.d/test.conf
systemctl daemon-reload
(exec 9</dev/weft/data; sleep 3) &
ok "a shutdown stops it" systemctl stop weft-shutdown
is "and has stopped the volume, when that was not in use any more" "$(ls -d '/sys/block/weft!data' 2>/dev/null)" ""
ok "assembled by hand again" weftctl assemble data /dev/nvme[1-4]n1

# --- The doctor
# look: has the doctor look. findings FILTER: what jq makes of its list. finding CHECK: that check's severities.
look() { weftctl doctor --json >/tmp/findings; }
findings() { json ".findings | $1" </tmp/findings; }
finding() { findings ".[] | select(.check == \"$1\") | .severity" | sort -u | tr '\n' ' '; }
ok "DKMS has the modules of this guest" dkms_knows_weft
weftctl doctor >/tmp/doctor
is "memory limits are the one warning here" "$? $(grep -c '^warning' /tmp/doctor)" "8 1"
look
bad='map(select(.severity == "warning" or .severity == "problem"))'
is "every warning says why, and how to fix it" \
	"$(findings "$bad | map(select(.fix == \"\" or .why == \"\")) | length")" 0
ulimit -l unlimited
is "without it there is nothing to fix, and quiet is quiet" "$(weftctl doctor --quiet; echo $?)" "nothing to fix
0"
is "kernel, headers, DKMS, module are found good" "$(finding headers)$(finding dkms)$(finding weft)" "good good good "
# Several faults at once: a look takes seconds.
[ ! -e /proc/sys/kernel/io_uring_disabled ] || sysctl -q kernel.io_uring_disabled=2
mv "/lib/modules/$(uname -r)/build" /tmp/build
mv /etc/nvme/hostnqn /tmp/hostnqn
soft_roce 10.0.0.1
ip address add 10.0.0.2/24 dev dummy0
ip link set dummy0 mtu 1500
weftctl doctor >/tmp/doctor
status=$?
if [ -e /proc/sys/kernel/io_uring_disabled ]; then
	is "io_uring disabled is a problem" "$status $(grep -c 'PROBLEM  io_uring' /tmp/doctor)" "9 1"
	sysctl -q kernel.io_uring_disabled=0
fi
is "headers missing are a warning" "$(grep -c '^warning *headers' /tmp/doctor)" 1
is "no host NQN is noted" "$(grep -c '^note *host-nqn' /tmp/doctor)" 1
is "a small MTU below an RDMA device is noted" "$(grep -c 'rxe0/1: dummy0 has an MTU of 1500' /tmp/doctor)" 1
mv /tmp/build "/lib/modules/$(uname -r)/build"
mv /tmp/hostnqn /etc/nvme/hostnqn
ip link set dummy0 mtu 9000
ip link set dummy0 down
look
is "a link that is down is a warning" \
	"$(findings 'map(select(.check == "rdma" and .severity == "warning")) | length')" 1
is "what was mended is good" "$(finding headers)$(finding host-nqn)" "good good "
ip link set dummy0 up

# --- The report
key=DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:
echo "<6>weft test: password=hunter2 $key" >/dev/kmsg
ok "a report" weftctl report --output /tmp/report.tar.gz
mkdir /tmp/report && tar -C /tmp/report --strip-components=1 -xzf /tmp/report.tar.gz
is "has the volume" "$(jq -r '.volumes[0].name' /tmp/report/status.json)" data
is "the kernel's log" "$(grep -c 'weft test: password=\[redacted\] DHHC-1:\[redacted\]' /tmp/report/dmesg.txt)" 1
is "and no secrets" "$(grep -rcE 'hunter2|ia6zGodOr4' /tmp/report | grep -cv ':0$')" 0
refused "a report that cannot be written" 1 "cannot be written" weftctl report --output /nowhere/x.tar.gz

# --- A terminal
weftctl stop data >/dev/null
heartbeat=/sys/module/weft/parameters/heartbeat_ms
usual=$(cat $heartbeat)
echo 5000 >$heartbeat
ok "a volume is assembled at a terminal" env TERM=linux script -qec "weftctl assemble data" /tmp/typed
ok "which shows what is waited for" grep -q "waiting to see whether another host owns it, [2-9] s" /tmp/typed
echo "$usual" >$heartbeat
done_testing
