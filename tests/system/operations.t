#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The commands of docs/operations.md, on a volume of two members by two rails, while a file on it is read and written.
# lab-kernel: uml
. "${0%/*}/lib.sh"

is "the document has commands" "$(commands docs/operations.md 'A rail' | grep -c weftctl)" 4

load_weft 2000
nqn=nqn.2014-08.org.example
quick=(--keep-alive "$(slow 20)" --reconnect-delay 1)
rails_up
for n in 0 1; do
	make_null "op$n" 512
	rails_serve "$nqn:op$n" "/dev/op$n"
done
uri() { rails_uri "$nqn:op$1" "$2"; }
ok "a volume by the first rail" weftctl create data "$(uri 0 0)" "$(uri 1 0)" --force "${quick[@]}"
ok "and by the second" weftctl path add data "$(uri 0 1)" "$(uri 1 1)" "${quick[@]}"
ok "saved" weftctl save data
mkfs.xfs -q /dev/weft/data
mount /dev/weft/data /mnt
dd if=/dev/urandom of=/mnt/file bs=1M count=16 oflag=direct status=none
sum=$(sha256sum </mnt/file)
paths_are() { [ "$(status_of data '[.members[].paths | length] | map(tostring) | join(" ")')" = "$1" ]; }

# --- A rail
# The document has one command for the rail's way back below those for its way out.
out=$(commands docs/operations.md "A rail" | grep -v 'path add')
back=$(commands docs/operations.md "A rail" | grep 'path add')
copy() { dd if=/mnt/file of=/mnt/copy bs=64k iflag=direct oflag=direct status=none; }
work() { while :; do copy || touch /tmp/failed; done; }
work & worker=$!
for n in 0 1; do
	ok "rail: member $n leaves it" env URI_BY_RAIL_2="$(uri $n 1)" sh -ec "$out"
done
ok "rail: each member has one path" paths_are "1 1"
is "rail: the controllers of the other rail are left" "$(find /sys/class/weft-rdma/ -mindepth 1 | wc -l)" 2
rails_withdraw 1 "$nqn:op0" "$nqn:op1"
rails_offer 1 "$nqn:op0" "$nqn:op1"
for n in 0 1; do
	ok "rail: member $n is back on it" env URI_BY_RAIL_2="$(uri $n 1)" sh -ec "$back"
done
ok "rail: each member has two paths" paths_are "2 2"
kill $worker
wait $worker 2>/dev/null
until_true 20 sh -c '! pgrep -x dd'
ok "rail: no I/O failed" test ! -e /tmp/failed
is "rail: no association ended by an error, but by soft-RoCE itself" "$(ends "$(not_soft_roce)")" 0

# --- A target
timeout_now() { cat '/sys/block/weft!data/weft/no_path_timeout'; }
losses_now() { cat /sys/class/weft-rdma/*/ctrl_loss_tmo | sort -u; }
before=$(commands docs/operations.md "A target" | head -n 2)
after=$(commands docs/operations.md "A target" | tail -n 2)
ok "target: I/O waits without a limit" sh -ec "$before"
is "target: it does" "$(timeout_now) $(losses_now)" "-1 -1"
ok "target: as before" sh -ec "$after"
is "target: it is" "$(timeout_now) $(losses_now)" "600 600"
takes() { sh -c "echo $1 >/sys/class/weft-rdma/weft-rdma0/ctrl_loss_tmo" 2>/dev/null; }
for wrong in -2 x 99999999999; do
	takes "$wrong"
	is "target: ctrl_loss_tmo does not take $wrong" $? 1
done

# --- Another host, a crash, an upgrade: with one host, as far as that goes
# moves SENTENCE COMMANDS: afterwards the file is there and is as it was.
moves() {
	ok "$1" sh -ec "$2"
	is "$1: the file is there" "$(sha256sum </mnt/file)" "$sum"
}
moves "late heartbeats: the interval is longer" "$(commands docs/operations.md "Heartbeats are late")"
disk=$(status_of data '.members[0].paths[0].disk')
is "late heartbeats: it is 5 s now" "$(weftctl examine --json "/dev/$disk" | json '.owners[0].interval_ms')" 5000
is "late heartbeats: and after the next boot" "$(modprobe -c | grep -c '^options weft heartbeat_ms=5000$')" 1
rm /etc/modprobe.d/weft-heartbeat.conf
heartbeat_every 2000
moves "the volume moves" "$(commands docs/operations.md "The volume moves")"
umount /mnt
weftctl stop data >/dev/null
DISK=/dev/$(lsblk -dno NAME | grep weft-rdma | head -n 1)
export DISK
ok "crash: the owner is shown, and the volume is assembled" \
	sh -ec "$(commands docs/operations.md "The host that writes")"
ok "mounted" mount /dev/weft/data /mnt
moves "upgrade: stopped, modules removed, assembled again" "$(commands docs/operations.md "weft is upgraded")"

umount /mnt
weftctl stop data >/dev/null
weftctl disconnect --all >/dev/null
rails_unserve "$nqn:op0" "$nqn:op1"
for n in 0 1; do remove_null "op$n"; done
rails_down
rm -f /etc/weft/volumes/data.toml
ok_unload
done_testing
