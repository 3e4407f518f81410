#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The test adapter (tests/kmod/softhca): proved by the stock host and target
# first, and weft's initiator over it, with the faults that it can make.
# lab-own: --topology hca --memory 3G
# lab-kernel: backports
. "${0%/*}/lib.sh"

if ! modprobe -qn weft_softhca; then
	skip "the test adapter" "it is written to the newest kernel alone"
	done_testing
fi
load_weft 2000
nqn=nqn.2014-08.org.example
softhca
for n in 0 1; do
	make_null "hb$n" 64
	nvmet_serve "$nqn:d$n" "$(readlink -f "/dev/hb$n")" rdma 10.9.0.1
done

# --- Others' code first
disk=$(nvme_connect "$nqn:d0" rdma 10.9.0.1)
ok "the stock host connects to the stock target" test -b "$disk"
ok "fio verifies over it" verify "$disk" size="$(mib 64)" bsrange=4k-1100k
knob 0 break_at 300
verify "$disk" size=16m bsrange=4k-256k >/tmp/fio.out 2>&1
result $? "and when a connection breaks on the way"
is "which it did" "$(knob 0 break_at)" 0
ok "disconnected" nvme disconnect-all

# --- Ours
uris="rdma://10.9.0.1/$nqn:d0 rdma://10.9.0.1/$nqn:d1"
# shellcheck disable=SC2086
ok "a volume by weft's own initiator" weftctl create v $uris --chunk 64K --force --keep-alive 2 --reconnect-delay 1
ok "verified" verify /dev/weft/v size="$(mib 64)" bsrange=4k-1100k
knob 0 latency_ns 200000
knob 0 bandwidth 200000000
ok "with latency and little bandwidth" verify /dev/weft/v size=8m bsrange=4k-200k
knob 0 latency_ns 0
knob 0 bandwidth 0
knob 0 break_at 300
ok "a connection breaks on the way: no error" verify /dev/weft/v size=16m bsrange=4k-200k
is "it did break" "$(knob 0 break_at)" 0
echo 2 >/sys/module/weft_rdma/parameters/io_timeout
weftctl stop v >/dev/null; weftctl disconnect --all >/dev/null
# shellcheck disable=SC2086
ok "assembled" weftctl assemble v $uris --keep-alive 2 --reconnect-delay 1
knob 0 drop_completion 500
ok "a completion is lost: no error" verify /dev/weft/v size=16m bsrange=4k-200k
is "it was lost" "$(knob 0 drop_completion)" 0
ok "no byte went to a BAR" test "$(knob 0 bytes_bar)" = 0
ok "stopped" weftctl stop v
ok "disconnected" weftctl disconnect --all
for n in 0 1; do nvmet_unserve "$nqn:d$n"; remove_null "hb$n"; done
ok "the adapter unloads, so nothing holds it" rmmod weft_softhca
ok "weft_rdma.ko unloads" rmmod weft_rdma
ok_unload
done_testing
