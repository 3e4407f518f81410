#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Direct I/O on peer memory, over the test adapter: from memory that an exporter
# has, moves, revokes and looks after, to NVMe targets, past every host page.
# lab-own: --topology hca --memory 3G
# lab-kernel: backports
# shellcheck disable=SC2154 # near, far and switch are what peer_bars sets.
. "${0%/*}/lib.sh"

softhca
ok "the exporter is there" modprobe weft_test_exporter
modprobe -q udmabuf
modprobe -q system_heap
peer_bars
ok "and has a BAR" bind weft_test_exporter "$near"
load_weft 2000
# The checkers make everything some times slower.
[ "${LAB_KERNEL:-}" = lab ] && slow=4 || slow=1
modprobe weft_rdma io_timeout=$((3 * slow))
nqn=nqn.2014-08.org.example
for n in 0 1 2; do
	make_null "hb$n" 64
	nvmet_serve "$nqn:d$n" "$(readlink -f "/dev/hb$n")" rdma 10.9.0.1
done
uris="rdma://10.9.0.1/$nqn:d0 rdma://10.9.0.1/$nqn:d1 rdma://10.9.0.1/$nqn:d2"
# shellcheck disable=SC2086
ok "a volume" weftctl create v $uris --chunk 64K --force --host-address 10.9.1.1 --keep-alive $((2 * slow)) --reconnect-delay 1
counted() { cat /sys/class/weft-rdma/*/"$1" | paste -sd+ | bc; }

# direct SENTENCE MEMORY [OPTION...]
direct() {
	local sentence=$1 out
	shift
	out=$(weft-memtest v verify "$@" 2>&1)
	result $? "$sentence"
	case $out in
	*"route 0 direct "*" vmap 0 bounced 0"*) ;;
	*) printf '%s\n' "$out" | sed 's/^/# /'; result 1 "$sentence: direct" ;;
	esac
}
no_strays() { is "$1: nothing was written to memory that was taken back" "$(weft-memtest - check)" 0; }

direct "memory without pin" exporter
direct "pinned memory" exporter,pin
direct "in one run" exporter,run --size=2097152
direct "which no CPU can map" exporter,novmap
direct "from an odd place in it on" exporter --shift=1301
direct "in commands of many chunks" exporter --size=16777216 --largest=8388608 --count=8
direct "in small ones" exporter --count=512 --largest=8192
before=$(knob 1 bytes_bar)
direct "in a BAR" exporter,bar --size=8388608
ok "whose bytes went past the host's memory" test "$(($(knob 1 bytes_bar) - before))" -ge 1000000
direct "a udmabuf" udmabuf
direct "the caller's own pages" pages --shift=77
direct "registered for good" exporter --persistent --size=16777216 --largest=8388608 --count=8
direct "registered for good, from an odd place on, in small commands" exporter --persistent --shift=1301 --count=512 --largest=8192
direct "registered for good, and moved" exporter --persistent --move=50
# The best of three, in nanoseconds: what is put off is looked at again after 50 ms.
first=$(for _ in 1 2 3; do weft-memtest v bench pages --persistent --count=1 --depth=1 --largest=4096; done | sort -n | head -n1)
ok "registered for good, its first read waits for nothing (${first%.*} ns)" test "${first%.*}" -lt $((40000000 * slow))
direct "a dma-heap's" heap
direct "memory that moves all the time" exporter --move=30
direct "also in a BAR" exporter,bar --size=8388608 --move=30
direct "and slowly" exporter,slow=200 --move=30 --count=16
no_strays "moved"
refused "an exporter that refuses" 1 "does not let 0000:" weft-memtest v register exporter,refuse
out=$(weft-memtest v verify exporter,refuse --bounce)
is "bounces where that is allowed" "${out%% direct*}" "route 2"

# --- In flight
ok "registrations come and go during I/O" weft-memtest v churn exporter --size=1048576 --seconds=$((5 * slow))
no_strays "unregistered"
ok "revoked for good: EFAULT" weft-memtest v load exporter --depth=256 --largest=65536 --revoke=1000 --seconds=3
no_strays "revoked"
weft-memtest v load exporter --depth=1024 --largest=65536 --move=100 >/tmp/load.out 2>&1 & loader=$!
until_true 10 grep -q loaded /tmp/load.out
sleep 2
kill -9 $loader
wait $loader 2>/dev/null
ok "killed with a thousand commands in flight, the volume is free at once" until_true 20 sh -c "! ls -l /proc/[0-9]*/fd 2>/dev/null | grep -q v.mem"
no_strays "killed"

# load_while SENTENCE COMMAND...: no command fails meanwhile.
memory=exporter
load_while() {
	local sentence=$1 rc
	shift
	weft-memtest v load $memory --depth=64 --largest=65536 --move=200 --seconds=$((8 * slow)) >/tmp/load.out 2>&1 & loader=$!
	until_true 10 grep -q loaded /tmp/load.out
	sleep 1
	"$@" >/tmp/while.out 2>&1
	wait $loader
	rc=$?
	[ $rc = 0 ] || sed 's/^/# /' /tmp/while.out /tmp/load.out
	result $rc "$sentence"
}
ok "registered for good, killed" sh -c 'timeout -s KILL 2 weft-memtest v load exporter --persistent --depth=512 --largest=65536 --move=100 >/dev/null; sleep 1; weft-memtest - check'
before=$(counted reconnects)
load_while "a connection breaks: no error" knob 1 break_at 100
ok "it did break" test "$(counted reconnects)" -gt "$before"
load_while "a completion is lost: no error" knob 1 drop_completion 300
port_away() {
	for n in 0 1 2; do nvmet_withdraw "$nqn:d$n"; done
	sleep 2
	for n in 0 1 2; do nvmet_offer "$nqn:d$n"; done
}
load_while "the target goes and comes back: no error" port_away
pull() {
	echo 1 >"/sys/bus/pci/devices/$(adapter 1)/remove"
	sleep 1
	echo 1 >/sys/bus/pci/rescan
}
load_while "the adapter is pulled and put back: no error" pull
out_of_reach() { knob 1 refuse_peer 1; sleep 2; knob 1 refuse_peer 0; }
memory=exporter,bar
load_while "the adapter does not reach the BAR for a while: no error" out_of_reach
memory=exporter
no_strays "after faults"
# What no bridge says beforehand: the adapter does not reach the memory, and each command ends its association.
knob 1 refuse_peer 1
refused "memory that is never reached: an error in the end" 3 "a read ended with -5" weft-memtest v bench exporter,bar --largest=4096 --depth=1 --count=1 --size=1048576
knob 1 refuse_peer 0
ok "and the volume serves again" until_true $((30 * slow)) weft-memtest v verify exporter
# A target that is silent: the memory goes back in bounded time all the same.
knob 0 latency_ns 2000000000
start=$SECONDS
weft-memtest v load exporter --depth=64 --largest=65536 --revoke=500 --seconds=2 >/tmp/load.out 2>&1
sed 's/^/# /' /tmp/load.out
ok "revoked while the target does not answer: at once" test $((SECONDS - start)) -lt $((25 * slow))
knob 0 latency_ns 0
no_strays "silent"
ok "it serves again" until_true $((30 * slow)) weft-memtest v verify exporter
# A target that is slow: who registers waits for it, and nobody else does.
knob 0 latency_ns 400000000
weft-memtest v register exporter >/tmp/register.out 2>&1 &
registering=$!
sleep 0.5
ok "status, while queues are being connected" weftctl status v
ok "it does not wait for them" kill -0 "$registering"
wait "$registering"
result $? "and they come: $(cat /tmp/register.out)"
knob 0 latency_ns 0
dmesg | grep -c "peer memory is taken away" | sed 's/^/# fenced /'
ok "the exporter unloads: nothing was written late" rmmod weft_test_exporter

# --- A BAR of a device without a driver of its own, by weft_p2p
ok "weft_p2p takes the device" bind weft_p2p "$near"
ok "and one elsewhere" bind weft_p2p "$far"
ok "nobody but root opens it" test "$(stat -c %a "/dev/weft/bar-$near")" = 600
direct "its memory" "bar=$near" --size=16777216
direct "also registered for good" "bar=$near" --persistent
refused "what lies below another root port is refused" 1 "attach" weft-memtest v register "bar=$far"
ok "and the log says why" sh -c "dmesg | grep -q 'below different root ports'"
out=$(weft-memtest v verify "bar=$far" --bounce 2>&1)
is "it is mapped for no CPU, so it cannot bounce" "${out#*no route: }" "the exporter of the dma-buf (weft_p2p) maps it for no CPU (error 22)"
ok "the driver is taken from it under I/O: EFAULT" weft-memtest v load "bar=$near" --depth=256 --largest=65536 --revoke=1000 --seconds=3
ok "and given back" bind weft_p2p "$near"
direct "it serves again" "bar=$near"
ok "stopped" weftctl stop v
ok "disconnected" weftctl disconnect --all
for n in 0 1 2; do nvmet_unserve "$nqn:d$n"; remove_null "hb$n"; done
ok "the adapter unloads, so nothing holds it" rmmod weft_softhca
no_softhca
ok "weft_rdma.ko unloads" rmmod weft_rdma
ok_unload
done_testing
