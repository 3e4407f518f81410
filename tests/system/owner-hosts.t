#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# One volume, one writer: two hosts on one target, both orders, one of them
# frozen, stuck and thawed. Runs on host0; host1 is the other host and host2
# the target.
# lab-own: --hosts 3 --memory 1G
# lab-kernel: none
. "${0%/*}/lib.sh"

peer() { lab-peer host1 run "$@"; }
lab-peer host2 run "modprobe -a null_blk nvmet nvmet-tcp nvme-tcp; . tests/system/lib.sh
	for n in 0 1; do make_null t\$n 64; nvmet_serve t\$n \$(readlink -f /dev/t\$n) tcp 10.77.2.3 4420; done
	mkdir /sys/kernel/config/nvmet/ports/4430; cd /sys/kernel/config/nvmet/ports/4430
	echo tcp >addr_trtype; echo ipv4 >addr_adrfam; echo 10.77.3.3 >addr_traddr; echo 4420 >addr_trsvcid
	for n in 0 1; do ln -s /sys/kernel/config/nvmet/subsystems/t\$n subsystems/t\$n; done"
result $? "the target serves two disks to both hosts"
load_weft 200
d0=$(nvme_connect t0 tcp 10.77.2.3); d1=$(nvme_connect t1 tcp 10.77.2.3)
peer "modprobe weft heartbeat_ms=200; . tests/system/lib.sh; nvme_connect t0 tcp 10.77.3.3 >/tmp/d0 && nvme_connect t1 tcp 10.77.3.3 >/tmp/d1"
result $? "both hosts are connected"
peer "cat /tmp/d0 /tmp/d1" | sed 's/^/# /'

ok "the first host creates and owns" weftctl create v "$d0" "$d1"
refused "the second is refused while the heart beats" 3 "whose heart beats" peer "weftctl assemble v"
refused "also with --take-over" 3 "whose heart beats" peer "weftctl assemble v --take-over"
is "it is told who owns" "$(peer 'weftctl assemble v' | grep -c 'uuid:00000000-0000-0000-0000-000000000001')" 1
ok "it may read" peer "weftctl assemble v --read-only && weftctl stop v"
is "and the owner did not notice" "$(cat '/sys/block/weft!v/weft/ownership')" held
ok "the first stops" weftctl stop v
ok "the second owns now" peer "weftctl assemble v"
refused "the first is refused now" 3 "whose heart beats" weftctl assemble v

# --- A machine that stands still, clock and all, as a paused virtual machine does
peer "(while sleep 0.05; do dd if=/dev/zero of=/dev/weft/v bs=4k count=1 oflag=direct status=none || echo failed >/tmp/writer; done) >/dev/null 2>&1 &"
lab-peer host1 freeze
refused "a frozen owner's heart has stopped" 3 "whose heart stopped" weftctl assemble v
ok "and the volume can be taken over" weftctl assemble v --take-over
head -c 1048576 /dev/urandom >/tmp/new
dd if=/tmp/new of=/dev/weft/v bs=1M oflag=direct status=none
lab-peer host1 thaw
ok "thawed, it learns that it lost the volume" until_true 30 peer "grep -q lost '/sys/block/weft!v/weft/ownership'"
ok "and its writes fail" until_true 30 peer "test -s /tmp/writer"
sleep 2
is "the new owner keeps it" "$(cat '/sys/block/weft!v/weft/ownership')" held
peer "pkill dd; sleep 1; dmesg | grep 'another host took'" | sed 's/^/# /'
dd if=/tmp/new of=/dev/weft/v bs=1M oflag=direct status=none
sleep 1
cmp -n 1048576 /tmp/new <(dd if=/dev/weft/v bs=1M count=1 iflag=direct status=none)
result $? "and its data is its own"
ok "the loser stops without touching the record" peer "pkill -f 'while sleep'; for i in 1 2 3 4 5 6 7 8 9; do weftctl stop v && exit 0; sleep 0.5; done; exit 1"
is "the new owner still holds it" "$(sleep 1; cat '/sys/block/weft!v/weft/ownership')" held

# --- A machine that stands still while its clock goes on: its lease runs out
weftctl stop v
ok "the second owns again" peer "weftctl assemble v"
lab-peer host1 halt
ok "taken over while it is stuck" weftctl assemble v --take-over
lab-peer host1 continue
# Where the write of a beat was on its way it comes late, over the new record: then the new owner is the loser. One is.
lost() { grep -q lost '/sys/block/weft!v/weft/ownership'; }
one_lost() { lost || peer "grep -q lost '/sys/block/weft!v/weft/ownership'"; }
write_one() { timeout 10 dd if=/dev/zero of=/dev/weft/v bs=4k count=1 oflag=direct status=none; }
ok "one of them learns that it lost the volume" until_true 30 one_lost
sleep 1
lost; here=$?
peer "$(declare -f lost write_one); lost"; there=$?
is "and only one" $((here + there)) 1
write_one; here_writes=$?
peer "$(declare -f lost write_one); write_one"; there_writes=$?
is "the loser cannot write, the owner can" "$here_writes $there_writes" "$((1 - here)) $((1 - there))"
peer "weftctl stop v"
# --- A machine that dies, and comes back
weftctl stop v
ok "the second owns once more" peer "weftctl assemble v"
lab-peer host1 kill
refused "its death alone gives nothing away" 3 "whose heart stopped" weftctl assemble v
lab-peer host1 boot
peer "modprobe weft heartbeat_ms=200; . tests/system/lib.sh; nvme_connect t0 tcp 10.77.3.3 >/tmp/d0 && nvme_connect t1 tcp 10.77.3.3 >/tmp/d1"
ok "rebooted, it has its own volume back without being told to" peer "weftctl assemble v && weftctl stop v"
ok "the volume is free" weftctl assemble v
weftctl stop v >/dev/null
nvme disconnect-all
ok_unload
done_testing
