#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Netlink messages that no tool of ours would send.
# lab-kernel: debian12 debian13 backports
. "${0%/*}/lib.sh"

load_weft
python3 /weft/tests/system/weft_netlink.py hostile | grep -v '^1\.\.' | sed 's/^\(not \)\?ok [0-9]* - /\1ok - /' >/tmp/hostile
while IFS= read -r line; do
	case $line in
	"ok - "*) result 0 "${line#ok - }" ;;
	"not ok - "*) result 1 "${line#not ok - }" ;;
	*) note "$line" ;;
	esac
done </tmp/hostile
is "all of them were tried" "$(grep -c 'ok - ' /tmp/hostile)" 33
is "nothing is assembled" "$(weftctl list --json | json '.volumes | length')" 0

# Events
for n in 0 1; do make_null "e$n" 32; done
timeout 60 weftctl events --count 2 --json >/tmp/events & listener=$!
sleep 1
weftctl create ev /dev/e0 /dev/e1 >/dev/null && weftctl stop ev >/dev/null
wait $listener
is "two events come for an assembly and a stop" "$(json '"\(.volume) \(.type)"' </tmp/events | paste -sd,)" "ev assembled,ev stopped"
for n in 0 1; do remove_null "e$n"; done
ok_unload
done_testing
