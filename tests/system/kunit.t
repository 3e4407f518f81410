#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# KUnit in the lab's kernel.
# lab-kernel: uml
. "${0%/*}/lib.sh"

log_mark
ok "the KUnit module loads" modprobe weft_kunit
log_since | sed -n 's/^\[[^]]*\] /# /p' | grep -E 'KTAP|ok |not ok' | head -60
is "no suite failed" "$(log_since | grep -c 'not ok')" 0
is "all suites ran" "$(log_since | grep -cE '(^|\] )ok [0-9]+ weft-')" 5
rmmod weft_kunit
done_testing
