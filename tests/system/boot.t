#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# A storage node (host2) and a compute node (host1), set up as README says and booted by systemd. Their power is cut, in
# turn and together, and they are shut down in order, each time while a service writes a file. The volume and its mount
# are back by themselves, with all data that was synced.
# lab-own: --hosts 3 --systemd --memory 1536M --peer-topology nvme
# lab-kernel: none
# lab-not: lab
. "${0%/*}/lib.sh"

# Three cuts each.
rounds=${BOOT_ROUNDS:-${LAB_LONG:+3}}
rounds=${rounds:-1}
compute() { on_host host1 "$@"; }
storage() { on_host host2 "$@"; }

# --- What nodes have: an RDMA adapter that is there after each boot
adapter() { # adapter ADDRESS
	cat <<-END
	cat >/usr/local/sbin/lab-rail <<'RAIL'
	#!/bin/sh
	netdev=\$(ip -br link | awk '/52:54:00:00:03/ { print \$1 }') # the link of host1 and host2
	modprobe rdma_rxe && rdma link add rxe0 type rxe netdev \$netdev
	ip link set \$netdev up && ip address add $1/24 dev \$netdev
	RAIL
	chmod 755 /usr/local/sbin/lab-rail
	cat >/etc/systemd/system/lab-rail.service <<'UNIT'
	[Unit]
	DefaultDependencies=no
	After=sysinit.target
	Before=network-online.target
	[Service]
	Type=oneshot
	RemainAfterExit=yes
	ExecStart=/usr/local/sbin/lab-rail
	[Install]
	WantedBy=network-online.target multi-user.target
	UNIT
	systemctl daemon-reload && systemctl enable --now lab-rail.service
	END
}
ok "the storage node has an adapter" storage "$(adapter 10.0.0.1)"
ok "the compute node has one" compute "$(adapter 10.0.0.2)"
# Loss of the first packet to a new neighbour is seconds to RDMA CM.
compute "ping -c 3 -i 0.3 10.0.0.1" >/dev/null
COMPUTE_NQN=$(compute weftctl host-nqn)

# --- As README says
local_disk() { storage ". tests/system/lib/disks.sh; nvme_local $1"; }
while IFS= read -r line; do
	ok "storage: $line" storage "COMPUTE_NQN=$COMPUTE_NQN; $line"
done < <(readme "On the storage node" | by_serial "$(local_disk nvme0)" "$(local_disk nvme1)")
ok "storage: its exports are served after a boot" storage "systemctl enable weft-exports"
# In one shell: a line sets what the next one uses.
compute "set -e; $(readme "On the compute node")" >/tmp/readme 2>&1
result $? "compute: a volume, its mount, saved for the next boot"
indented </tmp/readme
# The writer counts in memory the writes that have reached the volume. A write that a signal ends, as at a shutdown, has
# not failed.
writer="cat >/usr/local/sbin/lab-writer <<'WRITER'
#!/bin/sh
while :; do
	dd if=/dev/zero of=/mnt/busy bs=1M count=4 conv=fsync status=none
	case \$? in
	0) echo >>/run/written ;;
	1) mountpoint -q /mnt && echo failed >>/root/failures && sync /root/failures; sleep 1 ;;
	esac
done
WRITER
chmod 755 /usr/local/sbin/lab-writer"
ok "compute: a program that writes" compute "$writer"
ok "compute: a file" compute "head -c 20000000 /dev/urandom >/mnt/file; sha256sum /mnt/file >/root/sum; sync"

# --- Power is cut
# What is synced is read from the members, and a write reaches them.
back() {
	compute "mountpoint -q /mnt && echo 1 >/proc/sys/vm/drop_caches && timeout 60 sha256sum --quiet -c /root/sum &&
		timeout 60 dd if=/dev/zero of=/mnt/alive bs=4k count=1 conv=fsync status=none"
}
# writes: the writer runs, and one of its writes has just reached the volume. It is a service that needs the mount, so a
# shutdown ends it first.
written() { compute "cat /run/written 2>/dev/null | wc -l"; }
more_than() { [ "$(written)" -gt "$1" ]; }
writes() {
	compute "systemctl -q is-active lab-writer ||
		systemd-run -q --collect --unit lab-writer -p Requires=mnt.mount -p After=mnt.mount lab-writer"
	until_true 30 more_than "$(written)"
}
cut() {
	local host
	for host in "$@"; do lab-peer "$host" kill; done
	sleep 2
	for host in "$@"; do lab-peer "$host" boot; done
}
for ((round = 1; round <= rounds; round++)); do
	for hosts in host1 host2 "host2 host1"; do
		ok "round $round: a service writes" writes
		# shellcheck disable=SC2086
		cut $hosts
		ok "round $round: the power of $hosts is cut, and the mount is back" until_true 300 back
	done
done
# In order, as for an upgrade. How long that takes depends on the load: a machine that is off says so.
is_off() {
	on_host "$1" true >/dev/null 2>&1
	[ $? = 125 ]
}
for host in host1 host2; do
	ok "a service writes" writes
	on_host $host "systemctl poweroff --no-block"
	ok "$host is shut down in order" until_true 120 is_off $host
	lab-peer $host boot
	ok "it boots, and the mount is back" until_true 300 back
done
is "no unit of weft has failed" "$(compute "systemctl list-units --failed --no-legend 'weft-*'")" ""
ok "a service writes" writes
ok "the volume's service stops, and so the writer and the mount" compute "systemctl stop weft-assemble@data"
is "and nothing is assembled" "$(compute "ls -d /sys/block/weft!* 2>/dev/null")" ""
is "the writer has ended" "$(compute "systemctl is-active lab-writer")" inactive
is "no write of the compute node has failed while the storage node was away" \
	"$(compute "cat /root/failures 2>/dev/null; rm -f /root/failures")" ""

# --- A volume that no service has assembled is given back at a shutdown, after the last writes to it
disks="$(local_disk nvme0) $(local_disk nvme1)"
held() { storage "weftctl examine $disks --json" | json '.owners[] | select(.record == "owner") | .held'; }
compute "systemctl disable weft-assemble@data; sed -i /weft/d /etc/fstab; systemctl daemon-reload" >/dev/null 2>&1
ok "as its package does: volumes are stopped at a shutdown" compute "systemctl enable --now weft-shutdown"
by_hand="weftctl assemble data --saved && mount -o _netdev /dev/weft/data /mnt"
ok "assembled and mounted by hand" compute "$by_hand"
is "the compute node has the volume" "$(held)" true
ok "a file that is not synced" compute "head -c 20000000 /dev/urandom >/mnt/late; sha256sum /mnt/late >/root/late"
compute "systemctl poweroff --no-block"
ok "the compute node is shut down in order" until_true 120 is_off host1
is "and has given the volume back" "$(held)" false
lab-peer host1 boot
ok "assembled and mounted again" until_true 300 compute "mountpoint -q /mnt || { $by_hand; }"
ok "with the file" compute "sha256sum --quiet -c /root/late"
done_testing
