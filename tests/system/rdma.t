#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# weft's own NVMe/RDMA initiator against the kernel's target, in one guest:
# connect, use, resize, ask, disconnect; volumes over it.
# lab-kernel: oldest uml
. "${0%/*}/lib.sh"

load_weft 500
nqn=nqn.2014-08.org.example
soft_roce 10.9.0.1
for n in 0 1 2; do make_null "rb$n" 64 blocksize=$((n == 2 ? 4096 : 512)) discard=1; done
for n in 0 1 2; do nvmet_serve "$nqn:d$n" "$(readlink -f "/dev/rb$n")" rdma 10.9.0.1; done
uri() { echo "rdma://10.9.0.1/$nqn:d$1"; }
attribute() { cat "/sys/class/weft-rdma/$1/$2"; }

# nvmet_reservable SUBNQN NAME ADDRESS: serve a null_blk disk that can be reserved, where the target can.
nvmet_reservable() {
	[ -e "/sys/kernel/config/nvmet/subsystems/$nqn:d0/namespaces/1/resv_enable" ] || return 1
	make_null "$2" 64
	nvmet_serve "$1" "$(readlink -f "/dev/$2")" rdma "$3"
	nvmet_set "$1" resv_enable=1
}

# reservation DISK register OLD NEW | reserve KEY | release KEY: linux/pr.h's ioctls; write exclusive.
reservation() {
	python3 - "$@" <<-'END'
		import fcntl, os, struct, sys
		disk, verb, *keys = sys.argv[1:]
		keys = [int(key, 0) for key in keys]
		number, argument = {"register": (200, struct.pack("QQII", *keys, 0, 0)) if len(keys) == 2 else None,
		                    "reserve": (201, struct.pack("QII", keys[0], 1, 0)),
		                    "release": (202, struct.pack("QII", keys[0], 1, 0))}[verb]
		request = 1 << 30 | len(argument) << 16 | ord("p") << 8 | number
		if status := fcntl.ioctl(os.open(disk, os.O_RDWR), request, bytearray(argument)):
		    sys.exit(f"{verb}: status {status:#x}")
	END
}

# --- What cannot be connected says why
refused "no listener" 1 "no listener at that address" weftctl connect "rdma://10.9.0.1:4555/$nqn:d0"
refused "no route" 1 "no route" weftctl connect "rdma://10.77.77.77/$nqn:d0"
refused "no such subsystem" 1 "is there a subsystem of that name" weftctl connect "rdma://10.9.0.1/$nqn:none"
is "none of them left a controller" "$(find /sys/class/weft-rdma/ -mindepth 1 2>/dev/null | wc -l)" 0

# --- One controller
ok "connected" weftctl connect "$(uri 0)" --queues 2 --poll-queues 1 --queue-depth 64
disk=/dev/weft-rdma0n1
ok "its disk is there when the command returns" test -b $disk
is "state" "$(attribute weft-rdma0 state)" live
# Two of each were wanted; a processor has one of a kind at most.
queues=$(nproc)
[ "$queues" -le 2 ] || queues=2
is "I/O queues, a poll queue, the admin queue" "$(attribute weft-rdma0 queue_count)" $((queues + 2))
is "size" "$(blockdev --getsize64 $disk)" $((64 << 20))
ok "connecting again" weftctl connect "$(uri 0)"
is "is no second controller" "$(find /sys/class/weft-rdma/ -mindepth 1 | wc -l)" 1
ok "verified, interrupts" verify $disk size="$(mib 32)" bsrange=4k-1100k
ok "verified, polled" verify $disk size="$(mib 16)" bsrange=512-64k hipri=1
ok "discard" blkdiscard $disk
ok "reads zeroes" sh -c "head -c 1M $disk | cmp -n 1048576 - /dev/zero"
dd if=/dev/urandom of="$disk" bs=1M count=2 oflag=direct status=none
ok "write zeroes" blkdiscard -z -o 4096 -l 1M $disk
ok "which are read" sh -c "dd if=$disk bs=4k skip=1 count=256 iflag=direct status=none | cmp -n 1048576 - /dev/zero"
ok "fsync" python3 -c "import os; f = os.open('$disk', os.O_RDWR); os.write(f, b'x' * 4096); os.fsync(f)"
# --- A namespace changes while it is used
make_loop grows 64
loop=$(readlink -f /dev/grows)
nvmet_serve "$nqn:grow" "$loop" rdma 10.9.0.1
ok "one that will grow" weftctl connect "rdma://10.9.0.1/$nqn:grow"
truncate -s 96M /tmp/grows.img
losetup -c "$loop"
grow=/sys/kernel/config/nvmet/subsystems/$nqn:grow/namespaces/1
echo 1 >"$grow/revalidate_size"
ok "it is seen to have grown" until_true 30 sh -c "test \$(blockdev --getsize64 /dev/weft-rdma1n1) = $((96 << 20))"
echo 0 >"$grow/enable"
ok "and to be gone" until_true 30 sh -c "! test -e /sys/block/weft-rdma1n1"
echo 1 >"$grow/enable"
ok "and to be back" until_true 30 test -b /dev/weft-rdma1n1
ok "disconnected" weftctl disconnect /dev/weft-rdma1n1
nvmet_unserve "$nqn:grow" 4420; remove_loop grows
is "the disk is gone with it" "$(ls /dev/weft-rdma1* 2>/dev/null)" ""

# --- A program that polls is stopped
slow 2 >/sys/module/weft_rdma/parameters/io_timeout
ok "one that is polled" weftctl connect "$(uri 1)" --queues 1 --poll-queues 1 --keep-alive "$(slow 5)"
echo 30 >/sys/module/weft_rdma/parameters/io_timeout
fio --name=poll --thread --filename=/dev/weft-rdma1n1 --direct=1 --ioengine=io_uring --hipri --rw=randread --bs=4k \
	--iodepth=8 --time_based --runtime="$(slow 60)" >/dev/null 2>&1 & poller=$!
polls() { [ "$(awk '{ print $1 }' /sys/block/weft-rdma1n1/stat)" -ge 100 ]; }
ok "it is" until_true 20 polls
before=$(ends "$(not_soft_roce)")
kill -STOP $poller
# Longer than the timeout of a command, and of its Abort.
sleep "$(slow 8)"
is "the poller is stopped, and the association lives" $(($(ends "$(not_soft_roce)") - before)) 0
kill -CONT $poller
kill -INT $poller
wait $poller
ok "disconnected" weftctl disconnect weft-rdma1

# --- Connections for background I/O; rdma-background.t, of two hosts, tests what is sent on them
ok "one with connections for background I/O" \
	weftctl connect "$(uri 1)" --queues 2 --background-tos 32 --reconnect-delay 1
is "it has them" "$(attribute weft-rdma1 background_queues)" "$queues"
# From here on, I/O of this shell's programs is background.
ionice -c 3 -p $$
ok "verified, on them" verify /dev/weft-rdma1n1 size="$(mib 8)" bsrange=4k-300k
reset() { echo 1 >/sys/class/weft-rdma/weft-rdma1/reset_controller; }
verify_while "a reset while they are used: no error" /dev/weft-rdma1n1 8 1500 until_true 30 reset
is_live() { [ "$(attribute weft-rdma1 state)" = live ]; }
ok "it is connected again" until_true 60 is_live
ok "verified once more, on them" verify /dev/weft-rdma1n1 size="$(mib 8)" bsrange=4k-300k
is "it has them still" "$(attribute weft-rdma1 background_queues)" "$queues"
ionice -c 0 -p $$
ok "disconnected" weftctl disconnect weft-rdma1

# --- Reservations
if nvmet_reservable "$nqn:resv" rr 10.9.0.1; then
	ok "one that can be reserved" weftctl connect "rdma://10.9.0.1/$nqn:resv" --reconnect-delay 1
	reserved=/dev/weft-rdma1n1
	ok "registered" reservation $reserved register 0 0x77
	ok "reserved" reservation $reserved reserve 0x77
	report() { nvme resv-report $reserved -n 1 --eds -o json | json '"\(.regctl) \(.rtype)"'; }
	is "nvme resv-report: one registrant, write exclusive" "$(report)" "1 1"
	ok "the holder writes" dd if=/dev/zero of=$reserved bs=4k count=1 oflag=direct status=none
	reservation $reserved release 0x78 2>/dev/null
	is "a wrong key does not release" $? 1
	ok "released" reservation $reserved release 0x77
	ok "and unregistered" reservation $reserved register 0x77 0
	nvmet_withdraw "$nqn:resv"
	ok "its association ends" until_true 20 grep -qv live /sys/class/weft-rdma/weft-rdma1/state
	reservation $reserved register 0 0x77 2>/dev/null & late=$!
	waits() { ps -o stat= -p "$late" --ppid "$late" | grep -q D; }
	ok "a reservation waits" until_true 30 waits
	nvmet_set "$nqn:resv" device_uuid="$(cat /proc/sys/kernel/random/uuid)"
	log_mark
	nvmet_offer "$nqn:resv"
	ok "another disk has its name" until_true 30 log_says "namespace 1 is another one than.* its UUID is "
	wait $late
	is "the reservation that waited fails" $? 1
	ok "disconnected" weftctl disconnect weft-rdma1
	ok "connected to the other disk" weftctl connect "rdma://10.9.0.1/$nqn:resv"
	is "which nobody has registered with" "$(report)" "0 0"
	ok "disconnected" weftctl disconnect $reserved
	nvmet_unserve "$nqn:resv" 4420; remove_null rr
else
	skip "reservations" "this kernel's target has none"
fi

# --- Volumes
weftctl connect "$(uri 1)" >/dev/null
ok_members "weft's own initiator" /dev/weft-rdma0n1 /dev/weft-rdma1n1
is "its controllers stay as they were" "$(find /sys/class/weft-rdma/ -mindepth 1 | wc -l)" 2
ok "a volume" weftctl create v "$(uri 0)" "$(uri 1)" --force
is "its members are the transport's" "$(status_of v '[.members[].transport] | unique | .[0]')" rdma
refused "a controller of which a disk is a member stays" 3 "in use" weftctl disconnect weft-rdma0
rmmod weft_rdma 2>/dev/null
is "and so does the module" $? 1
weftctl status v | indented
ok "stopped" weftctl stop v
ok "4 KiB blocks" weftctl connect "$(uri 2)"
ok "verified with 4 KiB blocks" verify /dev/weft-rdma2n1 size="$(mib 16)" bsrange=4k-128k
ok "all are disconnected" weftctl disconnect --all
for n in 0 1 2; do nvmet_unserve "$nqn:d$n" 4420; remove_null "rb$n"; done
ok "weft_rdma.ko unloads, so nothing holds it" rmmod weft_rdma
ok_unload
no_soft_roce
done_testing
