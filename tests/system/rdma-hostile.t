#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# A target that breaks the rules (tests/hostile): each time the association
# ends with one line that says why, I/O goes on after it, and nothing else
# happens to the host.
# lab-kernel: debian13
. "${0%/*}/lib.sh"

load_weft 2000
soft_roce 10.9.0.1
ip address add 10.9.0.2/24 dev dummy0
# The checkers make everything some times slower.
[ "${LAB_KERNEL:-}" = lab ] && slow=5 || slow=1
modprobe weft_rdma io_timeout=$((3 * slow))
nqn=nqn.2014-08.org.example:hostile
uri="rdma://10.9.0.1/$nqn"
quick="--keep-alive $slow --reconnect-delay 1"
target=
hostile() { # FAULT [OPTION...]
	weft-hostile 10.9.0.1 10.9.0.2 --fault "$@" >/tmp/hostile.out 2>&1 & target=$!
	until_true 10 grep -q listening /tmp/hostile.out
	dmesg -C
}
gone() { kill "$target"; wait "$target" 2>/dev/null; }
reasons() { dmesg | grep -c 'weft_rdma: weft-rdma.*; recovering'; }

# survives FAULT TEXT: with that fault at the 20th command fio verifies all the same, and the log says why.
survives() {
	local fault=$1 text=$2
	hostile "$fault" --at 20
	# shellcheck disable=SC2086
	ok "$fault: connected" weftctl connect "$uri" $quick
	if [ "$fault" = early-response ]; then
		# What it says to have sent and has not, nobody can miss; but nothing of ours is written to late.
		ok "$fault: reads end" dd if=/dev/weft-rdma0n1 of=/dev/null bs=64k count=40 iflag=direct status=none
	else
		ok "$fault: fio's verification ends well" verify /dev/weft-rdma0n1 size=1m bsrange=16k-64k blockalign=16k
	fi
	ok "$fault: the log says why" sh -c "dmesg | grep -q '$text'"
	# Under its checkers an emulated host misses a keep-alive now and then, which is a line, too.
	[ "$slow" -gt 1 ] || is "$fault: in one line" "$(reasons)" 1
	dmesg | grep weft_rdma | sed 's/^/# /'
	ok "$fault: disconnected" weftctl disconnect --all
	gone
}
# --- Answers
survives unknown-id "answered command 0xff7, which does"
survives old-id "which it does not owe an answer"
survives repeated-id "which it does not owe an answer"
survives short-response "sent a capsule of 8 bytes, not 16"
survives long-response "RECV failed"
survives wrong-key "the target invalidated key\\|the queue pair went into error\\|failed"
survives early-response "QP access error\\|the queue pair went into error\\|failed"
survives long-data "QP access error\\|the queue pair went into error\\|failed"
survives vanish "the target ended the connection"
survives silence "timed out; recovering"

# --- What it says of itself
wild() { # FAULT TEXT
	hostile "$1"
	# shellcheck disable=SC2086
	weftctl connect "$uri" $quick >/tmp/out 2>&1
	ok "$1: told of" sh -c "cat /tmp/out; dmesg; grep -q '$2' /tmp/out || dmesg | grep -q '$2'"
	is "$1: no disk" "$(find /dev -name 'weft-rdma*n*')" ""
	weftctl disconnect --all >/dev/null
	gone
}
wild wild-controller "CNTRLTYPE\\|keyed SGLs\\|capsules are smaller\\|says to be controller"
wild wild-namespace "namespace 1: "
wild wild-descriptors "its descriptor of type"
wild no-answer "does not answer"
wild reject "has no resources left"

hostile few --at 2
# shellcheck disable=SC2086
ok "few: connected by as many queues as it takes" weftctl connect "$uri" $quick --queues 2 --poll-queues 2
is "few: the admin queue and two" "$(cat /sys/class/weft-rdma/weft-rdma*/queue_count)" 3
ok "few: the log says how many, and why" sh -c "dmesg | grep -q '2 I/O queues of 4 can be connected: .*resources'"
ok "few: fio's verification ends well" verify /dev/weft-rdma0n1 size=1m
ok "few: disconnected" weftctl disconnect --all
gone

hostile endless-list
# shellcheck disable=SC2086
ok "endless-list: connected" weftctl connect "$uri" $quick
ok "endless-list: told of" until_true 10 sh -c "dmesg | grep -q 'the list of namespaces has 1 after 2'"
ok "endless-list: disconnected" weftctl disconnect --all
gone

# --- A write that is executed late
hostile late-write --keep 1
# shellcheck disable=SC2086
ok "a volume of one member by one path" weftctl create v "$uri" $quick
# shellcheck disable=SC2086
ok "and by another" weftctl path add v "rdma://10.9.0.2/$nqn" $quick
cat >/tmp/late.py <<'P'
import mmap, os, time
f = os.open("/dev/weft/v", os.O_RDWR | os.O_DIRECT)
buf = mmap.mmap(-1, 65536)
began = time.monotonic()
for i in range(1, 60):
    buf[:] = bytes([i]) * len(buf)
    os.pwrite(f, buf, 0)
took = time.monotonic() - began
time.sleep(4)
os.preadv(f, [buf], 0)
print("last", buf[0], buf[65535], "took %.1f" % took)
P
out=$(python3 /tmp/late.py)
note "$out"
grep -v 'wrote 4096' /tmp/hostile.out | sed 's/^/# /' | head -n 8
is "the last of 59 writes is what is read" "${out% took*}" "last 59 59"
ok "one was withheld and executed late" grep -q "executed the withheld write" /tmp/hostile.out
ok "and not sent again before" awk '/withheld a write/ { late = 1 } late && /^.*wrote 65536/ && !done { exit 1 } /executed the withheld/ { done = 1; exit 0 }' /tmp/hostile.out
ok "stopped" weftctl stop v
ok "disconnected" weftctl disconnect --all
gone
ok "weft_rdma.ko unloads, so nothing holds it" rmmod weft_rdma
ok_unload
no_soft_roce
done_testing
