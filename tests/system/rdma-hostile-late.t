#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# A target that executes writes, zeroes and discards late, or never (tests/hostile): newer data stay, a stop waits, and
# no failed write is sent again.
# lab-kernel: uml
# lab-more: debian12
# shellcheck disable=SC2154 # What hostile_begin sets.
. "${0%/*}/lib.sh"

# What has to happen before a late execution has 12 s.
hostile_begin 7
letters() { head -c 65536 /dev/zero | tr '\0' "$1"; }
put() { letters "$1" | dd of=/dev/weft/v bs=64k seek="$2" iflag=fullblock oflag=direct status=none; } # LETTER CHUNK
clear() { blkdiscard -f "$@" -o 0 -l 65536 /dev/weft/v; } # [OPTION]

# --- A write that is executed late, but as late as the rules allow: within two keep-alive timeouts, or three where any
# command keeps the association alive. What no host can know is left: a target that reports no CQT may execute later
# still what its disk had begun. The same write is sent again at once, writes elsewhere go on, and newer writes to the
# same bytes wait.
late_write() { # SENTENCE SECONDS [OPTION]
	late_begin "$@"
	late_writes "$1" python3 /tmp/late.py 59
	late_end "$1"
}
late_write "late" $((2 * keep_alive - 2))
late_write "late, alive by traffic" $((3 * keep_alive - 2)) --traffic

late_begin "late, refused" $((2 * keep_alive - 2)) --refuse
is "late, refused: the error comes when the target cannot execute the write any more" \
	"$(python3 /tmp/late.py 20)" "write 20 No data available late"
grep -v 'wrote 4096' /tmp/hostile.out | tail -n 8 | indented
late_refused "late, refused"
is "late, refused: what failed was executed" "$(bytes)" " 65536 14"
ok "late, refused: stopped" weftctl stop v
late_end "late, refused"

late_begin "late, stopped" $((2 * keep_alive - 2))
ok "late, stopped: 20 writes" python3 /tmp/late.py 20
is "late, stopped: the last one is not executed late yet" "$(grep -c "executed the withheld" /tmp/hostile.out)" 0
ok "late, stopped: the volume stops" weftctl stop v
ok "late, stopped: and not before the target executed it" grep -q "executed the withheld" /tmp/hostile.out
late_end "late, stopped"

# --- Writes that wait for the late one do not fill what a member's background I/O may have in flight beside reads.
cat >/tmp/read.py <<'P'
import mmap, os
f = os.open("/dev/weft/v", os.O_RDONLY | os.O_DIRECT)
buf = mmap.mmap(-1, 4096)
while True:
    os.preadv(f, [buf], 8 << 20)
P
# What has to happen before the late execution happens in one process: a slow guest needs seconds to start 13 of them.
cat >/tmp/elsewhere.py <<'P'
import mmap, os, threading, time
f = os.open("/dev/weft/v", os.O_WRONLY | os.O_DIRECT)
failed = []
def letters(byte):
    buf = mmap.mmap(-1, 65536)
    buf[:] = bytes([byte]) * len(buf)
    return buf
def write(buf, place):
    try:
        os.pwrite(f, buf, place)
    except OSError as error:
        failed.append(error)
def writes_in_flight():
    return int(open("/sys/block/weft!v/inflight").read().split()[1])
numbers = [letters(i) for i in range(1, 21)]
b, c = letters(ord("b")), letters(ord("c"))
threads = [threading.Thread(target=write, args=(b, 0)) for _ in range(12)]
for buf in numbers:
    write(buf, 0)
for thread in threads:
    thread.start()
end = time.monotonic() + 30
while writes_in_flight() < 12 and time.monotonic() < end:
    time.sleep(0.01)
write(c, 1 << 22)
print("waited" if "executed the withheld" in open("/tmp/hostile.out").read() else "did not wait")
for thread in threads:
    thread.join()
for error in failed:
    print(error.strerror)
P
reads_done() { awk '{ print $1 }' '/sys/block/weft!v/stat'; }
reads_since() { [ "$(reads_done)" -gt "$1" ]; }
# Sets waited.
write_elsewhere() {
	local reader
	late_begin "late, with QoS" $((2 * keep_alive - 2))
	ok "late, with QoS: it is switched on" weftctl qos v --feed-latency 1us
	python3 /tmp/read.py & reader=$!
	ok "late, with QoS: a reader reads" until_true 30 reads_since "$(reads_done)"
	waited=$(python3 /tmp/elsewhere.py)
	ok "late, with QoS: a write was withheld" grep -q "withheld a write" /tmp/hostile.out
	kill "$reader"
	wait "$reader" 2>/dev/null
	ok "late, with QoS: stopped" weftctl stop v
	late_end "late, with QoS"
}
# The machine may stand still until the late execution, but not each time.
for _ in 1 2 3; do
	write_elsewhere
	[ "$waited" = waited ] || break
done
is "late, with QoS: a write elsewhere beside 12 writes to the same bytes" "$waited" "did not wait"

# --- Zeroes that are executed late: the same command is sent again at once, and newer letters there wait. Zeroes wait
# in the same way for a write.
late_zeroes() { # SENTENCE [OPTION]: of blkdiscard
	hostile late-zeroes --picky --unarmed --keep $((2 * keep_alive - 2))
	ok "$1: a volume of one member by one path" weftctl create v "$uri" --force "${patience[@]}"
	ok "$1: and by another" weftctl path add v "rdma://10.9.0.2/$nqn" "${patience[@]}"
	ok "$1: letters" put a 0
	kill -USR2 "$target"
	ok "$1: they are cleared" clear "${@:2}"
	ok "$1: one command was withheld" grep -q "withheld a write of 65536 bytes" /tmp/hostile.out
	is "$1: it is not executed late yet" "$(grep -c "executed the withheld" /tmp/hostile.out)" 0
	ok "$1: the same one was executed" grep -q "cleared 65536 bytes" /tmp/hostile.out
	is "$1: zeroes are read" "$(bytes)" " 65536 00"
	ok "$1: newer letters" put b 0
	ok "$1: and not before the target executed the first command" \
		grep -q "executed the withheld" /tmp/hostile.out
	grep -v 'wrote 4096' /tmp/hostile.out | tail -n 8 | indented
	is "$1: the newer letters are read" "$(bytes)" " 65536 62"
	ok "$1: stopped" weftctl stop v
	late_end "$1"
}
late_zeroes "late zeroes" -z
late_zeroes "late discard"

late_then_zeroes() { # SENTENCE [OPTION]: of blkdiscard
	late_begin "$1" $((2 * keep_alive - 2)) --picky
	ok "$1: 20 writes" python3 /tmp/late.py 20
	is "$1: the last one is not executed late yet" "$(grep -c "executed the withheld" /tmp/hostile.out)" 0
	ok "$1: what they wrote is cleared" clear "${@:2}"
	ok "$1: and not before the target executed it" grep -q "executed the withheld" /tmp/hostile.out
	is "$1: zeroes are read" "$(bytes)" " 65536 00"
	ok "$1: stopped" weftctl stop v
	late_end "$1"
}
late_then_zeroes "late, then a discard"
[ -z "${LAB_LONG:-}" ] || late_then_zeroes "late, then zeroes" -z

# --- The same of the volume's own writes: executed late, one would write over what the next host has written. Nor is a
# heartbeat sent again, by this path or by another one: the next one reads the record before, and has the next number.
withheld_record() { sed -n 's/.* withheld owner record //p' /tmp/hostile.out; }
later_records() { sed '1,/withheld owner record/d' /tmp/hostile.out | sed -n 's/.* wrote owner record //p'; }
later_record() { later_records | grep -q .; }
hostile late-owner --unarmed --keep $((2 * keep_alive - 2))
ok "late heartbeat: a volume" weftctl create v "$uri" --force "${patience[@]}"
ok "late heartbeat: another path" weftctl path add v "rdma://10.9.0.2/$nqn" "${patience[@]}"
kill -USR2 "$target"
ok "late heartbeat: one is withheld" until_true 30 grep -q "withheld owner record" /tmp/hostile.out
ok "late heartbeat: the next one is written" until_true 30 later_record
ok "late heartbeat: the volume stops" weftctl stop v
ok "late heartbeat: and not before the target executed it" grep -q "executed the withheld" /tmp/hostile.out
is "late heartbeat: it was not sent again ($(withheld_record), then $(later_records | xargs))" \
	"$(later_records | grep -cx "$(withheld_record)")" 0
is "late heartbeat: the volume is free" "$(weftctl examine /dev/weft-rdma0n1 --json |
	json '.owners[] | select(.record == "owner") | .held')" false
late_end "late heartbeat"

hostile late-owner --unarmed --keep $((2 * keep_alive - 2))
ok "late claim: a volume" weftctl create v "$uri" --force "${patience[@]}"
ok "late claim: stopped" weftctl stop v
kill -USR2 "$target"
refused "late claim: an assembly whose claim is withheld fails" 1 "owner record cannot be written" \
	weftctl assemble v "$uri"
is_due() {
	python3 -c 'import re, sys, time
due = re.search("due at (.*) s", open("/tmp/hostile.out").read())
sys.exit(not due or time.monotonic() < float(due[1]))'
}
ok "late claim: and not before the target may execute it" is_due
late_end "late claim"

# --- A write that fails while the target stands still with its command: it is not sent again when the target goes on
hostile none
ok "failed: a volume" weftctl create v "$uri" --force "${patience[@]}"
ok "failed: a write" put a 0
echo 1 >'/sys/block/weft!v/weft/no_path_timeout'
kill -STOP "$target"
put b 0 2>/dev/null
is "failed: another one to the same bytes fails" $? 1
kill -CONT "$target"
ok "failed: writes go on" until_true 90 put c 1
ok "failed: stopped" weftctl stop v
# The volume's data begin at 1 MiB.
dd if=/dev/weft-rdma0n1 bs=64k skip=16 count=1 iflag=direct status=none | cmp - <(letters a)
result $? "failed: it was not executed"
late_end "failed"
hostile_end
done_testing
