#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# A target that does not know the secrets (tests/hostile) and wants authentication all the same: the host finds that
# out, one line says why, and nothing is connected. What one that knows them has proven is of no use later.
# lab-kernel: uml
# lab-more: debian12 debian13 previous backports
# shellcheck disable=SC2154 # What hostile_begin sets.
. "${0%/*}/lib.sh"

hostile_begin
for one in host other; do weftctl gen-dhchap-key /tmp/$one --force >/dev/null; done
# A hash transforms this one with its owner's name.
weftctl gen-dhchap-key /tmp/ctrl --force --length 64 --hash sha512 >/dev/null
host=(--dhchap-secret-file /tmp/host)
both=("${host[@]}" --dhchap-ctrl-secret-file /tmp/ctrl)
connects() { weftctl connect "$uri" "${patience[@]}" --queues 1 "$@"; }
authenticated() { cat /sys/class/weft-rdma/weft-rdma0/authentication; }
# The queues on which the host has accepted what the target proved.
proven() { sed -n 's/.*queue \([0-9]*\): the host is content$/\1/p' /tmp/hostile.out | sort -u | xargs; }
unproven="has not proven that it knows the controller's secret"

# --- One way: only the host proves who it is, and this target takes anybody
hostile none --auth
ok "anybody: connected" connects "${host[@]}"
is "anybody: the host has authenticated" "$(authenticated)" "sha256 null host"
ok "anybody: on the I/O queue, too" grep -q "queue 1: the host replies" /tmp/hostile.out
ok "anybody: fio's verification ends well" verify /dev/weft-rdma0n1 size=1m
ok "anybody: disconnected" weftctl disconnect --all
refused "anybody: both ways, it lacks a response" 7 "$unproven" connects "${both[@]}"
is "anybody: it is told so" "$(grep -c 'the host refuses the target' /tmp/hostile.out)" 1
gone

# refuses FAULT STATUS TEXT: with both secrets the connection fails for that reason, and nothing is left of it.
refuses() {
	hostile "$1" --auth
	refused "$1: refused" "$2" "$3" connects "${both[@]}"
	is "$1: nothing is connected" "$(ls /sys/class/weft-rdma)" ""
	gone
}
refuses auth-forge 7 "$unproven"
refuses auth-reflect 7 "$unproven"
refuses auth-refuse 7 "does not accept this host's secret"
refuses auth-drop 7 "the target ended the connection when this host answered its challenge"
refuses auth-leave 1 "the target ended the connection during the authentication"
refuses auth-hash 1 "chose hash 9 of 32 bytes, which was not offered"
refuses auth-length 1 "chose hash 1 of 33 bytes, which was not offered"
refuses auth-group 1 "chose Diffie-Hellman group 9, which was not offered"
refuses auth-value 1 "value for ffdhe2048 has 255 bytes, not 256"
refuses auth-degenerate 1 "value is not one of the group ffdhe2048"
refuses auth-transaction 1 "answers authentication transaction"
refuses auth-order 1 "answers with authentication message 0x0103, not 0x0101"
refuses auth-channel 2 "wants a secure channel, which RDMA does not have"
refuses auth-silent 1 "does not answer"

# --- Messages with random bytes: each attempt is another challenge
hostile auth-wild --auth
wild() {
	for _ in $(seq 20); do
		connects "${both[@]}" >/tmp/out 2>&1 && return 1
		[ "$(grep -c "cannot be connected: the target" /tmp/out)" = 1 ] || { cat /tmp/out; return 1; }
	done
}
ok "auth-wild: 20 challenges of random bytes are refused" wild
gone

# --- This host's challenges differ
hostile none --auth
challenges() { sed -n 's/.*replies with challenge //p' /tmp/hostile.out; }
# An attempt that a pause of this machine ends may have none.
for _ in $(seq 30); do
	[ "$(challenges | wc -l)" -lt 10 ] || break
	connects "${both[@]}" >/dev/null 2>&1
done
is "challenges: ten" "$(challenges | wc -l)" 10
is "challenges: no two are the same" "$(challenges | sort | uniq -d)" ''

# --- It is not asked for a secret that the host does not have
refused "no secret: refused" 7 "wants this host to authenticate, and no secret is given" connects
gone

# --- A target that knows both secrets
knows=(--auth --host-secret /tmp/host --ctrl-secret /tmp/ctrl)
hostile none "${knows[@]}"
ok "genuine: connected" connects "${both[@]}"
is "genuine: both have authenticated" "$(authenticated)" "sha256 null mutual"
is "genuine: on the admin queue and on the I/O queue" "$(proven)" "0 1"
ok "genuine: fio's verification ends well" verify /dev/weft-rdma0n1 size=1m
ok "genuine: disconnected" weftctl disconnect --all
gone
hostile none "${knows[@]}" --dh
ok "group: connected" connects "${both[@]}"
is "group: both have authenticated" "$(authenticated)" "sha256 ffdhe2048 mutual"
is "group: on the admin queue and on the I/O queue" "$(proven)" "0 1"
ok "group: disconnected" weftctl disconnect --all
refused "group: it accepts no other secret of the host" 7 "does not accept this host's secret" \
	connects --dhchap-secret-file /tmp/other --dhchap-ctrl-secret-file /tmp/ctrl
gone
hostile none "${knows[@]}"
ok "genuine: connected once more" connects "${both[@]}"
ok "genuine: and disconnected" weftctl disconnect --all
refused "genuine: it accepts no other secret of the host" 7 "does not accept this host's secret" \
	connects --dhchap-secret-file /tmp/other --dhchap-ctrl-secret-file /tmp/ctrl
refused "genuine: its own is not the one that this host wants" 7 "$unproven" \
	connects "${host[@]}" --dhchap-ctrl-secret-file /tmp/other
is "genuine: the host has accepted nothing more" "$(proven)" "0 1"
gone

# --- A response that was right once is of no use later: on the next queue, and in a new association, which begins with
# the same number of a transaction
hostile auth-replay "${knows[@]}"
refused "replay: refused on the I/O queue" 7 "$unproven" connects "${both[@]}"
is "replay: the response was accepted where it was asked for" "$(proven)" 0
refused "replay: refused in a new association" 7 "$unproven" connects "${both[@]}"
is "replay: the host has not accepted it again" "$(proven)" 0
is "replay: nothing is connected" "$(ls /sys/class/weft-rdma)" ""
gone

# --- Another target comes back in place of one that was trusted
hostile none
ok "later: connected to one that does not ask" connects "${host[@]}"
gone
hostile auth-refuse --auth
ok "later: it asks now, and refuses: the log says why" until_true 60 log_says "does not accept this host's secret"
dd if=/dev/weft-rdma0n1 of=/dev/null bs=4k count=1 iflag=direct status=none & reader=$!
sleep 3
ok "later: a read waits" kill -0 $reader
gone
hostile none --auth
ok "later: it accepts: connected again" until_true 60 all_live
wait $reader
is "later: the read ends well" $? 0
ok "later: fio's verification ends well" verify /dev/weft-rdma0n1 size=1m
ok "later: disconnected" weftctl disconnect --all
gone

# --- A downgrade: one that proves less comes back in place of one that has proven who it is
hostile none "${knows[@]}"
ok "downgrade: connected to one that proves who it is" connects "${both[@]}"
gone
dd if=/dev/weft-rdma0n1 of=/dev/null bs=4k count=1 iflag=direct status=none & reader=$!
hostile none
ok "downgrade: one that does not ask: the log says why" until_true 60 log_says "does not ask for authentication"
gone
hostile none --auth
ok "downgrade: one that has no response: the log says why" until_true 60 log_says "$unproven"
ok "downgrade: a read waits" kill -0 $reader
gone
hostile none "${knows[@]}"
ok "downgrade: the first one is back: connected again" until_true 60 all_live
is "downgrade: both have authenticated" "$(authenticated)" "sha256 null mutual"
wait $reader
is "downgrade: the read ends well" $? 0
ok "downgrade: disconnected" weftctl disconnect --all
gone
rm -f /tmp/host /tmp/other /tmp/ctrl
hostile_end
done_testing
