# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Results of a test as TAP.

test_number=0
test_failed=0

note() { printf '# %s\n' "$*"; }

# indented: prints standard input as TAP notes.
indented() { sed 's/^/# /'; }

# result STATUS SENTENCE: one line of TAP.
result() {
	test_number=$((test_number + 1))
	if [ "$1" -eq 0 ]; then
		printf 'ok %d - %s\n' "$test_number" "$2"
	else
		test_failed=$((test_failed + 1))
		printf 'not ok %d - %s\n' "$test_number" "$2"
	fi
}

skip() {
	test_number=$((test_number + 1))
	printf 'ok %d - %s # SKIP %s\n' "$test_number" "$1" "$2"
}

# ok SENTENCE COMMAND...: the command succeeds. If it fails, its output is shown.
ok() {
	local sentence=$1 out rc
	shift
	out=$("$@" 2>&1)
	rc=$?
	[ $rc -eq 0 ] || { note "$*: status $rc"; printf '%s\n' "$out" | sed 's/^/#   /'; }
	result "$rc" "$sentence"
}

# is SENTENCE GOT WANTED
is() {
	[ "$2" = "$3" ] && { result 0 "$1"; return; }
	note "got '$2', wanted '$3'"
	result 1 "$1"
}

# refused SENTENCE STATUS TEXT COMMAND...: the command ends with that status and prints one sentence that contains TEXT.
refused() {
	local sentence=$1 status=$2 text=$3 out rc bad=0
	shift 3
	out=$("$@" 2>&1)
	rc=$?
	[ $rc -eq "$status" ] || { note "status $rc, wanted $status"; bad=1; }
	case $out in *"$text"*) ;; *) note "does not say '$text'"; bad=1 ;; esac
	[ "$(printf '%s\n' "$out" | wc -l)" -eq 1 ] || { note "more than one line"; bad=1; }
	[ $bad -eq 0 ] || { note "$*"; printf '%s\n' "$out" | sed 's/^/#   /'; }
	result $bad "$sentence"
}

# tap SENTENCE COMMAND...: reports each result of a program that prints TAP itself.
tap() {
	local sentence=$1 line planned='' count=0
	shift
	"$@" >/tmp/tap.out 2>&1 || printf '\nnot ok 0 - status %d\n' $? >>/tmp/tap.out
	while read -r line; do
		case $line in
		"ok "*) count=$((count + 1)); result 0 "$sentence: ${line#* - }" ;;
		"not ok "*) count=$((count + 1)); result 1 "$sentence: ${line#* - }" ;;
		1..*) planned=${line#1..} ;;
		*) note "$line" ;;
		esac
	done </tmp/tap.out
	[ "$count" = "$planned" ] || result 1 "$sentence: $count results, and the plan says '$planned'"
}

done_testing() {
	printf '1..%d\n' "$test_number"
	exit $((test_failed > 0))
}

# json FILTER: applies a jq filter to standard input.
json() { jq -r "$1"; }
