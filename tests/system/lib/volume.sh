# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Volumes: the module, verification, I/O that continues during a failure.

# load_weft [MILLISECONDS]: loads the module with a short heartbeat interval, so that claims take little time.
load_weft() { modprobe weft heartbeat_ms="$(slow "${1:-100}")"; }
# heartbeat_every MILLISECONDS: the interval of volumes that are assembled from now on.
heartbeat_every() { slow "$1" >/sys/module/weft/parameters/heartbeat_ms; }

# status_of VOLUME FILTER: applies the jq filter to the volume's status.
status_of() { weftctl status "$1" --json | json ".volumes[0] | $2"; }

# members_sum FIELD: that field of the members' statistics, summed over all members of volume v.
members_sum() { cat '/sys/block/weft!v/members/'*/stat | awk -v field="$1" '{ sum += $field } END { print sum }'; }

# mib N: the size for fio to write: N MiB if LAB_LONG is set, as by check-all, else a quarter of that.
mib() { [ -n "${LAB_LONG:-}" ] && echo "$1m" || echo "$((($1 + 3) / 4))m"; }

# verify DEVICE [KEY=VALUE...]: the verify job with some settings changed. (Options on fio's command line are only
# defaults for settings that the job file does not have.)
verify() {
	local device=$1 pair job
	shift
	job=$(cat /weft/fio-jobs/verify.fio)
	for pair in "$@"; do
		job=$(printf '%s\n' "$job" | sed "/^${pair%%=*}=/d"; printf '%s\n' "$pair")
	done
	printf '%s\n' "$job" >/tmp/verify.fio
	WEFT_DEV=$device fio /tmp/verify.fio
}

# fio_verify OPTION...: fio writes to volume v and verifies the data.
fio_verify() {
	fio --name=verify --filename=/dev/weft/v --direct=1 --verify=crc32c --verify_fatal=1 --verify_state_save=0 "$@"
}

# verify_while SENTENCE DEVICE MIB KIB_PER_SECOND COMMAND...: the command runs while fio verifies that size at that rate
# (less in a slow guest). If the command takes longer, fio starts again, so that I/O is in flight until it ends.
verify_while() {
	local sentence=$1 device=$2 mib=$3 rate before verifier status ended begin=$SECONDS rc=0
	rate=$(per_slow "$4")
	shift 4
	rm -f /tmp/while.done
	before=$(sectors_written "$device")
	(
		while verify "$device" size="${mib}m" bsrange=4k-200k rate="${rate}k,${rate}k"; do
			[ ! -e /tmp/while.done ] || exit 0
		done
		exit 1
	) >/tmp/fio.out 2>&1 & verifier=$!
	until_true 20 writes_since "$device" "$before" || { note "fio does not begin to write"; rc=1; }
	"$@" >/tmp/while.out 2>&1
	status=$?
	ended="'$*' ended with status $status after $((SECONDS - begin)) s"
	[ $status = 0 ] || { note "'$*' failed"; rc=1; }
	kill -0 $verifier 2>/dev/null || { note "fio ended before '$*' did"; rc=1; }
	touch /tmp/while.done
	wait $verifier || rc=1
	[ $rc = 0 ] || { echo "$ended"; cat /tmp/while.out /tmp/fio.out; } | indented
	result $rc "$sentence"
}

# by_route SENTENCE PATTERN ARGUMENT...: weft-memtest succeeds on volume v and reports a route that matches, such as
# "0 direct".
by_route() {
	local sentence=$1 pattern=$2 out
	shift 2
	out=$(weft-memtest v "$@" 2>&1)
	result $? "$sentence"
	# shellcheck disable=SC2254 # It is a pattern.
	case $out in
	*"route "$pattern*) ;;
	*) printf '%s\n' "$out" | indented; result 1 "$sentence: by the route $pattern" ;;
	esac
}

# load_while SENTENCE SECONDS "MEMORY OPTION..." COMMAND...: weft-memtest keeps volume v busy for that many seconds
# times LAB_SLOW, the command runs meanwhile, and no I/O of weft-memtest fails.
load_while() {
	local sentence=$1 seconds=$2 memory=$3 loader rc status
	shift 3
	load_begins "$seconds" "$memory"
	"$@" >/tmp/while.out 2>&1
	status=$?
	wait "$loader"
	rc=$?
	[ $status = 0 ] || { note "'$*' ended with status $status"; rc=1; }
	[ $rc = 0 ] || indented </tmp/while.out
	indented </tmp/load.out
	result $rc "$sentence"
}

# load_begins SECONDS "MEMORY OPTION...": the same in the background; sets loader. I/O is running when this returns,
# or it fails.
load_begins() {
	# shellcheck disable=SC2086
	weft-memtest v load $2 --seconds="$(slow "$1")" >/tmp/load.out 2>&1 & loader=$!
	until_true 30 grep -q loaded /tmp/load.out
	# Some I/O has completed, and some is in flight.
	sleep 1
	kill -0 "$loader" && grep -q loaded /tmp/load.out
}

# events_begin [OPTION...]: weftctl events writes all later events to /tmp/events; sets listener.
events_begin() {
	weftctl events --json "$@" >/tmp/events & listener=$!
	until_true 20 subscribed "$listener"
}

# subscribed PID: the process listens to multicast messages of generic netlink (protocol 16).
subscribed() {
	awk -v pid="$1" '$2 == 16 && $3 == pid && $4 != "00000000" { yes = 1 } END { exit !yes }' /proc/net/netlink
}

# events_over: weftctl events ends without a signal.
events_over() { ! kill -0 "$listener"; }

events_end() {
	kill "$listener" 2>/dev/null
	wait "$listener" 2>/dev/null
	indented </tmp/events
}

# ok_members SENTENCE DEVICE...: makes a volume on them, verifies it, and checks its data after a second assembly.
ok_members() {
	local sentence=$1
	shift
	ok "a volume on $sentence" weftctl create v "$@" --chunk 64K --force
	ok "verified on $sentence" verify /dev/weft/v size="$(mib 24)" bsrange=4k-300k
	dd if=/dev/weft/v bs=1M count=8 iflag=direct status=none | sha256sum >/tmp/sum
	ok "stopped" weftctl stop v
	# In any order, as udev may find them.
	# shellcheck disable=SC2046
	ok "assembled again, members in reverse" weftctl assemble v $(printf '%s\n' "$@" | tac)
	is "with its data" "$(dd if=/dev/weft/v bs=1M count=8 iflag=direct status=none | sha256sum)" "$(cat /tmp/sum)"
	ok "stopped again" weftctl stop v
	ok "wiped" weftctl wipe "$@"
}

# ok_unload: the module can be unloaded, so no volume is left.
ok_unload() {
	# It was loaded automatically if a member was rdma://.
	[ ! -d /sys/module/weft_rdma ] || rmmod weft_rdma
	[ ! -d /sys/module/weft_p2p ] || rmmod weft_p2p
	ok "weft.ko unloads, so nothing holds it" rmmod weft
}
