#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The initiator on one host, the target on another, as in a cluster: fio's
# verification runs while the network loses and reorders packets, the link goes
# down and the target loses its power.
# lab-own: --hosts 2 --memory 1G --peer-topology nvme
# lab-kernel: backports
# lab-more: uml
. "${0%/*}/lib.sh"

nqn=nqn.2014-08.org.example
target=10.77.1.2
on_target() { on_host host1 "$@"; }
# What the target does each time it boots: local NVMe disks, by their serial numbers, served as the same namespaces.
serve="set -e; . tests/system/lib.sh; local_nvmes 4
	soft_roce_on eth0
	for n in 0 1; do
		nvmet_serve $nqn:d\$n \$(nvme_local nvme\$n) rdma $target 4420 \
			device_uuid=00000000-0000-0000-0000-0000000000d\$n
	done"
on_target "$serve" | indented
ok "the target serves two local disks" on_target "test -e /sys/kernel/config/nvmet/ports/4420/subsystems/$nqn:d1"
load_weft 2000
soft_roce_on eth0
# Soft-RoCE cannot send while a queueing discipline is put in place: now nothing is sent.
netem eth0

uris="rdma://$target/$nqn:d0 rdma://$target/$nqn:d1"
# shellcheck disable=SC2086
ok "a volume on the other host's disks" weftctl create v $uris --chunk 64K --force \
	--keep-alive "$(slow 4)" --reconnect-delay 1 --tos 104
# So that I/O whose path does not come back fails long before this test's limit.
patience=$(slow 400)
echo "$patience" >/sys/block/weft\!v/weft/no_path_timeout
weftctl status v | indented
ok "verified, nothing in its way" verify /dev/weft/v size="$(mib 24)" bsrange=4k-300k

reads() { dd if=/dev/weft/v of=/dev/null bs=64k count=100 iflag=direct status=none; }
is "its packets have the type of service that was asked for" "$(roce_services 100 0 reads)" 104
is "which the controller shows" "$(cat /sys/class/weft-rdma/weft-rdma0/tos)" 104

lossy() {
	netem eth0 delay 2ms 1ms 25% loss 2% reorder 2% 50% || return
	sleep "$(slow 6)"
	until_true 20 sh -c "tc -s qdisc show dev eth0 | grep -q 'dropped [1-9]'"
	tc -s qdisc show dev eth0 | indented >/tmp/netem
	netem eth0
}
verify_while "packets lost and reordered: no error" /dev/weft/v 10 1500 lossy
cat /tmp/netem
ok "some were" sh -c "grep -Eq 'dropped [1-9]' /tmp/netem"

reconnects() { cat /sys/class/weft-rdma/*/reconnects | paste -sd+ | bc; }
ok "connected" connect_again
before=$(reconnects)
verify_while "nothing gets through for longer than the keep-alive: no error" /dev/weft/v 12 1500 cable
ok "both controllers connect again" connect_again
ok "they had been lost" test "$(reconnects)" -gt "$before"

# Soft-RoCE's queue pair 1 dies of what it sends while its interface is down, and with it every host's connections, the
# stock one's too: it is made anew. On 6.1 what was connected then never ends.
new_soft_roce() {
	rdma link delete rxe0
	rdma link add rxe0 type rxe netdev eth0
}
link_flap() {
	ip link set eth0 down
	sleep "$(slow 3)"
	ip link set eth0 up
	new_soft_roce
	# It may die once more, of what it sends before the interface is quite up.
	until_true 30 all_live || { echo "soft-RoCE is made anew once more"; connect_again; new_soft_roce; }
}
if [ "${LAB_KERNEL:-}" = debian12 ]; then
	skip "the link down and up" "soft-RoCE of 6.1 does not outlive it"
else
	verify_while "the link down and up: no error" /dev/weft/v 8 1500 link_flap
	indented </tmp/while.out
	ok "both controllers connect again" connect_again
fi

# Its address stays; what it was told, it forgets.
power() { lab-peer host1 kill; sleep 2; lab-peer host1 boot; on_target "$serve"; }
before=$(reconnects)
log_mark
verify_while "the target loses its power, and boots: no error" /dev/weft/v 16 1500 power
ok "both controllers connect again" connect_again
# A slow guest misses a keep-alive now and then, also between two looks.
again() { echo $(($(reconnects) - before)); }
each_reconnects() { [ "$(again)" = "$(losses | wc -l)" ]; }
ok "each end of an association is followed by one reconnect" until_true 60 each_reconnects
ok "both have reconnected, and not for ever" test "$(again)" -ge 2 -a "$(again)" -le 12
ok "stopped" weftctl stop v
# shellcheck disable=SC2086
ok "assembled" weftctl assemble v $uris
ok "verified once more, read alone" sh -c "WEFT_DEV=/dev/weft/v fio --verify_only /tmp/verify.fio"

# Registered memory. All of it moves by soft-RoCE here: pages, and a dma-buf by the CPU's mapping.
ok "from and to pages that are registered" weft-memtest v verify pages
ok "for good" weft-memtest v verify pages --persistent
if [ -e /dev/udmabuf ] || modprobe -q udmabuf; then
	ok "a dma-buf" weft-memtest v verify udmabuf --vmap
else
	skip "a dma-buf" "this kernel has no udmabuf"
fi
load="pages --persistent --depth=16 --largest=65536"
load_while "nothing gets through: no error on registered memory" 12 "$load" cable
ok "both controllers connect again" connect_again
load_while "the target loses its power: no error on registered memory" 12 "$load" power
ok "both controllers connect again" connect_again
ok "and what is read is what was written" weft-memtest v verify pages --persistent
ok "stopped" weftctl stop v
ok "disconnected" weftctl disconnect --all
rdma link delete rxe0
ok "weft_rdma.ko unloads, so nothing holds it" rmmod weft_rdma
ok_unload
done_testing
