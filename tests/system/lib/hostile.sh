# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The target that breaks the rules (tests/hostile), over soft-RoCE. hostile_begin sets nqn, uri, keep_alive, patience
# (options of connect and create) and late (log lines that are allowed in a slow guest). Its argument is the keep-alive
# timeout in seconds of a quiet guest.

# shellcheck disable=SC2034 # The caller uses them.
hostile_begin() {
	load_weft 2000
	soft_roce 10.9.0.1
	ip address add 10.9.0.2/24 dev dummy0
	modprobe weft_rdma io_timeout="$(slow 5)"
	nqn=nqn.2014-08.org.example:hostile
	uri="rdma://10.9.0.1/$nqn"
	# The target allocates 32 MiB for each I/O queue and does not answer meanwhile: use a long keep-alive.
	keep_alive=$(slow "${1:-5}")
	patience=(--keep-alive "$keep_alive" --reconnect-delay 1)
	# An association may also end because a slow guest answers too late.
	late='the Keep Alive command failed\|a connection was lost while the others were made\|timed out'
	late="$late\\|namespaces cannot be read"
	# Soft-RoCE's own ends, see not_soft_roce().
	late="$late\\|REG_MR failed\\|SEND failed\\|the queue pair went into error"
}

hostile_end() {
	ok "weft_rdma.ko unloads, so nothing holds it" rmmod weft_rdma
	ok_unload
	no_soft_roce
}

# hostile FAULT [OPTION...]: starts the target, with these addresses. gone: ends it.
hostile_addresses=(10.9.0.1 10.9.0.2)
hostile() {
	# Before it listens: a controller that lost the last one may connect at once.
	log_mark
	weft-hostile "${hostile_addresses[@]}" --fault "$@" >/tmp/hostile.out 2>&1 & target=$!
	until_true 30 grep -q listening /tmp/hostile.out
}
gone() { kill "$target"; wait "$target" 2>/dev/null; }
# How many reads of a disk fail. One that waits for ever is killed, and says nothing.
errors_of() { timeout "$(slow 60)" dd if="$1" of=/dev/null bs=4k count=1 iflag=direct 2>&1 | grep -c 'error reading'; }

# --- A write that the target withholds and executes late: the twentieth of the writes of 64 KiB that are numbered by
# their bytes. /tmp/late.py COUNT sends them to one place, and one to another place after the twentieth. "weft-memtest
# VOLUME late MEMORY --count=COUNT" does the same from registered memory.
late_files() {
	cat >/tmp/late.py <<'P'
import mmap, os, re, sys, time
f = os.open("/dev/weft/v", os.O_RDWR | os.O_DIRECT)
buf = mmap.mmap(-1, 65536)
failed = 0
for i in range(1, int(sys.argv[1]) + 1):
    buf[:] = bytes([i]) * len(buf)
    try:
        os.pwrite(f, buf, 0)
    except OSError as error:
        failed += 1
        due = re.search("due at (.*) s", open("/tmp/hostile.out").read())
        print("write", i, error.strerror, "late" if due and time.monotonic() >= float(due[1]) else "early")
    if i == 20:
        buf[:] = bytes([0xaa]) * len(buf)
        os.pwrite(f, buf, 1 << 20)
sys.exit(failed > 0)
P
	cat >/tmp/late.awk <<'P'
/withheld a write/ { late = 1 }
/executed the withheld/ { executed = 1 }
late && !executed && /refused 65536/ { refused = 1 }
late && !executed && /wrote 65536/ {
	if (/0x14/) again = 1
	else if (/0xaa/) other = 1
	else early = 1
}
END {
	print (executed ? "executed" : ""), (again ? "again" : ""), (refused ? "refused" : ""), (other ? "other" : ""),
		(early ? "early" : "")
}
P
}

bytes() { dd if=/dev/weft/v bs=64k count=1 iflag=direct status=none | xxd -p -c 1 | sort | uniq -c | tr -s ' '; }
late_begin() { # SENTENCE SECONDS [OPTION]
	local sentence=$1 seconds=$2
	shift 2
	late_files
	hostile late-write --keep "$seconds" "$@"
	ok "$sentence: a volume of one member by one path" weftctl create v "$uri" --force "${patience[@]}"
	ok "$sentence: and by another" weftctl path add v "rdma://10.9.0.2/$nqn" "${patience[@]}"
}
late_end() { # SENTENCE
	ok "$1: disconnected" weftctl disconnect --all
	gone
}
# late_order SENTENCE: what the target executed between the loss of the path and the late execution.
late_order() {
	is "$1: before, the same write and one elsewhere were executed, and no newer one" \
		"$(awk -f /tmp/late.awk /tmp/hostile.out)" "executed again  other "
}
late_refused() { # SENTENCE
	until_true 60 grep -q "executed the withheld" /tmp/hostile.out
	is "$1: before the target executed it, the second copy was refused" \
		"$(awk -f /tmp/late.awk /tmp/hostile.out)" "executed  refused  "
}
# late_writes SENTENCE COMMAND...: between late_begin and late_end. The command writes 59 times to one place.
late_writes() {
	ok "$1: 59 writes to one place, one elsewhere" "${@:2}"
	ok "$1: one was withheld and executed late" \
		until_true 60 grep -q "executed the withheld write" /tmp/hostile.out
	grep -v 'wrote 4096' /tmp/hostile.out | head -n 8 | indented
	is "$1: the last of 59 writes is what is read" "$(bytes)" " 65536 3b"
	late_order "$1"
	ok "$1: stopped" weftctl stop v
}
