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
	# Soft-RoCE may end another queue pair by itself.
	case $reason in *queue-pair*) ;; *) is "$fault: in one line" "$(losses | grep -c "$text")" 1 ;; esac
	is "$fault: no other association ends, except by lateness" "$(losses | grep -v "$text" | grep -vc "$late")" 0
	ok "$fault: each association that ends is one line" until_true 30 logged_once_each
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

# --- A target that says that it sent the owner record, and sent nothing: the bytes of the last heartbeat do not count
hostile empty-owner --unarmed
ok "empty-owner: a volume" weftctl create v "$uri" --force "${patience[@]}"
kill -USR2 "$target"
ok "empty-owner: this host has the volume no longer" until_true 30 grep -q lost '/sys/block/weft!v/weft/ownership'
ok "empty-owner: stopped" weftctl stop v
ok "empty-owner: disconnected" weftctl disconnect --all
gone

# --- A namespace that cannot be identified for a while
hostile none --namespaces 2
reads() { timeout "$(slow 10)" dd if="/dev/weft-rdma0n$1" of=/dev/null bs=4k count=1 iflag=direct; }
# The disk has no bytes any more, or they cannot be read.
fails() { [ "$(dd "if=/dev/weft-rdma0n$1" bs=4k count=1 iflag=direct status=none | wc -c)" = 0 ]; }
ok "sick: connected" weftctl connect "$uri" "${patience[@]}"
ok "sick: two disks" test -b /dev/weft-rdma0n1 -a -b /dev/weft-rdma0n2
gone
hostile sick --namespaces 2 --at 3
ok "sick: the healthy one is read" until_true 60 reads 1
ok "sick: while nothing is known of the other" log_says "namespace 2: Identify Namespace failed"
ok "sick: which is read later" until_true 60 reads 2
is "sick: it was asked until it answered" "$(grep -c sick: /tmp/hostile.out)" 3
is "sick: no association ended because of its answer" "$(ends 'scan|protocol')" 0
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
ok "sick for long: the association lives" until_true 60 all_live
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
	ok "events: and the controller is live" until_true 60 all_live
done
announced 7
is "events: one was asked for at a time" "$(grep -c "a second event" /tmp/hostile.out)" 0
ok "events: disconnected" weftctl disconnect --all
gone

# --- A target that stops: not even the Keep Alive is answered
hostile none
ok "stopped: connected" weftctl connect "$uri" "${patience[@]}"
keep_alive_ended() { [ "$(ends keep-alive)" -ge 1 ]; }
kill -STOP "$target"
ok "stopped: the association ends by its keep-alive" until_true 60 keep_alive_ended
kill -CONT "$target"
ok "stopped: it goes on, and is connected again" until_true 60 all_live
ok "stopped: disconnected" weftctl disconnect --all
gone

# --- A controller that is removed while its target pauses: what the page cache of its disk has is written, because a
# command that times out gets as long again, as elsewhere.
# Between the two time limits, of which the block layer rounds each up to the next second.
io_timeout=/sys/module/weft_rdma/parameters/io_timeout
# The pages' writer waits for longer than the kernel lets a task, in a slow guest.
hung=/proc/sys/kernel/hung_task_timeout_secs
usual=$(cat $hung 2>/dev/null)
[ -z "$usual" ] || echo 600 >$hung
slow 12 >$io_timeout
hostile pause --unarmed --at 1 --keep "$(slow 19)"
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
slow 5 >$io_timeout
[ -z "$usual" ] || echo "$usual" >$hung
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

# --- Another disk at the same address, name and number, where the namespace has no id
hostile none --anonymous --serial one --cacheless
ok "anonymous: connected" weftctl connect "$uri" "${patience[@]}"
# It may have one when it is back.
is "anonymous: a target that has no write cache is flushed as well" \
	"$(cat /sys/block/weft-rdma0n1/queue/write_cache)" "write back"
ok "anonymous: fio's verification ends well" verify /dev/weft-rdma0n1 size=1m
gone
hostile none --anonymous --serial one
ok "anonymous: the same disk comes back" until_true 60 all_live
ok "anonymous: and is read" reads 1
gone
hostile none --anonymous --serial other
ok "anonymous: another disk is refused" until_true 60 \
	log_says "namespace 1 is another one than before, .* its controller is .*other, before .*one"
ok "anonymous: and is not read" fails 1
ok "anonymous: disconnected" weftctl disconnect --all
gone

hostile_end
done_testing
