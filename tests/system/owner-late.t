#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# One volume, one writer: the target withholds a write of a host that is then lost, and another host takes the volume
# over. The target executes the write as late as the rules allow, and the first host may not send it again.
# Runs on host0, which has the target (tests/hostile) and takes the volume over; host1 is the first host.
# lab-own: --hosts 2 --memory 1G
# lab-kernel: none
# lab-more: uml
. "${0%/*}/lib.sh"

peer() { on_host host1 ". tests/system/lib.sh; $*"; }
# A lease lasts eight intervals. Two later the first host ends an association with writes in flight. With --traffic the
# target may end it, as the kernel's does, up to three keep-alive timeouts after the last command.
interval=500
keep_alive=$(slow 3)
keep=$((3 * keep_alive + 4))
uri=rdma://10.77.1.1/nqn.2014-08.org.example:hostile
patience="--keep-alive $keep_alive --reconnect-delay 1"
soft_roce_on eth0
load_weft $interval
# shellcheck disable=SC2034 # hostile uses it.
hostile_addresses=(10.77.1.1)
given_up() { peer "dmesg | grep -c 'after the end of their volume.s lease; recovering'"; }

# The target withholds a write of the byte 20, and says the first byte of each later one.
by_block_device="head -c 65536 /dev/zero | tr '\\0' '\\24' >/tmp/old
	dd if=/tmp/old of=/dev/weft/v bs=64k oflag=direct status=none"
from_memory="weft-memtest v late pages --largest=65536 --count=20"
# late WHAT WRITER OPTIONS LOSE FIND: the target gets these options; LOSE runs when it withholds the write, FIND when
# the other host has the volume.
late() {
	local what=$1 writer=$2 options=$3 lose=$4 find=$5 begin
	# shellcheck disable=SC2086
	hostile late-write --keep "$keep" --traffic --stays $options
	ok "$what: the first host has a volume" peer "weftctl create v $uri --force $patience"
	peer "rm -f /tmp/ended
		{ $writer
		echo \$? >/tmp/ended; } >/dev/null 2>&1 &"
	ok "$what: the target has its write, and withholds it" \
		until_true 20 grep -q "withheld a write" /tmp/hostile.out
	$lose
	is "$what: the write is not executed yet" "$(grep -c "executed the withheld" /tmp/hostile.out)" 0
	begin=$SECONDS
	# shellcheck disable=SC2086
	ok "$what: the other host takes the volume over" weftctl assemble v $uri --take-over $patience
	echo "# it took $((SECONDS - begin)) s"
	ok "$what: and not before the target executed the write" grep -q "executed the withheld" /tmp/hostile.out
	head -c 65536 /dev/zero | tr '\0' B >/tmp/new
	ok "$what: it writes to the same bytes" dd if=/tmp/new of=/dev/weft/v bs=64k oflag=direct status=none
	ok "$what: the first host keeps its write for a path" \
		until_true 60 peer "grep -q stalled '/sys/block/weft!v/members/'*/state"
	ok "$what: and the write has not ended" peer "[ ! -e /tmp/ended ]"
	peer "dmesg | grep weft" | tail -n 8 | indented

	$find
	ok "$what: the first host is back: it learns that it lost the volume" until_true 60 \
		peer "grep -q lost '/sys/block/weft!v/weft/ownership'"
	ok "$what: its write ends" until_true 60 peer "[ -s /tmp/ended ]"
	is "$what: with an error" "$(peer "cat /tmp/ended")" 1
	is "$what: and was not sent again: the target got the other host's alone" \
		"$(sed -n 's/.* wrote 65536 .* //p' /tmp/hostile.out)" 0x42
	cmp /tmp/new <(dd if=/dev/weft/v bs=64k count=1 iflag=direct status=none)
	result $? "$what: and the data is the new owner's"
	ok "$what: the new owner keeps it" until_true 10 grep -q held '/sys/block/weft!v/weft/ownership'
	grep -v 'wrote \(4096\|8192\) ' /tmp/hostile.out | indented
	ok "$what: the loser stops" peer "weftctl stop v && weftctl disconnect --all"
	ok "$what: the owner stops" weftctl stop v
	ok "$what: and disconnects" weftctl disconnect --all
	gone
}
ok "the first host has weft" peer "load_weft $interval && soft_roce_on eth0"
lose_link() { peer "netem eth0 loss 100%"; }
find_link() { peer "netem eth0"; }
late "link lost" "$by_block_device" "" lose_link find_link
late "link lost, registered memory" "$from_memory" "" lose_link find_link

# Member 0 is not read or written any more, and the target goes on to answer the Keep Alive: if the host did not end the
# association, its write and the Abort of it would have to time out first, after the other host has the volume.
count_ends() { before=$(given_up); }
# shellcheck disable=SC2154 # hostile sets it.
hear() {
	is "deaf target: the first host had ended the association" "$(given_up)" $((before + 1))
	kill -USR1 "$target"
}
late "deaf target" "$by_block_device" --deaf count_ends hear
ok "the first host unloads" peer "ok_unload && rdma link delete rxe0 && [ \$test_failed = 0 ]"
ok "its kernel has nothing to report" peer kernel_silent
ok_unload
rdma link delete rxe0
done_testing
