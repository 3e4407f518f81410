#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The initiator over iWARP (siw): another transport under the same verbs, where
# connections come by TCP and a broken one looks otherwise.
# lab-kernel: none
# lab-not: lab debian12 debian13 previous backports
. "${0%/*}/lib.sh"

if ! modprobe siw 2>/dev/null; then
	skip "iWARP" "this kernel has no siw"
	done_testing
fi
load_weft 2000
nqn=nqn.2014-08.org.example
ip link add dummy0 type dummy
ip address add 10.9.0.1/24 dev dummy0
ip link set dummy0 mtu 9000 up
rdma link add siw0 type siw netdev dummy0
for n in 0 1; do
	make_null "sb$n" 64
	nvmet_serve "$nqn:d$n" "$(readlink -f "/dev/sb$n")" rdma 10.9.0.1
done
uris="rdma://10.9.0.1/$nqn:d0 rdma://10.9.0.1/$nqn:d1"
# shellcheck disable=SC2086
ok "a volume over iWARP" weftctl create v $uris --chunk 64K --force --keep-alive "$(slow 5)" --reconnect-delay 1
is "by that rail" "$(cat /sys/class/weft-rdma/weft-rdma0/rail)" siw0/1
ok "verified" verify /dev/weft/v size=8m bsrange=4k-1100k
port_away() { nvmet_withdraw "$nqn:d1"; sleep "$(slow 3)"; nvmet_offer "$nqn:d1"; }
verify_while "a target's port removed and restored: no error" /dev/weft/v 6 1024 port_away
# Members are connected at the same time, so either controller may have either number.
controller=$(grep -lx "$nqn:d1" /sys/class/weft-rdma/*/subsysnqn)
ok "the controller had reconnected" test "$(cat "${controller%/*}/reconnects")" -ge 1
ok "stopped" weftctl stop v
ok "disconnected" weftctl disconnect --all
for n in 0 1; do nvmet_unserve "$nqn:d$n"; remove_null "sb$n"; done
rdma link delete siw0
ip link delete dummy0
ok "weft_rdma.ko unloads, so nothing holds it" rmmod weft_rdma
ok_unload
done_testing
