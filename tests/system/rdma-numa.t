#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Two rails on two NUMA nodes: with the iopolicy numa, I/O leaves by the one that
# is nearest to the processor that submits it, and by the other when that is lost.
# lab-own: --topology numa
# lab-kernel: none
# lab-not: lab
. "${0%/*}/lib.sh"

load_weft 2000
nqn=nqn.2014-08.org.example
modprobe rdma_rxe
rails=()
for net in /sys/class/net/*; do
	[ -e "$net/device" ] || continue
	# The PCI device's, which a virtio device sits on.
	rails[$(cat "$(readlink -f "$net/device")/../numa_node")]=${net##*/}
done
note "rails: ${rails[*]}"
for n in 0 1; do
	ip address add "10.9.$n.1/24" dev "${rails[$n]}"
	ip link set "${rails[$n]}" mtu 9000 up
	rdma link add "rxe$n" type rxe netdev "${rails[$n]}"
done
make_null rb 64
rails_serve "$nqn:d" /dev/rb
uri() { rails_uri "$nqn:d" "$1"; }
ok "a volume by the first rail" weftctl create v "$(uri 0)" --force --keep-alive "$(slow 5)" --reconnect-delay 1
ok "the second rail is added" weftctl path add v "$(uri 1)" --keep-alive "$(slow 5)" --reconnect-delay 1
is "the controllers know their nodes" "$(cat /sys/class/weft-rdma/weft-rdma{0,1}/numa_node | paste -sd' ')" "0 1"
is "round robin to begin with" "$(weftctl status v --json | json '.volumes[0].iopolicy')" round-robin
ok "a policy that is none is refused" sh -c "! weftctl path iopolicy v queue-depth"
ok "numa" weftctl path iopolicy v numa
is "as the volume says" "$(cat '/sys/block/weft!v/weft/iopolicy')" numa

ios() { awk '{ print $1 + $5 }' "/sys/block/weft-rdma$1n1/stat"; }
# by CPU: how many of 64 reads of that processor's went by each rail.
by() {
	local a b
	a=$(ios 0) b=$(ios 1)
	taskset -c "$1" dd if=/dev/weft/v of=/dev/null bs=64k count=64 iflag=direct status=none
	echo "$(($(ios 0) - a)) $(($(ios 1) - b))"
}
# The owner's heartbeats go on meanwhile, on any processor.
# mostly CPU RAIL: reads of that processor go by that rail.
mostly() {
	local counts
	read -r -a counts <<<"$(by "$1")"
	note "${counts[*]}"
	[ "${counts[$2]}" -ge 64 ] && [ "${counts[$((1 - $2))]}" -le 20 ]
}
mostly 0 0; result $? "processor 0 reads by the rail of node 0"
mostly 1 1; result $? "processor 1 by that of node 1"
rm "/sys/kernel/config/nvmet/ports/4421/subsystems/$nqn:d"
usable() { [ "$(status_of v '[.members[0].paths[] | select(.usable)] | length')" = "$1" ]; }
ok "the rail of node 1 is lost" until_true 20 usable 1
mostly 1 0; result $? "processor 1 reads by the other"
ln -s "/sys/kernel/config/nvmet/subsystems/$nqn:d" "/sys/kernel/config/nvmet/ports/4421/subsystems/$nqn:d"
ok "the rail is back" until_true 30 usable 2
mostly 1 1; result $? "and processor 1 reads by it again"
ok "round robin again" weftctl path iopolicy v round-robin
read -r -a counts <<<"$(by 0)"
ok "then both carry I/O (${counts[*]})" test "${counts[0]}" -ge 20 -a "${counts[1]}" -ge 20
ok "stopped" weftctl stop v
ok "disconnected" weftctl disconnect --all
for n in 0 1; do rdma link delete "rxe$n"; done
ok_unload
done_testing
