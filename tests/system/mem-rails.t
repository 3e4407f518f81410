#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Registered memory and several rails: I/O leaves by the one that is nearest to
# the memory, and by another where that is lost; topology and doctor report it.
# lab-own: --topology hca-rails --memory 3G
# lab-kernel: none
# shellcheck disable=SC2154 # near, far and switch are what peer_bars sets.
. "${0%/*}/lib.sh"

softhca 3
modprobe weft_test_exporter
peer_bars
load_weft 2000
modprobe weft_rdma io_timeout="$(slow 3)"
modprobe weft_p2p
for device in $near $far; do bind weft_p2p "$device"; done
nqn=nqn.2014-08.org.example
for n in 0 1; do
	make_null "hb$n" 200
	nvmet_serve "$nqn:d$n" "$(readlink -f "/dev/hb$n")" rdma 10.9.0.1
done
# The farther rail first: what comes first is not what is chosen.
quick="--keep-alive $(slow 5) --reconnect-delay 1"
# shellcheck disable=SC2086
ok "a volume by the farther rail" weftctl create v "rdma://10.9.0.1/$nqn:d0" "rdma://10.9.0.1/$nqn:d1" \
	--chunk 64K --force --host-address 10.9.2.1 $quick
for n in 0 1; do
	# shellcheck disable=SC2086
	ok "member $n by the nearer as well" \
		weftctl path add v "rdma://10.9.0.1/$nqn:d$n" --host-address 10.9.1.1 $quick
done

# --- What topology and doctor report
weftctl topology | indented
is "three adapters are drawn" "$(weftctl topology --json | jq '[.devices[] | select(.kind == "RDMA")] | length')" 3
# pair MEMORY DEVICE FIELD
pair() { weftctl topology --json | jq -r ".pairs[] | select(.memory == \"$1\" and .device == \"$2\") | .$3"; }
is "the nearer adapter reaches the BAR" "$(pair "$near" "$(adapter 1)" possible)" true
is "over three bridges" "$(pair "$near" "$(adapter 1)" bridges)" 3
is "and the farther" "$(pair "$near" "$(adapter 2)" possible)" true
is "over five" "$(pair "$near" "$(adapter 2)" bridges)" 5
is "none reaches what is below another root port" "$(pair "$far" "$(adapter 1)" possible)" false
weftctl topology --json | json '.pairs[].why' >/tmp/reasons
ok "and it says why" grep -q 'below different root ports' /tmp/reasons
weftctl doctor --json | json '.findings[] | select(.check == "routes") | .text, .fix' >/tmp/routes
ok "the doctor says so too" \
	grep -q "BAR $near and RDMA $(adapter 1) .*peer-to-peer is possible, 3 bridges" /tmp/routes
ok "and what to change" grep -q 'below one PCIe switch' /tmp/routes
weftctl doctor v >/tmp/doctor
is "of the volume: one memory is direct, the other is not" $? 8
indented </tmp/doctor
ok "proved by a registration" grep -q "proved: volume v registers the BAR of $near, direct" /tmp/doctor
ok "and disproved" grep -q "warning.*the BAR of $far: no direct route" /tmp/doctor
refused "of no volume" 4 "no volume is called x" weftctl doctor x

# --- Which rail I/O takes
# bytes ADAPTER: of BARs, by that.
bytes() { knob "$1" bytes_bar; }
# verified SENTENCE: it is right; b1 and b2 are what went by each.
verified() {
	b1=$(bytes 1)
	b2=$(bytes 2)
	ok "$1" weft-memtest v verify "bar=$near" --size=16777216
	b1=$(($(bytes 1) - b1))
	b2=$(($(bytes 2) - b2))
}
verified "verified in the BAR"
ok "by the nearer rail" test "$b1" -gt 1000000
is "and by that alone" "$b2" 0
away() { b2=$(bytes 2); pull_adapter 1 3; }
load_while "the nearer rail is pulled: no error" 8 "bar=$near --depth=32 --largest=65536" away
ok "the farther took over" test "$(($(bytes 2) - b2))" -gt 1000000
is_back() { [ "$(status_of v '[.members[].paths[] | select(.usable)] | length')" = 4 ]; }
ok "it is back" until_true 20 is_back
verified "and is taken again"
ok "which is the nearer" test "$b1" -gt 1000000
is "alone" "$b2" 0

# --- GPU memory: a libcuda whose memory is the BAR
gpu() { LD_LIBRARY_PATH=/usr/local/lib/weft-standin WEFT_STANDIN_BAR=$near env "$@"; }
bench="weft-bench v --gpu 0 --size 8M --block 64K --routes direct"
# shellcheck disable=SC2086
gpu $bench >/tmp/out 2>/tmp/err
is "reads into GPU memory take the direct route" "$(awk '/^direct/ { print $NF }' /tmp/out)" direct
is "an ordered GPU is not flushed" "$(grep -c flushed /tmp/err)" 0
# shellcheck disable=SC2086
gpu WEFT_STANDIN_UNORDERED=1 $bench >/tmp/out 2>/tmp/err
result $? "the same on a GPU that does not order what it gets"
ok "it is flushed" grep -q flushed /tmp/err
# shellcheck disable=SC2086
gpu WEFT_STANDIN_UNORDERED=1 WEFT_STANDIN_NO_FLUSH=1 $bench >/tmp/out 2>/tmp/err
is "reads fail if the flush fails" "$(grep -c 'an I/O failed: Input/output error' /tmp/out)" 1
# shellcheck disable=SC2086
gpu WEFT_STANDIN_UNORDERED=1 WEFT_STANDIN_NO_HOST_FLUSH=1 $bench >/tmp/out 2>/tmp/err
is "without a flush by the host there is no direct route" \
	"$? $(grep -c 'visible to this GPU only after a flush' /tmp/out)" "3 1"

# --- cuFile: other programs, with weft's library
log=/tmp/cufile.log
cufile() {
	rm -f $log
	LD_LIBRARY_PATH=/usr/local/lib/weft-standin WEFT_STANDIN_BAR=$near WEFT_CUFILE_LOG=$log weft-cufile "$@"
}
# fio_job OPTION...: by fio's own engine for cuFile.
fio_job() {
	cufile fio --ioengine=external:/usr/local/lib/weft-standin/libcufile-fio.so --thread --name=job \
		--cuda_io=cufile --gpu_dev_ids=0 --direct=1 --verify_state_save=0 "$@" >/tmp/out 2>&1 ||
		{ indented </tmp/out; return 1; }
}
# shellcheck disable=SC2086
WEFT_CUFILE_STRICT=1 cufile ${bench%direct}cufile >/tmp/out 2>/tmp/err
ok "reads by cuFile take the direct route" grep -q "direct, by weft's libcufile" /tmp/out
ok "fio verifies the volume by cuFile" fio_job --filename=/dev/weft/v --rw=randwrite --bs=64k --size=4m --verify=crc32c
# all_direct BYTES: of the last program, as a pattern.
all_direct() { grep -q "^weft-cufile: direct $1 bytes, staged 0 bytes" $log || { indented <$log; return 1; }; }
ok "none of its bytes was staged" all_direct '[1-9][0-9]*'
mkfs.xfs -q -f /dev/weft/v
mkdir -p /mnt/v
mount /dev/weft/v /mnt/v
ok "a file is written through XFS" fio_job --filename=/mnt/v/file --fallocate=none --rw=write --bs=64k --size=4m \
	--verify=crc32c --do_verify=0
ok "staged, with the reason" grep -q '/mnt/v/file: staged: .*: 4194304 bytes' $log
chattr +i /mnt/v/file
ok "sealed, it is verified" fio_job --filename=/mnt/v/file --rw=read --bs=64k --size=4m --verify=crc32c --readonly
ok "without a copy" all_direct 4194304
ok "in blocks of 1000 bytes too, staged" fio_job --filename=/mnt/v/file --rw=read --bs=1000 --size=4m --readonly
ok "with the reason" grep -q '/mnt/v/file: staged: bytes that are not in whole blocks' $log
chattr -i /mnt/v/file
umount /mnt/v
ok "the BAR itself" weft-bench v --bar "$near" --size 8M --block 64K --routes direct
weft-bench v --bar "$far" --size 8M --block 64K --routes direct >/tmp/out 2>/tmp/err
is "a BAR that the adapters do not reach is refused" "$? $(grep -c 'no direct route' /tmp/out)" "3 1"
weft-bench v --bar 05:00.0 --routes direct >/tmp/out 2>&1
is "an address without its domain is a usage error" "$? $(grep -c 'DDDD:BB:DD.F' /tmp/out)" "2 1"
is "status reports the bytes of each route" \
	"$(status_of v '.memory | .direct > 1000000 and .vmap == 0 and .bounce == 0')" true
ok "stopped" weftctl stop v
ok "disconnected" weftctl disconnect --all
for n in 0 1; do nvmet_unserve "$nqn:d$n"; remove_null "hb$n"; done
rmmod weft_test_exporter
ok "the adapters unload, so nothing holds them" rmmod weft_softhca
no_softhca
ok_unload
done_testing
