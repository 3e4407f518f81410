#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Connections that background I/O has for itself, with a type of service of their own: what each kind of I/O is sent on,
# as seen on the wire; a lost link; and targets that grant too few queues.
# lab-own: --hosts 2 --memory 1G --peer-topology nvme
# lab-kernel: none
# lab-more: uml
. "${0%/*}/lib.sh"

nqn=nqn.2014-08.org.example
target=10.77.1.2
on_target() { on_host host1 ". tests/system/lib.sh; $1"; }
on_target "set -e; local_nvmes 4
	soft_roce_on eth0
	for n in 0 1; do nvmet_serve $nqn:d\$n \$(nvme_local nvme\$n) rdma $target; done" | indented
load_weft 2000
soft_roce_on eth0
# Soft-RoCE cannot send while a queueing discipline is put in place: now nothing is sent.
netem eth0
uris="rdma://$target/$nqn:d0 rdma://$target/$nqn:d1"
times=(--keep-alive "$(slow 4)" --reconnect-delay 1)
shown() { cat "/sys/class/weft-rdma/weft-rdma$1/$2"; }

refused "the stock host has no such connections" 2 "needs weft's own initiator" \
	weftctl connect tcp://$target/$nqn:d0 --background-tos 32
refused "a type of service has eight bits" 2 "256 not in range" \
	weftctl connect rdma://$target/$nqn:d0 --background-tos 256
# shellcheck disable=SC2086
ok "a volume, with connections for background I/O" \
	weftctl create v $uris --chunk 64K --force "${times[@]}" --tos 104 --background-tos 32
io=$(nproc)
is "which the controller shows" "$(shown 0 background_tos) $(shown 0 background_queues)" "32 $io"
queues() { on_target "rdma resource show qp" | grep -c 'type RC state RTS'; }
before=$(queues)

# --- What is sent on which
reads() { dd if=/dev/weft/v of=/dev/null bs=64k count=70 iflag=direct; }
writes() { dd if=/dev/zero of=/dev/weft/v bs=64k count=50 oflag=direct; }
memory() { weft-memtest v verify pages --largest=65536 --count=60 "$@"; }
is "without QoS reads are not background" "$(roce_services 70 0 reads)" 104
is "nor are writes" "$(roce_services 70 0 writes)" 104
is "those of class IDLE are" "$(roce_services 70 10 ionice -c 3 bash -c "$(declare -f writes); writes")" 32
# From here on a few packets may be of the other kind: a connection acknowledges late, or sends again.
ok "QoS" weftctl qos v --feed-latency 5ms
is "with QoS reads are not" "$(roce_services 70 10 reads)" 104
is "and writes are" "$(roce_services 70 10 writes)" 32
is "registered memory is written as background and read as feed" "$(roce_services 100 10 memory)" "32 104"
is "also if it is registered for good" "$(roce_services 100 10 memory --persistent)" "32 104"
weftctl qos v --writes feed >/dev/null
is "writes may be feed" "$(roce_services 70 10 memory)" 104
weftctl qos v --writes background >/dev/null

# --- Data, also after a lost link
ok "verified" verify /dev/weft/v size="$(mib 16)" bsrange=4k-300k
verify_while "nothing gets through for longer than the keep-alive: no error" /dev/weft/v 12 1500 cable
ok "both controllers connect again" connect_again
is "with queues for background I/O" "$(shown 0 background_queues)" "$io"
is "on which it is sent" "$(roce_services 70 10 writes)" 32
load="pages --persistent --depth=16 --largest=65536"
load_while "nothing gets through: no error on registered memory" 12 "$load" cable
ok "both controllers connect again" connect_again
is "memory that is registered for good is written as background" "$(roce_services 100 10 memory --persistent)" "32 104"
ok "stopped" weftctl stop v
ok "disconnected" weftctl disconnect --all
no_queues() { [ "$(queues)" = 0 ]; }
ok "and the target has no connection left" until_true 20 no_queues
note "$before queue pairs of the target served the volume"

# --- Targets with few queues
most=/sys/kernel/config/nvmet/subsystems/$nqn:d0/attr_qid_max
qid_max() { on_target "nvmet_withdraw $nqn:d0; echo $1 >$most; nvmet_offer $nqn:d0"; }
too_few() { log_since | grep -q 'grants too few queues: background I/O'; }
disk_io() { # OPTION...: of fio
	timeout "$(slow 10)" fio --name=io --filename="$disk" --ioengine=io_uring --direct=1 --bs=4k --io_size=64k "$@"
}
has_background() { [ "$(cat /sys/class/weft-rdma/*/background_queues)" = "$1" ] && disk_io --rw=read; }
both_kinds() { log_says "grants 2 I/O queues of 3" && disk_io --rw=read && disk_io --rw=read --hipri; }
if on_target "test -e $most"; then
	for row in "$((2 * io)):0" "$((3 * io)):$io"; do
		qid_max "${row%:*}"
		log_mark
		ok "a target that grants ${row%:*} queues for $io processors" \
			weftctl connect rdma://$target/$nqn:d0 "${times[@]}" --background-tos 32
		is "${row#*:} are for background I/O" "$(cat /sys/class/weft-rdma/*/background_queues)" "${row#*:}"
		ok "which the log says" too_few
		disk=$(weftctl connect rdma://$target/$nqn:d0 --json | json '.connections[0].disks[0]')
		ok "its disk is written by class IDLE" \
			ionice -c 3 dd if=/dev/zero of="$disk" bs=64k count=20 oflag=direct status=none
		qid_max "$((4 * io))"
		ok "when it grants more, all queues are connected" until_true 60 has_background "$io"
		ok "and write the disk" \
			ionice -c 3 dd if=/dev/zero of="$disk" bs=64k count=20 oflag=direct status=none
		ok "disconnected" weftctl disconnect --all
	done
	ok "a target that grants all queues, also those that are polled" \
		weftctl connect rdma://$target/$nqn:d0 "${times[@]}" --queues 2 --poll-queues 1
	disk=$(weftctl connect rdma://$target/$nqn:d0 --json | json '.connections[0].disks[0]')
	log_mark
	qid_max 2
	ok "when it grants two, one of each kind is connected" until_true 60 both_kinds
	is "at the first attempt" "$(log_since | grep -c 'grants [12] I/O queues of 3')" 1
	ok "disconnected" weftctl disconnect --all
else
	skip "targets that grant few queues" "this kernel's target has no attr_qid_max"
fi
ok_unload
done_testing
