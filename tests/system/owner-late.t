#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# One volume, one writer: the target withholds a write of a host whose link is then lost, and another host takes the
# volume over. The target executes the write as late as the rules allow, and the first host may not send it again.
# Runs on host0, which has the target (tests/hostile) and takes the volume over; host1 is the first host.
# lab-own: --hosts 2 --memory 1G
# lab-kernel: none
. "${0%/*}/lib.sh"

peer() { on_host host1 ". tests/system/lib.sh; $*"; }
# With --traffic the target may end an association, as the kernel's does, up to two keep-alive timeouts after the last
# command; and where only its answers are lost, commands still come for up to two more. So the write is executed four
# timeouts after it came. Twelve heartbeat intervals, without the time of the record, are half of that.
keep_alive=$(slow 3)
uri=rdma://10.77.1.1/nqn.2014-08.org.example:hostile
patience="--keep-alive $keep_alive --reconnect-delay 1"
soft_roce_on eth0
load_weft 500
# shellcheck disable=SC2034 # hostile uses it.
hostile_addresses=(10.77.1.1)
hostile late-write --keep $((4 * keep_alive)) --traffic --stays
ok "the first host has a volume" \
	peer "load_weft 500 && soft_roce_on eth0 && weftctl create v $uri --force $patience"

# The target withholds a write of the byte 20, and says the first byte of each later one.
peer "head -c 65536 /dev/zero | tr '\\0' '\\24' >/tmp/old
	{ dd if=/tmp/old of=/dev/weft/v bs=64k oflag=direct status=none; echo \$? >/tmp/ended; } >/dev/null 2>&1 &"
ok "the target has its write, and withholds it" until_true 20 grep -q "withheld a write" /tmp/hostile.out
peer "netem eth0 loss 100%"
is "its link is gone, and the write is not executed yet" "$(grep -c "executed the withheld" /tmp/hostile.out)" 0
# shellcheck disable=SC2086
ok "the other host takes the volume over" weftctl assemble v $uri --take-over $patience
ok "and not before the target executed the write" grep -q "executed the withheld" /tmp/hostile.out
head -c 65536 /dev/zero | tr '\0' B >/tmp/new
ok "it writes to the same bytes" dd if=/tmp/new of=/dev/weft/v bs=64k oflag=direct status=none
ok "the first host keeps its write for a path" until_true 60 peer "grep -q stalled '/sys/block/weft!v/members/'*/state"
ok "and the write has not ended" peer "[ ! -e /tmp/ended ]"

peer "netem eth0"
ok "its link is back: it learns that it lost the volume" until_true 60 \
	peer "grep -q lost '/sys/block/weft!v/weft/ownership'"
ok "its write ends" until_true 60 peer "[ -s /tmp/ended ]"
is "with an error" "$(peer "cat /tmp/ended")" 1
is "and was not sent again: the target got the other host's alone" \
	"$(sed -n 's/.* wrote 65536 .* //p' /tmp/hostile.out)" 0x42
cmp /tmp/new <(dd if=/dev/weft/v bs=64k count=1 iflag=direct status=none)
result $? "and the data is the new owner's"
is "the new owner keeps it" "$(cat '/sys/block/weft!v/weft/ownership')" held
grep -v 'wrote \(4096\|8192\) ' /tmp/hostile.out | indented
ok "the loser stops" peer "weftctl stop v"
ok "and disconnects" peer "weftctl disconnect --all && ok_unload && rdma link delete rxe0 && [ \$test_failed = 0 ]"
ok "its kernel has nothing to report" peer kernel_silent
ok "the owner stops" weftctl stop v
ok "and disconnects" weftctl disconnect --all
gone
ok_unload
rdma link delete rxe0
done_testing
