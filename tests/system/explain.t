#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# weftctl explain: what it says of loads that are made so.
# lab-kernel: uml
. "${0%/*}/lib.sh"

# A heartbeat takes two commands of a disk.
load_weft 500
# Disks that take 100 ms for a command, and m3 1 s; commands wait on timers, and the processor is idle, also a slow one.
for n in 0 1 2 3; do
	make_null m$n 64 irqmode=2 completion_nsec=$((n == 3 ? 1000 : 100))000000 hw_queue_depth=256
done
make_null fast0 64
make_null fast1 64

# explains VOLUME SUBJECT: what limits it now, and the sentence. If that is not the subject, it is asked again, up to
# four times: a load may begin late, and a moment in which the machine stood still can make another reason the first.
explains() {
	local said
	for _ in 1 2 3 4 5; do
		said=$(weftctl explain "$1" --seconds 3 --json |
			json '.explanations[0].reasons[0] | .subject + ": " + .text')
		case $said in "$2: "*) break ;; esac
	done
	echo "$said"
}
# names VOLUME SUBJECT: the reason of this subject, wherever it stands. A moment in which the machine stood still can
# make a member the first one.
names() {
	weftctl explain "$1" --seconds 3 --json |
		jq -r --arg subject "$2" '.explanations[0].reasons[] | select(.subject == $subject) |
			.subject + ": " + .text'
}
# names_soon VOLUME SUBJECT: the same, asked up to five times.
names_soon() {
	local said
	for _ in 1 2 3 4 5; do
		said=$(names "$@")
		[ -z "$said" ] || break
	done
	echo "$said"
}
# while_reading VOLUME JOBS DEPTH COMMAND...
while_reading() {
	local volume=$1 jobs=$2 depth=$3 load
	shift 3
	fio --name=load --filename="/dev/weft/$volume" --rw=randread --bs=4k --direct=1 --ioengine=io_uring \
		--numjobs="$jobs" --iodepth="$depth" --time_based --runtime=600 >/tmp/fio.out 2>&1 & load=$!
	sleep 2
	"$@"
	kill "$load"
	wait "$load" 2>/dev/null
}
# is_limited SENTENCE SUBJECT TEXT COMMAND...: the command prints that this limits the volume.
is_limited() {
	local sentence=$1 subject=$2 text=$3 out
	shift 3
	out=$("$@")
	case $out in "$subject: "*"$text"*) result 0 "$sentence" ;; *) note "$out"; result 1 "$sentence" ;; esac
}

ok "a volume" weftctl create v /dev/m0 /dev/m1 /dev/m2 --chunk 4K
is_limited "nothing runs" load "the volume waits for work" explains v load
is_limited "one command at a time" depth "more at a time" while_reading v 1 1 explains v depth
is_limited "many: the members" members "are at their limit" while_reading v 1 12 explains v members
# A slow guest's rate in bytes may be below any limit.
ok "a limit for writes" weftctl qos v --background-max-iops 5
write() {
	local load
	dd if=/dev/zero of=/dev/weft/v bs=4k count=4000 oflag=direct status=none & load=$!
	sleep 2
	"$@"
	kill "$load"
	wait "$load" 2>/dev/null
}
is_limited "QoS" qos "background commands wait for QoS" write explains v qos
ok "QoS off" weftctl qos v --off
ok "stopped" weftctl stop v
ok "a volume with a slow member" weftctl create s /dev/m0 /dev/m1 /dev/m2 /dev/m3 --chunk 4K --force
is_limited "the slow member" member "member 3 (m3) takes" while_reading s 1 12 explains s member
ok "stopped" weftctl stop s
ok "a volume of fast members" weftctl create f /dev/fast0 /dev/fast1 --chunk 4K
is_limited "the processor" processor "the processor is busy" while_reading f 2 16 explains f processor
bounced() { [ "$(status_of f .memory.bounce)" -gt 0 ]; }
bounce() {
	local load
	weft-memtest f bench udmabuf --bounce --depth=1 --count=1000000 --largest=4096 --size=1048576 \
		>/dev/null 2>&1 & load=$!
	until_true 20 bounced
	"$@"
	kill "$load"
	wait "$load" 2>/dev/null
}
is_limited "bytes through host memory" route "100 % of the bytes on registered memory" bounce names_soon f route
is "in words" "$(weftctl explain f --seconds 1 | sed 's/ in . s.*//')" "f: 0 reads/s, 0 B/s; 0 writes/s, 0 B/s
-> load       no command was sent"
echo 0 >'/sys/block/weft!f/queue/iostats'
is_limited "without iostats" load "I/O is not counted" while_reading f 1 1 explains f load
refused "a volume that is not there" 4 "no volume is called nix" weftctl explain nix
ok "stopped" weftctl stop f

# --- A rail. soft-RoCE has no link, and counts packets. Its port is shown with 1 KiB for each packet that it really
# received and sent, and with a link so slow that a tenth of what a guest carries is more. A counter's file is moved to
# its place, so explain reads whole ones.
nqn=nqn.2014-08.org.example
soft_roce 10.9.0.1
nvmet_serve "$nqn:fast0" /dev/fast0 rdma 10.9.0.1
ok "a volume by a rail" weftctl create r "rdma://10.9.0.1/$nqn:fast0" --force
real=$(readlink -f /sys/class/infiniband/rxe0)/ports/1/hw_counters port=/tmp/infiniband/rxe0/ports/1
mkdir -p /tmp/infiniband/rxe0/device $port/counters
echo "4: ACTIVE" >$port/state
echo "0.001 Gb/sec (a slow link)" >$port/rate
count_bytes() {
	local packets
	for packets in rcvd_pkts:port_rcv_data sent_pkts:port_xmit_data; do
		echo $(($(cat "$real/${packets%:*}") * 1024 / 4)) >/tmp/counter
		mv /tmp/counter "$port/counters/${packets#*:}"
	done
}
count_bytes
mount --bind /tmp/infiniband /sys/class/infiniband
while sleep 0.2; do count_bytes; done & counting=$!
is_limited "a rail" rail "rail rxe0/1 carries" while_reading r 1 16 names_soon r rail
# The loop may not have counted the last packets of the load yet.
no_rail() { [ -z "$(names r rail)" ]; }
ok "no load, no rail" until_true 30 no_rail
kill "$counting"
wait "$counting" 2>/dev/null
umount /sys/class/infiniband
ok "stopped" weftctl stop r
ok "disconnected" weftctl disconnect --all
nvmet_unserve "$nqn:fast0"
rmmod weft_rdma
no_soft_roce
for n in m0 m1 m2 m3 fast0 fast1; do remove_null $n; done
ok_unload
done_testing
