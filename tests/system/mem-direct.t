#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Direct I/O on peer memory, over the test adapter behind an IOMMU: from memory
# that an exporter has, moves, revokes and looks after, to NVMe targets, past
# every host page.
# lab-own: --topology hca-iommu --memory 3G
# lab-kernel: backports
# shellcheck disable=SC2154 # near, far and switch are what peer_bars sets.
. "${0%/*}/lib.sh"

softhca
domain() { cat "/sys/bus/pci/devices/$(adapter "$1")/iommu_group/type"; }
ok "the adapters have addresses of their own, by the IOMMU" sh -c "echo '$(domain 0) $(domain 1)' | grep 'DMA.* DMA'"
ok "the exporter is there" modprobe weft_test_exporter
modprobe -q udmabuf
modprobe -q system_heap
peer_bars
ok "and has a BAR" bind weft_test_exporter "$near"
load_weft 2000
modprobe weft_rdma io_timeout="$(slow 3)"
nqn=nqn.2014-08.org.example
for n in 0 1 2; do
	make_null "hb$n" 64
	nvmet_serve "$nqn:d$n" "$(readlink -f "/dev/hb$n")" rdma 10.9.0.1
done
uris="rdma://10.9.0.1/$nqn:d0 rdma://10.9.0.1/$nqn:d1 rdma://10.9.0.1/$nqn:d2"
# The RDMA CM gives a connection up that a guest with checkers, on a busy machine, takes too long to make.
# shellcheck disable=SC2086
ok "a volume" until_true 20 weftctl create v $uris --chunk 64K --force --host-address 10.9.1.1 \
	--keep-alive "$(slow 2)" --reconnect-delay 1
counted() { cat /sys/class/weft-rdma/*/"$1" | paste -sd+ | bc; }

# direct SENTENCE MEMORY [OPTION...]: verified, and no byte takes another route.
direct() {
	local sentence=$1
	shift
	by_route "$sentence" "0 direct * vmap 0 bounced 0" verify "$@"
}
no_strays() {
	is "$1: nothing was read from or written to memory that was taken back" "$(weft-memtest - check)" 0
	is "$1: and no adapter used an address that was unmapped" "$(knob 0 unmapped)$(knob 1 unmapped)" 00
}

direct "memory without pin" exporter
direct "pinned memory" exporter,pin
direct "which somebody wants to move" exporter,pin --move=30
direct "which moves when it is pinned" exporter,pinmoves
direct "registered for good, likewise" exporter,pinmoves --persistent --move=30
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
large=$(knob 1 large_pages)
direct "registered for good, in one run" exporter,run --persistent --size=2097152
ok "in pages of 64 KiB" test "$(knob 1 large_pages)" -gt "$large"
direct "registered for good, from an odd place on, in small commands" \
	exporter --persistent --shift=1301 --count=512 --largest=8192
direct "registered for good, and moved" exporter --persistent --move=50
# A read that is put off takes 50 ms at least, so one that takes less than 40 ms was not. A slow guest may need several.
first_read() {
	local ns
	ns=$(weft-memtest v bench pages --persistent --count=1 --depth=1 --largest=4096)
	[ "${ns%.*}" -lt 40000000 ]
}
ok "registered for good, its first read waits for nothing" until_true 30 first_read
direct "a dma-heap's" heap
direct "memory that moves all the time" exporter --move=30
direct "also in a BAR" exporter,bar --size=8388608 --move=30
direct "and slowly" exporter,slow=200 --move=30 --count=16
no_strays "moved"
refused "an exporter that refuses" 1 "refuses to attach 0000:" weft-memtest v register exporter,refuse
refused "which is the reason, also where it may bounce but is to be registered for good" 1 "refuses to attach 0000:" \
	weft-memtest v register exporter,refuse --persistent --bounce
out=$(weft-memtest v verify exporter,refuse --bounce)
is "bounces where that is allowed" "${out%% direct*}" "route 2"

# --- Completions on another processor than the one that submitted
knob 1 vector_shift 1
before=$(knob 1 completed_far)
direct "completions on another processor" exporter --count=512 --largest=8192
direct "registered for good, likewise" exporter --persistent --count=512 --largest=8192 --move=50
ok "they were" test "$(($(knob 1 completed_far) - before))" -ge 10
knob 1 vector_shift 0

# --- In flight
ok "registrations come and go during I/O" weft-memtest v churn exporter --size=1048576 --seconds="$(slow 5)"
no_strays "unregistered"
revoked="--depth=256 --largest=65536 --revoke=1000 --seconds=$(slow 3)"
# shellcheck disable=SC2086
ok "revoked for good: EFAULT" weft-memtest v load exporter $revoked
no_strays "revoked"
load_begins 3600 "exporter --depth=1024 --largest=65536 --move=100"
result $? "a thousand commands are in flight"
sleep 1
kill -9 "$loader"
wait "$loader" 2>/dev/null
stopped() { weftctl stop v 2>/dev/null; }
ok "killed with a thousand commands in flight, the volume is free at once" until_true 20 stopped
# shellcheck disable=SC2086
ok "and assembled again" weftctl assemble v $uris --host-address 10.9.1.1 --keep-alive "$(slow 2)" --reconnect-delay 1
no_strays "killed"

load_begins 3600 "exporter --persistent --depth=512 --largest=65536 --move=100"
result $? "commands are in flight on memory that is registered for good"
kill -9 "$loader"
wait "$loader" 2>/dev/null
sleep "$(slow 1)"
ok "registered for good, killed" weft-memtest - check
moving="--depth=64 --largest=65536 --move=200"
before=$(counted reconnects)
load_while "a connection breaks: no error" 8 "exporter $moving" knob 1 break_at 100
ok "it did break" test "$(counted reconnects)" -gt "$before"
load_while "a completion is lost: no error" 8 "exporter $moving" knob 1 drop_completion 300
is "it was lost" "$(knob 1 drop_completion)" 0
port_away() {
	for n in 0 1 2; do nvmet_withdraw "$nqn:d$n"; done
	sleep "$(slow 2)"
	for n in 0 1 2; do nvmet_offer "$nqn:d$n"; done
}
load_while "the target goes and comes back: no error" 8 "exporter $moving" port_away
load_while "the adapter is pulled and put back: no error" 8 "exporter $moving" pull_adapter 1 1
out_of_reach() { knob 1 refuse_peer 1; sleep "$(slow 2)"; knob 1 refuse_peer 0; }
load_while "the adapter does not reach the BAR for a while: no error" 8 "exporter,bar $moving" out_of_reach
no_strays "after faults"
# What no bridge says beforehand: the adapter does not reach the memory, and each command ends its association.
knob 1 refuse_peer 1
refused "memory that is never reached: an error in the end" 3 "a read ended with -5" \
	weft-memtest v bench exporter,bar --largest=4096 --depth=1 --count=1 --size=1048576
knob 1 refuse_peer 0
ok "and the volume serves again" until_true 30 weft-memtest v verify exporter
# Bytes are on their way while queue pairs drain: the target's adapter moves them so long after it began. Memory that is
# taken away waits a second for commands, and ends their associations then.
drained=$(knob 0 drained)
knob 0 dma_ns "$(slow 20)000000"
# Not each moment has bytes on their way: at some, all commands have just been sent.
break_on_the_way() {
	local n
	for n in 101 67 83 59 131 97 103 71 89 61; do
		knob 1 break_at $n
		sleep "$(slow 2)"
		[ "$(knob 0 drained)" -eq "$drained" ] || break
	done
	knob 1 break_at 0
}
busy="--depth=64 --largest=65536 --move=2000"
load_while "a connection breaks with bytes on their way: no error" 22 "exporter $busy" break_on_the_way
ok "they arrived after it broke" test "$(knob 0 drained)" -gt "$drained"
drained=$(knob 0 drained)
knob 0 dma_ns 1200000000
# A volume is back 8 s after that, since Connect's data is on its way as long. So the memory moves less often.
moving_slowly="--depth=4 --largest=65536 --move=$(slow 18000)"
load_while "moved with bytes on their way: no error" 28 "exporter $moving_slowly" true
load_while "registered for good, likewise" 28 "exporter --persistent $moving_slowly" true
# shellcheck disable=SC2086
ok "revoked for good, likewise: EFAULT" weft-memtest v load exporter $revoked
knob 0 dma_ns 0
ok "they arrived while queue pairs drained" test "$(knob 0 drained)" -gt "$drained"
note "$(($(knob 0 drained) - drained)) times"
no_strays "on their way"
ok "it serves on" until_true 30 weft-memtest v verify exporter
# A target that is silent: the memory goes back in bounded time all the same. Its association ends by that, unless the
# keep-alive is unanswered first: in a slow guest it may be.
before=$(ends memory)
longest=0
for try in 1 2 3 4 5 6; do
	until_true 30 weft-memtest v verify exporter --count=1
	knob 0 latency_ns "$(slow 2)000000000"
	start=$SECONDS
	weft-memtest v load exporter --depth=64 --largest=65536 --revoke="$(slow 300)" --seconds="$(slow 2)" \
		>/tmp/load.out 2>&1
	[ $((SECONDS - start)) -le $longest ] || longest=$((SECONDS - start))
	knob 0 latency_ns 0
	note "try $try:"
	indented </tmp/load.out
	[ "$(ends memory)" -eq "$before" ] || break
done
ok "revoked while the target does not answer: at once" test $longest -lt "$(slow 25)"
ok "and the association's end is counted as that of memory" test "$(ends memory)" -gt "$before"
no_strays "silent"
ok "it serves again" until_true 30 weft-memtest v verify exporter
# A target that is slow: registering for good waits for it, and nothing else does.
knob 0 latency_ns "$(slow 400)000000"
weft-memtest v register exporter --persistent >/tmp/register.out 2>&1 &
registering=$!
sleep 0.5
ok "status, while queues are being connected" weftctl status v
ok "it does not wait for them" kill -0 "$registering"
wait "$registering"
result $? "and they come: $(cat /tmp/register.out)"
knob 0 latency_ns 0
dmesg | grep -c "peer memory was revoked" | sed 's/^/# fenced /'
ok "the exporter unloads: nothing was read or written late" rmmod weft_test_exporter

# --- A BAR of a device without a driver of its own, by weft_p2p
ok "weft_p2p takes the device" bind weft_p2p "$near"
ok "and one elsewhere" bind weft_p2p "$far"
ok "only root may open it" test "$(stat -c %a "/dev/weft/bar-$near")" = 600
direct "its memory" "bar=$near" --size=16777216
direct "also registered for good" "bar=$near" --persistent
refused "what lies below another root port is refused" 1 "attach" weft-memtest v register "bar=$far"
ok "and the log says why" sh -c "dmesg | grep -q 'below different root ports'"
out=$(weft-memtest v verify "bar=$far" --bounce 2>&1)
is "it is mapped for no CPU, so it cannot bounce" "${out#*no route: }" \
	"the exporter of the dma-buf (weft_p2p) cannot map it for the CPU (error 22)"
# shellcheck disable=SC2086
ok "the driver is taken from it under I/O: EFAULT" weft-memtest v load "bar=$near" $revoked
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
