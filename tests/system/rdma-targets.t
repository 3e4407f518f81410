#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Targets that differ from the kernel's, as others may: no key is invalidated by
# the target, no data in capsules, a longer keep-alive timeout than requested, an
# Abort that ends its command, a pause of all I/O or of all commands, a disk that
# is reset, no list of limits, a long shutdown or one that fails, ANA groups of
# namespaces, which no event reports, a controller that is busy.
# lab-kernel: none
# lab-not: lab debian13 previous backports
# shellcheck disable=SC2154 # What hostile_begin sets.
. "${0%/*}/lib.sh"

hostile_begin
other="rdma://10.9.0.2/$nqn"
none_ends() { is "$1: no association ends" "$(losses | grep -vc "$late")" 0; }
ended() {
	ok "$1: disconnected" weftctl disconnect --all
	gone
}

# --- Keys: each is invalidated by the host
hostile none --keeps-keys
ok "keys: connected" weftctl connect "$uri" "${patience[@]}"
ok "keys: fio's verification ends well" verify /dev/weft-rdma0n1 size=2m bsrange=4k-256k
none_ends keys
ended keys

# --- No data in capsules: the Connect of queues for registered memory has a key, too
hostile none --capsule 0
ok "capsule: a volume" weftctl create v "$uri" --force "${patience[@]}"
ok "capsule: fio's verification ends well" verify /dev/weft/v size=1m bsrange=4k-64k
ok "capsule: registered for good, verified" weft-memtest v verify pages --persistent --largest=65536 --count=100
none_ends capsule
ok "capsule: stopped" weftctl stop v
ended capsule

# --- The keep-alive timeout that the target uses counts for writes that may be executed late
hostile none --floor 600
ok "floor: connected" weftctl connect "$uri" "${patience[@]}"
ok "floor: the log says by how much it is longer" \
	log_says "the target uses a keep-alive timeout of 600000 ms, not ${keep_alive}000"
ok "floor: fio's verification ends well" verify /dev/weft-rdma0n1 size=1m
none_ends floor
ended floor
late_begin "floor" $((2 * (keep_alive + 3) - 2)) --floor $((keep_alive + 3))
late_writes "floor" python3 /tmp/late.py 59
late_end "floor"

# --- A command without an answer is aborted, ends with that, and is sent again
hostile stuck --unarmed --at 20
ok "stuck: a volume" weftctl create v "$uri" --force "${patience[@]}"
ok "stuck: with a second path" weftctl path add v "$other" "${patience[@]}"
kill -USR2 "$target"
ok "stuck: reads end" dd if=/dev/weft/v of=/dev/null bs=64k count=60 iflag=direct status=none
ok "stuck: one was stuck" grep -q "now: stuck" /tmp/hostile.out
ok "stuck: and was aborted" grep -q "aborted a command" /tmp/hostile.out
is "stuck: no association ends by a timeout" "$(ends timeout)" 0
ok "stuck: the log says so" log_says "timed out, aborting it"
none_ends stuck
ok "stuck: stopped" weftctl stop v
ended stuck

# --- All I/O waits in the target for a while
hostile pause --at 40 --keep 3
ok "pause: connected" weftctl connect "$uri" "${patience[@]}"
ok "pause: fio's verification ends well" verify /dev/weft-rdma0n1 size=4m bsrange=4k-64k
ok "pause: there was one" grep -q "served again" /tmp/hostile.out
is "pause: no association ends by a timeout" "$(ends 'timeout|keep-alive')" 0
none_ends pause
ended pause

# --- All commands wait in the target for longer than the keep-alive timeout, also those that connect again
hostile pause --holds-admin --unarmed --at 40 --keep "$(slow 12)"
ok "pause of all: a volume" weftctl create v "$uri" --force "${patience[@]}"
kill -USR2 "$target"
ok "pause of all: fio's verification ends well" verify /dev/weft/v size=4m bsrange=4k-64k
ok "pause of all: there was one" grep -q "served again" /tmp/hostile.out
ok "pause of all: the association ended by its keep-alive" test "$(ends keep-alive)" -ge 1
ok "pause of all: the log says so" log_says 'queue 0: command .* timed out; recovering\|the Keep Alive command failed'
ok "pause of all: it is connected again" until_true 30 all_live
is "pause of all: the member counts no error" "$(status_of v '.members[0].errors')" 0
none_ends "pause of all"
ok "pause of all: stopped" weftctl stop v
ended "pause of all"

# --- A disk that is reset: its target answers with errors that pass, for a while
was_reset() { grep -q "now: reset" /tmp/hostile.out; }
hostile reset --at 40 --keep 2
ok "reset: connected" weftctl connect "$uri" "${patience[@]}"
ok "reset: fio's verification ends well" verify /dev/weft-rdma0n1 size=4m bsrange=4k-64k
ok "reset: there was one" was_reset
none_ends reset
ended reset
hostile reset --unarmed --at 40 --keep 2
ok "reset: a volume" weftctl create v "$uri" --force "${patience[@]}"
kill -USR2 "$target"
ok "reset: its verification ends well" verify /dev/weft/v size=4m bsrange=4k-64k
ok "reset: there was one" was_reset
ok "reset: stopped" weftctl stop v
ended reset
hostile reset --unarmed --at 40 --keep 2
ok "reset: a volume" weftctl create v "$uri" --force "${patience[@]}"
kill -USR2 "$target"
ok "reset: registered memory, verified" weft-memtest v verify pages --largest=65536 --count=100
ok "reset: there was one" was_reset
ok "reset: stopped" weftctl stop v
ended reset
# What does not pass is an error after five seconds, and not before.
hostile reset --unarmed --keep 3600
ok "reset for good: connected" weftctl connect "$uri" "${patience[@]}"
kill -USR2 "$target"
began=$SECONDS
refused "reset for good: a read fails" 1 "dd: error reading" \
	timeout "$(slow 60)" dd if=/dev/weft-rdma0n1 of=/dev/null bs=4k count=1 iflag=direct status=none
ok "reset for good: it was repeated for seconds" test $((SECONDS - began)) -ge 4
none_ends "reset for good"
ended "reset for good"

# --- No list of limits of single commands: none counts but the command's own
hostile none --picky --limitless
limit() { cat "/sys/block/weft-rdma0n1/queue/$1"; }
ok "limitless: connected" weftctl connect "$uri" "${patience[@]}"
is "limitless: a discard is as long as the block layer allows" "$(limit discard_max_bytes)" $(((1 << 32) - 512))
is "limitless: a Write Zeroes as its count of blocks" "$(limit write_zeroes_max_bytes)" $((65536 * 512))
ok "limitless: fio's verification ends well" verify /dev/weft-rdma0n1 size=1m
none_ends limitless
ended limitless

# --- A controller that takes its time to shut down
shut_down() { # SECONDS: disconnects, and sets took
	hostile none --shutdown "$1"
	ok "shutdown, $1 s: connected" weftctl connect "$uri" "${patience[@]}"
	local begin=$SECONDS
	ok "shutdown, $1 s: disconnected" weftctl disconnect --all
	took=$((SECONDS - begin))
	gone
}
# The host waits for 5 s at least, and the machine may stand still for longer, but not each time.
for _ in 1 2 3; do
	shut_down 3
	! log_says 'did not shut down' || continue
	break
done
ok "shutdown, 3 s: the host waits" test "$took" -ge 2
is "shutdown, 3 s: and it is complete" "$(log_since | grep -c 'did not shut down')" 0
shut_down 3600
ok "shutdown, 3600 s: the log says that it is not" log_says 'did not shut down: '
hostile shutdown-fails
ok "shutdown fails: connected" weftctl connect "$uri" "${patience[@]}"
ended "shutdown fails"
ok "shutdown fails: the log says so" log_says 'did not shut down: the controller has failed'

# --- ANA by groups of one namespace, and without events
hostile none --ana 1 --ana 3
ok "ana: a volume" weftctl create v "$uri" --force "${patience[@]}"
changes() { grep -c "ANA states have changed" /tmp/hostile.out; }
changed() { [ "$(changes)" -ge "$1" ]; }
swap() { local before; before=$(changes); kill -USR1 "$target"; until_true 30 changed $((before + 1)); }
swap
dd if=/dev/weft/v of=/dev/null bs=4k count=1 iflag=direct status=none & reader=$!
sleep "$(slow 2)"
ok "ana: I/O waits while the only path is inaccessible" kill -0 $reader
swap
wait $reader
result $? "ana: and goes on when it is accessible again"
ok "ana: a path is added while it is inaccessible" weftctl path add v "$other" "${patience[@]}"
swap
ok "ana: it carries I/O when it is accessible" \
	timeout "$(slow 20)" dd if=/dev/weft/v of=/dev/null bs=4k count=1 iflag=direct
none_ends ana
ok "ana: stopped" weftctl stop v
ended ana

hostile none --ana 1 --ana 2
ok "ana: a volume on an optimized path" weftctl create v "$uri" --force "${patience[@]}"
ok "ana: with a non-optimized one" weftctl path add v "$other" "${patience[@]}"
# carried PATH: how many reads of 64 that path has carried. is_now PATH STATE: its ANA state.
reads() { awk '{ print $1 }' "/sys/block/weft-rdma$1n1/stat"; }
carried() {
	local before
	before=$(reads "$1")
	dd if=/dev/weft/v of=/dev/null bs=64k count=64 iflag=direct status=none
	echo $(($(reads "$1") - before))
}
is_now() { [ "$(cat "/sys/block/weft-rdma$1n1/ana_state")" = "$2" ]; }
rescan() { for n in 0 1; do echo 1 >/sys/class/weft-rdma/weft-rdma$n/rescan_controller; done; }
ok "ana: the second is non-optimized" is_now 1 non-optimized
is "ana: and carries nothing" "$(carried 1)" 0
change_places() { swap; rescan; until_true 20 is_now 0 non-optimized; }
verify_while "ana: verified while the two change places" /dev/weft/v 8 1500 change_places
ok "ana: a scan reads the states" until_true 20 is_now 1 optimized
ok "ana: now the second carries all" test "$(carried 1)" -ge 64
none_ends "ana, non-optimized"
ok "ana: stopped" weftctl stop v
ended ana

# --- A target that is busy when a host connects, as one whose subsystem is not active yet
hostile none
ok "busy: connected" weftctl connect "$uri" "${patience[@]}"
gone
hostile busy --at 4
ok "busy: the log says so" until_true 60 log_says "the target's controller is busy"
ok "busy: and it is connected when the target is ready" until_true 60 all_live
is "busy: not before" "$(grep -o 'busy: 0 more' /tmp/hostile.out)" "busy: 0 more"
ok "busy: fio's verification ends well" verify /dev/weft-rdma0n1 size=1m bsrange=4k-64k
ended busy
hostile busy --at 1000
refused "busy: a connection is refused, and says why" 3 "the target's controller is busy" \
	weftctl connect "$uri" "${patience[@]}"
gone

# --- Ctrl-C while one target is connected, and another does not answer
make_null good 64
nvmet_serve "$nqn:good" "$(readlink -f /dev/good)" rdma 10.9.0.1 4499
hostile none
kill -STOP "$target"
weftctl create v "rdma://10.9.0.1:4499/$nqn:good" "$uri" --force >/dev/null 2>&1 & creator=$!
lives() { grep -q live /sys/class/weft-rdma/*/state; }
ok "interrupt: one target is connected" until_true 20 lives
kill -TERM $creator
ok "interrupt: the command ends" until_true 30 sh -c "! kill -0 $creator"
wait $creator
is "interrupt: by the signal" $? 143
is "interrupt: what it had connected is disconnected" "$(weftctl connect)" "nothing is connected"
kill -CONT "$target"
# Its controller is not in sysfs any more a moment before it is gone.
nothing() { ! ls /sys/class/weft-rdma/* >/dev/null 2>&1 && [ "$(cat /sys/module/weft_rdma/refcnt)" = 0 ]; }
ok "interrupt: nor is what the kernel connects later" until_true 30 nothing
gone
# While it waits to see whether another host owns the volume, for two intervals, the kernel has the member.
heartbeat=/sys/module/weft/parameters/heartbeat_ms
interval=$(cat $heartbeat)
echo 30000 >$heartbeat
weftctl create v "rdma://10.9.0.1:4499/$nqn:good" --force >/dev/null 2>&1 & creator=$!
assembling() { weftctl status v --json 2>/dev/null | json '.volumes[0].state' | grep -qx assembling; }
ok "interrupt: the volume is being assembled" until_true 20 assembling
kill -TERM $creator
wait $creator
is "interrupt: the command ends by the signal" $? 143
echo "$interval" >$heartbeat
is "interrupt: the member is disconnected" "$(weftctl connect)" "nothing is connected"
nvmet_unserve "$nqn:good" 4499
remove_null good
hostile_end
done_testing
