# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Faults at random, and the work that goes on meanwhile. The same FAULTS_SEED gives the same faults in the same order.

# chaos_begin SECONDS: prints the seed. chaos_over is true after so many seconds of this guest's clock.
chaos_begin() {
	chaos_seed=${FAULTS_SEED:-$EPOCHSECONDS}
	chaos_state=$chaos_seed
	chaos_start=$EPOCHSECONDS
	chaos_end=$((EPOCHSECONDS + $1))
	chaos_faults=0 # It counts them, for the test too.
	note "FAULTS_SEED=$chaos_seed, for $1 s"
}
chaos_over() { [ "$EPOCHSECONDS" -ge "$chaos_end" ]; }

# draw NAME N: sets the variable to a random number from 0 to N - 1. A subshell would lose the state.
draw() {
	chaos_state=$((chaos_state * 6364136223846793005 + 1442695040888963407))
	printf -v "$1" %d $(((chaos_state >> 33 & 0x7fffffff) % $2))
}

# draw_seconds NAME MIN MAX: sets the variable to a random time, given in ms, as "1.250". Times from MIN to twice MIN
# are as frequent as times from MAX / 2 to MAX.
draw_seconds() {
	local low=$2 most=$3 doublings=0 ms
	while [ $((low << doublings)) -lt "$most" ]; do doublings=$((doublings + 1)); done
	draw ms "$doublings"
	low=$((low << ms))
	draw ms $(((low * 2 < most ? low * 2 : most) - low + 1))
	printf -v "$1" '%d.%03d' $(((low + ms) / 1000)) $(((low + ms) % 1000))
}

# draw_order NAME WORD...: sets the array to the words in a random order.
draw_order() {
	local -n order=$1
	local i other word
	shift
	order=("$@")
	for ((i = ${#order[@]} - 1; i > 0; i--)); do
		draw other $((i + 1))
		word=${order[i]} order[i]=${order[other]} order[other]=$word
	done
}

# fault SENTENCE COMMAND...: prints the fault with its time, also to this kernel's log, and makes it. If the command
# fails, its output is shown. The command runs in this shell.
fault() {
	local sentence=$1 rc
	shift
	chaos_faults=$((chaos_faults + 1))
	note "$((EPOCHSECONDS - chaos_start)) s: fault $chaos_faults: $sentence"
	echo "<6>weft test: fault $chaos_faults: $sentence" >/dev/kmsg
	"$@" >/tmp/fault.out 2>&1
	rc=$?
	[ $rc -eq 0 ] || { note "fault $chaos_faults: $*: status $rc"; indented </tmp/fault.out; }
	return $rc
}

# kernel_silent: the log of this kernel holds no report. For a host whose log tests/system/run does not read, or whose
# power is cut.
kernel_silent() { dmesg | python3 /weft/tests/lab/weftlab/klog.py; }

# work_begin NAME COMMAND...: repeats the command in the background until it fails or work_end is called. Its output
# goes to /tmp/work.NAME.out, its last status to /tmp/work.NAME.rc.
work_begin() {
	local name=$1
	shift
	rm -f /tmp/work.end "/tmp/work.$name.rc"
	{
		rc=0
		while [ $rc -eq 0 ] && [ ! -e /tmp/work.end ]; do
			"$@"
			rc=$?
		done
		echo $rc >"/tmp/work.$name.rc.new"
		mv "/tmp/work.$name.rc.new" "/tmp/work.$name.rc"
	} >"/tmp/work.$name.out" 2>&1 &
	echo "$name" >>/tmp/work.names
}

# work_has_ended: all of it. work_runs: all of it; shows what ended too early.
work_has_ended() {
	local name
	while read -r name; do [ -e "/tmp/work.$name.rc" ] || return; done </tmp/work.names
}
work_runs() {
	local name rc=0
	while read -r name; do
		[ ! -e "/tmp/work.$name.rc" ] || { work_show "$name"; rc=1; }
	done </tmp/work.names
	return $rc
}
work_show() {
	echo "$1 ended with status $(cat "/tmp/work.$1.rc")"
	tail -n 40 "/tmp/work.$1.out"
}

# work_hangs: the processes of this host, but the kernel's.
work_hangs() { ps --ppid 2 -p 2 --deselect -o pid,stat,wchan:32,args; }

# work_end SECONDS: ends it and waits; fails if a part of it hangs or has failed.
work_end() {
	local name rc=0
	touch /tmp/work.end
	until_true "$1" work_has_ended || { work_hangs; rc=1; }
	while read -r name; do
		[ "$(cat "/tmp/work.$name.rc" 2>/dev/null)" = 0 ] || { work_show "$name"; rc=1; }
	done </tmp/work.names
	rm /tmp/work.names
	return $rc
}

# random_verify DEVICE OPTION...: fio writes at random and verifies, for a while. Each run has its own seed: the data
# of the run before are wrong data.
random_verify() {
	fio --name=faults --filename="$1" --allow_file_create=0 --direct=1 --ioengine=io_uring --iodepth=8 \
		--rw=randwrite --bsrange=4k-128k --blockalign=4k --verify=crc32c --verify_fatal=1 \
		--verify_state_save=0 --verify_backlog=64 --time_based --runtime="$(slow 10)" \
		--randseed="$EPOCHSECONDS" --rate="$(per_slow 1500)k,$(per_slow 1500)k" "${@:2}"
}

# clear_verify DEVICE MIB: takes the next of 16 pieces of 128 KiB from there on. The piece has the bytes of its last
# turn. It is cleared, by discards in one round and by Write Zeroes in the next one, has zeroes, and gets new bytes.
clear_turn=0
clear_verify() {
	local piece=$((clear_turn % 16)) how=() at
	at=$(($2 * 8 + piece))
	[ $((clear_turn / 16 % 2)) = 0 ] || how=(-z)
	[ $clear_turn -lt 16 ] || piece_is "$1" $at "/tmp/piece.$piece" || return
	blkdiscard -f "${how[@]}" -o $((at << 17)) -l $((1 << 17)) "$1" && piece_is "$1" $at /dev/zero &&
		head -c 128K /dev/urandom >"/tmp/piece.$piece" &&
		dd if="/tmp/piece.$piece" of="$1" bs=128K seek=$at oflag=direct status=none || return
	clear_turn=$((clear_turn + 1))
	echo "$clear_turn pieces were cleared, by discards or by Write Zeroes"
	sleep 0.2
}
piece_is() { # DEVICE PIECE FILE
	dd if="$1" bs=128K skip="$2" count=1 iflag=direct status=none | cmp -n $((1 << 17)) - "$3"
}
# pieces_stay DEVICE MIB: they have the bytes that they got last.
pieces_stay() {
	local file
	for file in /tmp/piece.*; do piece_is "$1" $(($2 * 8 + ${file##*.})) "$file" || return; done
}
