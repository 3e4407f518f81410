#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# A target that breaks the rules (tests/hostile): the association ends, one line
# of the log says why, I/O goes on afterwards, and the host takes no harm.
# lab-kernel: uml
# lab-more: debian12
# shellcheck disable=SC2154 # What hostile_begin sets.
. "${0%/*}/lib.sh"

hostile_begin
logged_once_each() { [ "$(losses | wc -l)" = "$(ends)" ]; }

# survives FAULT REASON TEXT: with that fault at the 20th command fio verifies all the same, the log says why, and the
# reason is counted.
survives() {
	local fault=$1 reason=$2 text=$3
	hostile "$fault" --at 20
	ok "$fault: connected" weftctl connect "$uri" "${patience[@]}"
	if [ "$fault" = early-response ]; then
		# The target claims data that it did not send, which no host can notice. It must not write them late.
		ok "$fault: reads end" dd if=/dev/weft-rdma0n1 of=/dev/null bs=64k count=40 iflag=direct status=none
	else
		ok "$fault: fio's verification ends well" \
			verify /dev/weft-rdma0n1 size=1m bsrange=16k-64k blockalign=16k
	fi
	ok "$fault: the log says why" log_says "$text"
	ok "$fault: it is counted as $reason" test "$(ends "$reason")" -ge 1
	is "$fault: in one line" "$(losses | grep -c "$text")" 1
	is "$fault: no other association ends, except by lateness" "$(losses | grep -v "$text" | grep -vc "$late")" 0
	ok "$fault: each association that ends is one line" until_true 10 logged_once_each
	log_since | grep weft_rdma | indented
	ok "$fault: disconnected" weftctl disconnect --all
	gone
}
# --- Answers
survives unknown-id protocol "answered command 0xff7, which does"
survives old-id protocol "which is not in flight"
survives repeated-id protocol "which is not in flight"
survives short-response protocol "sent a capsule of 8 bytes, not 16"
survives long-response queue-pair "RECV failed"
survives wrong-key 'protocol|queue-pair' "the target invalidated key\\|the queue pair went into error\\|failed"
survives early-response queue-pair "QP access error\\|the queue pair went into error\\|failed"
survives long-data queue-pair "QP access error\\|the queue pair went into error\\|failed"
survives vanish connection "the target ended the connection"
# Not the Keep Alive, which may be late besides.
survives silence timeout "queue [1-9][0-9]*: command .* timed out; recovering"

# --- Statuses that a host has to tell from its own
hostile host-abort
ok "host-abort: a volume" weftctl create v "$uri" --force "${patience[@]}"
timeout "$(slow 20)" dd if=/dev/weft/v of=/dev/null bs=4k skip=256 count=1 iflag=direct status=none 2>/dev/null
is "host-abort: a target that says so for ever gets an error, and no loop" $? 1
timeout "$(slow 20)" weft-memtest v bench pages --largest=4096 --depth=1 --count=1 --size=4096 >/dev/null 2>&1
is "host-abort: others are read" $? 0
is "host-abort: no association ends, except by lateness" "$(losses | grep -vc "$late")" 0
ok "host-abort: stopped" weftctl stop v
ok "host-abort: disconnected" weftctl disconnect --all
gone
hostile more --at 20
ok "more: connected" weftctl connect "$uri" "${patience[@]}"
ok "more: read" dd if=/dev/weft-rdma0n1 of=/dev/null bs=64k count=60 iflag=direct status=none
ok "more: it was said" grep -q "now: more" /tmp/hostile.out
is "more: success is success" "$(grep -c 'asked once more' /tmp/hostile.out)" 0
ok "more: disconnected" weftctl disconnect --all
gone

# --- An owner record that a heartbeat reads damaged twice in a row: it reads it once more, and nothing is lost
hostile torn --unarmed --at 2
ok "torn: a volume" weftctl create v "$uri" --force "${patience[@]}"
kill -USR2 "$target"
ok "torn: the record is read damaged, and again" until_true 30 grep -q "torn: 0 more" /tmp/hostile.out
record() { dd if=/dev/weft-rdma0n1 bs=4096 skip=1 count=1 iflag=direct status=none | sha256sum; }
beat=$(record)
beats() { [ "$(record)" != "$beat" ]; }
ok "torn: the heartbeat goes on" until_true 30 beats
is "torn: this host has the volume" "$(cat '/sys/block/weft!v/weft/ownership')" held
ok "torn: it writes" dd if=/dev/zero of=/dev/weft/v bs=64k count=1 oflag=direct status=none
ok "torn: stopped" weftctl stop v
ok "torn: disconnected" weftctl disconnect --all
gone

# --- What it says of itself
said() { cat /tmp/out; log_since; grep -q "$1" /tmp/out || log_says "$1"; }
wild() { # FAULT TEXT
	hostile "$1"
	weftctl connect "$uri" "${patience[@]}" >/tmp/out 2>&1
	ok "$1: reported" said "$2"
	is "$1: no disk" "$(find /dev -name 'weft-rdma*n*')" ""
	weftctl disconnect --all >/dev/null
	gone
}
wild wild-controller "CNTRLTYPE\\|keyed SGLs\\|capsules are smaller\\|identifies itself as controller"
wild wild-namespace "namespace 1: "
wild wild-descriptors "its descriptor of type"
wild no-answer "does not answer"
wild reject "has no resources left"
# A connection that ends in place of an answer, in the course of the setup: it is not waited for.
for n in cap identify features; do
	begin=$SECONDS
	wild "drop-$n" "queue 0: the target ended the connection"
	# A command of the setup times out after 10 s.
	[ "$slow_tenths" -gt 20 ] || ok "drop-$n: at once" test $((SECONDS - begin)) -lt 8
done

hostile few --at 2
ok "few: connected by as many queues as it takes" \
	weftctl connect "$uri" "${patience[@]}" --queues 2 --poll-queues 2
is "few: the admin queue and two" "$(cat /sys/class/weft-rdma/weft-rdma*/queue_count)" 3
[ "$(nproc)" -lt 2 ] ||
	ok "few: the log says how many, and why" log_says '2 I/O queues of 4 can be connected: .*resources'
ok "few: fio's verification ends well" verify /dev/weft-rdma0n1 size=1m
ok "few: disconnected" weftctl disconnect --all
gone

# no_background FAULT WHY: the target has I/O queues, and none for background I/O. The log says why.
no_background() {
	local begin
	hostile "$1" --at "$(nproc)"
	begin=$SECONDS
	ok "$1: connected, with queues for background I/O" weftctl connect "$uri" "${patience[@]}" --background-tos 32
	# A Connect times out after 10 s.
	[ "$slow_tenths" -gt 20 ] || ok "$1: at once" test $((SECONDS - begin)) -lt 8
	is "$1: of which it has none" "$(cat /sys/class/weft-rdma/weft-rdma*/background_queues)" 0
	ok "$1: the log says so, and why" log_says "0 queues for background I/O of $(nproc) can be connected, .*$2"
	ok "$1: class IDLE writes" \
		ionice -c 3 dd if=/dev/zero of=/dev/weft-rdma0n1 bs=64k count=10 oflag=direct status=none
	ok "$1: fio's verification ends well" verify /dev/weft-rdma0n1 size=1m
	is "$1: the association goes on" "$(ends 'connection|queue-pair')" 0
	ok "$1: disconnected" weftctl disconnect --all
	gone
}
no_background few resources
no_background drop-connect "the target ended the connection"

hostile endless-list
# No disk is made of a list that is not right.
weftctl connect "$uri" "${patience[@]}" >/tmp/out 2>&1
is "endless-list: refused" "$? $(grep -c 'has no namespace 1 that this host can use' /tmp/out)" "4 1"
ok "endless-list: reported" until_true 10 log_says 'the list of namespaces has 1 after 2'
ok "endless-list: disconnected" weftctl disconnect --all
gone

# Any number of namespaces, of which only the first is there.
hostile long-list
ok "long-list: connected" weftctl connect "$uri" "${patience[@]}"
ok "long-list: reported" until_true 60 log_says 'lists more than 4096 namespaces'
ok "long-list: its namespace is a disk" verify /dev/weft-rdma0n1 size=1m
ok "long-list: disconnected" weftctl disconnect --all
gone

# --- A target that takes less than before, when it is back
hostile none
ok "less: connected" weftctl connect "$uri" "${patience[@]}" --queues 2
ok "less: verified" verify /dev/weft-rdma0n1 size=1m
gone
hostile none --grant 1 --entries 4 --mdts 4
again() { [ "$(cat /sys/class/weft-rdma/weft-rdma0/reconnects)" -ge "$1" ] && live; }
live() { [ "$(cat /sys/class/weft-rdma/weft-rdma0/state)" = live ]; }
ok "less: one queue of two, short ones: connected again" until_true 60 again 1
[ "$(nproc)" -lt 2 ] || ok "less: the log says so" log_says "grants 1 I/O queues of 2"
ok "less: verified" verify /dev/weft-rdma0n1 size=1m bsrange=4k-256k
is "less: in shorter commands" "$(cat /sys/block/weft-rdma0n1/queue/max_hw_sectors_kb)" 64
gone
hostile few --at 1
ok "less: it grants two and takes one: connected again" until_true 120 again 2
ok "less: verified" verify /dev/weft-rdma0n1 size=1m
gone
hostile none
ok "less: it takes all again" until_true 60 again 3
ok "less: verified" verify /dev/weft-rdma0n1 size=1m
ok "less: disconnected" weftctl disconnect --all
gone

# --- A namespace that cannot be identified for a while
hostile none --namespaces 2
reads() { timeout "$(slow 10)" dd if="/dev/weft-rdma0n$1" of=/dev/null bs=4k count=1 iflag=direct; }
# The disk has no bytes any more, or they cannot be read.
fails() { [ "$(dd "if=/dev/weft-rdma0n$1" bs=4k count=1 iflag=direct status=none | wc -c)" = 0 ]; }
# One that waits for ever is killed, and says nothing.
errors_of() { timeout "$(slow 60)" dd if="$1" of=/dev/null bs=4k count=1 iflag=direct 2>&1 | grep -c 'error reading'; }
ok "sick: connected" weftctl connect "$uri" "${patience[@]}"
ok "sick: two disks" test -b /dev/weft-rdma0n1 -a -b /dev/weft-rdma0n2
gone
hostile sick --namespaces 2 --at 3
ok "sick: the healthy one is read" until_true 60 reads 1
ok "sick: while nothing is known of the other" log_says "namespace 2: Identify Namespace failed"
ok "sick: which is read later" until_true 60 reads 2
is "sick: it was asked until it answered" "$(grep -c sick: /tmp/hostile.out)" 3
is "sick: one association ended, with the first target" "$(ends 'connection|queue-pair')" 1
ok "sick: disconnected" weftctl disconnect --all
gone

# A namespace that is new then.
hostile sick --namespaces 2 --at 1
ok "sick at first: connected" weftctl connect "$uri" "${patience[@]}"
ok "sick at first: the healthy one is read" reads 1
ok "sick at first: the other one is a disk soon" until_true 30 test -b /dev/weft-rdma0n2
ok "sick at first: and is read" reads 2
ok "sick at first: disconnected" weftctl disconnect --all
gone

# One that is listed, and does not exist yet, as with the kernel's target while a namespace is enabled: its disk stays.
hostile none --namespaces 2
ok "absent: connected" weftctl connect "$uri" "${patience[@]}"
gone
exec 9</dev/weft-rdma0n2
opened_reads() { timeout "$(slow 10)" dd bs=4k count=1 iflag=direct of=/dev/null <&9; }
hostile absent --namespaces 2 --at 1
ok "absent: the other one is read" until_true 60 reads 1
ok "absent: it was asked for" grep -q "absent: 0 more" /tmp/hostile.out
ok "absent: a program that has it open reads it again" until_true 60 opened_reads
is "absent: it was not gone" "$(log_since | grep -c 'namespace 2 is gone')" 0
exec 9<&-
gone
# What it says again is believed.
hostile absent --namespaces 2 --at 1000000
ok "absent for long: the other one is read" until_true 60 reads 1
ok "absent for long: it is gone" until_true 30 log_says "namespace 2 is gone"
gone
hostile none --namespaces 2
ok "absent for long: it is a disk again" until_true 60 test -b /dev/weft-rdma0n2
ok "absent for long: and is read" until_true 60 reads 2
ok "absent: disconnected" weftctl disconnect --all
gone

# The same as the first for longer than fast_io_fail_timeout, while the controller is live.
hostile none --namespaces 2
ok "sick for long: connected" weftctl connect "$uri" "${patience[@]}" --fast-io-fail-timeout "$(slow 3)"
gone
hostile sick --namespaces 2 --at 1000000
ok "sick for long: the healthy one is read" until_true 60 reads 1
is "sick for long: a read of the other fails" "$(errors_of /dev/weft-rdma0n2)" 1
# The next look at the disk says so. Until then, a read that comes late fails by itself.
ok "sick for long: the log says why" until_true 20 \
	log_says "namespace 2: not identified again within .* (fast_io_fail_timeout)"
is "sick for long: once" "$(log_since | grep -c 'namespace 2: not identified again')" 1
ok "sick for long: the association lives" until_true 60 live
gone
hostile none --namespaces 2
ok "sick for long: it is read when it can be identified" until_true 60 reads 2
ok "sick for long: disconnected" weftctl disconnect --all
gone

# --- Asynchronous events: the target announces nothing more until its log of changed namespaces is read, which fails
# twice. It is asked for one event at a time, also when associations end under the work that handles one.
hostile events --at 2
ok "events: connected" weftctl connect "$uri" "${patience[@]}"
kill -USR1 "$target"
ok "events: a new namespace is a disk" until_true 30 test -b /dev/weft-rdma0n2
ok "events: the log is read, by the third attempt" until_true 60 grep -q "the log is read" /tmp/hostile.out
is "events: two failed" "$(grep -c "the log is not read" /tmp/hostile.out)" 2
told() { grep -c "told of a change" /tmp/hostile.out; }
told_more() { [ "$(told)" -gt "$before" ]; }
announced() { # NSID: of a new namespace
	before=$(told)
	kill -USR1 "$target"
	ok "events: namespace $1 is a disk" until_true 60 test -b "/dev/weft-rdma0n$1"
	ok "events: and it was announced" until_true 30 told_more
}
announced 3
for n in 4 5 6; do
	kill -USR1 "$target"
	echo 1 >/sys/class/weft-rdma/weft-rdma0/reset_controller
	ok "events: a reset: namespace $n is a disk" until_true 60 test -b "/dev/weft-rdma0n$n"
	ok "events: and the controller is live" until_true 60 live
done
announced 7
is "events: one was asked for at a time" "$(grep -c "a second event" /tmp/hostile.out)" 0
ok "events: disconnected" weftctl disconnect --all
gone

# --- A target that connects, and cannot say what it has: each attempt succeeds, and no association serves
hostile none
ok "no-list: connected" weftctl connect "$uri" "${patience[@]}" --fast-io-fail-timeout "$(slow 3)" \
	--ctrl-loss-timeout "$(slow 12)"
gone
hostile no-list
scans() { [ "$(ends scan)" -ge "$1" ]; }
ok "no-list: associations end one after the other" until_true 60 scans 2
is "no-list: a read fails, although each attempt succeeds" "$(errors_of /dev/weft-rdma0n1)" 1
ok "no-list: before the controller is given up" test -e /sys/class/weft-rdma/weft-rdma0
ok "no-list: the controller is given up" until_true 60 test ! -e /sys/class/weft-rdma/weft-rdma0
ok "no-list: the log says so" log_says "(ctrl_loss_tmo): the controller is removed"
gone

# --- A target that stops: not even the Keep Alive is answered
hostile none
ok "stopped: connected" weftctl connect "$uri" "${patience[@]}"
keep_alive_ended() { [ "$(ends keep-alive)" -ge 1 ]; }
kill -STOP "$target"
ok "stopped: the association ends by its keep-alive" until_true 60 keep_alive_ended
kill -CONT "$target"
ok "stopped: it goes on, and is connected again" until_true 60 live
ok "stopped: disconnected" weftctl disconnect --all
gone

# --- A controller that is removed while its target pauses: what the page cache of its disk has is written, because a
# command that times out gets as long again, as elsewhere.
# Between the two time limits, of which the block layer rounds each up to the next second.
hostile pause --unarmed --at 1 --keep "$(slow 8)"
ok "removed: connected" weftctl connect "$uri" "${patience[@]}"
head -c 65536 /dev/urandom >/tmp/dirty
exec 9<>/dev/weft-rdma0n1
cat /tmp/dirty >&9
kill -USR2 "$target"
ok "removed: disconnected, with dirty pages" weftctl disconnect --all
exec 9>&-
ok "removed: the first time limit was over" grep -q "asked to abort" /tmp/hostile.out
ok "removed: connected again" weftctl connect "$uri" "${patience[@]}"
ok "removed: the pages were written" cmp -n 65536 /tmp/dirty /dev/weft-rdma0n1
ok "removed: disconnected" weftctl disconnect --all
gone
# A target that goes away then is not waited for longer than one time limit.
hostile vanish --unarmed --at 1
ok "removed, lost: connected" weftctl connect "$uri" "${patience[@]}"
exec 9<>/dev/weft-rdma0n1
cat /tmp/dirty >&9
kill -USR2 "$target"
ok "removed, lost: disconnected, although its pages cannot be written" timeout "$(slow 30)" weftctl disconnect --all
exec 9>&-
ok "removed, lost: the log says why" log_says "timed out while the controller is removed"
gone

# --- What it prefers, and limits of single commands
hostile none --picky
ok "picky: connected" weftctl connect "$uri" "${patience[@]}"
limit() { cat "/sys/block/weft-rdma0n1/queue/$1"; }
is "picky: commands do not cross NOIOB" "$(limit chunk_sectors)" 512
is "picky: writes are in units of NPWG" "$(limit minimum_io_size)" 4096
is "picky: and best of NOWS" "$(limit optimal_io_size)" 131072
is "picky: what AWUPF writes as a whole" "$(limit physical_block_size)" 2048
is "picky: discards are in units of NPDG" "$(limit discard_granularity)" 65536
is "picky: and at most DMRSL" "$(limit discard_max_bytes)" 1048576
is "picky: a Write Zeroes is at most WZSL" "$(limit write_zeroes_max_bytes)" 131072
ok "picky: fio's verification ends well" verify /dev/weft-rdma0n1 size=1m bsrange=4k-600k
zeroes() { # OPTION: of fallocate; it zeroes a mebibyte that has other bytes
	dd if=/dev/urandom of=/dev/weft-rdma0n1 bs=1M count=1 oflag=direct status=none &&
		fallocate "$1" --keep-size --length 1MiB /dev/weft-rdma0n1 &&
		dd if=/dev/weft-rdma0n1 bs=1M count=1 iflag=direct status=none | cmp -n 1048576 - /dev/zero
}
# By Write Zeroes alone: no pages are written in its place if one is too long.
ok "picky: a mebibyte is zeroed" zeroes --punch-hole
gone
hostile none --picky --wzsl 3 --dmrsl 512
ok "pickier: connected again" until_true 60 again 1
is "pickier: discards are at most DMRSL" "$(limit discard_max_bytes)" 262144
is "pickier: a Write Zeroes is at most WZSL" "$(limit write_zeroes_max_bytes)" 32768
ok "pickier: a mebibyte is zeroed" zeroes --punch-hole
gone
hostile none
ok "neither discards nor writes zeroes: connected again" until_true 60 again 2
is "neither: discards are not offered" "$(limit discard_max_bytes)" 0
ok "neither: a mebibyte is zeroed" zeroes --zero-range
ok "picky: disconnected" weftctl disconnect --all
gone

# --- Another disk at the same address, name and number, where the namespace has no id
hostile none --anonymous --serial one --cacheless
ok "anonymous: connected" weftctl connect "$uri" "${patience[@]}"
# It may have one when it is back.
is "anonymous: a target that has no write cache is flushed as well" \
	"$(cat /sys/block/weft-rdma0n1/queue/write_cache)" "write back"
ok "anonymous: fio's verification ends well" verify /dev/weft-rdma0n1 size=1m
gone
hostile none --anonymous --serial one
ok "anonymous: the same disk comes back" until_true 60 live
ok "anonymous: and is read" reads 1
gone
hostile none --anonymous --serial other
ok "anonymous: another disk is refused" until_true 60 \
	log_says "namespace 1 is another one than before, .* its controller is .*other, before .*one"
ok "anonymous: and is not read" fails 1
ok "anonymous: disconnected" weftctl disconnect --all
gone

# --- A controller that comes back to a target that is never ready, and an RDMA device that goes meanwhile. The target
# answers still, and its removal waits for the attempt to connect.
hostile none
ok "never-ready: connected" weftctl connect "$uri" "${patience[@]}"
gone
hostile never-ready --at 0
ok "never-ready: it is asked" until_true 60 grep -q "asked whether it is ready" /tmp/hostile.out
rdma link delete rxe0 & deleting=$!
ok "never-ready: the attempt ends when its RDMA device goes, and says so" until_true 20 \
	log_says "attempt .* to connect: the RDMA device rxe0 is being removed"
# On older kernels, the removal waits for the target, which has the device open.
gone
ok "never-ready: the device is gone" until_true 30 has_ended $deleting
soft_roce_on dummy0
hostile none
ok "never-ready: connected again when there is one again" until_true 60 live
ok "never-ready: disconnected" weftctl disconnect --all
gone
hostile_end
done_testing
