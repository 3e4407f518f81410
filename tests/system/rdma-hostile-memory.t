#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Registered memory, and a target that breaks the rules (tests/hostile): keys that are not its to invalidate, or not
# its at all.
# lab-kernel: uml
# shellcheck disable=SC2154 # What hostile_begin sets.
. "${0%/*}/lib.sh"

hostile_begin 7
# An invalidation that is not the target's to make ends its association, and no more: what is registered for good is
# registered anew, so the same registration serves on.
memory_survives() { # FAULT TEXT
	local fault=$1 text=$2
	hostile "$fault" --unarmed --at 40
	ok "$fault: a volume" weftctl create v "$uri" --force "${patience[@]}" --queues 1
	kill -USR2 "$target"
	ok "$fault: registered for good, verified" weft-memtest v verify pages --persistent --largest=65536 --count=200
	ok "$fault: it was done" until_true 30 grep -q "now: $fault" /tmp/hostile.out
	ok "$fault: the log says why" until_true 30 log_says "$text"
	is "$fault: one association ends, but by lateness" "$(losses | grep -vc "$late")" 1
	log_since | grep weft_rdma | indented
	ok "$fault: stopped" weftctl stop v
	ok "$fault: disconnected" weftctl disconnect --all
	gone
}
memory_survives invalidate "the target invalidated key"
memory_survives short-invalidate "sent a capsule of 8 bytes, not 16"
memory_survives long-invalidate "RECV failed"
# The owner record is read into a buffer that is registered for as long as its queue is connected.
memory_survives invalidate-owner "the target invalidated key"

# A key for one command is good for the target that carries it alone, and not for the others of its volume.
hostile foreign-key --at 100
ok "foreign-key: a volume" weftctl create v "$uri" --force "${patience[@]}" --queues 1
ok "foreign-key: and another controller" weftctl path add v "rdma://10.9.0.2/$nqn" "${patience[@]}" --queues 1
ok "foreign-key: verified" weft-memtest v verify pages --largest=65536 --count=200
ok "foreign-key: it was tried" until_true 30 grep -q "another's key" /tmp/hostile.out
is "foreign-key: and refused" "$(grep -o "another's key: .*" /tmp/hostile.out)" "another's key: refused"
log_since | grep weft_rdma | indented
ok "foreign-key: stopped" weftctl stop v
ok "foreign-key: disconnected" weftctl disconnect --all
gone

# A Connect that is never answered, while memory is registered again and again: the controller gives the attempt up,
# and comes back with the next target.
hostile none
ok "silent-connect: a volume" weftctl create v "$uri" --force "${patience[@]}" --queues 1
gone
hostile silent-connect --at 0
refused "silent-connect: no memory is registered meanwhile" 3 "not connected" \
	weft-memtest v verify pages --persistent --count=1
ok "silent-connect: it was done" grep -q "now: silent-connect" /tmp/hostile.out
gone
hostile none
ok "silent-connect: the controller comes back" until_true 60 log_says "connected again"
log_since | grep weft_rdma | indented
ok "silent-connect: stopped" weftctl stop v
ok "silent-connect: disconnected" weftctl disconnect --all
gone

# A write from registered memory that is executed late.
late_memory() { # SENTENCE [OPTION...]
	late_begin "$1" $((2 * keep_alive - 2))
	late_writes "$1" weft-memtest v late pages --largest=65536 --count=59 "${@:2}"
	late_end "$1"
}
late_memory "late"
late_memory "late, registered for good" --persistent

late_begin "late, refused" $((2 * keep_alive - 2)) --refuse
is "late, refused: the write fails" "$(weft-memtest v late pages --largest=65536 --count=20 --persistent)" \
	"write 20 No data available"
late_refused "late, refused"
ok "late, refused: stopped" weftctl stop v
late_end "late, refused"

hostile_end
done_testing
