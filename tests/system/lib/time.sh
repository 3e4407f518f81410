# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Time limits that also work in a slow guest, and the kernel's log since a given moment.
#
# LAB_SLOW is how many times slower this guest is than a guest of debian13 on a quiet machine. It is at least 1.
# The environment may set it. Otherwise the first test of a guest measures it and stores it in /run/lab-slow.

# lab_work takes this many milliseconds in a quiet guest of debian13 with two processors.
lab_work_ms=1000

# A fixed amount of work on each processor: arithmetic, a loop, system calls, new processes.
lab_work() {
	local left
	left=$(nproc)
	while [ "$left" -gt 0 ]; do
		left=$((left - 1))
		{
			dd if=/dev/zero bs=64k count=20 2>/dev/null | sha256sum
			awk 'BEGIN { for (i = 0; i < 40000; i++) s += i % 7; print s }'
			dd if=/dev/zero of=/dev/null bs=512 count=4000 2>/dev/null
		} >/dev/null &
	done
	wait
}

# lab_slow: measures LAB_SLOW once and prints it.
lab_slow() {
	local begin end least=1
	if [ ! -s /run/lab-slow ]; then
		# This work hardly measures the cost of the checkers in the emulated kernel.
		[ "${LAB_KERNEL:-}" != lab ] || least=5
		begin=$(date +%s%N)
		lab_work
		end=$(date +%s%N)
		awk -v ms="$(((end - begin) / 1000000))" -v quiet="$lab_work_ms" -v least="$least" \
			'BEGIN { slow = ms / quiet; printf "%.1f\n", slow < least ? least : slow }' >/run/lab-slow.new
		mv /run/lab-slow.new /run/lab-slow
	fi
	cat /run/lab-slow
}

LAB_SLOW=${LAB_SLOW:-$(lab_slow)}
export LAB_SLOW
slow_tenths=$(awk -v slow="$LAB_SLOW" 'BEGIN { print slow < 1 ? 10 : int(slow * 10 + 0.5) }')

# slow N: N times LAB_SLOW, rounded up. N is a whole number of seconds, or of another unit of time.
slow() { echo $((($1 * slow_tenths + 9) / 10)); }

# per_slow N: N divided by LAB_SLOW, for rates.
per_slow() { echo $(($1 * 10 / slow_tenths)); }

# until_true SECONDS COMMAND...: waits until the command succeeds, at most that many seconds times LAB_SLOW.
until_true() {
	local end over=''
	end=$(($(date +%s) + $(slow "$1")))
	shift
	until "$@" >/dev/null 2>&1; do
		# Once more afterwards: this shell may have stood still since it tried.
		[ -z "$over" ] || return 1
		[ "$(date +%s)" -lt "$end" ] || over=1
		sleep 0.1
	done
}

# has_ended PID: true if the process has ended.
has_ended() { ! kill -0 "$1" 2>/dev/null; }

# log_mark: log_since prints the kernel's log after this moment.
log_marks=0
log_mark() {
	log_marks=$((log_marks + 1))
	echo "<6>weft test: mark $$.$log_marks" >/dev/kmsg
}

# Prints the whole log if the mark is not in the kernel's buffer any more.
log_since() {
	dmesg | awk -v mark="weft test: mark $$.$log_marks" \
		'{ n++; line[n] = $0 } index($0, mark) { n = 0 } END { for (i = 1; i <= n; i++) print line[i] }'
}

# log_says REGEX: true if a line since the mark matches.
log_says() { log_since | grep -q -- "$1"; }
