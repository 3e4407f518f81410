#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Classes of I/O: which I/O has which, limits, what is held and goes on. What feed I/O gains is measured by
# `make bench-qos`.
# lab-kernel: uml
# lab-more: debian12 debian13 previous backports
. "${0%/*}/lib.sh"

load_weft
for n in 1 2 3 4; do make_null q$n 96 mbps=0 discard=1; done
members=(/dev/q1 /dev/q2 /dev/q3 /dev/q4)
# ios CLASS: commands of that class since QoS is on, on all members.
ios() { weftctl qos v --json | json "[.qos.members[].$1.ios] | add"; }
# grows CLASS: it has commands now.
grows() { [ "$(ios "$1")" -lt "$(sleep "$(slow 2)"; ios "$1")" ]; }
# counts CLASS COUNT COMMAND...: it makes that many commands of the class.
counts() {
	local class=$1 count=$2 before
	shift 2
	before=$(ios "$class")
	"$@" >/dev/null 2>&1
	echo $(($(ios "$class") - before == count))
}
reads() { dd if=/dev/weft/v of=/dev/null bs=4k count=4 iflag=direct; }
writes() { dd if=/dev/zero of=/dev/weft/v bs=4k count=4 oflag=direct; }
large() { dd if=/dev/weft/v of=/dev/null bs=64k count=2 iflag=direct; }
# loads VOLUME OPTION...: four jobs, each in a mebibyte of its own, until loads_end; load is its process.
loads() {
	fio --filename="/dev/weft/$1" --ioengine=io_uring --direct=1 --thread --time_based --runtime=600 --numjobs=4 \
		--size=1m --offset_increment=1m "${@:2}" >/dev/null 2>&1
}
loads_end() { pkill -x fio; wait "$load" 2>/dev/null; }
# stalls VOLUME: background commands that were held, ever.
stalls() { weftctl qos "$1" --json | json '[.qos.members[].background.stalls] | add'; }

# --- Settings
ok "a volume" weftctl create v "${members[@]}" --chunk 1M
is "QoS is off" "$(weftctl qos v)" "v: QoS is off"
ok "a dry run" weftctl qos v --feed-latency 500us --dry-run
is "changes nothing" "$(weftctl qos v)" "v: QoS is off"
ok "it is switched on" weftctl qos v --feed-latency 500us
settings() { weftctl qos v --json | json ".qos | \"$1\""; }
is "with what was set, and the rest as usual" \
	"$(settings '\(.on) \(.feed_latency_us) \(.background_floor) \(.reads) \(.writes)')" \
	"true 500 5 feed background"
ok "a setting is changed, and the others stay" weftctl qos v --background-max 100M/s
is "it is there" "$(settings '\(.feed_latency_us) \(.classes.background.max_bytes)')" "500 104857600"
ok "and taken back" weftctl qos v --background-max off
refused "no such volume" 4 "no volume is called nix" weftctl qos nix --off
refused "a time without a unit" 2 "is not a time" weftctl qos v --feed-latency 500
refused "more than all" 2 "more than 100 %" weftctl qos v --background-floor 101%
refused "too little for a single command" 2 "a limit is 1048576 to" weftctl qos v --background-max 1K/s
refused "another user may not" 7 "CAP_SYS_ADMIN" setpriv --reuid 1 --clear-groups weftctl qos v --off

# --- Classes
is "a read is feed" "$(counts feed 4 reads)" 1
is "a write is background" "$(counts background 4 writes)" 1
is "a read of class IDLE is background" "$(counts background 4 ionice -c 3 bash -c "$(declare -f reads); reads")" 1
is "a write of class RT is feed" "$(counts feed 4 ionice -c 1 bash -c "$(declare -f writes); writes")" 1
weftctl qos v --background-from 64K >/dev/null
is "a large read is background" "$(counts background 2 large)" 1
is "a small one is not" "$(counts background 0 reads)" 1
weftctl qos v --background-from off --writes feed >/dev/null
is "writes may be feed" "$(counts feed 4 writes)" 1
weftctl qos v --writes background >/dev/null
if has_cgroups; then
	refused "no such cgroup" 4 "no cgroup is called /nix" weftctl qos v --feed-cgroup /nix
	mkdir -p /sys/fs/cgroup/backup/below
	ok "a cgroup" weftctl qos v --background-cgroup /backup
	in_cgroup() { (echo $BASHPID >/sys/fs/cgroup/backup/below/cgroup.procs && "$@"); }
	is "a read from below it is background" "$(counts background 4 in_cgroup reads)" 1
	is "one from elsewhere is not" "$(counts background 0 reads)" 1
	is "status names it" "$(weftctl qos v --json | json .qos.classes.background.cgroup)" /backup
	ok "no cgroup" weftctl qos v --background-cgroup ''
	is "then it is feed" "$(counts feed 4 in_cgroup reads)" 1
	ok "a cgroup of feed I/O" weftctl qos v --feed-cgroup /backup
	is "a write from below it is feed" "$(counts feed 4 in_cgroup writes)" 1
	ok "nor one of feed I/O" weftctl qos v --feed-cgroup ''
	rmdir /sys/fs/cgroup/backup/below /sys/fs/cgroup/backup
	# A process that changes its cgroup while it reads.
	mkdir -p /sys/fs/cgroup/backup
	ok "a cgroup again" weftctl qos v --background-cgroup /backup
	fio --name=r --filename=/dev/weft/v --rw=randread --bs=4k --iodepth=8 --ioengine=io_uring --direct=1 --thread \
		--time_based --runtime=600 >/dev/null 2>&1 & reader=$!
	moves_to() { echo "$reader" >"/sys/fs/cgroup/$1/cgroup.procs" && sleep "$(slow 1)"; }
	ok "its reads are feed" until_true 20 grows feed
	ok "it moves there" moves_to backup
	ok "its reads are background" until_true 20 grows background
	is "and no longer feed" "$(grows feed; echo $?)" 1
	ok "it moves back" moves_to .
	ok "they are feed again" until_true 20 grows feed
	is "and no longer background" "$(grows background; echo $?)" 1
	kill $reader
	wait $reader 2>/dev/null
	ok "no cgroup again" weftctl qos v --background-cgroup ''
	rmdir /sys/fs/cgroup/backup
else
	skip "cgroups" "this kernel has none"
fi
# A command on registered memory says its class, whatever the rule is.
memory_reads() { weft-memtest v bench pages --count=8 --depth=4 --largest=4096 "$@"; }
without_privilege=(setpriv "--bounding-set=-sys_nice,-sys_admin" "--inh-caps=-sys_nice,-sys_admin")
is "registered memory: a read is feed" "$(counts feed 8 memory_reads)" 1
is "registered memory: one that says so is background" "$(counts background 8 memory_reads --background)" 1
weftctl qos v --reads background >/dev/null
is "registered memory: one that says so is feed" "$(counts feed 8 memory_reads --feed)" 1
refused "registered memory: only with privilege" 3 "ended with -1" \
	"${without_privilege[@]}" weft-memtest v bench pages --count=8 --depth=4 --largest=4096 --feed
is "registered memory: background is for all" \
	"$(counts background 8 "${without_privilege[@]}" weft-memtest v bench pages --count=8 --depth=4 --largest=4096 \
		--background)" 1
weftctl qos v --reads feed >/dev/null
ok "ext4 on it" mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 /dev/weft/v
mkdir /tmp/ext4
ok "it is mounted" mount /dev/weft/v /tmp/ext4
journal() { mktemp -d /tmp/ext4/XXXXXX >/dev/null && sync -f /tmp/ext4; }
journal
sectors=$(sectors_written /dev/weft/v)
is "the journal of ext4 has no class" "$(counts background 0 journal)" 1
ok "and was written" writes_since /dev/weft/v "$sectors"
echo 0 >'/sys/block/weft!v/queue/iostats'
sectors=$(sectors_written /dev/q1)
is "nor without iostats, where a worker submits a part of it again" "$(counts background 0 journal)" 1
ok "which was written, too" writes_since /dev/q1 "$sectors"
echo 1 >'/sys/block/weft!v/queue/iostats'
umount /tmp/ext4
is "background commands are cut to 256 KiB" \
	"$(counts background 8 dd if=/dev/zero of=/dev/weft/v bs=1M count=2 oflag=direct)" 1
is "feed commands are not" "$(counts feed 2 dd if=/dev/weft/v of=/dev/null bs=1M count=2 iflag=direct)" 1
discard() { blkdiscard -f -o 0 -l $((32 << 20)) /dev/weft/v; }
is "nor is a discard, which is background: one for each member" "$(counts background 4 discard)" 1

top=$(weftctl top v --count 1 --json)
is "top has a row for each class of the volume and of each member" \
	"$(json '[.loads[] | .rows[] | "\(.member) \(.kind)"] | length' <<<"$top")" 10
weftctl top v --count 1 >/tmp/top
ok "it is plain text where no terminal is" grep -q 'P50 .*P99 .*P99.9 .*STALLS .*WINDOW' /tmp/top
is "without terminal codes" "$(tr -cd '\033' </tmp/top | wc -c)" 0

# --- Limits
took() { local start; start=$(date +%s%N); "$@" >/dev/null 2>&1; echo $((($(date +%s%N) - start) / 1000000)); }
# A rate that a slow guest has as well.
weftctl qos v --background-max 2M/s >/dev/null
ms=$(took dd if=/dev/zero of=/dev/weft/v bs=256k count=16 oflag=direct)
ok "4 MiB at 2 MiB/s take two seconds ($ms ms)" test "$ms" -ge 1800
faster() { [ "$(took dd if=/dev/weft/v of=/dev/null bs=256k count=16 iflag=direct)" -lt 1800 ]; }
ok "reads are not limited" until_true 20 faster
ok "verified at a limit" verify /dev/weft/v size=4m bs=64k
weftctl qos v --background-max off --feed-max-iops 20 >/dev/null
ms=$(took dd if=/dev/weft/v of=/dev/null bs=4k count=20 iflag=direct)
ok "20 reads at 20 a second take a second ($ms ms)" test "$ms" -ge 900
weftctl qos v --feed-max-iops off --background-max 1M/s >/dev/null
ms=$(took discard)
ok "a discard of 8 MiB counts as 256 KiB: at 1 MiB/s four take three quarters of a second ($ms ms)" \
	test "$ms" -ge 600 -a "$ms" -lt 20000
# Without O_DIRECT: the page cache writes back when the last opener closes.
dd if=/dev/zero of=/dev/weft/v bs=1M count=64 status=none & writer=$!
held_now() { weftctl qos v --json | json '[.qos.members[].background.held] | add'; }
held() { [ "$(held_now)" -gt 0 ]; }
ok "commands are held" until_true 20 held
ok "QoS is switched off while they are" weftctl qos v --off
wait $writer
result $? "which lets them go on"
ok "it is switched on again" weftctl qos v --background-max 8M/s
ok "registered memory, verified at a limit" weft-memtest v verify pages --largest=262144 --count=60
# Their file stays open until the last one is written, after 16 s: until then the volume is in use.
weftctl qos v --background-max 1M/s --background-max-iops 2 >/dev/null
# Writes that have begun, also those in flight.
begun() { awk '{ print $5 + $9 }' '/sys/block/weft!v/stat'; }
before=$(begun)
all_begun() { [ "$(begun)" -ge $((before + 32)) ]; }
fio --name=w --filename=/dev/weft/v --rw=write --bs=256k --iodepth=32 --ioengine=io_uring --direct=1 --size=8m \
	--buffer_pattern=0x77 --thread >/dev/null 2>&1 & writer=$!
ok "a writer has begun 32 writes" until_true 20 all_begun
kill -9 $writer
wait $writer 2>/dev/null
left=$(held_now)
ok "the writer is killed, and they are held ($left)" test "$left" -gt 0
ok "the volume stops" until_true 60 weftctl stop v
# Two chunks on each member, behind its first MiB.
written=$(for disk in "${members[@]}"; do
	dd if="$disk" bs=1M skip=1 count=2 iflag=direct status=none
done | tr -cd '\167' | wc -c)
is "each was executed" "$written" $((32 << 18))

# --- Parts of a command that is background by its size
ok "small chunks: a volume" weftctl create v "${members[@]}" --chunk 32K --force
ok "small chunks: QoS" weftctl qos v --feed-latency 500us --writes feed --background-from 64K
is "small chunks: each part of a large write from registered memory is background" \
	"$(counts background 8 weft-memtest v late pages --count=4 --largest=65536)" 1
is "small chunks: those of a small one are feed" \
	"$(counts feed 4 weft-memtest v late pages --count=4 --largest=32768)" 1
ok "small chunks: stopped" weftctl stop v

# --- What others wait for passes while feed commands keep the window closed
ok "closed: a volume" weftctl create v "${members[@]}" --chunk 256K --force
modprobe xfs
ok "closed: XFS on it" mkfs.xfs -q -f -K /dev/weft/v
mkdir /tmp/xfs
ok "closed: it is mounted" mount /dev/weft/v /tmp/xfs
ok "closed: a target that no disk reaches" weftctl qos v --feed-latency 1us
loads v --rate_iops=200 --name=read --rw=randread --bs=4k & load=$!
ok "closed: feed commands come" until_true 20 grows feed
file_is_held() {
	local before
	before=$(stalls v)
	dd if=/dev/zero of=/tmp/xfs/data bs=1M count=4 oflag=direct status=none && [ "$(stalls v)" -gt "$before" ]
}
ok "closed: the data of a file are held" until_true 20 file_is_held
log_of_xfs() { local name; for name in 1 2 3 4 5 6 7 8; do mkdir "/tmp/xfs/$name" && sync "/tmp/xfs/$name"; done; }
before=$(stalls v) sectors=$(sectors_written /dev/weft/v)
is "closed: the log of XFS has no class" "$(counts background 0 log_of_xfs)" 1
is "closed: and was not held" "$(stalls v)" "$before"
ok "closed: it was written" writes_since /dev/weft/v "$sectors"
umount /tmp/xfs
rmdir /tmp/xfs
ok "closed: feed commands still come" until_true 20 grows feed
loads_end
passes() {
	local before
	before=$(stalls v)
	dd if=/dev/zero of=/dev/weft/v bs=1M count=4 oflag=direct status=none && [ "$(stalls v)" = "$before" ]
}
ok "closed: without them, nothing is held" until_true 30 passes
loads v --rate_iops=200 --name=read --rw=randread --bs=4k & load=$!
is_held() { ! passes; }
ok "closed: they come back, and background commands are held again" until_true 20 is_held
loads_end
is "closed: when all have ended, nothing counts as in flight" \
	"$(weftctl qos v --json | json '[.qos.members[] | .feed.in_flight, .background.in_flight] | add')" 0
ok "closed: stopped" weftctl stop v

# --- A member stands still, and the sender of feed commands waits for its last one: background commands do not pass it
# Every second chunk is of the second member.
on_second() { # CHUNK OPTION...
	fio --name=load --filename=/dev/weft/v --ioengine=io_uring --direct=1 --thread --time_based --runtime=600 \
		--size=1m --offset="$1m" "${@:2}" >/dev/null 2>&1
}
dmsetup create still --table "0 $((64 * 2048)) linear /dev/q1 0"
dmsetup mknodes
ok "still: a volume" weftctl create v /dev/q2 /dev/mapper/still --chunk 1M --force
ok "still: QoS that holds background commands" weftctl qos v --feed-latency 1us
on_second 1 --rw=randread --bs=4k --iodepth=1 & loads=$!
on_second 3 --rw=randwrite --bs=256k --iodepth=32 & loads="$loads $!"
ok "still: feed commands come" until_true 20 grows feed
ok "still: and background commands" until_true 20 grows background
background_in_flight() { weftctl qos v --json | json '.qos.members[1].background.in_flight'; }
# After a second, they are let go. held_while_still: how many background commands were sent before that, since the last
# command on the member completed; and in how many ms.
tracing=/sys/kernel/tracing
held_while_still() {
	awk 'match($0, /[0-9]+\.[0-9]+: /) { t = substr($0, RSTART, RLENGTH) + 0 }
		/ weft_done: .* member 1 / && !resumed { still = t }
		/ weft_qos_held: .* member 1 background / { sent[n++] = t }
		/weft test: resume/ { resumed = t }
		END {
			end = resumed < still + 0.9 ? resumed : still + 0.9
			for (i = 0; i < n; i++)
				count += sent[i] > still + 0.02 && sent[i] < end
			print count + 0, int((end - still) * 1000)
		}' $tracing/trace
}
trace_events() { echo "$1" | tee $tracing/events/weft/weft_{done,qos_held}/enable >/dev/null; }
stands_still() {
	trace_events 1
	dmsetup suspend --noflush --nolockfs still || return
	sleep 0.5
	echo "weft test: resume" >$tracing/trace_marker
	dmsetup resume still
	trace_events 0
	held_while_still >/tmp/still
	echo >$tracing/trace
	sleep 0.5
	note "$(sed 's/ / background commands in /' /tmp/still) ms"
	[ "$(cut -d ' ' -f 2 /tmp/still)" -ge 200 ]
}
few_were_sent() { stands_still && [ "$(cut -d ' ' -f 1 /tmp/still)" -lt 8 ]; }
if [ -d $tracing/events/weft ]; then
	# Again: between two tries of a read that may not wait, none is in flight. A slow machine lets all go then.
	ok "still: few background commands are sent while a feed command waits" until_true 20 few_were_sent
else
	skip "still: few background commands are sent while a feed command waits" "no tracefs"
fi
dmsetup suspend --noflush --nolockfs still
all_in_flight() { [ "$(background_in_flight)" -ge $((7 << 20)) ]; }
ok "still: after a second, all are" until_true 20 all_in_flight
dmsetup resume still
ok "still: feed commands go on" until_true 20 grows feed
for load in $loads; do ok "still: no I/O has failed" kill -0 "$load"; done
pkill -x fio
# shellcheck disable=SC2086
wait $loads 2>/dev/null
is "still: nothing is in flight any more" "$(background_in_flight)" 0
ok "still: stopped" weftctl stop v
dmsetup remove still

# --- The lease ends, as a heartbeat hangs on another member: background reads do not wait for held writes
dmsetup create beat --table "0 $((64 * 2048)) linear /dev/q1 0"
dmsetup mknodes
ok "lease: a volume" weftctl create v /dev/mapper/beat /dev/q2 --chunk 1M --force
ok "lease: QoS that closes the window" weftctl qos v --feed-latency 1us
on_second 1 --rw=randread --bs=4k --iodepth=2 & loads=$!
on_second 3 --rw=randwrite --bs=256k --iodepth=32 & loads="$loads $!"
on_second 5 --rw=randread --bs=4k --iodepth=4 --prioclass=3 & loads="$loads $!"
ok "lease: all read and write" until_true 30 grows background
ownership_is() { [ "$(cat '/sys/block/weft!v/weft/ownership')" = "$1" ]; }
dmsetup suspend --noflush --nolockfs beat
ok "lease: it ends" until_true 60 ownership_is suspended
# Until the writes that were held wait for the lease.
sleep "$(slow 12)"
ok "lease: feed reads go on" until_true 20 grows feed
ok "lease: and so do background reads" until_true 20 grows background
dmsetup resume beat
ok "lease: it is there again" until_true 60 ownership_is held
for load in $loads; do ok "lease: no I/O has failed" kill -0 "$load"; done
is "lease: no path gave anything back" "$(weftctl status v --json | json '.volumes[0].members[1].retried')" 0
pkill -x fio
# shellcheck disable=SC2086
wait $loads 2>/dev/null
ok "lease: stopped" until_true 30 weftctl stop v
dmsetup remove beat
for n in 1 2 3 4; do remove_null q$n; done

# --- A member that is ten times slower than the others. Each member has a reader and a writer of its own.
# The others are far below the target, also where the machine itself adds milliseconds.
for n in 0 1 2; do make_null s$n 64 mbps=0 irqmode=2 completion_nsec="$(slow 10)000000"; done
make_null s3 64 mbps=0 irqmode=2 completion_nsec="$(slow 100)000000"
ok "slow: a volume" weftctl create s /dev/s0 /dev/s1 /dev/s2 /dev/s3 --chunk 1M
# The first reads of a member may fall into a moment in which the machine stood still.
named_by_status() {
	local n
	for n in 0 1 2 3; do
		dd if=/dev/weft/s of=/dev/null bs=4k skip=$((n * 256)) count=4 iflag=direct status=none
	done
	[ "$(weftctl status s | sed -n 's/^ *member \([0-9]*\) is slow: its reads take .*/\1/p')" = 3 ]
}
ok "slow: status names it, and no other one" until_true 60 named_by_status
ok "slow: QoS" weftctl qos s --feed-latency "$(slow 50)ms"
readers=(--name=read --rw=randread --bs=4k --iodepth=2)
loads s "${readers[@]}" --name=write --rw=randwrite --bs=256k --iodepth=4 & load=$!
named_by_top() { [ "$(weftctl top s --count 1 --json | json '.loads[0].slow | map(tostring) | join(" ")')" = 3 ]; }
ok "slow: top names it" until_true 60 named_by_top
# By rates: what is carried also depends on what the machine can.
others_have_more() {
	weftctl qos s --json | jq -e '[.qos.members[].rate] | .[3] as $slow | .[:3] | all(. >= 4 * $slow)'
}
ok "slow: its window does not hold the others" until_true 60 others_have_more
echo "# rates: $(weftctl qos s --json | json '[.qos.members[].rate] | map(tostring) | join(" ")')"
# floor_is LEAST MOST PERCENT: as no disk reaches the target, the rates become that share of each member's best one.
# The lowest rate of all, 1 MiB/s, may be more than that; of the fourth member it is.
floor_is() {
	weftctl qos s --feed-latency 100us --background-floor "$3" >/dev/null
	until_true 20 rates_between "$1" "$2"
}
rates_between() {
	weftctl qos s --json | jq -e --argjson least "$1" --argjson most "$2" \
		'.qos.members[:3] | all(.rate / .best * 100 >= $least and
			(.rate / .best * 100 <= $most or .rate == 1048576))'
}
sent() { weftctl qos s --json | json '[.qos.members[].background.bytes] | add'; }
more_than() { [ "$(sent)" -gt "$1" ]; }
ok "floor: 50 % of the best rate" floor_is 45 55 50%
ok "floor: and 5 %" floor_is 4 15 5%
ok "floor: background I/O goes on where no disk reaches the target" until_true 30 more_than "$(sent)"
# traced EVENT PATTERN: the members of which the trace has that event, with that text.
traced() {
	sed -n "s|.*weft_qos_$1: [0-9,]* member \([0-9]*\) $2\$|\1|p" /sys/kernel/tracing/trace | sort -u | xargs
}
events=$tracing/events/weft
if [ -d $events ]; then
	rate='[1-9][0-9]* feed commands, [0-9]* late, least [0-9]* ns -> [0-9]* bytes/s'
	all_traced() { [ "$(traced rate "$rate")" = "0 1 2 3" ]; }
	echo 1 >$events/weft_qos_rate/enable
	ok "tracepoint: the rate of each member" until_true 20 all_traced
	echo 0 >$events/weft_qos_rate/enable
	echo >/sys/kernel/tracing/trace
else
	skip "tracepoint" "no tracefs"
fi
loads_end

# --- Writeback of a cgroup that is short of memory, while feed commands keep the window closed
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
if mkdir /sys/fs/cgroup/small && [ -e /sys/fs/cgroup/small/memory.max ]; then
	echo 32M >/sys/fs/cgroup/small/memory.max
	mkfs.ext4 -q /dev/weft/s
	mount /dev/weft/s /tmp/ext4
	ok "writeback: a target that no disk reaches" weftctl qos s --feed-latency 100us
	before=$(stalls s)
	loads s "${readers[@]}" & load=$!
	reading() { weftctl qos s --json | jq -e '[.qos.members[].feed.in_flight] | add > 0'; }
	ok "writeback: feed commands come" until_true 30 reading
	head -c 64M /dev/urandom >/tmp/pages
	small() {
		echo $BASHPID >/sys/fs/cgroup/small/cgroup.procs &&
			cp /tmp/pages /tmp/ext4/pages && sync /tmp/ext4/pages
	}
	export -f small
	ok "writeback: twice as much as the memory is written" timeout "$(slow 200)" bash -c small
	ok "writeback: commands were held" test "$(stalls s)" -gt "$before"
	loads_end
	echo 3 >/proc/sys/vm/drop_caches
	ok "writeback: it is what was written" cmp /tmp/pages /tmp/ext4/pages
	rm /tmp/pages
	umount /tmp/ext4
	# Memory is freed by pages that are swapped out: they have no class.
	mkswap /dev/weft/s >/dev/null
	loads s "${readers[@]}" & load=$!
	ok "swapping: feed commands come" until_true 30 reading
	ok "swapping: to the volume" swapon /dev/weft/s
	pages_out() { awk '/^pswpout/ { print $2 }' /proc/vmstat; }
	before=$(stalls s) out=$(pages_out)
	swapping() {
		echo $BASHPID >/sys/fs/cgroup/small/cgroup.procs && python3 -c 'x = bytearray(b"x") * (48 << 20)'
	}
	export -f swapping
	ok "swapping: one and a half times the memory is used" timeout "$(slow 200)" bash -c swapping
	ok "swapping: pages were written" test "$(pages_out)" -ge $((out + 1000))
	is "swapping: and were not held" "$(stalls s)" "$before"
	ok "swapping: ended" swapoff /dev/weft/s
	loads_end
	rmdir /sys/fs/cgroup/small
else
	skip "writeback of a cgroup" "this kernel has no memory controller"
fi
ok "slow: stopped" weftctl stop s
for n in 0 1 2 3; do remove_null s$n; done
ok_unload
done_testing
