#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# A target that breaks the rules (tests/hostile) while a host connects, or says what the host has to heed: what it is,
# what it has, how many queues it takes. The log says why nothing comes of it, and the host takes no harm.
# lab-kernel: none
# lab-more: debian12
# shellcheck disable=SC2154 # What hostile_begin sets.
. "${0%/*}/lib.sh"

hostile_begin

# --- What it says of itself
said() { cat /tmp/out; log_since; grep -q "$1" /tmp/out || log_says "$1"; }
wild() { # FAULT TEXT: took is how many seconds the host tries to connect.
	local begin
	hostile "$1"
	begin=$SECONDS
	weftctl connect "$uri" "${patience[@]}" >/tmp/out 2>&1
	took=$((SECONDS - begin))
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
	wild "drop-$n" "queue 0: the target ended the connection"
	# A command of the setup times out after 10 s.
	[ "$slow_tenths" -gt 20 ] || ok "drop-$n: at once" test "$took" -lt 8
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
ok "endless-list: reported" until_true 30 log_says 'the list of namespaces has 1 after 2'
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
again() { [ "$(cat /sys/class/weft-rdma/weft-rdma0/reconnects)" -ge "$1" ] && all_live; }
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
ok "never-ready: connected again when there is one again" until_true 60 all_live
ok "never-ready: disconnected" weftctl disconnect --all
gone
hostile_end
done_testing
