#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# KUnit in the lab's kernel.
# lab-kernel: lab
. "${0%/*}/lib.sh"

dmesg -C
ok "the KUnit module loads" modprobe weft_kunit
dmesg | sed -n 's/^\[[^]]*\] /# /p' | grep -E 'KTAP|ok |not ok' | head -60
is "no suite failed" "$(dmesg | grep -c 'not ok')" 0
is "all suites ran" "$(dmesg | grep -cE '(^|\] )ok [0-9]+ weft-')" 3
rmmod weft_kunit
done_testing
