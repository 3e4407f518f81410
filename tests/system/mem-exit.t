#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Processes that exit while commands on registered memory wait for a path: one that is killed ends after a minute,
# also when its ring alone has the file; the child of one that has opened the file keeps its commands.
# lab-kernel: uml
# lab-more: debian12
. "${0%/*}/lib.sh"

load_weft 1000
nqn=nqn.2014-08.org.example
soft_roce 10.9.0.1
make_null d 64
nvmet_serve "$nqn:d" "$(readlink -f /dev/d)" rdma 10.9.0.1
ok "a volume" weftctl create v "rdma://10.9.0.1/$nqn:d" --force --keep-alive "$(slow 5)" --reconnect-delay 1
echo -1 >'/sys/block/weft!v/weft/no_path_timeout'
member_is() { [ "$(status_of v '.members[0].state')" = "$1" ]; }

# The minute of a process that has exited is over before the path is back.
began=$SECONDS
weft-memtest v load pages --daemon --depth=4 --largest=65536 --seconds=75 >/tmp/child 2>&1
result $? "a process opens the file, and leaves it to its child"
weft-memtest v load pages --fixed --depth=4 --largest=65536 >/tmp/killed 2>&1 & loader=$!
both_run() { grep -q loaded /tmp/child && grep -q loaded /tmp/killed; }
ok "both do I/O" until_true 30 both_run
is "the second has no descriptor of the file" "$(find "/proc/$loader/fd" -lname '*/v.mem' | wc -l)" 0
nvmet_withdraw "$nqn:d"
ok "the path is lost" until_true 30 member_is stalled
kill -9 $loader
if [ "${LAB_KERNEL:-}" = debian12 ]; then
	skip "killed, the second ends after a minute" "io_uring of this kernel cancels no commands"
else
	ok "killed, the second ends after a minute" until_true 90 has_ended $loader
fi
while [ $((SECONDS - began)) -lt 70 ]; do sleep 1; done
is "the child's commands wait" "$(cat /tmp/child)" loaded
nvmet_offer "$nqn:d"
ok "the path is back" until_true 60 member_is ok
ok "the child's commands end, and none has failed" until_true 60 grep -q ' commands, 0 failed' /tmp/child
indented </tmp/child
wait $loader 2>/dev/null
ok "stopped" until_true 20 weftctl stop v
ok "disconnected" weftctl disconnect --all
nvmet_unserve "$nqn:d"
remove_null d
ok_unload
no_soft_roce
done_testing
