# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The target that breaks the rules (tests/hostile), over soft-RoCE. hostile_begin sets nqn, uri, keep_alive, patience
# (options of connect and create) and late (log lines that are allowed in a slow guest).

# shellcheck disable=SC2034 # The caller uses them.
hostile_begin() {
	load_weft 2000
	soft_roce 10.9.0.1
	ip address add 10.9.0.2/24 dev dummy0
	modprobe weft_rdma io_timeout="$(slow 5)"
	nqn=nqn.2014-08.org.example:hostile
	uri="rdma://10.9.0.1/$nqn"
	# The target allocates 32 MiB for each I/O queue and does not answer meanwhile: use a long keep-alive.
	keep_alive=$(slow 5)
	patience=(--keep-alive "$keep_alive" --reconnect-delay 1)
	# An association may also end because a slow guest answers too late.
	late='the keep-alive was not answered\|a connection was lost while the others were made\|timed out'
	late="$late\\|namespaces cannot be read"
}

hostile_end() {
	ok "weft_rdma.ko unloads, so nothing holds it" rmmod weft_rdma
	ok_unload
	no_soft_roce
}

# hostile FAULT [OPTION...]: starts the target, with the addresses 10.9.0.1 and 10.9.0.2. gone: ends it.
hostile() {
	weft-hostile 10.9.0.1 10.9.0.2 --fault "$@" >/tmp/hostile.out 2>&1 & target=$!
	until_true 10 grep -q listening /tmp/hostile.out
	log_mark
}
gone() { kill "$target"; wait "$target" 2>/dev/null; }
