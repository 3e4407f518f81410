#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Machines that get no processor: the initiator and the target stand still at
# random, with their clocks or without, while writes, discards and Write Zeroes
# are verified. Nothing but time is lost. FAULTS_SEED repeats the faults,
# STARVED_SECONDS sets how long they go on.
# lab-own: --hosts 2 --memory 1G
# lab-kernel: none
. "${0%/*}/lib.sh"

nqn=nqn.2014-08.org.example
target=10.77.1.2
volume=/dev/weft/data
on_target() { on_host host1 "$@"; }
# A wait for a path is no hang, until no_path_timeout.
patience=$(sysctl -n kernel.hung_task_timeout_secs)
sysctl -q -w kernel.hung_task_timeout_secs=600
on_target "set -e; . tests/system/lib.sh; soft_roce_on eth0
	for n in 0 1 2; do
		make_null d\$n 64 discard=1; nvmet_serve $nqn:d\$n \$(readlink -f /dev/d\$n) rdma $target
	done"
result $? "the target serves three disks"
load_weft 200
soft_roce_on eth0
uris="rdma://$target/$nqn:d0 rdma://$target/$nqn:d1 rdma://$target/$nqn:d2"
# shellcheck disable=SC2086
ok "a volume on them" weftctl create data $uris --chunk 64K --force \
	--keep-alive "$(slow 2)" --reconnect-delay 1
# These bytes are written before the faults, and by nobody else.
still() {
	fio --name=still --filename=$volume --allow_file_create=0 --direct=1 --ioengine=io_uring --iodepth=8 \
		--rw=write --bs=64k --offset=128m --size="$(mib 32)" --verify=crc32c --verify_fatal=1 \
		--verify_state_save=0 "$@"
}
ok "verified before the faults" still

# stands_still: draws who stands still, how and for how long, and makes it.
stands_still() {
	local kind long longer short
	draw kind 5
	draw_seconds long 100 20000
	draw_seconds longer 100 20000
	# A kernel that misses 20 s by its clock reports a stall.
	draw_seconds short 100 8000
	case $kind in
	0) fault "the target is frozen for $long s" lab-peer host1 freeze "$long" ;;
	1) fault "the initiator is frozen for $long s" lab-peer host0 freeze "$long" ;;
	2) fault "the target is frozen for $long s, and the initiator for $longer s" both "$long" "$longer" ;;
	3) fault "the target is halted for $short s" lab-peer host1 halt "$short" ;;
	4) fault "the initiator is halted for $short s" lab-peer host0 halt "$short" ;;
	esac
}
both() { lab-peer host1 freeze "$1" && lab-peer host0 freeze "$2"; }

log_mark
work_begin fio random_verify $volume --size=16m
work_begin clears clear_verify $volume 64
chaos_begin "${STARVED_SECONDS:-120}"
unmade=0 pause=0
until chaos_over; do
	stands_still || { unmade=1; break; }
	draw_seconds pause 100 "$(slow 6000)"
	sleep "$pause"
	work_runs >/tmp/work.early || break
done
ok "both run again" on_target true
is "each fault was made" $unmade 0
ok "fio has no error, nor has a discard or a Write Zeroes" work_end 200
sed -n 's/^  *\(read\|write\): /\1: /p' /tmp/work.fio.out | tail -n 2 | indented
# shellcheck disable=SC2154 # chaos_begin sets it.
note "$chaos_faults faults; $(losses | wc -l) associations were lost"
note "$(tail -n 1 /tmp/work.clears.out)"

state() { status_of data '[.state, .ownership, (.members[].state)] | join(" ")'; }
all_well() { [ "$(state)" = "live held ok ok ok" ]; }
ok "the volume and its members are well" until_true 90 all_well
weftctl status data | indented
is "no member has an error" "$(status_of data '[.members[].errors] | add')" 0
is "the volume was never lost" "$(log_since | grep -c 'fail for good\|writes fail until\|took the volume')" 0
ok "the bytes of before are there" still --verify_only
ok "those that were written over zeroes, too" pieces_stay $volume 64
ok "and new ones can be written" still
ok "the kernel of the target has nothing to report" on_target ". tests/system/lib.sh; kernel_silent"
ok "stopped" weftctl stop data
ok "disconnected" weftctl disconnect --all
on_target ". tests/system/lib.sh; for n in 0 1 2; do nvmet_unserve $nqn:d\$n; remove_null d\$n; done
	rdma link delete rxe0"
result $? "the target is taken down"
rdma link delete rxe0
ok "weft_rdma.ko unloads, so nothing holds it" rmmod weft_rdma
ok_unload
sysctl -q -w kernel.hung_task_timeout_secs="$patience"
done_testing
