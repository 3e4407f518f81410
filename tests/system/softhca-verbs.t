#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The test adapter's verbs, each with its errors, by KUnit under the checkers.
# lab-own: --topology hca --memory 3G
# lab-kernel: none
. "${0%/*}/lib.sh"

if ! modprobe -qn weft_softhca_kunit; then
	skip "the test adapter's verbs" "KUnit is in the lab's kernel alone"
	done_testing
fi
softhca
log_mark
ok "the KUnit module loads" modprobe weft_softhca_kunit
log_since | sed -n 's/^\[[^]]*\] /# /p' | grep -E 'KTAP|ok |not ok|EXPECT|ASSERT' | head -80
is "no case failed" "$(log_since | grep -c 'not ok')" 0
is "both suites ran" "$(log_since | grep -cE '(^|\] )ok [0-9]+ softhca-')" 2
ok "and unloads" rmmod weft_softhca_kunit
ok "the adapter unloads, so nothing holds it" rmmod weft_softhca
done_testing
